package top

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/app/command/block"
	"qq/internal/app/pane"
	"qq/internal/app/steering"
	"qq/internal/control"
	"qq/internal/control/board"
	"qq/internal/terminal/keys"
	"qq/pkg/event"
	"qq/pkg/supervisor/jobs"
	"qq/pkg/task"
)

var now = time.Date(2026, 11, 23, 20, 0, 0, 0, time.UTC)

func job(id, parent, agent string, s task.Status) board.Job {
	return board.Job{Job: jobs.Job{ExecutionID: id, ParentExecutionID: parent, Agent: agent, Task: "Do " + id, State: s,
		Started: now.Add(-12 * time.Second), Doing: jobs.Streams}}
}

// prompt is a run of a prompt, batch one of a batch.
func prompt() run {
	r := run{known: true}
	r.ID, r.Path = "0000-aaaaaaaa", "/run/a.sock"
	r.Root = control.Root{ExecutionID: r.ID, Dir: "/home/me/work", Command: "run", Started: now.Add(-time.Minute)}
	r.Jobs = []board.Job{job(r.ID, "", "default", task.Waiting), job("b-11111111", r.ID, "coder", task.Running),
		job("c-22222222", "b-11111111", "explorer", task.Running), job("d-33333333", r.ID, "coder", task.Queued)}
	return r
}

func batch() run {
	r := run{known: true}
	r.ID, r.Path = "0000-bbbbbbbb", "/run/b.sock"
	r.Root = control.Root{ExecutionID: r.ID, BatchID: "e-44444444", Dir: "/tmp/x", Command: "batch",
		Started: now.Add(-time.Minute)}
	one := job("f-55555555", "", "explorer", task.Running)
	one.BatchID = "e-44444444"
	r.Jobs = []board.Job{one}
	r.Batch = &board.Batch{ID: "e-44444444", Started: now.Add(-time.Minute), Total: 50, Done: 20, Failed: 2, Cached: 5}
	return r
}

func texts(rows []pane.Row) (all []string) {
	for _, r := range rows {
		all = append(all, r.Text)
	}
	return all
}

// TestTree: runs with their jobs, closed and opened, chosen with keys that pass over what is no job.
func TestTree(t *testing.T) {
	tr := &tree{closed: map[string]bool{}}
	size := block.Size{Columns: 83, Rows: 12}
	show := func() []string {
		runs := []run{prompt(), batch()}
		tr.update(runs, now, 80)
		return texts(tr.rows("head", "foot", nil, size))
	}
	all := show()
	assert.Equal(t, "head", all[0])
	assert.Equal(t, "› ▾ default aaaaaaaa  writes  Do 0000-aaaaaaaa (work)               1m 00s        ", all[1])
	assert.Len(t, all, 12)
	assert.Contains(t, all[2], "▾ ● coder")
	assert.Contains(t, all[3], "  ● explorer")
	assert.Contains(t, all[4], "1 queued")
	assert.Contains(t, all[5], "20/50 done, 2 failed, 15.0/min, 2m 00s left")
	wide := batch()
	assert.Equal(t, "█████████░░░░░░░░░░░░░░░ 20/50 done, 2 failed, 15.0/min, 2m 00s left",
		progress(wide.Batch, now, 200, false))
	wide.Batch.Cancelled = 3
	assert.Equal(t, "17/50 done, 2 failed, 3 cancelled", progress(wide.Batch, now, 200, true), "paused: no time left")
	assert.Contains(t, all[6], "slowest: 12 s  Do f-55555555")
	assert.Equal(t, "foot", all[11])
	for _, want := range []string{"b-11111111", "c-22222222", "0000-bbbbbbbb", "f-55555555", "f-55555555"} {
		tr.move(1)
		assert.Equal(t, want, tr.chosen)
		show()
	}
	tr.move(-100)
	assert.Equal(t, "0000-aaaaaaaa", tr.chosen)
	tr.open(false)
	assert.Contains(t, show()[2], "batch 44444444", "the id by which qq runs knows it")
	tr.open(true)
	assert.Contains(t, show()[2], "coder")
	tr.move(100)
	size.Rows = 5
	all = show()
	assert.Len(t, all, 5)
	assert.Contains(t, all[3], "› ", "the chosen row is on the screen")
	for columns := 1; columns < 200; columns += 7 { // it fits, whatever the size
		tr.update([]run{prompt(), batch()}, now, columns)
		for rows := 1; rows < 10; rows++ {
			tr.rows("head", "foot", []string{"help"}, block.Size{Columns: columns, Rows: rows})
		}
	}
}

// TestGone: a job that is gone is not steered, and neither is what comes into its place.
func TestGone(t *testing.T) {
	tr := &tree{closed: map[string]bool{}, chosen: "c-22222222"}
	r := prompt()
	tr.update([]run{r}, now, 80)
	require.NotNil(t, tr.it())
	assert.Equal(t, "explorer 22222222", tr.it().name)
	r.Jobs = r.Jobs[:2]
	tr.update([]run{r}, now, 80)
	assert.Nil(t, tr.it())
	r.ended, r.end = now, &ending{status: task.Completed}
	tr.update([]run{r}, now, 80)
	tr.move(-9)
	require.NotNil(t, tr.it())
	assert.Empty(t, tr.it().path, "nobody can be asked")
	assert.Contains(t, tr.it().text, "completed")
}

// stuck is a run that does not reply until it is told to.
type stuck struct {
	steering.Run
	goes chan struct{}
}

func (s stuck) Snapshot() (control.Snapshot, error) { return control.Snapshot{}, nil }
func (s stuck) Log(string, int64) (e control.Entries, err error) {
	<-s.goes
	return e, errors.New("no log")
}

func (s stuck) Pause(bool) error {
	<-s.goes
	return nil
}

func (s stuck) Message(_, text string) error {
	<-s.goes
	return errors.New("it did not read " + text)
}

// TestStopped: a run that does not reply holds up no key, a text that it did not read is kept, and a transcript of it
// can be left.
func TestStopped(t *testing.T) {
	goes := make(chan struct{})
	a := steering.Act{Run: stuck{goes: goes}, ID: "id", Name: "coder"}
	s := &screen{asked: map[steering.Run]bool{}, replies: make(chan reply)}
	assert.True(t, s.ask(a.Run, func() (string, string) { return a.Pause(), "" }))
	s.to, s.input = a, steering.NewInput("to: ", "stay")
	s.typed(keys.Key{Code: keys.Enter})
	assert.Equal(t, "this run has not replied to the last key yet", s.notice)
	assert.Equal(t, "stay", s.draft)
	s.log, s.pager = steering.Follow(a), &pane.Pager{}
	assert.False(t, s.press(keys.Key{Rune: 'q'}), "back to the tree")
	assert.Nil(t, s.log)
	close(goes)
	s.take(<-s.replies)
	assert.Equal(t, "paused: no further job starts", s.notice)
	s.input, s.draft = steering.NewInput("to: ", "stay"), ""
	s.typed(keys.Key{Code: keys.Enter})
	s.settle()
	assert.Equal(t, "stay", s.draft)
	assert.Contains(t, s.notice, "it did not read stay")
	assert.Empty(t, s.asked)
}

func TestHead(t *testing.T) {
	ended := batch()
	ended.ended = now
	runs := []run{prompt(), batch(), ended}
	runs[0].Questions = make([]control.Question, 1)
	assert.Regexp(t, `^qq top  [0-9:]{8}  1 question for you, 2 runs, 3 at work, 30 queued$`,
		head("qq top", runs, now, 79))
	assert.Regexp(t, `^qq top  [0-9:]{8}  1 question for you, …$`, head("qq top", runs, now, 39))
	runs[0].Questions[0].ExecutionID = "b-11111111"
	assert.Contains(t, head("qq top", runs, now, 79), "2 at work", "one waits for the person")
}

// TestQuestions: a run with open questions says so in its line, also when it is closed, and where they are answered.
func TestQuestions(t *testing.T) {
	for _, r := range []run{prompt(), batch()} {
		r.Questions = make([]control.Question, 2)
		tr := &tree{closed: map[string]bool{}}
		tr.update([]run{r}, now, 80)
		assert.Contains(t, tr.list[0].text, "2 questions for you, ")
		assert.Contains(t, tr.list[1].text, "? answer in the terminal of the run, or with qq serve")
		tr.closed[r.ID] = true
		tr.update([]run{r}, now, 80)
		assert.Len(t, tr.list, 1)
		assert.Contains(t, tr.list[0].text, "2 questions for you, ")
		r.Paused = true
		tr.update([]run{r}, now, 80)
		whole := task.ShortID(r.called()) + "  2 questions for you, paused, "
		assert.Contains(t, tr.list[0].text, whole, "with the whole id")
	}
}

// TestBatchCounts: of a batch all tasks that have not started are counted, not only those that come next.
func TestBatchCounts(t *testing.T) {
	b := batch()
	next := job("g-66666666", "", "explorer", task.Queued)
	child := job("h-77777777", "f-55555555", "coder", task.Queued)
	next.BatchID = b.Batch.ID
	b.Jobs = append(b.Jobs, next, child)
	b.Ended = []board.Ended{{ExecutionID: "z", BatchID: b.Batch.ID, Status: task.Completed}}
	assert.Contains(t, head("qq top", []run{b}, now, 79), "1 at work, 30 queued", "29 tasks, and the child of one")
	tr := &tree{closed: map[string]bool{}}
	tr.update([]run{b}, now, 100)
	assert.Equal(t, "    30 queued", tr.list[len(tr.list)-1].text)
	b.Batch.Total = 0 // not known
	assert.Contains(t, head("qq top", []run{b}, now, 79), "1 at work, 2 queued")
}

// TestState: the first lines of qq runs watch say how far a batch is, and whether it is paused.
func TestState(t *testing.T) {
	b := batch()
	assert.Equal(t, "20/50 done, 2 failed, 15.0/min, 2m 00s left, 29 queued", state(b.Snapshot, now))
	b.Paused = true
	assert.Equal(t, "20/50 done, 2 failed, 29 queued, paused", state(b.Snapshot, now))
	p := prompt()
	assert.Equal(t, "1 queued", state(p.Snapshot, now))
	p.Jobs = p.Jobs[:1]
	assert.Empty(t, state(p.Snapshot, now))
}

// TestEscape: it takes back what is shown before it leaves, and a batch says why it takes no message.
func TestEscape(t *testing.T) {
	escape := keys.Key{Code: keys.Escape}
	s := &screen{help: true, asked: map[steering.Run]bool{}, tree: tree{closed: map[string]bool{}}}
	assert.False(t, s.press(escape))
	assert.False(t, s.help)
	s.tree.update([]run{batch()}, now, 80)
	s.act(keys.Key{Rune: 'm'}, "")
	assert.Equal(t, "choose one of its jobs: a batch reads no message", s.notice)
	assert.False(t, s.press(escape))
	s.act(keys.Key{Rune: 'x'}, "")
	assert.Equal(t, "0000-bbbbbbbb", s.sure)
	assert.False(t, s.press(escape))
	assert.Empty(t, s.sure)
	assert.True(t, s.press(escape))
}

// TestEnding: how a run ends, what it has used and its exit code are as its events tell.
func TestEnding(t *testing.T) {
	p := prompt()
	p.Used = task.Usage{InputTokens: 1000, OutputTokens: 100}
	p.Jobs[0].Usage = task.Usage{InputTokens: 300, OutputTokens: 30}
	of := func(j board.Job, s task.Status, in, out int) event.Event {
		e := event.Event{Type: event.SubAgentComplete, ExecutionID: j.ExecutionID, BatchID: j.BatchID, Status: s,
			ParentExecutionID: j.ParentExecutionID, Usage: &task.Usage{InputTokens: in, OutputTokens: out}}
		if s != task.Completed {
			e.Type, e.Error = event.SubAgentError, "Error: it broke"
		}
		return e
	}
	e := newEnding(p.Snapshot)
	e.add(event.Event{Type: event.ToolStart, ExecutionID: p.ID})
	e.add(of(p.Jobs[1], task.Failed, 50, 5))
	e.add(of(p.Jobs[0], task.Timeout, 700, 70))
	assert.Equal(t, task.Usage{InputTokens: 1450, OutputTokens: 145}, e.used)
	assert.Equal(t, "timeout: it broke", e.String())
	assert.Equal(t, 124, e.code())
	assert.Zero(t, (&ending{status: task.Completed}).code())
	assert.Equal(t, 1, (&ending{lost: true}).code())

	b := batch()
	b.Batch.Total, b.Batch.Failed = 22, 0
	e = newEnding(b.Snapshot)
	e.add(of(b.Jobs[0], task.Completed, 1, 1))
	assert.Equal(t, 4, e.code(), "one never ran")
	e.add(of(b.Jobs[0], task.Completed, 1, 1))
	assert.Equal(t, "ended: 22 completed", e.String())
	assert.Zero(t, e.code())
	e.add(of(b.Jobs[0], task.Cancelled, 1, 1))
	e.add(of(b.Jobs[0], task.Failed, 1, 1))
	assert.Equal(t, "ended: 22 completed, 1 failed, 1 cancelled", e.String())
	assert.Equal(t, 4, e.code())
}

// TestFind: an id, its beginning or its end names a run or a job, if only one.
func TestFind(t *testing.T) {
	a, b := prompt().Standing, batch().Standing
	dead := control.Standing{ID: "0000-cccccccc", Err: errors.New("it does not reply")}
	for id, want := range map[string]string{"aaaaaaaa": a.ID, "22222222": a.ID, "e-44": b.ID, "0000-bbbbbbbb": b.ID} {
		root, job, err := find([]control.Standing{a, b, dead}, id)
		require.NoError(t, err, id)
		assert.Equal(t, want, root.ID)
		if id == "22222222" {
			assert.Equal(t, "c-22222222", job)
		}
	}
	for _, id := range []string{"0000", "22", "nobody", "cccccccc", ""} {
		_, _, err := find([]control.Standing{a, b, dead}, id)
		assert.Error(t, err, fmt.Sprintf("%q", id))
	}
}
