package app

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/standin"
	"qq/pkg/task"
)

// work is what a model says to run a command that takes that many seconds and notes in the file log when it begins and
// ends, and to write a line to each of the files between that.
func work(name, seconds string, files ...string) string {
	command := "echo begin " + name + " >> log; sleep " + seconds
	for _, file := range files {
		command += "; echo " + name + " >> " + file
	}
	return called("run_pty_cmd", map[string]any{"command": command + "; echo end " + name + " >> log"})
}

// tasks writes tasks.jsonl.
func (w *world) tasks(list ...task.Task) {
	w.t.Helper()
	var b strings.Builder
	for _, t := range list {
		line, err := json.Marshal(t)
		require.NoError(w.t, err)
		b.Write(append(line, '\n'))
	}
	w.file("tasks.jsonl", b.String())
}

// content is that of a file; "" if there is none.
func (w *world) content(name string) string {
	data, _ := os.ReadFile(filepath.Join(w.dir, name))
	return string(data)
}

// busiest returns how many commands were at work at once, as the log says, and which ones were at the same time.
func (w *world) busiest() (peak int, together map[string][]string) {
	w.t.Helper()
	var now []string
	together = map[string][]string{}
	for line := range strings.Lines(w.content("log")) {
		what, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		if what == "end" {
			now = slices.DeleteFunc(now, func(s string) bool { return s == name })
			continue
		}
		for _, other := range now {
			together[name], together[other] = append(together[name], other), append(together[other], name)
		}
		now = append(now, name)
		peak = max(peak, len(now))
	}
	return peak, together
}

// document is the report of a batch.
func (e ended) results(t *testing.T) (all []task.Result) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(e.out), &all), "%s%s", e.out, e.errors)
	return all
}

// Ten writers on five files with a cap of ten: five at once, in the time of the longest chain, and both edits are in
// every file. Without targets, and with --plan off, all are at work at once. Each writer waits at a barrier until as
// many are at work as can be, so no fewer are at once, however slow the machine is; the log shows that no more are.
func TestWritersOfOneFileTakeTurns(t *testing.T) {
	for _, row := range []struct {
		plan    string
		targets bool
		peak    int
	}{{"auto", true, 5}, {"strict", true, 5}, {"off", true, 10}, {"auto", false, 10}} {
		w, _ := newServedWorld(t, obedient)
		var all []task.Task
		for i := range 10 {
			file := fmt.Sprintf("f%d", i%5)
			// The first ones wait for each other, and so do those after them. Then all have half a second in common.
			barrier := fmt.Sprintf("barrier%d", i/row.peak)
			name := fmt.Sprint("w", i)
			one := task.Task{Agent: "executor", Text: called("run_pty_cmd", map[string]any{"command": fmt.Sprintf(
				"echo begin %[1]s >> log; echo %[1]s >> %[2]s; for i in $(seq 1200); do "+
					"[ $(wc -l < %[2]s) -ge %[3]d ] && break; sleep 0.05; done; sleep 0.5; echo %[1]s >> %[4]s; "+
					"echo end %[1]s >> log", name, barrier, row.peak, file)})}
			if row.targets {
				one.Targets = []string{[]string{"", "./", "sub/../"}[i%3] + file}
			}
			all = append(all, one)
		}
		require.NoError(t, os.Mkdir(filepath.Join(w.dir, "sub"), 0o700))
		w.tasks(all...)
		e := w.run("batch", "--no-bar", "--auto-approve", "-j", "10", "--plan", row.plan, "tasks.jsonl")
		assert.Zero(t, e.code, e.errors)
		peak, together := w.busiest()
		assert.Equal(t, row.peak, peak, "%s, targets %v", row.plan, row.targets)
		if row.peak == 5 { // the longest chain is two writers: all of the second five come after all of the first
			assert.Equal(t, 5, strings.Count(w.content("barrier0"), "\n"))
			assert.Equal(t, 5, strings.Count(w.content("barrier1"), "\n"))
		}
		for i := range 5 {
			assert.ElementsMatch(t, []string{fmt.Sprint("w", i), fmt.Sprint("w", i+5)},
				strings.Fields(w.content(fmt.Sprintf("f%d", i))))
			if row.targets && row.plan != "off" {
				assert.NotContains(t, together[fmt.Sprint("w", i)], fmt.Sprint("w", i+5))
			}
		}
		assert.Equal(t, !row.targets, strings.Contains(e.errors, "writers run unplanned"), e.errors)
	}
}

// A grandchild of one task, a child in the background of another one and a third task write one file. They are held
// apart, though nobody planned them together.
func TestHeldApartAtAnyDepth(t *testing.T) {
	w, _ := newServedWorld(t, standin.Reply(func(p standin.Prompt) string {
		if n := len(p.Messages); n > 0 && p.Messages[n-1].Role == "tool" {
			if strings.Contains(p.Last("user"), "spawn_agent") && p.Messages[n-2].Role == "assistant" && n < 5 {
				return called("wait_children", map[string]any{})
			}
			return "done"
		}
		return p.Last("user")
	}))
	w.set("QQ_MAX_DEPTH=5")
	deep := called("delegate_task", map[string]any{
		"task": called("delegate_task", map[string]any{
			"task": work("grandchild", "0.5", "shared"), "agent": "executor", "targets": []string{"shared"},
		}),
		"agent": "default",
	})
	aside := called("spawn_agent", map[string]any{
		"instructions": work("background", "0.5", "shared"), "tools": []string{"run_pty_cmd"},
	})
	w.tasks(
		task.Task{Text: deep, Targets: []string{"shared"}},
		task.Task{Text: aside, Agent: "worker", Targets: []string{"shared"}},
		task.Task{Text: work("task", "0.5", "shared"), Agent: "executor", Targets: []string{"./shared"}},
		task.Task{Text: work("other", "0.5"), Agent: "executor", Targets: []string{"other"}},
	)
	e := w.run("batch", "--no-bar", "--auto-approve", "-j", "8", "--json", "tasks.jsonl")
	for _, r := range e.results(t) {
		assert.True(t, r.Success, r.Err())
	}
	assert.ElementsMatch(t, []string{"grandchild", "background", "task"}, strings.Fields(w.content("shared")))
	_, together := w.busiest()
	for _, one := range []string{"grandchild", "background", "task"} {
		for _, other := range []string{"grandchild", "background", "task"} {
			assert.NotContains(t, together[one], other)
		}
	}
}

// meets is a command that says it is here and waits until another one is too. Then it writes whom it has met. After a
// time it gives up.
func meets(name, other string) string {
	return fmt.Sprintf("touch %s.here; for i in $(seq 300); do if [ -e %s.here ]; then echo %s >> %s.met; break; fi; "+
		"sleep 0.05; done", name, other, other, name)
}

// Two writers in the background with different targets are at work at once: each sees the other. With the same target,
// or without one, they take turns.
func TestWritersInTheBackground(t *testing.T) {
	for _, row := range []struct {
		one, other any
		meet       bool
	}{
		{[]string{"x"}, "./y, z/*.go", true}, // as models write them
		{`["x"]`, []string{"sub/../y"}, true},
		{[]string{"x"}, "./x", false},
		{[]string{"x"}, nil, false},
	} {
		w, _ := newServedWorld(t, standin.Reply(callTools))
		require.NoError(t, os.Mkdir(filepath.Join(w.dir, "sub"), 0o700))
		spawn := func(command string, targets any) string {
			args, err := json.Marshal(map[string]any{"background": true, "targets": targets, "agent": "executor",
				"instructions": commandTask(command)})
			require.NoError(t, err)
			return "spawn_agent " + string(args) + "\n"
		}
		one, other := meets("one", "other"), meets("other", "one")
		if !row.meet {
			one, other = "echo begin one >> log; sleep 1; echo end one >> log",
				"echo begin other >> log; sleep 1; echo end other >> log"
		}
		e := w.run("-a", "worker", "--auto-approve", "-m", spawn(one, row.one)+spawn(other, row.other)+
			"wait_children {}")
		assert.Zero(t, e.code, e.errors)
		if row.meet {
			assert.Equal(t, "other\n", w.content("one.met"), "%v %v: %s", row.one, row.other, e.out)
			assert.Equal(t, "one\n", w.content("other.met"), "%v %v: %s", row.one, row.other, e.out)
		} else {
			assert.Equal(t, "begin one\nend one\nbegin other\nend other\n", w.content("log"), "%v %v: %s", row.one,
				row.other, e.out)
		}
	}
}

// A writer whose time is up is asked to end, and does not obey. The next writer of its file waits until it is gone.
func TestNextWriterWaitsForTheDying(t *testing.T) {
	w, _ := newServedWorld(t, obedient)
	stubborn := called("run_pty_cmd", map[string]any{"command": `trap '' TERM INT HUP; echo begin slow >> log; ` +
		`for i in $(seq 400); do echo alive slow >> log; sleep 0.05; done`})
	w.tasks(
		task.Task{Text: stubborn, Agent: "executor", Targets: []string{"x"}, Timeout: 1},
		task.Task{Text: work("next", "0.1", "x"), Agent: "executor", Targets: []string{"x"}},
	)
	began := time.Now()
	e := w.run("batch", "--no-bar", "--auto-approve", "--json", "tasks.jsonl")
	results := e.results(t)
	require.Len(t, results, 2)
	assert.Equal(t, task.Timeout, results[0].Status, results[0].Err())
	assert.True(t, results[1].Success, results[1].Err())
	lines := strings.Fields(strings.ReplaceAll(w.content("log"), " ", "_"))
	next := slices.Index(lines, "begin_next")
	require.Positive(t, next)
	assert.NotContains(t, lines[next:], "alive_slow")
	assert.Less(t, time.Since(began), 15*time.Second)
}

// A signal in the middle of a plan: each task has exactly one result, and says whether it was started.
func TestPlanIsStopped(t *testing.T) {
	w, _ := newServedWorld(t, obedient)
	var all []task.Task
	for i := range 6 {
		one := task.Task{ID: fmt.Sprint("t", i), Text: work(fmt.Sprint("w", i), "1", "x"), Agent: "executor",
			Targets: []string{"x"}}
		if i == 5 {
			one.Needs = []string{"t4"}
		}
		all = append(all, one)
	}
	w.tasks(all...)
	p := w.start("batch", "--no-bar", "--auto-approve", "--json", "tasks.jsonl")
	w.until(func() bool { return strings.Contains(w.content("log"), "begin w1") })
	p.signal(syscall.SIGINT, syscall.SIGINT)
	e := p.end()
	assert.Equal(t, 130, e.code)
	results := e.results(t)
	require.Len(t, results, 6)
	assert.True(t, results[0].Success)
	assert.False(t, results[1].Success)
	for i, r := range results {
		assert.Equal(t, i, r.Index)
		assert.Equal(t, fmt.Sprint("t", i), r.ID)
		if i > 1 {
			assert.True(t, strings.HasPrefix(r.Err(), "not started: "), r.Err())
		}
	}
	assert.NotContains(t, w.content("log"), "begin w2")
}

// A diamond of needs: each task has what it needs in its context. A failed need skips the rest, with the chain; a
// resume runs what is missing, and again what needs something else now.
func TestNeeds(t *testing.T) {
	w, server := newServedWorld(t, obedient)
	diamond := []task.Task{
		{ID: "join", Text: "join {{left.output}} and {{right.output}}", Needs: []string{"left", "right"}},
		{ID: "left", Text: "left of {{top.output}}", Needs: []string{"top"}},
		{ID: "right", Text: "right of {{top.output}}", Needs: []string{"top"}},
		{ID: "top", Text: "the top"}, {Text: "stays the same"},
	}
	w.tasks(diamond...)
	e := w.run("batch", "--no-bar", "--json", "tasks.jsonl")
	results := e.results(t)
	require.Len(t, results, 5)
	for _, r := range results {
		assert.True(t, r.Success, r.Err())
	}
	assert.Equal(t, "<context-2>\n[output of left]:\n<context>\n[output of top]:\nthe top\n</context>\n\n"+
		"left of [output of top]\n\n[output of right]:\n<context>\n[output of top]:\nthe top\n</context>\n\n"+
		"right of [output of top]\n</context-2>\n\njoin [output of left] and [output of right]", results[0].Output)

	// Nothing of it runs again, unless something that it needs is another one.
	server.Forget()
	e = w.run("batch", "--no-bar", "--json", "tasks.jsonl", "--resume")
	assert.Equal(t, results[0].Output, e.results(t)[0].Output)
	assert.Zero(t, server.Count("/api/chat"))
	diamond[3].Text = "another top"
	w.tasks(diamond...)
	e = w.run("batch", "--no-bar", "--json", "tasks.jsonl", "--resume")
	assert.Contains(t, e.results(t)[0].Output, "another top")
	assert.Equal(t, 4, server.Count("/api/chat"))

	bad := standin.Scripts(standin.Script{Start: "[[bad]]", Fault: &standin.Fault{Status: 400, Error: "no", Times: 9}})
	w, _ = newServedWorld(t, obedient, bad)
	w.tasks(
		task.Task{ID: "b", Text: "[[bad]]"}, task.Task{ID: "c", Text: "c", Needs: []string{"b"}},
		task.Task{ID: "d", Text: "d {{c.output}}", Needs: []string{"c"}}, task.Task{ID: "e", Text: "e"},
	)
	e = w.run("batch", "--no-bar", "--json", "tasks.jsonl")
	assert.Equal(t, 4, e.code)
	results = e.results(t)
	require.Len(t, results, 4)
	assert.Equal(t, []task.Status{task.Skipped, task.Skipped, task.Completed},
		[]task.Status{results[1].Status, results[2].Status, results[3].Status})
	assert.Contains(t, results[1].Err(), "needs b, which failed")
	assert.Contains(t, results[2].Err(), "needs c, which needs b, which failed")
}

// A slow task keeps nobody from starting but those that touch its file: the batch takes hardly longer than the ideal
// schedule, which is the slow task and its successor in one slot, and the fast ones in the two others. The ideal is the
// seconds that these two take, and what it costs to run two tasks, one after the other, that take none. On a machine
// that others use, that says nothing: then the test of package supervisor does, which has a clock of its own.
func TestSlowTaskBesideFastOnes(t *testing.T) {
	one := func(name, seconds, file string) task.Task {
		return task.Task{Text: work(name, seconds, file), Agent: "executor", Targets: []string{file}}
	}
	all := []task.Task{one("slow", "4", "a"), one("next", "1", "a")}
	for i := range 8 {
		all = append(all, one(fmt.Sprint("fast", i), "1", fmt.Sprint("f", i)))
	}
	measure := func(tasks ...task.Task) float64 {
		w, _ := newServedWorld(t, obedient)
		w.tasks(tasks...)
		began := time.Now()
		e := w.run("batch", "--no-bar", "--auto-approve", "-j", "3", "tasks.jsonl")
		took := time.Since(began).Seconds()
		assert.Zero(t, e.code, e.errors)
		assert.Equal(t, "slow\nnext\n", w.content("a"))
		return took
	}
	empty := func() float64 { return measure(one("slow", "0", "a"), one("next", "0", "a")) }
	const limit, quiet = 1.05, 0.25 // quiet is the most seconds of two empty tasks
	before, busy := empty(), false
	for range 3 {
		took := measure(all...)
		after := empty()
		ratio := took / (5 + min(before, after))
		t.Logf("%.3f of the ideal schedule; two empty tasks took %.2f s before and %.2f s after", ratio, before, after)
		if ratio <= limit || t.Failed() {
			return
		}
		busy = busy || max(before, after) > quiet
		before = after
	}
	assert.True(t, busy, "on a quiet machine")
}

// What the tasks of an unplanned batch delegate is at work at once, as the tasks are; with --plan strict one by one.
func TestWhatUnplannedTasksDelegate(t *testing.T) {
	long(t)
	for mode, most := range map[string]bool{"auto": true, "strict": false} {
		w, _ := newServedWorld(t, obedient)
		var all []task.Task
		for i := range 5 {
			child := map[string]any{"agent": "executor", "task": work(fmt.Sprint("w", i), "1", fmt.Sprint("f", i))}
			all = append(all, task.Task{Text: called("delegate_task", child), Agent: "coder"})
		}
		w.tasks(all...)
		e := w.run("batch", "--no-bar", "--auto-approve", "-j", "10", "--plan", mode, "tasks.jsonl")
		assert.Zero(t, e.code, e.errors)
		peak, _ := w.busiest()
		assert.Equal(t, most, peak > 1, "%s: %d at once", mode, peak)
		for i := range 5 {
			assert.Equal(t, fmt.Sprintf("w%d\n", i), w.content(fmt.Sprint("f", i)))
		}
	}
}
