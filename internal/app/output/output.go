// Package output prints what people and scripts see of a run: the results of a batch
// in each format, the answer while it is written, tool calls and children, progress,
// and JSON.
//
// Output for scripts ([WriteJSON], [Results], [Document]) is the same on a terminal and
// in a file. Output for people ([Live], [Progress], [Tally]) may be redrawn.
// Text from models and files goes through [command.Printable] first, so that it cannot
// control the terminal; [command.Output] does that too.
//
// Every error comes from a write and went through [WriteError]; [ErrClosed] says that
// the reader went away. Writers are not safe for concurrent use, except
// [Progress].
package output

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"unicode/utf8"

	"golang.org/x/term"

	"qq/internal/app/command"
	"qq/internal/app/command/pipe"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// The formats of results. A single run has [Text], [JSON] and [StreamJSON].
const (
	Text       = "text"        // only the answers
	JSON       = "json"        // one document: a result, or an array of results
	JSONL      = "jsonl"       // one result per line
	Markdown   = "markdown"    // a section for each result
	StreamJSON = "stream-json" // one event or result per line
)

// Formats are the formats of the results of a batch.
func Formats() []string { return []string{Text, JSON, JSONL, Markdown, StreamJSON} }

// ErrClosed is the error of a write after the reader has gone.
var ErrClosed = errors.New("stdout was closed")

// WriteError returns [ErrClosed] if err says that the reader went away. It adds to any
// other error that writing the answer failed. It returns nil if err is nil.
func WriteError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EPIPE), errors.Is(err, pipe.ErrStuck), errors.Is(err, ErrClosed):
		return ErrClosed
	case errors.Is(err, syscall.EBADF):
		return task.Hinted("let it go to a terminal, a pipe or a file; to /dev/null if nobody needs it",
			"write the answer: stdout is closed, or open only for reading")
	}
	return fmt.Errorf("write the answer: %w", err)
}

// Writable returns an error if o is closed, or open only for reading: what is written there would be lost. So a run can
// end before a model works for nobody.
func Writable(o *command.Output) error {
	if o.Writable() {
		return nil
	}
	return WriteError(syscall.EBADF)
}

// WriteJSON writes v as JSON on one line.
func WriteJSON(w io.Writer, v any) error { return WriteError(encode(w, v)) }

func encode(w io.Writer, v any) error {
	enc := json.NewEncoder(escaper{w})
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// escaper writes JSON without the characters that a terminal obeys: it writes them as \u and four digits, so that
// the values stay the same.
type escaper struct{ io.Writer }

// Write implements io.Writer.
func (e escaper) Write(p []byte) (int, error) {
	if _, err := e.Writer.Write(escaped(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// escaped returns JSON with each such character in its escaped form. Those of ASCII but for DEL are escaped already.
func escaped(p []byte) []byte {
	var out []byte
	done := 0 // what of p is in out
	for i := 0; i < len(p); {
		r, n := rune(p[i]), 1
		if r >= utf8.RuneSelf {
			r, n = utf8.DecodeRune(p[i:])
		}
		if r > '~' && tool.Obeyed(r) {
			out = fmt.Appendf(append(out, p[done:i]...), `\u%04x`, r)
			done = i + n
		}
		i += n
	}
	if done == 0 {
		return p
	}
	return append(out, p[done:]...)
}

// IsTerminal reports whether f is a terminal.
func IsTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
