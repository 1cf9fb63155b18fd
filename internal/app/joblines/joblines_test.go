package joblines

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"qq/internal/app/columns"
	"qq/internal/control/board"
	"qq/pkg/supervisor/jobs"
	"qq/pkg/task"
)

var now = time.Date(2026, 11, 23, 20, 0, 0, 0, time.UTC)

// job returns a job at work that has called grep_file.
func job(id, parent string) board.Job {
	return board.Job{
		Job: jobs.Job{ExecutionID: id, ParentExecutionID: parent, Agent: "explorer", Task: "Find " + id,
			State: task.Running, Started: now.Add(-12 * time.Second), Doing: board.Tool, Model: "ollama:qwen3:4b",
			Subtree: task.Usage{InputTokens: 3000, OutputTokens: 100}},
		Call: &board.Call{Tool: "grep_file", Text: `grep_file "foo"`, Running: true},
	}
}

func past(id, parent string, s task.Status) board.Ended {
	return board.Ended{ExecutionID: id, ParentExecutionID: parent, Agent: "coder", Task: "Mend " + id, Status: s,
		Summary: "It is\nmended", DurationMS: 61_000}
}

func texts(b Block) (all []string) {
	for _, l := range b.Lines {
		all = append(all, l.Text)
	}
	return all
}

// TestBlock: a line for each child at work, below the one that has started it; of the ended ones the last have a line
// each, and queued ones are counted.
func TestBlock(t *testing.T) {
	root := job("root", "")
	queued := job("q", "root")
	queued.State = task.Queued
	waits := job("b", "root")
	waits.State, waits.Doing, waits.Done, waits.Total = task.Waiting, jobs.Awaits, 1, 2
	asking := job("c", "b")
	asking.State, asking.Doing, asking.Agent = task.Waiting, board.Approval, "coder"
	list := []board.Job{root, job("a", "root"), waits, queued, asking, job("d", "b")}
	ended := []board.Ended{past("e1", "root", task.Completed), past("e2", "root", task.Timeout),
		past("e3", "root", task.Completed), past("e4", "b", task.Completed), past("e5", "root", task.Completed),
		past("gone", "of an ended one", task.Completed)}
	ended[1].Error = "after 300s"
	b := Of(list, ended, View{Now: now, Width: 77, Most: 20})
	assert.Equal(t, []string{
		`✗ coder  timeout: after 300s  1m 01s  Mend e2`,
		`✓ coder  It is mended  1m 01s  Mend e3`,
		`✓ coder  It is mended  1m 01s  Mend e5`,
		`● explorer  grep_file "foo"  12 s  3.1k  Find a`,
		`◦ explorer  waits for its children, 1 of 2 done  12 s  3.1k  Find b`,
		`  ✓ coder  It is mended  1m 01s  Mend e4`,
		`  ? coder  waits for your approval  12 s  3.1k  Find c`,
		`  ● explorer  grep_file "foo"  12 s  3.1k  Find d`,
	}, texts(b))
	assert.Equal(t, Count{AtWork: 4, Queued: 1, Ended: 5, Failed: 1}, b.Count)
	assert.Equal(t, "4 at work, 1 queued, 5 ended (1 failed)", b.Count.String())

	b = Of(list, ended, View{Now: now, Width: 77, Most: 3, Chosen: "c"})
	assert.Equal(t, []string{
		`  ◦ explorer  waits for its children, 1 of 2 done  12 s  3.1k  Find b`,
		`›   ? coder  waits for your approval  12 s  3.1k  Find c`,
		`    ● explorer  grep_file "foo"  12 s  3.1k  Find d`,
	}, texts(b))
	assert.Equal(t, "4 at work (1 not shown), 1 queued, 5 ended (1 failed)", b.Count.String())
	b = Of(list, ended, View{Now: now, Width: 77, Most: 2, Chosen: "e2"})
	assert.Equal(t, "› ✗ coder  timeout: after 300s  1m 01s  Mend e2", texts(b)[0], "also one that has ended")
	assert.Len(t, b.Lines, 2)
	assert.Empty(t, Of(list, ended, View{Now: now, Width: 77}).Lines)
	assert.Empty(t, Of(list[:1], nil, View{Now: now, Width: 77, Most: 9}).Count.String())
}

// TestWidths: no line is wider than the terminal, and what matters most is there longest.
func TestWidths(t *testing.T) {
	j := job("a", "")
	j.Task = "Find the place at which the settings are read, and 漢字"
	for width, want := range map[int]string{
		8: "● explor", 14: "● explorer", 17: "● explorer  12 s", 30: `● explorer  grep_file "…  12 s`,
		36: `● explorer  grep_file "…  12 s  3.1k`, 60: `● explorer  grep_file "foo"  12 s  3.1k  Find the place at…`,
	} {
		assert.Equal(t, want, live(&j, 0, now).fit(width), width)
	}
	for range 3000 {
		l := line{indent: rand.IntN(30), mark: works, name: words(3), does: words(9), time: "12 s", tokens: "3.1k",
			about: words(20), whole: rand.IntN(2) == 0}
		width := 1 + rand.IntN(200)
		got := l.fit(width)
		assert.LessOrEqual(t, columns.Of(got), width, "%q", got)
	}
}

func words(n int) string {
	return strings.TrimSpace(strings.Repeat([]string{"ab ", "漢字 ", "é"}[rand.IntN(3)], rand.IntN(n+1)))
}

// TestStrangers: nothing that an agent says can do more than fill its line.
func TestStrangers(t *testing.T) {
	j := job("a", "")
	j.Agent, j.Task = "x\x1b[2J\n", strings.Repeat("\u202e long\r\n", 100_000)
	j.Call.Text, j.Model = "\x1b]0;title\a say\n\n\n● a line", ":\x9b\n"
	for _, does := range []jobs.Doing{board.Tool, jobs.Asks} {
		j.Doing = does
		text := live(&j, 0, now).fit(200)
		for _, bad := range []string{"\x1b", "\n", "\r", "\a", "\x9b", "\u202e", "\u009b"} {
			assert.NotContains(t, text, bad)
		}
	}
	// Jobs that are below themselves have no line, and do no harm.
	a, b := job("a", "b"), job("b", "a")
	self := job("s", "s")
	Of([]board.Job{a, b, self}, nil, View{Now: now, Width: 80, Most: 10})
}

// TestMany: of 200 children at work, a third of the screen is shown, around the chosen one, and it is quick.
func TestMany(t *testing.T) {
	var list []board.Job
	for i := range 200 {
		list = append(list, job(fmt.Sprint("j", i), ""))
		list[i].BatchID = "b"
	}
	v := View{Now: now, Width: 80, Most: 10, Chosen: "j150"}
	b := Of(list, nil, v)
	assert.Len(t, b.Lines, 10)
	assert.Equal(t, "j145", b.Lines[0].ID)
	assert.Equal(t, "200 at work (190 not shown)", b.Count.String())
	v.Chosen = "j199"
	assert.Equal(t, "j199", Of(list, nil, v).Lines[9].ID)
}

func TestDoes(t *testing.T) {
	for want, j := range map[string]board.Job{
		"waits for qwen3:4b":                  {Job: jobs.Job{Doing: jobs.Asks, Model: "ollama:qwen3:4b"}},
		"waits for its model":                 {Job: jobs.Job{Doing: jobs.Asks}},
		"writes":                              {Job: jobs.Job{Doing: jobs.Streams}},
		"starts":                              {Job: jobs.Job{Doing: jobs.Starts}},
		"waits for files in use":              {Job: jobs.Job{Doing: jobs.AwaitsLease}},
		"waits for its children":              {Job: jobs.Job{Doing: jobs.Awaits}},
		"its changes are joined":              {Job: jobs.Job{Doing: jobs.Joins}},
		"waits for the model server":          {Job: jobs.Job{Doing: board.Server}},
		"waits for its next attempt":          {Job: jobs.Job{Doing: jobs.Retries}},
		"waits for its turn":                  {Job: jobs.Job{Doing: jobs.AwaitsSlot}},
		"queued":                              {Job: jobs.Job{State: task.Queued}},
		"waits":                               {Job: jobs.Job{State: task.Waiting}},
		"read_file failed":                    {Call: &board.Call{Tool: "read_file", Failed: true}},
		"waits for its children, 0 of 3 done": {Job: jobs.Job{Doing: jobs.Awaits}, Total: 3},
	} {
		assert.Equal(t, want, Does(&j))
	}
}

func BenchmarkBlock(b *testing.B) {
	var list []board.Job
	for i := range 200 {
		list = append(list, job(fmt.Sprint("j", i), ""))
		list[i].BatchID = "b"
	}
	for b.Loop() {
		Of(list, nil, View{Now: now, Width: 80, Most: 10})
	}
}

// TestNarrow: at 40 columns a line has a piece of its task, so that a person can tell it from others.
func TestNarrow(t *testing.T) {
	j := board.Job{Job: jobs.Job{ExecutionID: "a", ParentExecutionID: "r", Agent: "explorer",
		Task:  "Look at the first half",
		State: task.Running, Doing: jobs.Asks, Model: "ollama:qwen3-coder", Started: now}}
	j.Subtree.InputTokens = 3100
	root := board.Job{Job: jobs.Job{ExecutionID: "r"}}
	for width, want := range map[int]string{
		37: "● explorer  waits for…  12 s  Look a…",
		57: "● explorer  waits for qwen…  12 s  3.1k  Look at the fir…",
	} {
		b := Of([]board.Job{root, j}, nil, View{Now: now.Add(12 * time.Second), Width: width, Most: 3})
		assert.Equal(t, want, b.Lines[0].Text)
	}
}

// TestCancelledIsNoFailure: a job that a person or the end of a run has ended is counted apart.
func TestCancelledIsNoFailure(t *testing.T) {
	ended := []board.Ended{past("a", "root", task.Cancelled), past("b", "root", task.TurnLimit),
		past("c", "root", task.Completed), past("d", "root", task.Interrupted)}
	list := []board.Job{job("root", ""), job("e", "root")}
	b := Of(list, ended, View{Width: 80, Most: 9})
	assert.Equal(t, "1 at work, 4 ended (1 failed, 2 cancelled)", b.Count.String())
}
