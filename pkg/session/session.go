// Package session keeps transcripts: what was said between a person, an agent
// and its tools, so that a conversation can be shown and continued.
//
// A [Store] is a folder, a session is one file in it, <id>.jsonl: a header, then
// one line for each message. Lines are only ever appended, each by one write. A
// [Session] is such a file open for appending, by one process at a time; a
// [Transcript] is what could be read of one, at any time, by anybody.
//
// A process can die in the middle of a line. Such a torn last line is left out
// by readers and cut off before the next append. A damaged line elsewhere is
// reported with its number and left out.
//
// Not promised: that a message survives the machine. It has been handed to the
// kernel when Append returns, not to the disk. A full disk is an error of
// Append, after which the file is as it was before.
package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"qq/pkg/llm"
	"qq/pkg/task"
)

// Version is the version of the format of a file.
const Version = 1

// maxLine is the longest line, in bytes, that is written or read.
const maxLine = 16 << 20

var (
	// ErrNotFound is what a lookup of no session wraps.
	ErrNotFound = errors.New("no such session")
	// ErrInUse is what opening a session wraps while another process has it open.
	ErrInUse = errors.New("in use by another qq")
)

// Header is the first line of a file.
type Header struct {
	V       int       `json:"v"`
	ID      string    `json:"id"`
	Agent   string    `json:"agent,omitempty"`
	Model   string    `json:"model,omitempty"`
	Dir     string    `json:"dir,omitempty"` // the working directory
	Created time.Time `json:"created"`
}

// Entry is one message of a transcript.
type Entry struct {
	Time time.Time `json:"time"`
	llm.Message
	Usage *task.Usage `json:"usage,omitempty"` // where it is known
}

// Session is a transcript that is open for appending. It is not for use by
// several goroutines at once.
type Session struct {
	file  *os.File
	id    string
	end   int64 // of the last whole line
	torn  bool  // something may stand after end
	empty bool  // no message yet
	now   func() time.Time
}

// ID is the whole id of the session.
func (s *Session) ID() string { return s.id }

// Append writes messages to the end of the transcript, one write for each.
func (s *Session) Append(messages ...llm.Message) error {
	for _, m := range messages {
		if err := s.append(Entry{Time: s.now().UTC(), Message: m}); err != nil {
			return err
		}
	}
	return nil
}

// AppendUsage is Append for an answer with what it cost.
func (s *Session) AppendUsage(m llm.Message, u task.Usage) error {
	return s.append(Entry{Time: s.now().UTC(), Message: m, Usage: &u})
}

func (s *Session) append(e Entry) error {
	if err := s.write(e); err != nil {
		return fmt.Errorf("append to session %s: %w", s.id, err)
	}
	s.empty = false
	return nil
}

// write adds v as one line, or leaves the file as it was.
func (s *Session) write(v any) error {
	line, err := encode(v)
	if err != nil {
		return err
	}
	if s.torn {
		if err := s.file.Truncate(s.end); err != nil {
			return err
		}
	}
	n, err := s.file.Write(line)
	s.torn = err != nil
	if err != nil {
		if n == 0 || s.file.Truncate(s.end) == nil {
			s.torn = false
		}
		return err
	}
	s.end += int64(n)
	return nil
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // code is easier to read so
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	if b.Len() > maxLine {
		return nil, fmt.Errorf("message is %d bytes long, at most %d", b.Len(), maxLine)
	}
	return b.Bytes(), nil
}

// Close lets go of the session. A session without a message is removed: nobody
// wants to see or continue it.
func (s *Session) Close() error {
	var err error
	if s.empty {
		err = os.Remove(s.file.Name())
	}
	// A process that is being started holds a copy of the descriptor for a
	// moment, so closing ours would not unlock at once.
	return errors.Join(err, syscall.Flock(int(s.file.Fd()), syscall.LOCK_UN), s.file.Close())
}

// repair cuts off or completes what a crash left of the last line.
func (s *Session) repair(t Transcript) error {
	s.end = t.end
	if t.unended { // only the end of the line is missing
		n, err := io.WriteString(s.file, "\n")
		s.end += int64(n)
		return err
	}
	return s.file.Truncate(s.end)
}
