// Package dialog asks a person on the controlling terminal: about calls of tools ([Terminal.Ask]), with yes or no
// ([Terminal.Confirm]), and for a line of text ([Terminal.Line]).
package dialog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"qq/internal/approval"
	"qq/pkg/tool"
)

// Screen is the part of the program that writes to the same terminal.
type Screen interface {
	// Hold keeps all other output off the terminal until release is called. It waits for output that is
	// being written, and returns the error of ctx if that ends first. The rest of the run goes on
	// meanwhile.
	Hold(ctx context.Context) (release func(), err error)
	// Resumed returns a channel that gets a value when the process goes on after it was stopped, by
	// Control-Z for example.
	Resumed() <-chan os.Signal
}

// Terminal is an [approval.Prompter] on the controlling terminal. If one question is open, it
// shows that, wherever stdout and stderr go, and reads one line as the answer. Several questions
// are shown as a list: see list.go.
//
//	default › coder 1b2c3d4e asks: run_pty_cmd (executes, high risk)
//	  task: Make the tests pass
//	  run: go test ./...
//	  │ go test ./...
//	[o]nce, for this [s]ession (every run_pty_cmd, any command, any agent), [n]o:
//
// Models write most of that text. None of it can move the cursor, change the
// direction of the text or hide itself: control characters, invisible ones and long
// gaps are spelled out. Each row is indented and fits the width, so none looks like
// the first or the last line. On a narrow terminal the last line is broken between the answers.
//
// Of a long text the beginning and the end are shown, with the number of rows left
// out between them. It cannot be allowed before [a]ll has shown everything. A
// special call ([tool.Intent]) is allowed once or not at all. A call that a rule can
// allow exactly is also offered for good: "always in this [f]older (edit_file(a.go))".
//
// Only one of the offered answers counts: after an empty line or any other text it
// asks again. The last line is shown when the keyboard was quiet for a second after the
// question was shown; input typed before that is discarded. Control-D and a closed
// terminal never mean yes. After Control-Z and fg the same happens again.
//
// Not promised: rows on a terminal that draws Greek or Cyrillic letters two columns
// wide may break earlier.
type Terminal struct {
	Dumb bool // it obeys no control sequences

	screen Screen // nil means that nothing else writes to the terminal
	colour bool

	name string // of the terminal

	mu   sync.Mutex // held while a question is shown
	tty  int        // a descriptor that does not block; -1 when closed
	wake *os.File   // becomes readable when the context of a question ends, and with resumed
	call *os.File   // writing to it makes wake readable

	resumed chan struct{} // holds one when the process went on after a stop
	quiet   time.Duration // how long the keyboard must be quiet before a question can be answered

	desk     approval.Desk // while one question is shown that others may join
	listed   listed
	oneByOne bool // it cannot show a list: one question after the other is shown
}

var _ approval.Prompter = (*Terminal)(nil)

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
	p := &Terminal{screen: screen, colour: colour, name: name, tty: tty, resumed: make(chan struct{}, 1),
		quiet: deafTime}
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
		return approval.ErrBackground
	}
	return nil
}

// Ask implements [approval.Prompter].
func (p *Terminal) Ask(ctx context.Context, q tool.Question, desk approval.Desk) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if p.tty < 0 {
		return os.ErrClosed
	}
	if err := p.foreground(); err != nil {
		return err
	}
	release, err := p.hold(ctx)
	if err != nil {
		return err
	}
	defer release()
	desk.Shown(q.ID)
	defer p.watch(ctx, desk)()
	for {
		if err := p.show(ctx, q, desk); err != nil && !errors.Is(err, errSeveral) {
			return err
		}
		open := slices.ContainsFunc(desk.Waiting(), func(o tool.Question) bool { return o.ID == q.ID })
		switch {
		case ctx.Err() != nil || !open && desk.Over(q.ID) != nil:
			return ctx.Err()
		case !open:
			return approval.ErrPutOff
		}
	}
}

// show shows q alone, or all open questions. It returns when q may be over.
func (p *Terminal) show(ctx context.Context, q tool.Question, desk approval.Desk) error {
	if !p.oneByOne && len(desk.Waiting()) > 1 {
		return p.several(ctx, q, desk)
	}
	return p.single(ctx, q, desk)
}

// errSeveral says that more questions are open than the one that is shown.
var errSeveral = errors.New("several questions are open")

// single shows q alone, and waits for the answer. It returns errSeveral when another question comes.
func (p *Terminal) single(ctx context.Context, q tool.Question, desk approval.Desk) error {
	if !p.oneByOne {
		p.desk = desk
		defer func() { p.desk = nil }()
	}
	answer, err := p.converse(ctx, q)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		p.part("\n(" + p.told(q, context.Cause(ctx)) + ")\n")
		return ctx.Err()
	case errors.Is(err, errEOF):
		// A closed terminal reads like Control-D, but writing to it fails.
		if err := p.write(ctx, "\n"); err != nil {
			return err
		}
		answer = approval.No
	default:
		return err
	}
	if err := desk.Answer(q.ID, answer, approval.ByTerminal); err != nil {
		p.part("(" + p.told(q, err) + ")\n")
	}
	return nil
}

// told says how q ended that was shown, and which one it is if somebody answered it elsewhere.
func (p *Terminal) told(q tool.Question, err error) string {
	var over *approval.OverError
	if !errors.As(err, &over) || over.By == "" {
		return ended(err)
	}
	name := visible(strings.Join(strings.Fields(q.Intent.Summary), " "))
	return fitting(name, max(p.size().columns-barWidth, leastWidth)) + " → " + ended(err)
}

// ended says how a question ended that was shown. err is the cause of the end.
func ended(err error) string {
	var over *approval.OverError
	switch {
	case errors.As(err, &over) && over.By == approval.BySocket:
		return fmt.Sprintf("%s, from qq serve or another face", over.Answer)
	case errors.As(err, &over) && over.By != "":
		return string(over.Answer)
	case errors.Is(err, context.DeadlineExceeded), over != nil && over.Answer == approval.Unanswered:
		return "no answer in time"
	}
	return "no longer needed"
}

// part writes as much of text as the terminal takes.
func (p *Terminal) part(text string) { _, _ = unix.Write(p.tty, []byte(text)) }

// hold keeps all others from writing to the terminal until release is called.
func (p *Terminal) hold(ctx context.Context) (release func(), err error) {
	if p.screen == nil {
		return func() {}, nil
	}
	return p.screen.Hold(ctx)
}

// answers are what a person may type, in the order in which it is offered.
var answers = []struct {
	approval.Answer
	words []string
	// offer returns the text of the offer, "" if the answer is not offered for a call.
	offer func(tool.Question) string
}{
	{approval.Once, []string{"o", "once", "y", "yes"}, func(tool.Question) string { return "[o]nce" }},
	{approval.Session, []string{"s", "session"}, func(q tool.Question) string {
		if q.Intent.Special {
			return ""
		}
		return fmt.Sprintf("for this [s]ession (every %s, %s, any agent)", brief(q.Intent.Tool),
			approval.Widely(q.Intent.Effect))
	}},
	{approval.Folder, []string{"f", "folder"}, func(q tool.Question) string {
		if q.Lasting == "" {
			return ""
		}
		return fmt.Sprintf("always in this [f]older (%s)", tool.Visible(q.Lasting))
	}},
	{approval.No, []string{"n", "no"}, func(tool.Question) string { return "[n]o" }},
}

// offers lists the offered answers. A call that was not shown whole can only be refused.
func offers(q tool.Question, unseen bool) (all []string) {
	if unseen {
		return []string{"show [a]ll first", "[n]o"}
	}
	for _, a := range answers {
		if text := a.offer(q); text != "" {
			all = append(all, text)
		}
	}
	return all
}

// answerOf returns the answer that line gives to a question, or "" if it gives none.
func answerOf(line string, q tool.Question) approval.Answer {
	word := strings.ToLower(strings.TrimSpace(line))
	for _, a := range answers {
		if slices.Contains(a.words, word) && a.offer(q) != "" {
			return a.Answer
		}
	}
	return ""
}

// singleHelp lists the keys of a single question.
const singleHelp = "type a letter in brackets, or its word, and Enter; Control-D means no, Control-C ends the run, " +
	"Control-Z stops it until fg"

// note returns the rows of a remark below a question.
func (p *Terminal) note(text string) string {
	rows := wrapped(text, max(p.size().columns-barWidth, leastWidth))
	return indent + strings.Join(rows, "\n"+indent) + "\n"
}

// converse shows q and reads lines until one is an answer.
func (p *Terminal) converse(ctx context.Context, q tool.Question) (approval.Answer, error) {
	whole, fresh := false, true
	text, unseen := page{size: p.size(), colour: p.colour}.question(q, whole)
	for {
		line, err := p.exchange(ctx, text, page{size: p.size()}.choices(offers(q, unseen)), fresh)
		fresh = errors.Is(err, errResumed)
		answer := answerOf(line, q)
		switch word := strings.ToLower(strings.TrimSpace(line)); {
		case fresh:
			text, unseen = page{size: p.size(), colour: p.colour}.question(q, whole)
		case err != nil:
			return "", err
		case unseen && (word == "a" || word == "all"):
			whole = true
			text, unseen = page{size: p.size(), colour: p.colour}.question(q, whole)
		case word == "?":
			text = p.note(singleHelp)
		case answer == "": // also Enter, which is typed by habit
			text = p.note("type one of the letters in brackets")
		case unseen && answer != approval.No:
			text = p.note("a part was not shown: type a first")
		default:
			return answer, nil
		}
	}
}
