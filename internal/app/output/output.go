// Package output prints what people and scripts see of a run: the results of a batch
// in each format, the answer while it is written, what is at work, how far it
// is, and JSON.
//
// Two kinds of readers are kept apart. What a script reads ([WriteJSON],
// [Results], [Document]) is the same wherever it goes. What a person reads
// ([Live], [Narrator], [Progress], [Tally]) may be redrawn, and has been made
// harmless by [command.Printable] where a model or a file had a part in it.
//
// An error is that of a write and went through [WriteError]: [ErrClosed] says
// that the reader went away. Writers are not safe for concurrent use, except
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

// Formats of results. A run has [Text], [JSON] and [StreamJSON].
const (
	Text       = "text"        // the answers and nothing else
	JSON       = "json"        // one document: a result, or an array of them
	JSONL      = "jsonl"       // a result a line
	Markdown   = "markdown"    // a section for each result
	StreamJSON = "stream-json" // events, a line each, and results among them
)

// ErrClosed is the error of a write after the reader has gone.
var ErrClosed = errors.New("stdout was closed")

// WriteError tells a reader that went away from other trouble with a write.
func WriteError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EPIPE), errors.Is(err, ErrClosed):
		return ErrClosed
	}
	return fmt.Errorf("write the answer: %w", err)
}

// WriteJSON writes v as one line.
func WriteJSON(w io.Writer, v any) error { return WriteError(encode(w, v)) }

func encode(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// IsTerminal reports whether a person looks at f, or types into it.
func IsTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// Width is the number of columns of f; 0 when it is no terminal.
func Width(f *os.File) int {
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}
