package ledger

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"time"
	"unicode/utf8"

	"qq/pkg/task"
)

const (
	journalSuffix  = ".journal"
	journalVersion = 2 // 1 held prompts only, and the root in its claim
)

// line is one line of a journal. One of the pointers is set.
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

// entered is the root of the journal.
type entered struct {
	Root
	Process string `json:"process"`
}

type begun struct {
	Batch
	Raw [][]byte `json:"raw,omitempty"` // folder and job log, when they are not UTF-8
}

type ended struct {
	Batch  string      `json:"batch"`
	Root   string      `json:"root"`
	Status task.Status `json:"status"`
	Used   task.Usage  `json:"used"`
}

type claimed struct {
	Execution Execution `json:"execution"`
	Root      *Root     `json:"root,omitempty"` // version 1
	Process   string    `json:"process,omitempty"`
}

type failed struct {
	ID string `json:"id"`
	AttemptRow
}

type finished struct {
	ID      string          `json:"id"`
	Recall  string          `json:"recall,omitempty"`
	Columns *columns        `json:"columns,omitempty"` // not in version 1
	Record  json.RawMessage `json:"record"`            // a [task.Stored]
	Text    string          `json:"text,omitempty"`
	Output  []byte          `json:"output,omitempty"` // instead of Text, when it is not UTF-8
}

// columns is what of a result is in columns of their own: who reads the journal need not
// decode the record for it.
type columns struct {
	Status     task.Status `json:"status"`
	Attempts   int         `json:"attempts"`
	DurationMS int64       `json:"duration_ms"`
	QueuedMS   int64       `json:"queued_ms"`
	Usage      task.Usage  `json:"usage"`
	Error      string      `json:"error,omitempty"`
}

// newFinished is the result r of the execution id.
func newFinished(recall, id string, r task.Result) (*finished, error) {
	record, err := json.Marshal(task.Store(r))
	f := &finished{ID: id, Record: record, Columns: &columns{
		r.Status, r.Attempts, r.DurationMS, r.QueuedMS, r.Usage, cut(r.Err(), maxSummary)}}
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

// encode returns e as it is written to a journal.
func (e line) encode() ([]byte, error) {
	e.V = journalVersion
	text, err := json.Marshal(e)
	return append(text, '\n'), err
}

var errNewer = errors.New("a line of a newer version")

// decoded is a line and where it ends, or the error that came instead and where the last line ended.
type decoded struct {
	line
	end int64
	err error
}

// decodeNext decodes the next line of a journal, which begins at the byte end. A damaged line is skipped.
// The error is io.EOF at the end, also when the last line is not whole, and errNewer in
// front of a line of a newer version.
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

// decodeAhead decodes the lines of f from the byte end on, while others are written to the database, until the
// first error or until stop is closed.
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
