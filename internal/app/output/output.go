// Package output prints what people and scripts see of a run: the results of a batch
// in each format, the answer while it is written, tool calls and children, progress,
// and JSON.
//
// Output for scripts ([WriteJSON], [Results], [Document]) is the same on a terminal and
// in a file. Output for people ([Live], [Narrator], [Progress], [Tally]) may be redrawn.
// Text from models and files goes through [command.Printable] first, so that it cannot
// control the terminal.
//
// Every error comes from a write and went through [WriteError]; [ErrClosed] says that
// the reader went away. Writers are not safe for concurrent use, except
// [Narrator] and [Progress].
package output

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/term"
)

// The formats of results. A single run has [Text], [JSON] and [StreamJSON].
const (
	Text       = "text"        // only the answers
	JSON       = "json"        // one document: a result, or an array of results
	JSONL      = "jsonl"       // one result per line
	Markdown   = "markdown"    // a section for each result
	StreamJSON = "stream-json" // one event or result per line
)

// ErrClosed is the error of a write after the reader has gone.
var ErrClosed = errors.New("stdout was closed")

// WriteError returns [ErrClosed] if err says that the reader went away. It adds to any
// other error that writing the answer failed. It returns nil if err is nil.
func WriteError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EPIPE), errors.Is(err, ErrClosed):
		return ErrClosed
	}
	return fmt.Errorf("write the answer: %w", err)
}

// WriteJSON writes v as JSON on one line.
func WriteJSON(w io.Writer, v any) error { return WriteError(encode(w, v)) }

func encode(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// IsTerminal reports whether f is a terminal.
func IsTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// Width returns the number of columns of the terminal f, or 0 if f is not a terminal.
func Width(f *os.File) int {
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}
