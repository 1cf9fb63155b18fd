package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ollama/ollama/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// endureLead has two children that do their work, or hang when their task says so.
func endureLead(ctx context.Context, k endureTalk) api.Message {
	switch {
	case strings.HasPrefix(k.text(), "Lead") && k.turn() == 0:
		how := strings.TrimPrefix(k.text(), "Lead")
		return workAsk(workCall("delegate_task", "agent", "summarizer", "task", "First child"+how),
			workCall("delegate_task", "agent", "explorer", "task", "Second child"+how))
	case strings.HasPrefix(k.text(), "Lead"):
		return endureSay("Both are done.")
	case strings.HasSuffix(k.text(), "hangs"):
		<-ctx.Done()
	}
	return endureEcho(ctx, k)
}

// TestRunsOfALead: what a prompt and its children did is in the record, the root
// above them, and can be chosen from, shown and cleared.
func TestRunsOfALead(t *testing.T) {
	m := endurePlay(t, endureLead)
	w := newWorld(t, m.addr, played)
	e := w.qq("Lead", "--json")
	require.Equal(t, 0, e.code)
	lead := endureParse(t, e.stdout)

	tree := w.runs("tree", endureShort(lead.ExecutionID))
	require.Len(t, tree, 3)
	assert.Equal(t, lead.ExecutionID, tree[0].ID)
	agents := []string{}
	for i, r := range tree {
		assert.Equal(t, "completed", r.Status)
		assert.False(t, r.Live)
		assert.Equal(t, lead.ExecutionID, r.Root)
		assert.Equal(t, min(i, 1), r.Depth)
		if i > 0 {
			assert.Equal(t, lead.ExecutionID, r.Parent)
			agents = append(agents, r.Agent)
		}
	}
	assert.ElementsMatch(t, []string{"summarizer", "explorer"}, agents)
	text := w.qq("runs", "tree", lead.ExecutionID)
	lines := strings.Split(strings.TrimSpace(text.stdout), "\n")
	require.Len(t, lines, 3)
	assert.Regexp(t, "^"+endureShort(lead.ExecutionID)+" +completed +default", lines[0])
	assert.True(t, strings.HasPrefix(lines[1], "├─ "), lines[1])
	assert.True(t, strings.HasPrefix(lines[2], "└─ "), lines[2])

	list := w.runs("list")
	require.Len(t, list, 1, "what a person started")
	assert.Equal(t, lead.ExecutionID, list[0].ID)
	chosen := w.runs("list", "--agent", "explorer")
	require.Len(t, chosen, 1)
	assert.Equal(t, "Second child", chosen[0].Task)
	assert.Len(t, w.runs("list", "--status", "completed"), 3)
	assert.Empty(t, w.runs("list", "--status", "failed,timeout"))
	assert.Empty(t, w.runs("list", "--live"))
	assert.Len(t, w.runs("list", "--since", "1h"), 1)
	assert.Empty(t, w.runs("list", "--before", "1h"))
	w.qq("runs", "list", "--status", "nonsense").refused("nonsense")

	var shown struct {
		Run    endureRun
		Result endureResult
	}
	e = w.qq("runs", "show", endureShort(chosen[0].ID), "--json")
	require.NoError(t, json.Unmarshal([]byte(e.stdout), &shown), "%q", e.stdout)
	assert.Equal(t, chosen[0].ID, shown.Run.ID)
	assert.Equal(t, "Answer to Second child", *shown.Result.Output)
	assert.Contains(t, w.qq("runs", "show", chosen[0].ID).stdout, "Answer to Second child")
	w.qq("runs", "show", "nosuchid").refused("not in the ledger")

	assert.Equal(t, 0, w.qq("runs", "clear", "--all").code)
	assert.Empty(t, w.runs("list"))
	w.qq("runs", "tree", lead.ExecutionID).refused("not in the ledger")
}

// TestRunsOfABatch: a batch is one row with counts; its tasks are found by its id.
func TestRunsOfABatch(t *testing.T) {
	m := endurePlay(t, func(ctx context.Context, k endureTalk) api.Message {
		if k.text() == "Two" {
			return endureSay("")
		}
		return endureEcho(ctx, k)
	})
	w := newWorld(t, m.addr, played)
	e := w.start("One\nTwo\nThree\n", "batch", "--no-bar", "--output-format", "jsonl").wait()
	require.Equal(t, 4, e.code, "exit code")
	id := endureLines(t, e)[0].BatchID

	list := w.runs("list")
	require.Len(t, list, 1)
	assert.Equal(t, "batch", list[0].Type)
	assert.Equal(t, id, list[0].ID)
	assert.Equal(t, 3, list[0].Count)
	assert.Equal(t, map[string]int{"completed": 2, "empty_answer": 1}, list[0].Counts)
	assert.Contains(t, w.qq("runs").stdout, "3/3 done, 1 failed")
	assert.Len(t, w.runs("list", "--batch", endureShort(id)), 3)
	assert.Len(t, w.runs("list", "--batch", endureShort(id), "--status", "empty_answer"), 1)
	tree := w.runs("tree", id)
	require.Len(t, tree, 3)
	for _, r := range tree {
		assert.Equal(t, id, r.Batch)
		assert.Equal(t, []string{"One", "Two", "Three"}[r.Index], r.Task)
		assert.Equal(t, []string{"completed", "empty_answer", "completed"}[r.Index], r.Status)
	}
	assert.Equal(t, 0, w.qq("runs", "clear", "--batch", endureShort(id)).code)
	assert.Empty(t, w.runs("list"))
}

// TestHowABatchEnded: a batch says itself how it ended; for one that was killed the
// ledger does.
func TestHowABatchEnded(t *testing.T) {
	for _, tt := range []struct {
		name   string
		input  string
		args   []string
		end    syscall.Signal // when something hangs
		code   int
		status string
	}{
		{"well", "One\nTwo\n", nil, 0, 0, "completed"},
		{"with a failure", "One\nFails\n", nil, 0, 4, "failed"},
		{"halted", "Fails\nOne\nTwo\nThree\n", []string{"-j", "1", "--halt", "soon,fail=1"}, 0, 4, "failed"},
		{"at the budget", "One\nTwo\nThree\n", []string{"-j", "1", "--max-tokens", "1"}, 0, 5, "limit"},
		{"with the budget used up", "One\nTwo\n", []string{"-j", "1", "--max-tokens", "600"}, 0, 0, "completed"},
		{"stopped", "One\nTwo hangs\nThree\n", []string{"-j", "1"}, syscall.SIGTERM, 143, "terminated"},
		{"killed", "One\nTwo hangs\nThree\n", []string{"-j", "1"}, syscall.SIGKILL, -1, "interrupted"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := endurePlay(t, func(ctx context.Context, k endureTalk) api.Message {
				if k.text() == "Fails" {
					return endureSay("")
				}
				return endureLead(ctx, k)
			})
			w := newWorld(t, m.addr, played)
			q := w.start(tt.input, append([]string{"batch", "--no-bar"}, tt.args...)...)
			if tt.end != 0 {
				w.until(runTimeout, "one is at work", func() bool { return len(m.hanging()) == 1 })
				row := w.runs("list")
				require.Len(t, row, 1)
				assert.Equal(t, "running", row[0].Status)
				require.NoError(t, q.cmd.Process.Signal(tt.end))
			}
			assert.Equal(t, tt.code, q.wait().code, "exit code")
			w.until(time.Second, "nothing is left", func() bool { return len(w.processes()) == 0 })
			row := w.runs("list")
			require.Len(t, row, 1)
			assert.Equal(t, tt.status, row[0].Status)
			assert.Contains(t, w.qq("runs").stdout, tt.status)
		})
	}
}

// TestRunsCancel: another process ends a run and a batch with all that belongs to it, seen to be at work
// before.
func TestRunsCancel(t *testing.T) {
	for _, tt := range []struct {
		name  string
		args  []string
		input string
		id    func(live, tree []endureRun) string
	}{
		{"a prompt", []string{"Lead hangs"}, "", func(live, _ []endureRun) string { return live[0].ID }},
		{"a batch", []string{"batch", "--no-bar", "-j", "2"}, "One hangs\nTwo hangs\nThree hangs\n",
			func(live, _ []endureRun) string { return endureShort(live[0].ID) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := endurePlay(t, endureLead)
			w := newWorld(t, m.addr, played)
			ended := w.qq("Say it.") // of before, which nothing below touches
			ended.answered("Answer to Say it.")
			q := w.start(tt.input, tt.args...)
			w.until(runTimeout, "all are at work", func() bool { return len(m.hanging()) == 2 })

			live := w.runs("list", "--live")
			require.Len(t, live, 1)
			assert.True(t, live[0].Live)
			tree := w.runs("tree", live[0].ID)
			for _, r := range tree {
				assert.True(t, r.Live, r.Task)
				assert.Equal(t, "running", r.Status, r.Task)
			}
			cleared := w.qq("runs", "clear", "--all", "--json")
			assert.JSONEq(t, `{"cleared":1}`, cleared.stdout, "what is at work stays")
			assert.Len(t, w.runs("list"), 1)

			id := tt.id(live, tree)
			c := w.qq("runs", "cancel", id)
			assert.Equal(t, 0, c.code)
			assert.Contains(t, c.stdout, fmt.Sprintf("process %d", q.cmd.Process.Pid))
			assert.Equal(t, 143, q.wait().code, "exit code of the run")
			assert.Empty(t, w.processes(), "left when it has returned")

			assert.Empty(t, w.runs("list", "--live"))
			for _, r := range w.runs("tree", live[0].ID) {
				assert.Contains(t, []string{"terminated", "cancelled"}, r.Status, r.Task)
				assert.False(t, r.Live)
			}
			w.qq("runs", "cancel", id).refused("it does not run any more")
		})
	}
}

// hanging are the tasks that hang, each once.
func (m *endureModel) hanging() []string {
	var list []string
	for _, text := range m.tasks() {
		if strings.HasSuffix(text, "hangs") && !strings.HasPrefix(text, "Lead") {
			list = append(list, text)
		}
	}
	return list
}
