package approval

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"qq/pkg/tool"
)

// Screen is the part of the program that writes to the same terminal, such as a status line.
type Screen interface {
	// Hold keeps the output of the Screen off the terminal until release is called. The rest of the run goes on
	// meanwhile.
	Hold() (release func())
}

// Terminal is a [Prompter] on the controlling terminal. It asks one question at a
// time, wherever stdout and stderr go, and reads one line as the answer:
//
//	default › coder asks: run_pty_cmd (executes, high risk)
//	  run: go test ./...
//	  │ go test ./...
//	[o]nce, for this [s]ession (all run_pty_cmd), [n]o:
//
// Models write most of that text. None of it can move the cursor, change the
// direction of the text or hide itself: control characters and invisible ones are
// spelled out. Each row of a summary or a preview is indented and fits the width, so
// none looks like the first or the last line.
//
// Of a long preview the beginning and the end are shown, with the number of rows
// left out between them; [a]ll shows everything and asks again. A special call
// ([tool.Intent]) is allowed once or not at all.
//
// Only one of the offered answers counts: after an empty line or any other text it
// asks again. Input typed before the question is discarded. Control-D and a closed
// terminal never mean yes.
//
// Not promised: rows on a terminal that draws Greek or Cyrillic letters two columns
// wide may break earlier. The mode of the terminal is not changed.
type Terminal struct {
	screen Screen // nil means that nothing else writes to the terminal
	colour bool

	mu   sync.Mutex // held while a question is shown
	tty  int        // a descriptor that does not block; -1 when closed
	wake *os.File   // becomes readable when the context of a question ends
	call *os.File   // writing to it makes wake readable
}

var _ Prompter = (*Terminal)(nil)

// errEOF says that the person pressed Control-D, or that the terminal is closed.
var errEOF = errors.New("end of input")

// OpenTerminal opens the controlling terminal. It returns an error if nobody can be asked there:
// a person who redirects stderr is not assumed to watch the terminal. A nil screen means that
// nothing else writes to it.
func OpenTerminal(errIsTerminal, colour bool, screen Screen) (*Terminal, error) {
	if !errIsTerminal {
		return nil, errors.New("stderr is not a terminal")
	}
	return openTerminal("/dev/tty", colour, screen)
}

func openTerminal(name string, colour bool, screen Screen) (*Terminal, error) {
	tty, err := unix.Open(name, unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	p := &Terminal{screen: screen, colour: colour, tty: tty}
	if err = p.foreground(); err == nil {
		p.wake, p.call, err = os.Pipe()
	}
	if err != nil {
		unix.Close(tty)
		return nil, err
	}
	return p, nil
}

// Close closes the terminal. It waits for the answer to a question that is shown.
func (p *Terminal) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tty < 0 {
		return nil
	}
	err := errors.Join(unix.Close(p.tty), p.wake.Close(), p.call.Close())
	p.tty = -1
	return err
}

// foreground returns an error if this process is in the background of its shell: the kernel would
// stop it as soon as it used the terminal.
func (p *Terminal) foreground() error {
	group, err := unix.IoctlGetInt(p.tty, unix.TIOCGPGRP)
	if err == nil && group != unix.Getpgrp() {
		return errors.New("the terminal belongs to another job")
	}
	return nil
}

// Ask implements [Prompter].
func (p *Terminal) Ask(ctx context.Context, q tool.Question) (Answer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if p.tty < 0 {
		return "", os.ErrClosed
	}
	if err := p.foreground(); err != nil {
		return "", err
	}
	if p.screen != nil {
		defer p.screen.Hold()()
	}
	defer p.watch(ctx)()
	answer, err := p.converse(ctx, q)
	switch {
	case err == nil:
		return answer, nil
	case ctx.Err() != nil:
		word := "no longer needed"
		if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			word = "no answer in time"
		}
		_, _ = unix.Write(p.tty, []byte("\n("+word+")\n")) // as far as the terminal takes it
		return "", ctx.Err()
	case errors.Is(err, errEOF):
		// A closed terminal reads like Control-D, but writing to it fails.
		return No, p.write(ctx, "\n")
	}
	return "", err
}

// converse shows q and reads lines until one is an answer.
func (p *Terminal) converse(ctx context.Context, q tool.Question) (Answer, error) {
	text, cut := page{p.size(), p.colour}.question(q, false)
	if err := p.write(ctx, text); err != nil {
		return "", err
	}
	offered := choices(q.Intent, cut)
	for {
		// What was typed until now was not meant as an answer.
		if err := flush(p.tty); err != nil {
			return "", fmt.Errorf("drop what was typed before the question: %w", err)
		}
		if err := p.write(ctx, offered); err != nil {
			return "", err
		}
		line, err := p.readLine(ctx)
		if err != nil {
			return "", err
		}
		switch word := strings.ToLower(strings.TrimSpace(line)); {
		case word == "o" || word == "once":
			return Once, nil
		case (word == "s" || word == "session") && !q.Intent.Special:
			return Session, nil
		case word == "n" || word == "no":
			return No, nil
		case (word == "a" || word == "all") && cut:
			text, _ := page{p.size(), p.colour}.question(q, true)
			if err := p.write(ctx, text); err != nil {
				return "", err
			}
		default: // also y and Enter, which are typed by habit
			if err := p.write(ctx, indent+"type one of the letters in brackets\n"); err != nil {
				return "", err
			}
		}
	}
}

// choices lists the offered answers: once and no, for the session unless the call is special, and
// all if the text was cut.
func choices(in tool.Intent, cut bool) string {
	text := "[o]nce, "
	if !in.Special {
		text += fmt.Sprintf("for this [s]ession (all %s), ", brief(in.Tool))
	}
	if cut {
		text += "show [a]ll, "
	}
	return text + "[n]o: "
}
