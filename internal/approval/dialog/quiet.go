package dialog

import (
	"context"
	"fmt"
	"time"

	"qq/internal/terminal"
)

// deafTime is how long the keyboard must be quiet before a key counts, after something was shown that nobody chose:
// what is typed was meant for what stood there before.
const deafTime = time.Second

// mostQuiet is how many times as long a question waits for a quiet keyboard at most: a stream of bytes shuts nobody out
// for ever.
const mostQuiet = 10

// dropped is the note about keys that did not count.
const dropped = "what you typed does not count: pause for a second"

// listen waits until the keyboard was quiet for p.quiet, and takes what is typed until then. Nothing of that is shown.
// It returns the errors of await.
func (p *Terminal) listen(ctx context.Context) error {
	if err := terminal.Flush(p.tty); err != nil {
		return fmt.Errorf("drop what was typed before the question: %w", err)
	}
	var events <-chan terminal.Event // without a keyboard, time has to do
	if keyboard, err := p.keyboard(true); err == nil {
		defer keyboard.Close()
		events = keyboard.Events()
	}
	began, noted := time.Now(), false
	quiet := time.NewTimer(p.quiet)
	defer quiet.Stop()
	for {
		var changed <-chan struct{}
		if p.desk != nil {
			if changed = p.desk.Changed(); len(p.desk.Waiting()) > 1 {
				return errSeveral
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		case <-p.resumed:
			if p.foreground() == nil {
				return errResumed
			}
		case e, ok := <-events:
			switch {
			case !ok || e.Kind == terminal.Closed:
				return errEOF
			case e.Kind != terminal.Key:
				continue
			case time.Since(began) > mostQuiet*p.quiet:
				return nil
			case !noted:
				noted = true
				if err := p.write(ctx, p.note(dropped)); err != nil {
					return err
				}
			}
			quiet.Reset(p.quiet)
		case <-quiet.C:
			if p.foreground() == nil {
				return nil
			}
			quiet.Reset(p.quiet)
		}
	}
}

// keyboard returns a reader of single keys that was started. A plain one writes no control sequences. The caller closes
// it.
func (p *Terminal) keyboard(plain bool) (*terminal.Terminal, error) {
	keyboard, err := terminal.Open(terminal.Config{Name: p.name, Signals: true, Plain: plain})
	if err != nil {
		return nil, err
	}
	if err := keyboard.Start(); err != nil {
		keyboard.Close()
		return nil, err
	}
	return keyboard, nil
}
