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

// Document is a result as it is printed in JSON.
type Document struct {
	Type string `json:"type,omitempty"` // "result" in a stream that also has events
	task.Result
	SessionID string `json:"session_id,omitempty"` // empty without a transcript
}

// Results prints the results of a batch in one format, one after the other.
type Results struct {
	format string
	w      io.Writer
	n      int // results printed
}

// NewResults returns Results that print on w, or nil if the format is unknown.
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
	case JSON: // the array is complete after End, even if End comes early
		before := ",\n"
		if r.n == 1 {
			before = "[\n"
		}
		var b []byte
		if b, err = json.Marshal(res); err == nil {
			_, err = r.w.Write(append([]byte(before), escaped(b)...))
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

// textOf returns the output of a result. A failed task's partial output is followed by a
// line that marks it as failed.
func textOf(res task.Result) string {
	text := res.Output
	if text == "" {
		return ""
	}
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	if !res.Success {
		text += fmt.Sprintf("[task %d: %s; the answer above is incomplete]\n", res.Index+1, res.Status)
	}
	return text
}

// End prints what must follow the last result: the end of a JSON array.
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

// Save writes the output of a result, and the result as JSON, to files in dir. Each file
// is written completely or not at all.
func Save(dir string, r task.Result) error {
	whole, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	name := filepath.Join(dir, fmt.Sprintf("%05d", r.Index+1))
	here := renameio.WithTempDir(dir) // else some files of a killed qq stay in TMPDIR
	if err = renameio.WriteFile(name+".txt", []byte(r.Output), 0o666, here); err == nil {
		err = renameio.WriteFile(name+".json", append(whole, '\n'), 0o666, here)
	}
	if err != nil {
		return fmt.Errorf("save the result of task %d: %w", r.Index+1, err)
	}
	return nil
}
