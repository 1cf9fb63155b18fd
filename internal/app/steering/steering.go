// Package steering is what a person does to a run with the keys of a terminal: look at the transcript of a job, cancel
// it, send it a message, pause the run. The terminal of a run and qq top share it.
//
// [Act] does it and says what was done, in one line. A [Transcript] follows what a job says and does. An [Input] is the
// line in which a message is typed. [Face] joins them below the answer of a run.
package steering

import (
	"errors"
	"fmt"
	"strings"

	"qq/internal/app/columns"
	"qq/internal/app/output"
	"qq/internal/control"
	"qq/internal/terminal/keys"
	"qq/pkg/task"
)

// Run is a run that a person looks at and steers. A *control.Client is one, and a control.Local.
type Run interface {
	Snapshot() (control.Snapshot, error)
	Log(executionID string, from int64) (control.Entries, error)
	Cancel(executionID string) error
	Message(executionID, text string) error
	Pause(paused bool) error
}

// Help are the keys, one on a line.
var Help = [...]string{
	"↑ ↓    choose a job", "Enter  show its transcript", "x      cancel it, and all that it started",
	"m      send it a message", "p      pause: no further job starts; again to go on", "?      show this",
}

// Act is what is done to a job.
type Act struct {
	Run  Run
	ID   string // of the job
	Name string // what a person calls it
}

// Cancel ends the job.
func (a Act) Cancel() string {
	return a.said(a.Run.Cancel(a.ID), fmt.Sprintf("told %s to end, and all that it started", a.Name))
}

// Message sends the job a text. kept is what could not be sent.
func (a Act) Message(text string) (notice, kept string) {
	if text = strings.TrimSpace(text); text == "" {
		return "nothing was sent", ""
	}
	err := a.Run.Message(a.ID, text)
	notice = a.said(err, fmt.Sprintf("sent to %s: it reads it before its next request", a.Name))
	if err == nil {
		return notice, ""
	}
	return notice + "; your text is kept, m sends it to another job", text
}

// Ended says that the job has ended.
func (a Act) Ended() string { return a.Name + " has ended" }

// Pause pauses the run, or lets it go on if it is paused.
func (a Act) Pause() string {
	snap, err := a.Run.Snapshot()
	if err != nil {
		return said(err, "")
	}
	if snap.Paused {
		return said(a.Run.Pause(false), "jobs start again")
	}
	return said(a.Run.Pause(true), "paused: no further job starts")
}

// said is [said] for a request to the job itself.
func (a Act) said(err error, done string) string {
	if fault, ok := errors.AsType[*control.Fault](err); ok && fault.Code == control.CodeUnknownJob {
		return a.Ended()
	}
	return said(err, done)
}

// said returns what was done, or why it was not.
func said(err error, done string) string {
	if err == nil {
		return done
	}
	problem, hint := task.Explain(err)
	if hint != "" {
		problem += " (" + hint + ")"
	}
	return output.OneLine(problem)
}

// Name returns what a person calls a job.
func Name(agent, id string) string {
	return strings.TrimSpace(output.OneLine(task.Shorten(agent, 40)) + " " + task.ShortID(id))
}

// Input is a line that is typed.
type Input struct {
	Prompt string
	text   []rune
}

// NewInput returns a line that begins with text.
func NewInput(prompt, text string) *Input { return &Input{Prompt: prompt, text: []rune(text)} }

// State says how far the typing of a line is.
type State int

// The states of an [Input].
const (
	Typing State = iota
	Entered
	Left // the person does not want it any more
)

// Press handles a key.
func (i *Input) Press(k keys.Key) State {
	switch {
	case k.Code == keys.Enter:
		return Entered
	case k.Code == keys.Escape, k.Ctrl && (k.Rune == 'c' || k.Rune == 'd'):
		return Left
	case k.Code == keys.Backspace:
		i.text = i.text[:max(len(i.text)-1, 0)]
	case k.Ctrl && k.Rune == 'u':
		i.text = nil
	case k.Ctrl && k.Rune == 'w':
		before := strings.TrimRight(string(i.text), " ")
		i.text = []rune(before[:strings.LastIndexByte(before, ' ')+1])
	case k.Code == keys.Paste:
		i.add(k.Text)
	case k.Code == keys.Rune && !k.Ctrl && !k.Alt:
		i.add(string(k.Rune))
	}
	return Typing
}

func (i *Input) add(text string) {
	if len(i.text)+len(text) <= task.MaxMessage {
		i.text = append(i.text, []rune(text)...)
	}
}

// Text returns what is typed.
func (i *Input) Text() string { return string(i.text) }

// Line returns what is shown of it in at most that many columns: of a long text the end.
func (i *Input) Line(width int) string {
	last := i.text[max(len(i.text)-2*width, 0):]
	before := i.Prompt
	if len(last) < len(i.text) {
		before = ""
	}
	text := []rune(before + output.OneLine(strings.ReplaceAll(string(last), "\n", "⏎")) + trailing(last) + "▏")
	for columns.Of(string(text)) > width && len(text) > 1 {
		text = text[1:]
	}
	return string(text)
}

// trailing returns the blank at the end of text.
func trailing(text []rune) string {
	if n := len(text); n > 0 && text[n-1] == ' ' {
		return " "
	}
	return ""
}
