package steering

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"qq/internal/app/columns"
	"qq/internal/app/joblines"
	"qq/internal/control"
	"qq/internal/control/board"
	"qq/internal/terminal/keys"
	"qq/pkg/supervisor/jobs"
	"qq/pkg/task"
)

// run is a Run that remembers what was asked of it.
type run struct {
	mu      sync.Mutex
	asked   []string
	paused  bool
	err     error
	entries []string
	text    string
	jobs    []board.Job
}

func (r *run) note(what string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = append(r.asked, what)
	return r.err
}

func (r *run) Snapshot() (control.Snapshot, error) {
	return control.Snapshot{Paused: r.paused, Jobs: slices.Clone(r.jobs)}, nil
}

func (r *run) Cancel(id string) error        { return r.note("cancel " + id) }
func (r *run) Message(id, text string) error { return r.note("message " + id + ": " + text) }
func (r *run) Pause(paused bool) error {
	r.paused = paused
	return r.note("pause")
}

func (r *run) Log(_ string, from int64) (control.Entries, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := control.Entries{Next: from, Text: r.text}
	for e.Next < int64(len(r.entries)) && len(e.Entries) < 2 {
		e.Entries, e.Next = append(e.Entries, json.RawMessage(r.entries[e.Next])), e.Next+1
	}
	e.More = e.Next < int64(len(r.entries))
	return e, r.err
}

// TestAct: each act is asked for, and a refusal is told in one line.
func TestAct(t *testing.T) {
	r := &run{}
	a := Act{r, "id", "coder 1b2c"}
	assert.Equal(t, "told coder 1b2c to end, and all that it started", a.Cancel())
	notice, kept := a.Message(" \n")
	assert.Equal(t, "nothing was sent", notice+kept)
	notice, kept = a.Message(" hello\nyou ")
	assert.Equal(t, "sent to coder 1b2c: it reads it before its next request", notice+kept)
	assert.Equal(t, "paused: no further job starts", a.Pause())
	assert.Equal(t, "jobs start again", a.Pause())
	assert.Equal(t, []string{"cancel id", "message id: hello\nyou", "pause", "pause"}, r.asked)
	r.err = task.Hinted("wait", "it is\n\x1b[2Jgone")
	assert.Equal(t, "it is [2Jgone (wait)", a.Cancel())
	r.err = &control.Fault{Code: control.CodeUnknownJob, Problem: `no job "id" queues or runs here`}
	assert.Equal(t, "coder 1b2c has ended", a.Cancel())
	notice, kept = a.Message("stay ")
	assert.Equal(t, "coder 1b2c has ended; your text is kept, m sends it to another job", notice)
	assert.Equal(t, "stay", kept)
}

// TestFaceKeys: m and x on a job that has ended say so before anything is typed, and a text that could not be sent is
// there when the next message begins.
func TestFaceKeys(t *testing.T) {
	r := &run{err: &control.Fault{Code: control.CodeUnknownJob}}
	f := &Face{run: r, lines: []joblines.Line{{ID: "a"}, {ID: "b", Live: true}},
		names: map[string]string{"a": "explorer 1", "b": "coder 2"}}
	f.free = sync.NewCond(&f.mu)
	press := func(text string) {
		for _, c := range text {
			f.press(keys.Key{Rune: c})
		}
	}
	f.press(keys.Key{Code: keys.Down})
	for _, k := range []string{"m", "x"} {
		f.notice = ""
		press(k)
		assert.Nil(t, f.input)
		assert.Equal(t, "explorer 1 has ended", f.notice)
	}
	assert.Empty(t, r.asked)
	press("?")
	assert.True(t, f.help)
	f.press(keys.Key{Code: keys.Down})
	assert.False(t, f.help, "the next key closes the help: it would hide what is chosen")
	press("??")
	assert.False(t, f.help)
	press("mstay")
	f.press(keys.Key{Code: keys.Enter})
	assert.Contains(t, f.notice, "coder 2 has ended")
	r.err = nil
	press("m")
	assert.Equal(t, "stay", f.input.Text())
	press("!")
	f.press(keys.Key{Code: keys.Enter})
	assert.Equal(t, []string{"message b: stay", "message b: stay!"}, r.asked)
	press("m")
	assert.Empty(t, f.input.Text())
}

// TestTranscript: it grows, shows what the model writes, and what keeps it from being read.
func TestTranscript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &run{entries: []string{`{"header":true}`, `{"role":"user","content":"Do it"}`, `{"left_out":99}`, `broken`,
			`{"role":"assistant","content":"I do"}`}, text: "So far \x1b[2J\nso good"}
		tr := Follow(Act{r, "id", "coder"})
		defer tr.Close()
		synctest.Wait()
		text := tr.Text()
		assert.Contains(t, text, "│ Do it\n")
		assert.Contains(t, text, "│ I do\n")
		assert.True(t, strings.HasSuffix(text, "── writes\n│ So far [2J\n│ so good\n"), text)
		<-tr.News()
		r.mu.Lock()
		r.entries, r.text = append(r.entries, `{"role":"assistant","content":"I did"}`), ""
		r.mu.Unlock()
		time.Sleep(readEvery)
		synctest.Wait()
		assert.Contains(t, tr.Text(), "│ I did\n")
		assert.NotContains(t, tr.Text(), "writes")
		r.mu.Lock()
		r.err = errors.New("it keeps no transcript")
		r.mu.Unlock()
		time.Sleep(readEvery)
		synctest.Wait()
		assert.True(t, strings.HasSuffix(tr.Text(), "\nit keeps no transcript\n"))
	})
}

// TestCost: the block of a run with 200 children takes at most two hundredths of a processor at 10 frames a second.
func TestCost(t *testing.T) {
	if testing.Short() { // also under the race detector
		t.Skip("it measures")
	}
	r, now := &run{}, time.Now()
	for i := range 200 {
		r.jobs = append(r.jobs, board.Job{
			Job: jobs.Job{ExecutionID: fmt.Sprintf("01a20a57-c71f-7000-8000-%012d", i), ParentExecutionID: "root",
				Agent: "explorer", Task: strings.Repeat("Look at 漢字 ", 40), State: task.Running, Started: now},
			Call: &board.Call{Tool: "grep_file", Text: `grep_file "` + strings.Repeat("foo ", 30) + `"`, Running: true},
		})
	}
	f := &Face{run: r, tried: true, ends: make(chan struct{})}
	const frames, limit = 10, 20 * time.Millisecond
	best := time.Duration(1 << 62)
	for end := now.Add(5 * time.Second); best > limit && time.Now().Before(end); { // other work only makes it longer
		began := time.Now()
		for range frames {
			assert.Len(t, f.Rows(now, 200, 20).Rows, 20)
		}
		best = min(best, time.Since(began))
	}
	t.Logf("%v for %d frames", best, frames)
	assert.LessOrEqual(t, best, limit)
}

// TestInput: a line is typed, and its end is shown.
func TestInput(t *testing.T) {
	i := &Input{Prompt: "to x: "}
	press := func(all ...keys.Key) (s State) {
		for _, k := range all {
			s = i.Press(k)
		}
		return s
	}
	for _, r := range "one twö漢" {
		assert.Equal(t, Typing, press(keys.Key{Rune: r}))
	}
	press(keys.Key{Code: keys.Backspace}, keys.Key{Rune: 'z', Alt: true}, keys.Key{Code: keys.Left})
	assert.Equal(t, "one twö", i.Text())
	press(keys.Key{Code: keys.Paste, Text: " and\nmore\x1b[2J "})
	assert.Equal(t, "to x: one twö and⏎more[2J ▏", i.Line(80))
	assert.Equal(t, "⏎more[2J ▏", i.Line(10))
	press(keys.Key{Rune: 'w', Ctrl: true})
	assert.Equal(t, "one twö ", i.Text()[:len("one twö ")])
	press(keys.Key{Rune: 'u', Ctrl: true})
	assert.Empty(t, i.Text())
	assert.Equal(t, Entered, press(keys.Key{Code: keys.Enter}))
	assert.Equal(t, Left, press(keys.Key{Code: keys.Escape}))
	press(keys.Key{Code: keys.Paste, Text: strings.Repeat("x", task.MaxMessage+1)})
	assert.Empty(t, i.Text(), "a message has a bound")
	for width := 1; width < 20; width++ {
		assert.LessOrEqual(t, columns.Of(i.Line(width)), max(width, 1))
	}
}
