package dialog

import (
	"context"
	"errors"
	"strings"
)

// Line shows text, and returns the line that a person types after choice, without spaces around it. A hidden line is
// not shown while it is typed. Control-D is an empty line.
func (p *Terminal) Line(ctx context.Context, text, choice string, hidden bool) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.foreground(); err != nil {
		return "", err
	}
	release, err := p.hold(ctx)
	if err != nil {
		return "", err
	}
	defer release()
	defer p.watch(ctx, nil)()
	if hidden {
		shown, err := hide(p.tty)
		if err != nil {
			return "", err
		}
		defer shown()
	}
	rows := wrapped(visible(text), max(p.size().columns-barWidth, leastWidth))
	text = "\n" + strings.Join(rows, "\n") + "\n"
	line, err := p.exchange(ctx, text, choice, false)
	for errors.Is(err, errResumed) {
		line, err = p.exchange(ctx, text, choice, false)
	}
	if hidden || err != nil {
		_ = p.write(context.WithoutCancel(ctx), "\n") // the one that was typed is not shown
	}
	if errors.Is(err, errEOF) {
		return "", nil
	}
	return strings.TrimSpace(line), err
}
