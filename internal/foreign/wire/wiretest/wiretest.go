// Package wiretest runs dialects of other agent programs on what such a program might write, for their tests.
package wiretest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"

	"qq/internal/foreign/wire"
	"qq/pkg/llm"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// Recorder is a Reporter that keeps what it is told.
type Recorder struct {
	// Decide answers the questions; nil allows all calls.
	Decide func(q wire.Question) tool.Decision
	// Messages are what arrives in the inbox.
	Messages chan string

	mu        sync.Mutex
	Texts     string // all pieces
	Entries   []llm.Entry
	Begins    []tool.Call
	Ends      []string // "ID", or "ID failed"
	Usage     task.Usage
	Turns     int
	Questions []wire.Question
	Notes     []string
	Warnings  []string
}

var _ wire.Reporter = (*Recorder)(nil)

func (r *Recorder) locked(do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	do()
}

// Text implements wire.Reporter.
func (r *Recorder) Text(piece string) { r.locked(func() { r.Texts += piece }) }

// Message implements wire.Reporter.
func (r *Recorder) Message(m llm.Entry) { r.locked(func() { r.Entries = append(r.Entries, m) }) }

// Began implements wire.Reporter.
func (r *Recorder) Began(c tool.Call) { r.locked(func() { r.Begins = append(r.Begins, c) }) }

// Finished implements wire.Reporter.
func (r *Recorder) Finished(id string, failed bool, _ string) {
	if failed {
		id += " failed"
	}
	r.locked(func() { r.Ends = append(r.Ends, id) })
}

// Used implements wire.Reporter.
func (r *Recorder) Used(u task.Usage) { r.locked(func() { r.Usage = u }) }

// Turn implements wire.Reporter.
func (r *Recorder) Turn(n int) { r.locked(func() { r.Turns = n }) }

// Ask implements wire.Reporter.
func (r *Recorder) Ask(_ context.Context, q wire.Question) tool.Decision {
	r.locked(func() { r.Questions = append(r.Questions, q) })
	if r.Decide == nil {
		return tool.Decision{Allowed: true}
	}
	return r.Decide(q)
}

// Note implements wire.Reporter.
func (r *Recorder) Note(format string, args ...any) {
	r.locked(func() { r.Notes = append(r.Notes, fmt.Sprintf(format, args...)) })
}

// Warn implements wire.Reporter.
func (r *Recorder) Warn(format string, args ...any) {
	r.locked(func() { r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...)) })
}

// Inbox implements wire.Reporter.
func (r *Recorder) Inbox() <-chan string { return r.Messages }

// Stdin keeps what is written to a program.
type Stdin struct {
	mu     sync.Mutex
	text   bytes.Buffer
	Closed bool
}

// Write implements io.Writer.
func (s *Stdin) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Closed {
		return 0, io.ErrClosedPipe
	}
	return s.text.Write(p)
}

// Close implements io.Closer.
func (s *Stdin) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Closed = true
	return nil
}

// String returns what was written.
func (s *Stdin) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// Said runs a turn of d with a program that writes text, whatever it is told, and then ends.
func Said(ctx context.Context, d wire.Dialect, job wire.Job, text []byte, to wire.Reporter) (
	o wire.Outcome, stdin *Stdin, err error,
) {
	stdin = &Stdin{}
	o, err = d.Converse(ctx, job, wire.Stream{In: stdin, Out: wire.NewLines(bytes.NewReader(text))}, to)
	return o, stdin, err
}
