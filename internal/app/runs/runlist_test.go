package runs

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"qq/internal/app/columns"
	"qq/internal/app/output"
	"qq/internal/record/ledger"
	"qq/pkg/supervisor/jobs"
	"qq/pkg/task"
)

var now = time.Date(2026, 11, 21, 15, 0, 0, 0, time.FixedZone("", 3600))

func at(ago time.Duration) time.Time { return now.Add(-ago).UTC() }

// some are runs of today and of yesterday, one of them at work.
func some() []ledger.Run {
	return []ledger.Run{
		{ID: "0198a000-0000-7000-8000-0000a1b2c3d4", Agent: "coder", Task: "Write the\n  function \x1b[31mred",
			Status: task.Running, Live: true,
			Queued: at(80 * time.Second), Started: at(75 * time.Second),
			Usage:      task.Usage{InputTokens: 900, OutputTokens: 30},
			TotalUsage: task.Usage{InputTokens: 9000, OutputTokens: 3345}},
		{ID: "0198a000-0000-7000-8000-0000b1b2c3d4", Parent: "0198a000-0000-7000-8000-0000a1b2c3d4", Agent: "explorer",
			Depth: 1,
			Task:  "請找出所有的錯誤處理並且說明每一個，然後列出檔案與行號，最後做一個總結", Status: task.Queued, Live: true,
			Queued: at(10 * time.Second)},
		{ID: "0198a000-0000-7000-8000-0000c1b2c3d4", Agent: "a-name-longer-than-the-column",
			Task:   strings.Repeat("long ", 100),
			Status: task.UnknownOutcome, Queued: at(30 * time.Hour), Started: at(30 * time.Hour),
			Ended: at(29 * time.Hour), DurationMS: 3_600_000, Attempts: 1,
			Error: "child was killed by signal 9 (killed)", Usage: task.Usage{InputTokens: 17},
			TotalUsage: task.Usage{InputTokens: 17}},
		{ID: "0198a000-0000-7000-8000-0000d1b2c3d4", Batch: "0198a000-0000-7000-8000-00000000ba01", Agent: "default",
			Task:   "a task of the batch",
			Status: task.Completed, Started: at(time.Minute), Ended: at(59 * time.Second), DurationMS: 900},
	}
}

func batches() []ledger.BatchRow {
	batch := func(id string, ago time.Duration, count int, status task.Status,
		counts map[task.Status]int) ledger.BatchRow {
		return ledger.BatchRow{Batch: ledger.Batch{ID: "0198a000-0000-7000-8000-00000000" + id, Root: "r",
			Dir: "/home/é/project", Count: count, Started: at(ago)},
			Status: status, Latest: at(ago), Live: status == task.Running, Counts: counts}
	}
	all := []ledger.BatchRow{
		batch("ba01", 12*time.Minute+3*time.Second, 500, task.Running,
			map[task.Status]int{task.Completed: 409, task.Failed: 2, task.Timeout: 1, task.Running: 5}),
		batch("ba02", 31*time.Hour, 3, task.Interrupted, map[task.Status]int{task.Completed: 1, task.Cancelled: 2}),
		batch("ba03", 32*time.Hour, 3, task.Completed, map[task.Status]int{task.Completed: 3}),
		batch("ba04", 33*time.Hour, 3, task.Limit, map[task.Status]int{task.Completed: 2, task.Idle: 1}),
	}
	all[0].Latest, all[0].DurationMS = at(3*time.Second), 720_000 // it was resumed
	all[2].Dir = ""
	all[3].Ended, all[3].DurationMS, all[3].Usage = at(30*time.Hour), 3*3_600_000,
		task.Usage{InputTokens: 4000, OutputTokens: 200}
	return all
}

func TestList(t *testing.T) {
	var b strings.Builder
	require.NoError(t, printRuns(&b, some(), batches(), layout{Width: 100, Now: now}))
	assert.Equal(t, `
RUN       STARTED           STATUS           AGENT             TIME    TOKENS  TASK
b1b2c3d4  14:59             queued *         explorer          -       -       請找出所有的錯誤處...
a1b2c3d4  14:58             running *        coder             1m15s   12.3k   Write the function...
0000ba01  14:47             running *        (batch)           12m03s  -       412/500 done, 3 fa...
c1b2c3d4  2026-11-20 09:00  unknown_outcome  a-name-longer...  1h00m   17      long long long lon...
0000ba02  2026-11-20 08:00  interrupted      (batch)           -       -       1/3 done, 2 cancel...
0000ba03  2026-11-20 07:00  completed        (batch)           -       -       3/3 done
0000ba04  2026-11-20 06:00  limit            (batch)           3h00m   4200    3/3 done, 1 failed...
`, "\n"+b.String())
	for line := range strings.Lines(b.String()) {
		assert.LessOrEqual(t, columns.Of(strings.TrimSuffix(line, "\n")), 100)
	}
}

// TestProgress: what is shown of a batch adds up.
func TestProgress(t *testing.T) {
	for want, b := range map[string]ledger.BatchRow{
		"12/12 done": {Batch: ledger.Batch{Count: 11},
			Counts: map[task.Status]int{task.Completed: 12}}, // it went on with other tasks
		"1/11 done, 2 interrupted, 8 not started": {Batch: ledger.Batch{Count: 11},
			Counts: map[task.Status]int{task.Completed: 1, task.Interrupted: 2}},
		"2/11 done, 1 failed, 9 not started": {Batch: ledger.Batch{Count: 11, Dir: ""},
			Counts: map[task.Status]int{task.Completed: 1, task.Failed: 1}},
		"0/11 done, 11 not started in /a b": {Batch: ledger.Batch{Count: 11, Dir: "/a\nb"}},
		"1/11 done in /x": {Batch: ledger.Batch{Count: 11, Dir: "/x"}, Live: true,
			Counts: map[task.Status]int{task.Completed: 1}},
		"11/12 done, 1 failed, 1 cancelled": {Batch: ledger.Batch{Count: 11},
			Counts: map[task.Status]int{task.Completed: 10, task.Timeout: 1, task.Cancelled: 1}},
		"0/2 done": {Batch: ledger.Batch{Count: 1}, Live: true,
			Counts: map[task.Status]int{task.Running: 2}},
	} {
		assert.Equal(t, want, progress(b))
	}
}

// TestBatch: a batch is shown with its runs.
func TestBatch(t *testing.T) {
	var b strings.Builder
	require.NoError(t, printBatch(&b, batches()[0], some()[3:], layout{Now: now}))
	assert.Equal(t, ""+
		"RUN       STARTED  STATUS     AGENT    TIME    TOKENS  TASK\n"+
		"0000ba01  14:47    running *  (batch)  12m03s  -       412/500 done, 3 failed in /home/é/project\n"+
		"RUN       #  STARTED  STATUS     AGENT    TIME  TOKENS  TASK\n"+
		"d1b2c3d4  1  14:59    completed  default  0.9s  -       a task of the batch\n", b.String())

	failed := some()[3]
	failed.Status, failed.Error = task.Failed, "the model is gone:\x1b[31m nobody answers\nat all"
	b.Reset()
	require.NoError(t, printBatch(&b, batches()[0], []ledger.Run{failed, some()[3]}, layout{Now: now, Width: 30}))
	lines := strings.Split(b.String(), "\n")
	const told = "  the model is gone:[31m nobody answers"
	require.Contains(t, lines, told)
	assert.Contains(t, lines[slices.Index(lines, told)-2], "failed", "below its task, which has two lines here")
	assert.Equal(t, 1, strings.Count(b.String(), "the model"))

	for _, tasks := range [][]ledger.Run{some()[3:], nil} {
		b.Reset()
		require.NoError(t, printBatch(&b, batches()[0], tasks, layout{JSON: true, Now: now}))
		var doc struct {
			Type, ID string
			Count    int
			Runs     []ledger.Run
		}
		require.NoError(t, json.Unmarshal([]byte(b.String()), &doc))
		assert.Equal(t, "batch", doc.Type)
		assert.Equal(t, batches()[0].ID, doc.ID)
		assert.Equal(t, 500, doc.Count)
		assert.NotNil(t, doc.Runs)
		assert.Len(t, doc.Runs, len(tasks))
	}
}

// TestListElsewhere: where no terminal is, tasks are shortened as in a result.
func TestListElsewhere(t *testing.T) {
	var b strings.Builder
	require.NoError(t, printRuns(&b, some()[3:], nil, layout{Now: now}))
	assert.Equal(t, ""+
		"RUN       BATCH        STARTED  STATUS     AGENT    TIME  TOKENS  TASK\n"+
		"d1b2c3d4  0000ba01 #1  14:59    completed  default  0.9s  -       a task of the batch\n", b.String())
	b.Reset()
	require.NoError(t, printRuns(&b, some()[:3], batches(), layout{Now: now, Limit: 2}))
	assert.Equal(t, ""+
		"RUN       STARTED  STATUS     AGENT     TIME   TOKENS  TASK\n"+
		"b1b2c3d4  14:59    queued *   explorer  -      -       請找出所有的錯誤處理並且說明每一個，然後列出檔案與行號，最後做一個總結\n"+
		"a1b2c3d4  14:58    running *  coder     1m15s  12.3k   Write the function [31mred\n", b.String())
}

func TestEmptyLists(t *testing.T) {
	for _, print := range []func(w *strings.Builder, o layout) error{
		func(w *strings.Builder, o layout) error { return printRuns(w, nil, nil, o) },
		func(w *strings.Builder, o layout) error { return printTree(w, nil, o) },
	} {
		var b strings.Builder
		require.NoError(t, print(&b, layout{Now: now}))
		assert.Empty(t, b.String())
		require.NoError(t, print(&b, layout{Now: now, JSON: true}))
		assert.Equal(t, "[]\n", b.String())
	}
}

func TestListJSON(t *testing.T) {
	var b strings.Builder
	require.NoError(t, printRuns(&b, some()[2:], batches()[1:2], layout{JSON: true, Now: now}))
	assert.Equal(t, 1, strings.Count(b.String(), "\n"))
	var rows []map[string]any
	require.NoError(t, json.Unmarshal([]byte(b.String()), &rows))
	require.Len(t, rows, 3)
	assert.Equal(t, "run", rows[0]["type"])
	assert.Equal(t, "completed", rows[0]["status"])
	assert.Equal(t, "0198a000-0000-7000-8000-0000c1b2c3d4", rows[1]["id"], "whole")
	assert.Equal(t, some()[2].Task, rows[1]["task"], "whole")
	assert.Equal(t, map[string]any{"type": "batch", "id": "0198a000-0000-7000-8000-00000000ba02", "root": "r",
		"dir": "/home/é/project", "started": "2026-11-20T07:00:00Z",
		"status": "interrupted", "latest": "2026-11-20T07:00:00Z", "duration_ms": 0.0, "count": 3.0,
		"usage":  map[string]any{"input_tokens": 0.0, "output_tokens": 0.0},
		"counts": map[string]any{"completed": 1.0, "cancelled": 2.0}, "live": false}, rows[2])
}

func TestTree(t *testing.T) {
	run := func(id, parent, agent, text string) ledger.Run {
		return ledger.Run{ID: "00000000-" + id, Parent: parent, Agent: agent, Task: text, Status: task.Completed,
			Started: at(time.Hour), Ended: at(time.Minute), DurationMS: 1500}
	}
	rows := []ledger.Run{run("aaaaaaaa", "", "default", "Write a report"),
		run("bbbbbbbb", "00000000-aaaaaaaa", "coder", "part\u202e one"),
		run("cccccccc", "00000000-bbbbbbbb", "explorer", "日本語の文書を調べる"),
		run("dddddddd", "00000000-aaaaaaaa", "coder", "part two"),
		run("eeeeeeee", "00000000-dddddddd", "", "deep"), run("ffffffff", "of another tree", "coder", "alone")}
	rows[3].Status, rows[3].Live, rows[3].Started, rows[3].Ended = task.Running, true, at(3*time.Second), time.Time{}
	var b strings.Builder
	require.NoError(t, printTree(&b, rows, layout{Width: 60, Now: now}))
	assert.Equal(t, `
aaaaaaaa        completed  default   1.5s  Write a report
├─ bbbbbbbb     completed  coder     1.5s  part one
│  └─ cccccccc  completed  explorer  1.5s  日本語の文書を...
└─ dddddddd     running *  coder     3.0s  part two
   └─ eeeeeeee  completed  -         1.5s  deep
ffffffff        completed  coder     1.5s  alone
`, "\n"+b.String())
	b.Reset()
	require.NoError(t, printTree(&b, rows, layout{JSON: true}))
	var back []ledger.Run
	require.NoError(t, json.Unmarshal([]byte(b.String()), &back))
	assert.Len(t, back, 6)
	assert.Equal(t, rows[2].Task, back[2].Task)
}

// TestTreeOfAnything: each run once, whatever stands in the ledger.
func TestTreeOfAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.SampledFrom([]string{"", "aaaaaaaa", "bbbbbbbb", "cccccccc", "dddddddd"})
		ids := map[string]bool{}
		unnamed := 0
		var rows []ledger.Run
		for range rapid.IntRange(0, 8).Draw(t, "n") {
			r := ledger.Run{ID: id.Draw(t, "id"), Parent: id.Draw(t, "parent"), Status: task.Completed}
			rows = append(rows, r)
			if r.ID == "" {
				unnamed++
			} else {
				ids[r.ID] = true
			}
		}
		var b strings.Builder
		require.NoError(t, printTree(&b, rows, layout{Now: now}))
		assert.Equal(t, len(ids)+unnamed, strings.Count(b.String(), "\n"))
		for id := range ids {
			assert.Equal(t, 1, strings.Count(b.String(), id))
		}
	})
}

func TestShow(t *testing.T) {
	r := ledger.Run{ID: "0198a000-0000-7000-8000-0000a1b2c3d4", Parent: "0198a000-0000-7000-8000-0000b1b2c3d4",
		Batch: "0198a000-0000-7000-8000-00000000ba01",
		Root:  "0198a000-0000-7000-8000-0000f1b2c3d4", Session: "s1", Agent: "coder", Model: "ollama:qwen3",
		Task: "Write it.\n\n\x1b[2JThen test.\n", Status: task.Timeout,
		Attempts: 2, Queued: at(70 * time.Second), Started: at(60 * time.Second), Ended: at(30 * time.Second),
		DurationMS: 30_000, QueuedMS: 10_000,
		Usage: task.Usage{InputTokens: 1234, OutputTokens: 56}, Depth: 1, Index: 11,
		TotalUsage: task.Usage{InputTokens: 1234, OutputTokens: 56}}
	attempts := []ledger.AttemptRow{
		{Number: 1, Started: at(60 * time.Second), Ended: at(58766 * time.Millisecond), Status: task.Unavailable,
			Error: "model server: 503\nService Unavailable"},
		{Number: 2, Started: at(50 * time.Second), Ended: at(30 * time.Second), Status: task.Timeout,
			Error: "Child process timed out after 20s"},
	}
	result := task.Task{Text: r.Task}.Ended(task.Timeout, "Child process timed out after 20s")
	result.Output, result.ChangedFiles, result.Warnings = "half\tof\u202e it\r\n", []string{"a.go", "b\n.go"},
		[]string{"one", "two"}
	var b strings.Builder
	require.NoError(t, printRun(&b, r, attempts, result, layout{Width: 80, Now: now}))
	assert.Equal(t, `
run        0198a000-0000-7000-8000-0000a1b2c3d4
status     timeout
agent      coder
model      ollama:qwen3
session    s1
batch      0198a000-0000-7000-8000-00000000ba01, task 12
parent     0198a000-0000-7000-8000-0000b1b2c3d4
root       0198a000-0000-7000-8000-0000f1b2c3d4
depth      1
queued     2026-11-21 14:58:50
started    2026-11-21 14:59:00
ended      2026-11-21 14:59:30
time       30s, after 10s in the queue
tokens     1234 in, 56 out
exit code  124
changed    a.go, b .go
warning    one
warning    two

── task
Write it.

[2JThen test.

── earlier attempts
1  2026-11-21 14:59:00  unavailable  1.2s  model server: 503 Service Unavailable
2  2026-11-21 14:59:10  timeout      20s   Child process timed out after 20s

── error
Child process timed out after 20s

── output
half	of it
`, "\n"+b.String())

	b.Reset()
	require.NoError(t, printRun(&b, r, attempts, result, layout{JSON: true}))
	var doc struct {
		Run      ledger.Run
		Attempts []ledger.AttemptRow
		Result   *task.Result
	}
	require.NoError(t, json.Unmarshal([]byte(b.String()), &doc))
	assert.Equal(t, r.Task, doc.Run.Task)
	assert.Len(t, doc.Attempts, 2)
	assert.Equal(t, result.Output, doc.Result.Output)
}

// TestShowAtWork: what has no result says what is known.
func TestShowAtWork(t *testing.T) {
	var b strings.Builder
	require.NoError(t, printRun(&b, some()[0], nil, task.Result{}, layout{Now: now}))
	assert.Equal(t, `
run      0198a000-0000-7000-8000-0000a1b2c3d4
status   running *
agent    coder
queued   2026-11-21 14:58:40
started  2026-11-21 14:58:45
time     1m15s
tokens   9000 in, 3345 out (its own: 900 in, 30 out)

── task
Write the
  function [31mred
`, "\n"+b.String())
	b.Reset()
	require.NoError(t, printRun(&b, some()[0], nil, task.Result{}, layout{JSON: true}))
	assert.Contains(t, b.String(), `"attempts":[],"result":null}`)

	r := some()[2]
	r.Summary = "so far"
	b.Reset()
	require.NoError(t, printRun(&b, r, nil, task.Result{}, layout{Now: now}))
	assert.True(t, strings.HasSuffix(b.String(),
		"\n── error\nchild was killed by signal 9 (killed)\n\n── output\nso far\n"), b.String())
}

func TestAnswer(t *testing.T) {
	lines := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "line %d\n", i+1)
		}
		return b.String()
	}
	for name, c := range map[string]struct {
		output, file, title string
		n                   int
		first               string
	}{
		"none":          {"", "", "", 0, ""},
		"blank":         {" \n\x00\n", "", "", 0, ""},
		"all":           {lines(20), "", "output", 20, "line 1"},
		"all of a file": {lines(2), "/tmp/x", "output (all of it is in /tmp/x)", 2, "line 1"},
		"too many": {lines(21), "", "the end of the output, 20 of 21 lines (--json prints all of it)", 20,
			"line 2"},
		"cut": {lines(134), "/tmp/\x1bx", "the end of the output, 20 of 134 lines (all of it is in /tmp/x)",
			20, "line 115"},
		"too long": {"a\n" + strings.Repeat("x", endBytes), "",
			"the end of the output, 1 of 2 lines (--json prints all of it)", 1, strings.Repeat("x", endBytes)},
		"one line": {"a\nb" + strings.Repeat("é", endBytes/2) + "xy", "",
			"the end of the output (--json prints all of it)", 1,
			"..." + strings.Repeat("é", endBytes/2-1) + "xy"},
		"half a rune": {"a\nb" + strings.Repeat("é", endBytes/2) + "x", "",
			"the end of the output (--json prints all of it)", 1,
			"..." + strings.Repeat("é", endBytes/2-1) + "x"},
	} {
		title, body := answer(ledger.Run{}, task.Result{Status: task.Completed, Output: c.output, OutputFile: c.file})
		assert.Equal(t, c.title, title, name)
		require.Len(t, body, c.n, name)
		if c.n > 0 {
			assert.Equal(t, c.first, body[0], name)
		}
	}
	result := task.Result{Status: task.Completed, Cached: true}
	var b strings.Builder
	require.NoError(t, printRun(&b, ledger.Run{ID: "x", Status: task.Completed}, nil, result, layout{Now: now}))
	assert.Equal(t, "run        x\nstatus     completed\ntime       -\nexit code  0\ncached     nothing was run: "+
		"an earlier result holds\n", b.String())
}

func TestCancelled(t *testing.T) {
	var b strings.Builder
	root := ledger.Root{ID: "0198", PID: 4242, Dir: "/work\n/x", Command: "batch"}
	job := &jobs.Job{ExecutionID: "0198-0123abcd", Agent: "coder", Task: "write\x1b[31m it", State: task.Queued}
	child := target{id: job.ExecutionID, job: job, root: root}
	require.NoError(t, target{root: root}.print(&b, layout{}))
	require.NoError(t, target{root: ledger.Root{PID: 7, Command: "run"}}.print(&b, layout{}))
	require.NoError(t, child.print(&b, layout{}))
	require.NoError(t, target{root: root}.print(&b, layout{JSON: true}))
	require.NoError(t, child.print(&b, layout{JSON: true}))
	const printed = `{"id":"0198","pid":4242,"started":"0001-01-01T00:00:00Z","dir":"/work\n/x","command":"batch"}`
	assert.Equal(t, "told qq batch in /work /x to end, process 4242, and with it all that it started\n"+
		"told qq to end, process 7, and with it all that it started\n"+
		"told coder 0123abcd to end, and all that it started: write[31m it\n"+
		`{"cancelled":`+printed+"}\n"+
		`{"cancelled":{"execution_id":"0198-0123abcd","parent_execution_id":"","batch_id":"","index":0,`+
		`"agent":"coder","depth":0,"task":"write\u001b[31m it","state":"queued","since":"0001-01-01T00:00:00Z",`+
		`"queued":"0001-01-01T00:00:00Z","attempt":0},"root":`+printed+"}\n", b.String())
}

func TestCleared(t *testing.T) {
	var b strings.Builder
	for n := range 3 {
		require.NoError(t, printCleared(&b, n, layout{}))
	}
	require.NoError(t, printCleared(&b, 3, layout{JSON: true}))
	assert.Equal(t, "nothing to clear\n1 run cleared\n2 runs cleared\n{\"cleared\":3}\n", b.String())
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestWriteErrors(t *testing.T) {
	for _, json := range []bool{false, true} {
		o := layout{JSON: json, Now: now}
		for _, err := range []error{printRuns(broken{}, some(), nil, o), printBatch(broken{}, batches()[0], nil, o),
			printTree(broken{}, some(), o), printRun(broken{}, some()[0], nil, task.Result{}, o),
			target{}.print(broken{}, o), printCleared(broken{}, 1, o)} {
			assert.EqualError(t, err, "write the answer: no space left")
		}
	}
	assert.Equal(t, output.ErrClosed, printCleared(gone{}, 1, layout{}))
}

type gone struct{}

func (gone) Write([]byte) (int, error) { return 0, output.ErrClosed }

func TestFigures(t *testing.T) {
	for n, want := range map[int]string{0: "-", 1: "1", 9999: "9999", 10_000: "10.0k", 999_949: "999.9k",
		999_950: "1.0M", 12_345_678: "12.3M"} {
		assert.Equal(t, want, tokens(task.Usage{InputTokens: n}), n)
	}
	assert.Equal(t, "-", layout{Now: now}.clock(time.Time{}))
	assert.Equal(t, "1234", short("1234"))
}

// TestListed: each task of a batch is there, by a run or by its number.
func TestListed(t *testing.T) {
	run := func(index int, s task.Status) ledger.Run { return ledger.Run{Index: index, Status: s} }
	runs := []ledger.Run{run(2, task.Completed), run(2, task.Skipped), run(4, task.Skipped), run(0, task.Failed),
		run(0, task.Interrupted)}
	b := ledger.BatchRow{Batch: ledger.Batch{Count: 9}, Counts: map[task.Status]int{
		task.Completed: 1, task.Failed: 1, task.Skipped: 2}}
	kept, left := listed(b, runs)
	assert.Equal(t, []ledger.Run{runs[0], runs[2], runs[3], runs[4]}, kept)
	assert.Equal(t, "2, 4, 6 to 9", left)
	b.Live = true
	_, left = listed(b, runs)
	assert.Empty(t, left)
	assert.Equal(t, 2, current(b).Counts[task.Skipped])
	b.Count = 3
	assert.Equal(t, 1, current(b).Counts[task.Skipped], "the other one has run since")
	b.Count = 2
	assert.NotContains(t, current(b).Counts, task.Skipped)
	assert.Equal(t, 2, b.Counts[task.Skipped])
}
