package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"unicode"

	"golang.org/x/term"

	"qq/pkg/event"
	"qq/pkg/llm"
)

// printJSON writes v as one line.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// stdoutError tells a reader that went away from other trouble with stdout.
func stdoutError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EPIPE), errors.Is(err, errStdoutClosed):
		return errStdoutClosed
	}
	return fmt.Errorf("write the answer: %w", err)
}

// printEvent writes e as one line. When nobody takes it, the run ends: who went
// away does not want the rest.
func (r *root) printEvent(w io.Writer, e event.Event) {
	if err := stdoutError(printJSON(w, e)); err != nil {
		r.signals.cancel(err)
	}
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// colour reports whether f may show colour and animation.
func (r *root) colour(f *os.File) bool {
	return r.env.get("NO_COLOR") == "" && r.env.get("TERM") != "dumb" && !r.plain && isTerminal(f)
}

// liveText shows an answer on a terminal while it is written.
type liveText struct {
	w       io.Writer
	written strings.Builder // of the turn under way
	ended   bool            // the last turn was the answer, and is on the screen
}

func (l *liveText) chunk(c llm.Chunk) {
	text := printable(c.Text)
	l.written.WriteString(text)
	_, _ = io.WriteString(l.w, text)
}

func (l *liveText) turnEnd(final bool) {
	if l.written.Len() > 0 && !strings.HasSuffix(l.written.String(), "\n") {
		fmt.Fprintln(l.w)
	}
	l.ended = final && strings.TrimSpace(l.written.String()) != ""
	l.written.Reset()
}

// end prints text unless it is on the screen.
func (l *liveText) end(text string) error {
	if l.ended || text == "" {
		return nil
	}
	if l.written.Len() > 0 {
		_, err := fmt.Fprintln(l.w) // what came of a turn that broke off stands there
		return stdoutError(err)
	}
	_, err := fmt.Fprintln(l.w, printable(text))
	return stdoutError(err)
}

// printable drops what could make a terminal do something: a model may repeat
// whatever stood in a file.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, s)
}

// narrator says on stderr what is at work.
type narrator struct {
	w      io.Writer
	colour bool
	mu     sync.Mutex
}

func newNarrator(w io.Writer, colour bool) *narrator { return &narrator{w: w, colour: colour} }

func (n *narrator) event(e event.Event) {
	line := ""
	switch e.Type {
	case event.ToolStart:
		line = fmt.Sprintf("%s %s", e.Tool, e.Arguments)
	case event.ToolEnd:
		if e.Failed {
			line = fmt.Sprintf("%s failed", e.Tool)
		}
	case event.SubAgentStart:
		line = "started: " + e.Task
	case event.SubAgentComplete:
		line = fmt.Sprintf("done in %.1fs", float64(e.DurationMS)/1000)
	case event.SubAgentError:
		line = fmt.Sprintf("%s: %s", e.Status, e.Error)
	}
	if line == "" {
		return
	}
	who := e.Agent
	if e.ExecutionID != "" {
		who += " " + e.ExecutionID[max(0, len(e.ExecutionID)-8):]
	}
	line = strings.Repeat("  ", e.Depth) + "[" + who + "] " + printable(line)
	if n.colour {
		line = "\x1b[2m" + line + "\x1b[0m"
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	fmt.Fprintln(n.w, line)
}
