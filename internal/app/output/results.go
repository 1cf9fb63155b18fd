package output

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"

	"qq/pkg/task"
)

// Document is a result as scripts read it.
type Document struct {
	Type string `json:"type,omitempty"` // "result" where events share the stream
	task.Result
	SessionID string `json:"session_id,omitempty"` // of a run that keeps a transcript
}

// Results prints the results of a batch, one after the other.
type Results struct{ to resultWriter }

type resultWriter interface {
	result(task.Result) error
	end() error
}

// NewResults prints results on w, nil for a format that there is not.
func NewResults(format string, w io.Writer) *Results {
	switch format {
	case Text:
		return &Results{textWriter{w}}
	case JSON:
		return &Results{&arrayWriter{w: w}}
	case JSONL:
		return &Results{linesWriter{w: w}}
	case StreamJSON:
		return &Results{linesWriter{w: w, kind: "result"}}
	case Markdown:
		return &Results{markdownWriter{w}}
	}
	return nil
}

// Write prints one result.
func (r *Results) Write(res task.Result) error { return WriteError(r.to.result(res)) }

// End prints what comes after the last one.
func (r *Results) End() error { return WriteError(r.to.end()) }

// textWriter prints the outputs, and marks those that are no answers.
type textWriter struct{ w io.Writer }

func (t textWriter) result(r task.Result) error {
	if r.Output == "" {
		return nil
	}
	text := r.Output
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	if !r.Success { // nobody shall take it for an answer
		text += fmt.Sprintf("[task %d: %s; what stands above is no whole answer]\n", r.Index+1, r.Status)
	}
	_, err := io.WriteString(t.w, text)
	return err
}

func (t textWriter) end() error { return nil }

// arrayWriter prints one JSON array, valid whenever it has ended.
type arrayWriter struct {
	w io.Writer
	n int
}

func (a *arrayWriter) result(r task.Result) error {
	before := ",\n"
	if a.n == 0 {
		before = "[\n"
	}
	a.n++
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = a.w.Write(append([]byte(before), b...))
	return err
}

func (a *arrayWriter) end() error {
	text := "\n]\n"
	if a.n == 0 {
		text = "[]\n"
	}
	_, err := io.WriteString(a.w, text)
	return err
}

// linesWriter prints one JSON object a line, with a type where events share
// the stream.
type linesWriter struct {
	w    io.Writer
	kind string
}

func (l linesWriter) result(r task.Result) error {
	return encode(l.w, Document{Type: l.kind, Result: r})
}

func (l linesWriter) end() error { return nil }

// markdownWriter prints a section for each result.
type markdownWriter struct{ w io.Writer }

func (m markdownWriter) result(r task.Result) error {
	body := strings.TrimSpace(r.Output)
	if !r.Success {
		body = strings.TrimSpace(fmt.Sprintf("**%s**: %s\n\n%s", r.Status, r.Err(), body))
	}
	_, err := fmt.Fprintf(m.w, "## %d. %s\n\n%s\n\n", r.Index+1, r.Task, body)
	return err
}

func (m markdownWriter) end() error { return nil }

// Save writes the output of a result, and the whole of it as JSON, into files in
// dir that are there completely or not at all.
func Save(dir string, r task.Result) error {
	whole, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	name := filepath.Join(dir, fmt.Sprintf("%05d", r.Index+1))
	if err = renameio.WriteFile(name+".txt", []byte(r.Output), 0o666); err == nil {
		err = renameio.WriteFile(name+".json", append(whole, '\n'), 0o666)
	}
	if err != nil {
		return fmt.Errorf("save the result of task %d: %w", r.Index+1, err)
	}
	return nil
}
