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
type Results struct {
	format string
	w      io.Writer
	n      int // results printed
}

// NewResults prints results on w; nil means that there is no such format.
func NewResults(format string, w io.Writer) *Results {
	switch format {
	case Text, JSON, JSONL, StreamJSON, Markdown:
		return &Results{format: format, w: w}
	}
	return nil
}

// Write prints one result.
func (r *Results) Write(res task.Result) error {
	r.n++
	var err error
	switch r.format {
	case JSON: // an array that is valid after End, whenever that is
		before := ",\n"
		if r.n == 1 {
			before = "[\n"
		}
		var b []byte
		if b, err = json.Marshal(res); err == nil {
			_, err = r.w.Write(append([]byte(before), b...))
		}
	case JSONL:
		err = encode(r.w, Document{Result: res})
	case StreamJSON:
		err = encode(r.w, Document{Type: "result", Result: res})
	case Markdown:
		body := strings.TrimSpace(res.Output)
		if !res.Success {
			body = strings.TrimSpace(fmt.Sprintf("**%s**: %s\n\n%s", res.Status, res.Err(), body))
		}
		_, err = fmt.Fprintf(r.w, "## %d. %s\n\n%s\n\n", res.Index+1, res.Task, body)
	default:
		_, err = io.WriteString(r.w, textOf(res))
	}
	return WriteError(err)
}

// textOf is the output of a result. A failed task's partial output is followed by a
// line that says so.
func textOf(res task.Result) string {
	text := res.Output
	if text == "" {
		return ""
	}
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	if !res.Success {
		text += fmt.Sprintf("[task %d: %s; what stands above is no whole answer]\n", res.Index+1, res.Status)
	}
	return text
}

// End prints what comes after the last result.
func (r *Results) End() error {
	if r.format != JSON {
		return nil
	}
	text := "\n]\n"
	if r.n == 0 {
		text = "[]\n"
	}
	_, err := io.WriteString(r.w, text)
	return WriteError(err)
}

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
