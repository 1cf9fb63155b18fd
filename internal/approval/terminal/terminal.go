// Package terminal asks the person at the terminal whether a call may run: it is
// the [approval.Face] of a run that somebody started by hand.
//
// A question is written to the controlling terminal, wherever stdout and stderr
// go, and answered by one line that is typed there:
//
//	default › coder asks: run_pty_cmd (executes, high risk)
//	  run: go test ./...
//	  │ go test ./...
//	[o]nce, for this [s]ession (all run_pty_cmd), [n]o:
//
// Most of that comes from models. None of it can move the cursor, change the
// direction of the text or hide itself: what a terminal would obey or would not
// show is spelled out. Every row of a summary or a preview is indented and fits
// the width, so none of them looks like the first or the last line.
//
// Of a long preview the beginning and the end are shown, and how much is left out
// between them; [a]ll shows everything and asks again. A call that is special
// ([tool.Intent]) is allowed once or not at all.
//
// Nothing but one of the answers is an answer: an empty line and any other text
// are asked again. What was typed before a question stood there is thrown away.
// Control-D and a terminal that is closed are never a yes.
//
// What is not promised: a terminal that draws Greek or Cyrillic letters two
// columns wide may break rows where this package did not. The mode of the terminal
// is not changed.
package terminal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"qq/internal/approval"
	"qq/pkg/tool"
)

// Config says how to ask.
type Config struct {
	Colour bool
	// Hold keeps other output off the terminal until release is called. It must
	// not make the rest of the run wait. It may be nil.
	Hold func() (release func())
}

// Prompt asks on a terminal, one question at a time.
type Prompt struct {
	cfg Config

	mu   sync.Mutex // held while a question stands
	tty  int        // a descriptor that does not block; -1 when closed
	wake *os.File   // becomes readable when the context of the question ends
	call *os.File   // the other end of it
}

var _ approval.Face = (*Prompt)(nil)

// errEOF says that somebody typed Control-D, or that the terminal is closed.
var errEOF = errors.New("end of input")

// Open returns a Prompt on the controlling terminal, or nil and why there is none
// to ask on. Who sends stderr elsewhere does not look at the terminal.
func Open(errIsTerminal bool, cfg Config) (*Prompt, error) {
	if !errIsTerminal {
		return nil, errors.New("stderr is not a terminal")
	}
	return open("/dev/tty", cfg)
}

func open(name string, cfg Config) (*Prompt, error) {
	tty, err := unix.Open(name, unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	p := &Prompt{cfg: cfg, tty: tty}
	if err = p.foreground(); err == nil {
		p.wake, p.call, err = os.Pipe()
	}
	if err != nil {
		unix.Close(tty)
		return nil, err
	}
	return p, nil
}

// Close gives the terminal back. It waits for the question that stands there.
func (p *Prompt) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tty < 0 {
		return nil
	}
	err := errors.Join(unix.Close(p.tty), p.wake.Close(), p.call.Close())
	p.tty = -1
	return err
}

// foreground returns an error for a process that the shell has put into the
// background: the kernel would stop it as soon as it used the terminal.
func (p *Prompt) foreground() error {
	group, err := unix.IoctlGetInt(p.tty, unix.TIOCGPGRP)
	if err == nil && group != unix.Getpgrp() {
		return errors.New("the terminal belongs to another job")
	}
	return nil
}

// Ask implements approval.Face.
func (p *Prompt) Ask(ctx context.Context, q approval.Question) (approval.Answer, error) {
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
	if p.cfg.Hold != nil {
		defer p.cfg.Hold()()
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
		_, _ = unix.Write(p.tty, []byte("\n("+word+")\n")) // as far as there is room
		return "", ctx.Err()
	case errors.Is(err, errEOF):
		// A terminal that was closed reads as Control-D, but takes no text.
		return approval.No, p.write(ctx, "\n")
	}
	return "", err
}

// converse shows q and reads lines until one is an answer.
func (p *Prompt) converse(ctx context.Context, q approval.Question) (approval.Answer, error) {
	text, cut := page{p.size(), p.cfg.Colour}.question(q, false)
	if err := p.write(ctx, text); err != nil {
		return "", err
	}
	offered := choices(q.Intent, cut)
	for {
		// Nobody can have meant what was typed until now as an answer.
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
			return approval.Once, nil
		case (word == "s" || word == "session") && !q.Intent.Special:
			return approval.Session, nil
		case word == "n" || word == "no":
			return approval.No, nil
		case (word == "a" || word == "all") && cut:
			text, _ := page{p.size(), p.cfg.Colour}.question(q, true)
			if err := p.write(ctx, text); err != nil {
				return "", err
			}
		default: // a habit is no answer: y, or Enter
			if err := p.write(ctx, indent+"type one of the letters in brackets\n"); err != nil {
				return "", err
			}
		}
	}
}

// choices are the answers that are offered. A session does not cover what is
// special, and there is more to show of what was cut.
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
