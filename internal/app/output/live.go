package output

import (
	"fmt"
	"io"
	"strings"

	"qq/internal/app/command"
	"qq/pkg/llm"
)

// Copied is the first line of what the built-in model answers on a terminal, where a person may take it for the
// words of a model that understands the text.
const Copied = "(words and sentences copied from the text, not written, by the built-in model)"

// Live prints an answer on a terminal while the model writes it.
type Live struct {
	Head string // a line before the first text; may be empty

	w       io.Writer
	written strings.Builder // the text of the current turn
	ended   bool            // the last turn was the answer, and its text was printed
}

// NewLive returns a Live that prints on w.
func NewLive(w io.Writer) *Live { return &Live{w: w} }

// Chunk prints the next part of the answer.
func (l *Live) Chunk(c llm.Chunk) {
	text := command.Printable(c.Text)
	if text != "" {
		l.begin()
	}
	l.written.WriteString(text)
	_, _ = io.WriteString(l.w, text)
}

// begin prints the head, once.
func (l *Live) begin() {
	if l.Head != "" {
		fmt.Fprintln(l.w, l.Head)
		l.Head = ""
	}
}

// TurnEnd ends the line of a finished turn of the model. final means that the text of the
// turn is the answer.
func (l *Live) TurnEnd(final bool) {
	if l.written.Len() > 0 && !strings.HasSuffix(l.written.String(), "\n") {
		fmt.Fprintln(l.w)
	}
	l.ended = final && strings.TrimSpace(l.written.String()) != ""
	l.written.Reset()
}

// End prints the answer, unless it is on the screen already.
func (l *Live) End(answer string) error {
	if l.ended || answer == "" {
		return nil
	}
	if l.written.Len() > 0 {
		_, err := fmt.Fprintln(l.w) // end the line of an incomplete turn
		return WriteError(err)
	}
	l.begin()
	_, err := fmt.Fprintln(l.w, command.Printable(answer))
	return WriteError(err)
}
