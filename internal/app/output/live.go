package output

import (
	"fmt"
	"io"
	"strings"

	"qq/internal/app/command"
	"qq/internal/terminal/markdown"
	"qq/pkg/llm"
)

// Copied is the first line of what the built-in model answers on a terminal, where a person may take it for the
// words of a model that understands the text.
const Copied = "(words and sentences copied from the text, not written, by the built-in model)"

// Live prints an answer on a terminal while the model writes it.
type Live struct {
	Head string // a line before the first text; may be empty

	w        io.Writer
	markdown *markdown.Renderer // nil means that text is shown as it is written
	terminal *command.Output    // whose width counts for markdown
	written  strings.Builder    // the text of the current turn
	ended    bool               // the last turn was the answer, and its text was printed
}

// NewLive returns a Live that prints on w.
func NewLive(w io.Writer) *Live { return &Live{w: w} }

// NewAnswer returns a Live for the answer of i. Where colours may be printed and the setting QQ_MARKDOWN is on, it
// formats Markdown.
func NewAnswer(i *command.Invocation, setting string) *Live {
	if setting != "on" || !i.Coloured(i.Out) {
		return NewLive(i.Out)
	}
	return &Live{w: i.Out.Raw(), markdown: markdown.New(i.Out.Width(), true), terminal: i.Out}
}

// Chunk prints the next part of the answer.
func (l *Live) Chunk(c llm.Chunk) {
	text := command.Printable(c.Text)
	if text != "" {
		l.begin()
	}
	l.written.WriteString(text)
	_, _ = io.WriteString(l.w, l.shown(c.Text))
}

// shown returns what to print for text of the model.
func (l *Live) shown(text string) string {
	if l.markdown == nil {
		return command.Printable(text)
	}
	l.markdown.Resize(l.terminal.Width())
	return l.markdown.Write(text) // it spells out what Printable leaves out
}

// end returns what to print at the end of a text of the model that ends with last.
func (l *Live) end(last string) string {
	switch {
	case l.markdown != nil:
		return l.markdown.End()
	case strings.HasSuffix(last, "\n"):
		return ""
	}
	return "\n"
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
	if l.written.Len() > 0 {
		_, _ = io.WriteString(l.w, l.end(l.written.String()))
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
		_, err := io.WriteString(l.w, l.end("")) // of an incomplete turn
		return WriteError(err)
	}
	l.begin()
	_, err := io.WriteString(l.w, l.shown(answer)+l.end(""))
	return WriteError(err)
}
