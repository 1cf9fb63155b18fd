package output

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/app/command"
	"qq/internal/app/figures"
	"qq/pkg/llm"
	"qq/pkg/supervisor/jobs"
	"qq/pkg/supervisor/plan"
	"qq/pkg/task"
)

// results are a success and a failure, with text that could break a format.
func results() []task.Result {
	done := task.Task{Text: "one"}.Ended(task.Completed, "")
	done.Output = "a <b>\nc"
	failed := task.Task{Text: "two"}.Ended(task.Timeout, "too slow")
	failed.Output, failed.Index = "half\n", 1
	return []task.Result{done, failed}
}

// TestResults: each format, with results and without any.
func TestResults(t *testing.T) {
	for format, want := range map[string]struct{ none, some string }{
		Text:       {"", "a <b>\nc\nhalf\n[task 2 failed: timeout: too slow; the answer above is incomplete]\n"},
		JSON:       {"[]\n", "[\n{…},\n{…}\n]\n"},
		JSONL:      {"", "{…}\n{…}\n"},
		StreamJSON: {"", "{…}\n{…}\n"},
		Markdown:   {"", "## 1. one\n\na <b>\nc\n\n## 2. two\n\n**timeout**: too slow\n\nhalf\n\n"},
	} {
		var b strings.Builder
		require.NoError(t, NewResults(format, &b).End())
		assert.Equal(t, want.none, b.String(), format)

		b.Reset()
		w := NewResults(format, &b)
		for _, r := range results() {
			require.NoError(t, w.Write("name", "input", r))
		}
		require.NoError(t, w.End())
		assert.Equal(t, want.some, shape(b.String()), format)
		assert.Equal(t, format == StreamJSON, strings.Contains(b.String(), `{"type":"result",`), format)
	}
	assert.Nil(t, NewResults("xml", os.Stdout))
}

// shape is text with its JSON objects, one a line, left out.
func shape(text string) string {
	lines := strings.SplitAfter(text, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, "{") {
			lines[i] = "{…}" + l[strings.LastIndexByte(l, '}')+1:]
		}
	}
	return strings.Join(lines, "")
}

// TestText: what begins a line or a result, and the line of each failed task.
func TestText(t *testing.T) {
	done := task.Task{}.Ended(task.Completed, "")
	done.Output = "a\nb"
	failed := task.Task{}.Ended(task.Failed, strings.Repeat("long ", 200)+"\n")
	idle := task.Task{}.Ended(task.Idle, "silent")
	unstarted := task.Task{}.Ended(task.Cancelled, "not started: stopped")
	all := func(change func(*Results)) string {
		var b strings.Builder
		w := NewResults(Text, &b)
		change(w)
		for i, r := range []task.Result{done, failed, idle, unstarted} {
			r.Index = i
			require.NoError(t, w.Write([]string{"x.md", "two\n\tlines", "z", "last"}[i], "", r))
		}
		return b.String()
	}
	cut := strings.TrimSpace(strings.Repeat("long ", 60))[:297] + "..."
	assert.Equal(t, "a\nb\n[task 2 failed: "+cut+"]\n[task 3 failed: idle: silent]\n"+
		"[task 4 not started: stopped]\n", all(func(*Results) {}))
	assert.Equal(t, "x.md\ta\nx.md\tb\ntwo  lines\t[task 2 failed: "+cut+"]\n"+
		"z\t[task 3 failed: idle: silent]\n"+
		"last\t[task 4 not started: stopped]\n", all(func(r *Results) { r.Tag, r.Heads = true, true }))
	assert.Equal(t, "── x.md ──\na\nb\n\n── two  lines ──\n[task 2 failed: "+cut+"]\n\n── z ──\n"+
		"[task 3 failed: idle: silent]\n", all(func(r *Results) { r.Heads, r.Terminal = true, true }))
}

// TestFailure: what a signal ended has not failed, and nothing is said twice. An answer is incomplete only if it broke
// off.
func TestFailure(t *testing.T) {
	with := func(id string, s task.Status, why string) task.Result {
		r := task.Task{ID: id}.Ended(s, why)
		r.Output = "done"
		return r
	}
	named := task.Task{ID: "b"}
	for want, r := range map[string]task.Result{
		"[task 1 terminated]\n":             task.Task{}.Ended(task.Terminated, "terminated"),
		"[task 1 interrupted: by Ctrl-C]\n": task.Task{}.Ended(task.Interrupted, "by Ctrl-C"),
		"[task 1 failed: timeout]\n":        task.Task{}.Ended(task.Timeout, "timeout"),
		"[task 1 \"a\" failed: idle: silent; the answer above is incomplete]\n": with("a", task.Idle, "silent"),
		"[task 1 check_failed: it broke]\n":                                     with("", task.CheckFailed, "it broke"),
		"[task 1 conflict: lines]\n":                                            with("", task.Conflict, "lines"),
		"[task 1 \"b\" skipped: needs a]\n":                                     named.Ended(task.Skipped, "needs a"),
	} {
		assert.Equal(t, want, failure(r))
	}
}

// broken is a writer that fails.
type broken struct{ err error }

func (b broken) Write([]byte) (int, error) { return 0, b.err }

// TestWriteError: whoever went away is told from other trouble, wherever it
// happens.
func TestWriteError(t *testing.T) {
	gone := broken{&os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.EPIPE}}
	full := broken{syscall.ENOSPC}
	for _, format := range []string{Text, JSON, JSONL, StreamJSON, Markdown} {
		assert.Equal(t, ErrClosed, NewResults(format, gone).Write("", "", results()[0]), format)
		assert.EqualError(t, NewResults(format, full).Write("", "", results()[0]),
			"write the answer: no space left on device",
			format)
	}
	assert.Equal(t, ErrClosed, NewResults(JSON, gone).End())
	assert.Equal(t, ErrClosed, WriteJSON(gone, 1))
	assert.Equal(t, ErrClosed, NewLive(gone).End("text"))
	assert.Equal(t, ErrClosed, WriteError(fmt.Errorf("again: %w", ErrClosed)))
	assert.NoError(t, WriteError(nil))
	assert.ErrorIs(t, WriteJSON(full, 1), syscall.ENOSPC)
}

func TestWriteJSON(t *testing.T) {
	var b strings.Builder
	require.NoError(t, WriteJSON(&b, map[string]string{"a": "<&>"}))
	assert.Equal(t, `{"a":"<&>"}`+"\n", b.String())
}

// TestLive: what is on the screen once is not printed twice.
func TestLive(t *testing.T) {
	for name, c := range map[string]struct {
		turns []string // written by the model; the last one is the answer
		cut   bool     // the last turn broke off
		end   string
		want  string
	}{
		"nothing":       {end: "", want: ""},
		"not streamed":  {end: "all", want: "all\n"},
		"streamed":      {turns: []string{"al\x1bl"}, end: "all", want: "all\n"},
		"two turns":     {turns: []string{"looking\n", "all"}, end: "all", want: "looking\nall\n"},
		"broke off":     {turns: []string{"ha"}, cut: true, end: "ha", want: "ha\n"},
		"blank answer":  {turns: []string{"looking", " "}, end: "all", want: "looking\n \nall\n"},
		"dropped bytes": {end: "a\x1bb", want: "ab\n"},
	} {
		var b strings.Builder
		l := NewLive(&b)
		for i, text := range c.turns {
			last := i == len(c.turns)-1
			l.Chunk(llm.Chunk{Text: text})
			if !last || !c.cut {
				l.TurnEnd(last)
			}
		}
		require.NoError(t, l.End(c.end), name)
		assert.Equal(t, c.want, b.String(), name)
	}
}

// work is a Batch and the Work of a run.
type work struct {
	jobs  []jobs.Job
	used  task.Usage
	known int
	wait  atomic.Int64 // nanoseconds
}

func (w *work) Jobs() []jobs.Job     { return w.jobs }
func (w *work) Used() task.Usage     { return w.used }
func (w *work) Known() int           { return w.known }
func (w *work) Waits() time.Duration { return time.Duration(w.wait.Load()) }

// newOutput returns an output that ends in a file, and its content.
func newOutput(t *testing.T) (out *command.Output, shown func() string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	f, err := os.Create(name)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return command.NewScreen().Output(f), func() string {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		// How a status line is kept in its row is the business of command/block.
		return strings.NewReplacer("\x1b[?7l", "", "\x1b[?7h\r", "").Replace(string(text))
	}
}

// TestProgressPaused: a batch that is paused says how far it is, and where it goes on.
func TestProgressPaused(t *testing.T) {
	s := standing{done: 218, total: 300, failed: 6, atWork: 1, worked: 200, elapsed: time.Minute, age: time.Minute,
		oldest: "a task", paused: "paused: qq top lets it go on"}
	assert.Equal(t, "218/300 done, 6 failed, paused: qq top lets it go on · 1m 00s · oldest: 1m 00s", s.line(80))
	assert.Equal(t, "218/300 done, 6 failed", s.line(40))
}

// TestProgress: one line on a terminal, out of the way of results and gone at
// the end; plain lines, far apart, elsewhere.
func TestProgress(t *testing.T) {
	const wipe = "\r\x1b[K"
	busy := &work{}
	synctest.Test(t, func(t *testing.T) {
		out, shown := newOutput(t)
		p := StartProgress(out, true, Tasks{Total: 4}, busy, nil)
		p.Count(results()[0])
		p.Count(results()[1])
		time.Sleep(RedrawEvery + time.Millisecond)
		synctest.Wait()
		fmt.Fprintln(out, "result")
		p.Stop()
		line := wipe + "2/4 done, 1 failed, 10.0/s, 1 s left"
		assert.Equal(t, line+wipe+"result\n"+line+wipe, shown(), "and it is there again at once")
	})
	synctest.Test(t, func(t *testing.T) {
		out, shown := newOutput(t)
		p := StartProgress(out, false, Tasks{Total: 4}, busy, nil)
		p.Count(results()[0])
		time.Sleep(reportEvery + time.Millisecond)
		synctest.Wait()
		p.Stop()
		assert.Equal(t, "qq: 1/4 done · 30 s, 2.0/min, 1m 30s left\n", shown())
	})
	synctest.Test(t, func(t *testing.T) {
		out, shown := newOutput(t)
		w := &work{known: 2, jobs: []jobs.Job{
			{ExecutionID: "1", State: task.Running, Started: time.Now().Add(-time.Minute), Task: "the first",
				Slot: true},
			{ExecutionID: "2", State: task.Waiting, Started: time.Now(), Task: "the second"},
			{ExecutionID: "3", State: task.Running, Started: time.Now(), Task: "it is tried again later"},
			{ExecutionID: "4", State: task.Running, Started: time.Now().Add(-time.Hour), Task: "of a child",
				ParentExecutionID: "2", Slot: true},
			{ExecutionID: "5", State: task.Waiting, Started: time.Now().Add(-time.Hour), Task: "it is done",
				Ready: true},
			{State: task.Queued, Task: "the next"},
		}}
		p := StartProgress(out, false, Tasks{Total: 10}, w, nil)
		cached := results()[0]
		cached.Cached = true
		left := task.Task{}.Ended(task.Cancelled, "") // it was not started: that is no end
		cancelled := left
		cancelled.Attempts = 1
		for _, r := range []task.Result{results()[0], results()[0], cached, results()[0], cancelled, left, left} {
			p.Count(r)
		}
		time.Sleep(reportEvery + time.Millisecond)
		synctest.Wait()
		w.wait.Store(int64(42 * time.Second))
		time.Sleep(reportEvery)
		synctest.Wait()
		p.Stop()
		const head = "qq: 5/10 done, 1 cancelled, 2 at work, 1 waiting, 1 to join · "
		assert.Equal(t, head+"30 s, 2.0/min, 2m 30s left · oldest: 1m 30s the first\n"+
			head+"1m 00s, waiting 42 s for the model server · oldest: 2m 00s the first\n",
			shown(), "what was known says nothing of the rest")
	})
	synctest.Test(t, func(t *testing.T) {
		out, shown := newOutput(t)
		ends := make(chan struct{})
		p := StartProgress(out, true, Tasks{Total: 4}, busy, ends)
		p.Count(results()[0])
		close(ends)
		synctest.Wait()
		assert.Equal(t, wipe+"stopping; Ctrl-C again kills · 1/4 done", shown(), "at once")
		p.Stop()
	})
	for most, want := range map[int]string{
		4: "qq: 1/6 done, 1 failed, 2 skipped, 1 at work, 2 wait · 30 s, 2.0/min, 1m 30s left · " +
			"notes waits for cli · oldest: 30 s\n",
		1: "qq: 1/6 done, 1 failed, 2 skipped, 1 at work · 30 s, 2.0/min, 1m 30s left · oldest: 30 s\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			out, shown := newOutput(t)
			w := &work{jobs: []jobs.Job{
				{ExecutionID: "1", State: task.Running, Started: time.Now(), Index: 1, Slot: true},
				{ExecutionID: "2", State: task.Queued, Index: 3},
			}}
			with := func(id string, needs ...string) plan.Task { return plan.Task{ID: id, Needs: needs} }
			planned, err := plan.New([]plan.Task{with("api"), with("cli"), with("fix", "api"), with("notes", "cli"),
				with("last", "notes"), with("gone", "fix")}, plan.Options{Together: true})
			require.NoError(t, err)
			p := StartProgress(out, false, Tasks{Total: 6, Jobs: most, Plan: planned}, w, nil)
			ended := func(i int, s task.Status) {
				r := task.Task{}.Ended(s, "")
				r.Index, r.Attempts = i, 1
				p.Count(r)
			}
			ended(0, task.Empty)
			ended(2, task.Skipped)
			ended(5, task.Skipped)
			time.Sleep(reportEvery + time.Millisecond)
			synctest.Wait()
			p.Stop()
			assert.Equal(t, want, shown())
		})
	}
	var none *Progress
	none.Count(results()[0])
	none.Stop()
}

func TestRoundly(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0.0s", 0: "0.0s", 9940 * time.Millisecond: "9.9s", 9990 * time.Millisecond: "9s",
		59900 * time.Millisecond: "59s", 61 * time.Second: "1m01s",
		3*time.Hour + 5*time.Minute: "3h05m", 47 * time.Hour: "47h00m", 49 * time.Hour: "2d01h",
	} {
		assert.Equal(t, want, figures.Roundly(d), d)
	}
}

// TestTally: a task that was never started is no failure, but the batch is not
// complete.
func TestTally(t *testing.T) {
	var tally Tally
	assert.True(t, tally.Complete())
	started := task.Task{}.Ended(task.Cancelled, "")
	started.Attempts = 1
	for _, r := range append(results(), started, task.Task{}.Ended(task.Cancelled, "")) {
		tally.Add(r)
	}
	assert.False(t, tally.Complete())
	assert.Empty(t, tally.Repeats())
	var again Tally
	for _, want := range []string{"(1 task needed more", "(2 tasks needed more"} {
		again.Add(task.Result{Status: task.Completed, Success: true, Attempts: 2})
		assert.Equal(t, want+" than one attempt)", again.Repeats())
	}
	assert.Equal(t, 2, tally.Failed)
	assert.Equal(t, 1, tally.NotStarted)
	assert.Equal(t, "1 completed, 1 timeout, 1 cancelled, 1 not started in 12s", tally.Summary(12*time.Second))
	tally.Usage = task.Usage{InputTokens: 12_000, OutputTokens: 345}
	assert.Equal(t, "1 completed, 1 timeout, 1 cancelled, 1 not started in 12s, 12.3k tokens",
		tally.Summary(12*time.Second))

	var plain Tally
	for _, s := range []task.Status{task.Empty, task.Empty} {
		plain.Add(task.Task{}.Ended(s, ""))
	}
	assert.Equal(t, "2 empty_answer in 0.5s", plain.Summary(500*time.Millisecond))
	plain.Known = 2
	assert.Equal(t, "2 empty_answer, 2 of them from before in 0.5s", plain.Summary(500*time.Millisecond))
	for range 3 {
		plain.Add(task.Task{}.Ended(task.Completed, ""))
	}
	plain.Known = 4
	assert.Equal(t, "3 completed, 2 empty_answer, 4 of these 5 from before in 0.5s",
		plain.Summary(500*time.Millisecond), "failures are among the four")
	for _, s := range task.Statuses() {
		var one Tally
		one.Add(task.Result{Status: s, Attempts: 1})
		if s.Final() {
			assert.Equal(t, "1 "+string(s)+" in 0.0s", one.Summary(0))
		}
	}
}

func TestIsTerminal(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	require.NoError(t, err)
	defer f.Close()
	assert.False(t, IsTerminal(f))
}
