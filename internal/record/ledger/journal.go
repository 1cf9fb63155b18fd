package ledger

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"time"
	"unicode/utf8"

	"qq/pkg/task"
	"qq/pkg/tool"
)

const (
	journalSuffix  = ".journal"
	journalVersion = 2 // version 1 held prompts only, with the root in the claim
)

// line is one line of a journal. Exactly one of the fields after Time is set.
type line struct {
	V       int       `json:"v"`
	Time    time.Time `json:"time"`
	Root    *entered  `json:"root,omitempty"`
	Begin   *begun    `json:"begin,omitempty"`
	End     *ended    `json:"end,omitempty"`
	Claim   *claimed  `json:"claim,omitempty"`
	Attempt *failed   `json:"attempt,omitempty"`
	Touch   string    `json:"touch,omitempty"` // id of an execution
	Result  *finished `json:"result,omitempty"`
}

// entered is the first line of a journal: the root that writes it, with the
// [alive.Identity] of its process.
type entered struct {
	Root
	Process string `json:"process"`
}

// begun records that the root began or resumed a batch.
type begun struct {
	Batch
	Raw [][]byte `json:"raw,omitempty"` // Dir and Joblog, if they are not UTF-8
}

// ended records how the work of a root on a batch ended, and the tokens that it used.
type ended struct {
	Batch  string      `json:"batch"`
	Root   string      `json:"root"`
	Status task.Status `json:"status"`
	Used   task.Usage  `json:"used"`
}

// claimed records that an execution is about to start.
type claimed struct {
	Execution Execution `json:"execution"`
	Root      *Root     `json:"root,omitempty"` // only in version 1
	Process   string    `json:"process,omitempty"`
}

// failed records an attempt that was followed by another attempt.
type failed struct {
	ID string `json:"id"`
	AttemptRow
}

// finished records the result of an execution.
type finished struct {
	ID      string          `json:"id"`
	Recall  string          `json:"recall,omitempty"`  // cache key; empty if the result must not be reused
	Columns *columns        `json:"columns,omitempty"` // missing in version 1
	Record  json.RawMessage `json:"record"`            // a [task.Stored]
	Text    string          `json:"text,omitempty"`
	Output  []byte          `json:"output,omitempty"` // instead of Text, if it is not UTF-8
}

// columns are the parts of a result that have database columns of their own, so that
// indexing need not decode the whole record.
type columns struct {
	Status     task.Status `json:"status"`
	Attempts   int         `json:"attempts"`
	DurationMS int64       `json:"duration_ms"`
	QueuedMS   int64       `json:"queued_ms"`
	Usage      task.Usage  `json:"usage"`
	Error      string      `json:"error,omitempty"`
	Model      string      `json:"model,omitempty"` // that answered, if it is not the one of the claim
}

// newFinished returns the journal line for the result r of the execution id. It keeps the
// cache key recall only for a success without side effects of which all reads are known.
func newFinished(recall, id string, r task.Result) (*finished, error) {
	record, err := json.Marshal(task.Store(r))
	f := &finished{ID: id, Record: record, Columns: &columns{
		r.Status, r.Attempts, r.DurationMS, r.QueuedMS, r.Usage, tool.First(r.Err(), MaxSummary, ""), ""}}
	if r.Fallback > 0 {
		f.Columns.Model = r.Model
	}
	if r.Status == task.Completed && r.Reads != nil && !r.Effects {
		f.Recall = recall
	}
	if utf8.ValidString(r.Output) {
		f.Text = r.Output
	} else {
		f.Output = []byte(r.Output)
	}
	return f, err
}

// encode returns e as JSON with a newline.
func (e line) encode() ([]byte, error) {
	e.V = journalVersion
	text, err := json.Marshal(e)
	return append(text, '\n'), err
}

var errNewer = errors.New("a line of a newer version")

// decoded is a line and the offset of its end, or an error and the offset after the last
// line that was read.
type decoded struct {
	line
	end int64
	err error
}

// decodeNext decodes the line that begins at the offset end, skipping damaged lines. The
// error is io.EOF at the end, even if the last line is incomplete, and errNewer before a
// line of a newer version.
func decodeNext(in *bufio.Reader, end int64) decoded {
	for {
		text, err := in.ReadBytes('\n')
		if err != nil {
			return decoded{end: end, err: err}
		}
		var e line
		broken := json.Unmarshal(text, &e) != nil
		if !broken && e.V > journalVersion {
			return decoded{end: end, err: errNewer}
		}
		end += int64(len(text))
		if !broken && e.V >= 1 {
			return decoded{line: e, end: end}
		}
	}
}

// decodeAhead decodes the lines of f in a goroutine, while the caller writes earlier lines
// to the database. end is the offset of the first line. The goroutine closes the channel
// after it has sent an error, or when stop is closed.
func decodeAhead(f io.Reader, end int64, stop <-chan struct{}) <-chan decoded {
	lines := make(chan decoded, 64)
	go func() {
		defer close(lines)
		in := bufio.NewReaderSize(f, 256<<10)
		for next := (decoded{end: end}); next.err == nil; {
			next = decodeNext(in, next.end)
			select {
			case lines <- next:
			case <-stop:
				return
			}
		}
	}()
	return lines
}
