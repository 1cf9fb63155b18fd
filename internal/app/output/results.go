package output

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"qq/internal/app/columns"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// Document is a result as it is printed in JSON.
type Document struct {
	Type string `json:"type,omitempty"` // "result" in a stream that also has events
	task.Result
	// Input is what the template of a batch was filled with; empty without a template.
	Input     string `json:"input,omitempty"`
	SessionID string `json:"session_id,omitempty"` // empty without a transcript
}

// Results prints the results of a batch in one format, one after the other.
type Results struct {
	Tag   bool // in text, begin each line with the name of its task and a tab
	Heads bool // in text, begin each result with a line that names its task, for people
	// Terminal says that people read the text as it comes: a task that was not started has no line, and the first
	// answer of the built-in model has [Copied] before it.
	Terminal bool
	Width    int // columns of the terminal; 0 if they are not known

	format string
	w      io.Writer
	n      int  // results printed
	copied bool // Copied was printed
}

// extract is the built-in model.
const extract = "extract"

// NewResults returns Results that print on w, or nil if the format is unknown.
func NewResults(format string, w io.Writer) *Results {
	if !slices.Contains(Formats(), format) {
		return nil
	}
	return &Results{format: format, w: w}
}

// Write prints the result of a task. name is what the task is called, and input what its template was filled with.
func (r *Results) Write(name, input string, res task.Result) error {
	r.n++
	forPeople := r.Terminal && (r.format == Text || r.format == Markdown)
	if forPeople && !r.copied && res.Model == extract && res.Output != "" {
		r.copied = true
		fmt.Fprintln(r.w, Copied)
	}
	var err error
	switch r.format {
	case JSON: // the array is complete after End, even if End comes early
		before := ",\n"
		if r.n == 1 {
			before = "[\n"
		}
		var b []byte
		if b, err = json.Marshal(Document{Result: res, Input: input}); err == nil {
			_, err = r.w.Write(append([]byte(before), escaped(b)...))
		}
	case JSONL:
		err = encode(r.w, Document{Result: res, Input: input})
	case StreamJSON:
		err = encode(r.w, Document{Type: "result", Result: res, Input: input})
	case Markdown:
		body := strings.TrimSpace(res.Output)
		if !res.Success {
			body = strings.TrimSpace(fmt.Sprintf("**%s**: %s\n\n%s", res.Status, res.Err(), body))
		}
		_, err = fmt.Fprintf(r.w, "## %d. %s\n\n%s\n\n", res.Index+1, res.Task, body)
	default:
		_, err = io.WriteString(r.w, r.text(name, res))
	}
	return WriteError(err)
}

// maxTag is how many characters of the name of a task stand before each line of its result.
const maxTag = 1000

// text returns a result as text: the output, and for a failed task a line that says so.
func (r *Results) text(name string, res task.Result) string {
	if r.Terminal && res.NotStarted() {
		return ""
	}
	text := res.Output
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	if !res.Success {
		text += failure(res)
	}
	name = tool.First(oneLine.Replace(name), maxTag, "...")
	switch {
	case r.Tag:
		var b strings.Builder
		for line := range strings.Lines(text) {
			b.WriteString(name + "\t" + line)
		}
		return b.String()
	case r.Heads:
		const around = 7 // columns of what stands around the name, and one that stays free
		room := maxHead
		if r.Width > 0 {
			room = max(min(room, r.Width-around), 1)
		}
		head := "── " + columns.Cut(name, room) + " ──\n"
		if r.n > 1 {
			head = "\n" + head
		}
		return head + text
	}
	return text
}

// maxHead is how many columns of the name of a task stand above its result.
const maxHead = 72

// oneLine makes one line of a name, in which a tab is no column.
var oneLine = strings.NewReplacer("\t", " ", "\r", " ", "\n", " ")

// maxReason is how many characters of an error the line of a failed task has.
const maxReason = 300

// failure returns the line of a failed task.
func failure(res task.Result) string {
	what := "failed: "
	switch res.Status {
	case task.Failed:
	case task.CheckFailed, task.Conflict, task.Skipped: // the words say that it failed, or it did not run
		what = string(res.Status) + ": "
	case task.Cancelled, task.Interrupted, task.Terminated:
		what = string(res.Status) + ": "
		if strings.HasPrefix(res.Err(), "not started: ") {
			what = "" // that says it all
		}
	default:
		what += string(res.Status) + ": "
	}
	if res.Err() == string(res.Status) {
		what = strings.TrimSuffix(what, ": ") // the same
	} else {
		most := maxReason
		if res.Status == task.Conflict { // it ends with a command
			most = len(res.Err())
		}
		what += task.Shorten(res.Err(), most)
	}
	if res.Output != "" && !whole(res.Status) {
		what += "; the answer above is incomplete"
	}
	return fmt.Sprintf("[%s %s]\n", Named(res), what)
}

// whole reports whether a task that failed so has said all that it had to say.
func whole(s task.Status) bool { return s == task.CheckFailed || s == task.Conflict }

// maxID is how many characters of the id of a task stand in a line.
const maxID = 60

// Named returns what a task is called in a line: its number, and its id if it has one.
func Named(res task.Result) string {
	if res.ID == "" {
		return fmt.Sprintf("task %d", res.Index+1)
	}
	return fmt.Sprintf("task %d %q", res.Index+1, task.Shorten(res.ID, maxID))
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
