// Package session keeps transcripts: the messages between a person, an agent and
// its tools, so that a conversation can be shown and continued.
//
// A [Store] is a folder. A session is one file in it, <id>.jsonl: a header, then one
// line for each message. Lines are only appended, each with one write. A [Session]
// is a session that one process has open for appending; it holds the lock of the file.
// A [Transcript] is the content of a file, which anybody may read at any time. An
// [Archive] has the transcripts of children, which nobody continues.
//
// A process can die in the middle of a line. Readers leave out such a torn last
// line, and the next append cuts it off. Other damaged lines are left out and
// reported with their numbers.
//
// A message is kept whole up to 16 MiB. Of a longer one, the beginning and the end are kept,
// with a note between them.
//
// Not promised: that a message survives a crash of the machine. When Add returns,
// the kernel has it, the disk maybe not. A full disk is an error of Add, after
// which the file is as it was before.
package session

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"
	"time"
	"unicode/utf8"

	"qq/pkg/llm"
)

// Version is the version of the file format.
const Version = 1

// maxLine is the length of the longest line that is written or read, in bytes.
const maxLine = 16 << 20

var (
	// ErrNotFound is wrapped by errors about a session that does not exist.
	ErrNotFound = errors.New("no such session")
	// ErrInUse is wrapped by errors about a session that another process has open.
	ErrInUse = errors.New("in use by another qq")
)

// Header is the first line of a session file.
type Header struct {
	V       int       `json:"v"` // [Version]
	ID      string    `json:"id"`
	Agent   string    `json:"agent,omitempty"`
	Model   string    `json:"model,omitempty"`
	Dir     string    `json:"dir,omitempty"` // working directory
	Created time.Time `json:"created"`
	// Parent, Batch and Depth are those of the execution that a child of an agent or of a batch
	// writes its transcript about. The id of that transcript is the id of the execution.
	Parent string `json:"parent,omitempty"`
	Batch  string `json:"batch,omitempty"`
	Depth  int    `json:"depth,omitempty"`
}

// Session is a session file that is open for appending. The caller must not use it from several
// goroutines at once.
type Session struct {
	file  *os.File
	id    string
	end   int64 // offset after the last complete line
	torn  bool  // the file may have a part of a line after end
	empty bool  // no message yet
	in    *Store
}

// ID returns the full id of the session.
func (s *Session) ID() string { return s.id }

// Add adds an entry to the transcript. It sets the time of the entry if that is zero.
func (s *Session) Add(e llm.Entry) error {
	if e.Time.IsZero() {
		e.Time = s.in.now().UTC()
	}
	if err := s.write(e); err != nil {
		return fmt.Errorf("append to session %s: %w", s.id, err)
	}
	s.empty = false
	return nil
}

// write appends v as one line. After an error it restores the file, or marks it as torn so that the
// next write does.
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
	if err != nil {
		s.torn = n > 0 && s.file.Truncate(s.end) != nil
		return err
	}
	s.torn = false
	s.end += int64(n)
	return nil
}

// encode returns v as one line. An entry that would be too long is shortened until it fits.
func encode(v any) ([]byte, error) {
	entry, shortens := v.(llm.Entry)
	if len(entry.Calls) > maxLine/leastCall {
		return nil, fmt.Errorf("message has %d calls, at most %d", len(entry.Calls), maxLine/leastCall)
	}
	line, err := marshal(v)
	for most := maxLine / 2; err == nil && len(line) > maxLine; most /= 2 {
		if !shortens || most < leastKept {
			return nil, fmt.Errorf("message is %d bytes long, at most %d", len(line), maxLine)
		}
		line, err = marshal(shortened(entry, most))
	}
	return line, err
}

// marshal returns v, a Header or an entry, as one line.
func marshal(v any) ([]byte, error) {
	l := newLine()
	switch v := v.(type) {
	case Header:
		l.header(v)
	case llm.Entry:
		l.entry(v)
	}
	l.WriteByte('\n')
	return l.Bytes(), l.err
}

// leastCall is how many bytes a call takes at least in a line.
const leastCall = 32

// leastKept is how much of a text is kept at least, in bytes. A message with so many calls that this is too much is an
// error.
const leastKept = 256

// shortened returns e with texts of at most about that many bytes each. The arguments of a call are replaced by a note,
// because a part of them is no JSON.
func shortened(e llm.Entry, most int) llm.Entry {
	e.Content, e.Thinking = withoutMiddle(e.Content, most), withoutMiddle(e.Thinking, most)
	e.Calls = slices.Clone(e.Calls)
	for i, c := range e.Calls {
		if len(c.Arguments) > most {
			note := fmt.Sprintf("%d bytes of arguments: too long for the transcript", len(c.Arguments))
			e.Calls[i].Arguments = fmt.Appendf(nil, `{"left_out":%q}`, note)
		}
	}
	return e
}

// withoutMiddle returns the beginning and the end of s, together at most that many bytes, with a note between them.
func withoutMiddle(s string, most int) string {
	if len(s) <= most {
		return s
	}
	head, tail := s[:most/2], s[len(s)-most/2:]
	// No character is cut apart.
	for len(head) > 0 && !utf8.RuneStart(s[len(head)]) {
		head = head[:len(head)-1]
	}
	for len(tail) > 0 && !utf8.RuneStart(tail[0]) {
		tail = tail[1:]
	}
	left := len(s) - len(head) - len(tail)
	return fmt.Sprintf("%s\n[%d bytes left out: too long for the transcript]\n%s", head, left, tail)
}

// Close unlocks and closes the file. A session without any message is removed.
func (s *Session) Close() error {
	var err error
	if s.empty {
		err = os.Remove(s.file.Name())
	}
	// The lock is released explicitly: a process that is being started may hold a copy of the
	// descriptor, which would keep the lock after the close.
	return errors.Join(err, syscall.Flock(int(s.file.Fd()), syscall.LOCK_UN), s.file.Close())
}

// repair prepares the file for appending: it removes an incomplete last line, or adds a newline
// that is missing after a complete one. t is the content of the file. An empty file is an error.
func (s *Session) repair(t Transcript) error {
	s.end = t.end
	var err error
	switch {
	case t.end == 0:
		return fmt.Errorf("session %s is empty: %w", s.id, ErrNotFound)
	case t.unended: // only the newline is missing
		var n int
		n, err = io.WriteString(s.file, "\n")
		s.end += int64(n)
	default:
		err = s.file.Truncate(s.end)
	}
	if err != nil {
		return fmt.Errorf("repair session %s: %w", s.id, err)
	}
	return nil
}
