package scenario

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ollama/ollama/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// limited is a run that reached a limit: exit 5, which JSON and stderr tell alike.
func (e ended) limited(status, problem string) endureResult {
	e.t.Helper()
	r := endureParse(e.t, e.stdout)
	assert.Equal(e.t, 5, e.code, "exit code")
	assert.Equal(e.t, 5, *r.ExitCode)
	assert.Equal(e.t, status, r.Status)
	if assert.NotNil(e.t, r.Error) {
		assert.Contains(e.t, *r.Error, problem)
		assert.Contains(e.t, e.stderr, *r.Error)
	}
	return r
}

// TestTokensOfALead: the budget of the tree is spent by the children. What they
// found is there, and so is what the lead said before.
func TestTokensOfALead(t *testing.T) {
	m := endurePlay(t, func(_ context.Context, k endureTalk) api.Message {
		if k.text() != "Lead" {
			return endureSay(strings.Repeat("much ado. ", 400)) // 1,000 tokens
		}
		said := workAsk(workCall("delegate_task", "agent", "summarizer", "task", "First"),
			workCall("delegate_task", "agent", "summarizer", "task", "Second"))
		said.Content = "I ask two others."
		return said
	})
	w := newWorld(t, m.addr, played)
	r := w.qq("Lead", "--json", "--max-tokens", "2400").limited("limit", "tokens")
	assert.Equal(t, "I ask two others.", *r.Output)
	assert.Equal(t, 3, m.requests(), "the lead once, and its children")
	tree := w.runs("tree", r.ExecutionID)
	require.Len(t, tree, 3)
	assert.Equal(t, "limit", tree[0].Status)
	for _, child := range tree[1:] {
		assert.Equal(t, "completed", child.Status)
		assert.Contains(t, w.qq("runs", "show", child.ID).stdout, "much ado.")
	}
}

// TestTokensOfABatch: what was done is there; what was not has a result that says
// why, and is done by who goes on with more.
func TestTokensOfABatch(t *testing.T) {
	m := endurePlay(t, func(_ context.Context, k endureTalk) api.Message {
		return endureSay(k.text() + strings.Repeat(" much ado.", 400))
	})
	w := newWorld(t, m.addr, played)
	args := []string{"batch", "--no-bar", "-j", "1", "--output-format", "jsonl", w.file("tasks.txt", "a\nb\nc\nd\ne\n")}
	e := w.qq(append(args, "--max-tokens", "3000")...)
	assert.Equal(t, 5, e.code, "exit code")
	list := endureLines(t, e)
	require.Len(t, list, 5)
	done := 0
	for _, r := range list {
		if r.Status == "completed" {
			done++
			assert.Contains(t, *r.Output, "much ado.")
			continue
		}
		assert.Equal(t, "limit", r.Status)
		assert.Contains(t, *r.Error, "tokens")
		assert.Equal(t, 5, *r.ExitCode)
	}
	assert.Equal(t, m.requests(), done, "each request brought a result")
	assert.Positive(t, done)
	assert.Less(t, done, 5)
	assert.Contains(t, e.stderr, "limit")

	m.forget()
	e = w.qq(append(args, "--resume")...) // a limit is no end of its own
	assert.Equal(t, 0, e.code, "exit code")
	assert.Equal(t, 5-done, m.requests())
}

// TestLimitsOfChildren: an agent that starts too many is told so, goes on with
// those that it has, and the run says that it is not all that it could be.
func TestLimitsOfChildren(t *testing.T) {
	for _, tt := range []struct{ set, told string }{
		{"QQ_MAX_CHILDREN=2", "Maximum 2 sub-agents exceeded"},
		{"QQ_SPAWN_RATE=2", "Maximum 2 sub-agents a minute exceeded"},
	} {
		t.Run(tt.set, func(t *testing.T) {
			m := endurePlay(t, func(ctx context.Context, k endureTalk) api.Message {
				if k.text() != "Lead" {
					return endureEcho(ctx, k)
				}
				if k.turn() > 0 {
					return endureSay(strings.Join(k.results(), "\n"))
				}
				var calls []api.ToolCall
				for _, task := range []string{"one", "two", "three"} {
					calls = append(calls, workCall("delegate_task", "agent", "summarizer", "task", task))
				}
				return workAsk(calls...)
			})
			w := newWorld(t, m.addr, played, tt.set)
			r := w.qq("Lead", "--json").limited("limit", tt.told)
			assert.Equal(t, 2, strings.Count(*r.Output, "Answer to "), *r.Output)
			assert.Contains(t, *r.Output, tt.told)
			assert.Len(t, w.runs("tree", r.ExecutionID), 3)
			w.qq("Say it.").answered("Answer to Say it.")
		})
	}
}

// TestLastWord: a child whose time is up while its tool works hands back what it
// has, at any depth.
func TestLastWord(t *testing.T) {
	for _, tt := range []struct {
		name, task string
		depth      int
	}{
		{"child", "Lead", 1},
		{"grandchild", "Top", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var told []string
			m := endurePlay(t, func(_ context.Context, k endureTalk) api.Message {
				switch {
				case k.text() == "Top" && k.turn() == 0:
					return workAsk(workCall("delegate_task", "agent", "middle", "task", "Lead"))
				case k.text() == "Lead" && k.turn() == 0:
					return workAsk(workCall("delegate_task", "agent", "slow", "task", "Work"))
				case k.text() == "Lead", k.text() == "Top":
					told = append(told, k.last().Content)
					return endureSay("Told: " + k.last().Content)
				case k.turn() == 0:
					return workAsk(workCall("write_file", "path", "found.txt", "content", "half"))
				case k.turn() == 1:
					return workAsk(workCall("run_pty_cmd", "command", "sleep 60"))
				}
				assert.Equal(t, "user", k.last().Role)
				assert.Contains(t, k.last().Content, "Your time is up")
				return endureSay("I found half of it.")
			})
			w := newWorld(t, m.addr, played, "QQ_APPROVE=auto", "QQ_MAX_DEPTH=4")
			w.file(".qq/agents/slow.md",
				"---\nname: slow\ndescription: works\ntools: [write_file, run_pty_cmd]\ntimeout: 1\n---\nYou work.\n")
			w.file(".qq/agents/middle.md",
				"---\nname: middle\ndescription: passes on\ntools: [delegate_task]\n---\nYou pass on.\n")
			began := time.Now()
			e := w.qq("-m", tt.task, "--json")
			assert.Equal(t, 0, e.code, "exit code")
			assert.Less(t, time.Since(began), 4*time.Second)
			r := endureParse(t, e.stdout)
			require.NotEmpty(t, told)
			assert.Contains(t, told[0], "I found half of it.")
			assert.Contains(t, told[0], "Child process timed out after 1s")
			assert.Equal(t, []string{"found.txt"}, r.ChangedFiles)
			assert.Contains(t, strings.Join(r.Warnings, "\n"), "sub-agent slow: timeout", "at any depth")

			tree := w.runs("tree", r.ExecutionID)
			require.Len(t, tree, tt.depth+1)
			last := tree[tt.depth]
			assert.Equal(t, "timeout", last.Status)
			assert.Equal(t, tt.depth, last.Depth)
			var shown struct{ Result endureResult }
			w.show(last.ID, &shown)
			assert.Equal(t, "I found half of it.", *shown.Result.Output)
			assert.Equal(t, []string{"found.txt"}, shown.Result.ChangedFiles)
			assert.Positive(t, shown.Result.Usage.OutputTokens)
		})
	}
}

// TestPartialText: what a model said before it fell silent, or its time was up, is
// kept, with the clock that ran out in the status.
func TestPartialText(t *testing.T) {
	for _, tt := range []struct{ name, status, problem, set, flag string }{
		{"idle", "idle", "inactive for 1 seconds", "QQ_IDLE_TIMEOUT=1", "--timeout=20"},
		{"timeout", "timeout", "timed out after 1s", "QQ_IDLE_TIMEOUT=20", "--timeout=1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := endurePlay(t, func(ctx context.Context, k endureTalk) api.Message {
				if k.text() == "Lead" && k.turn() == 0 {
					return workAsk(workCall("delegate_task", "agent", "summarizer", "task", "Speak"))
				}
				if k.text() == "Lead" {
					return endureSay("Told: " + k.last().Content)
				}
				k.stream("The first half")
				<-ctx.Done()
				return endureSay("")
			})
			w := newWorld(t, m.addr, played, tt.set)
			t.Run("batch", func(t *testing.T) {
				e := w.start("Speak\n", "batch", "--no-bar", "--output-format", "jsonl", tt.flag).wait()
				assert.Equal(t, 4, e.code, "exit code")
				list := endureLines(t, e)
				require.Len(t, list, 1)
				assert.Equal(t, tt.status, list[0].Status)
				assert.Equal(t, 124, *list[0].ExitCode)
				assert.Contains(t, *list[0].Error, tt.problem)
				assert.Equal(t, "The first half", *list[0].Output)
			})
			t.Run("prompt", func(t *testing.T) {
				r := w.qq("Speak", "--json", tt.flag).failed(124, tt.status)
				assert.Equal(t, "The first half", *r.Output)
			})
		})
	}
}

// show reads qq runs show ID --json.
func (w *world) show(id string, to any) {
	w.t.Helper()
	endureDecode(w.t, w.qq("runs", "show", id, "--json").stdout, to)
}

// TestUnknownOutcome: the child of a lead has written and is killed. It is not
// done again; the lead is told, and so is the record.
func TestUnknownOutcome(t *testing.T) {
	var told string
	m := endurePlay(t, func(ctx context.Context, k endureTalk) api.Message {
		switch {
		case k.text() == "Lead" && k.turn() == 0:
			return workAsk(workCall("delegate_task", "agent", "writer", "task", "Work"))
		case k.text() == "Lead":
			told = k.last().Content
			return endureSay("It is not known.")
		case k.turn() == 0:
			return workAsk(workCall("write_file", "path", "found.txt", "content", "half"))
		}
		<-ctx.Done()
		return endureSay("")
	})
	w := newWorld(t, m.addr, played, "QQ_APPROVE=auto")
	w.file(".qq/agents/writer.md", "---\nname: writer\ndescription: writes\ntools: [write_file]\n---\nYou write.\n")
	q := w.start("", "Lead", "--json")
	w.until(runTimeout, "it has written", func() bool { return m.requests() == 3 })
	for _, pid := range w.processes() {
		if pid != q.cmd.Process.Pid {
			child, err := os.FindProcess(pid)
			require.NoError(t, err)
			require.NoError(t, child.Kill())
		}
	}
	e := q.wait()
	assert.Equal(t, 0, e.code, "exit code")
	r := endureParse(t, e.stdout)
	assert.Contains(t, told, "killed by signal 9")
	assert.Contains(t, told, "may have had side effects, so it was not repeated")
	assert.Equal(t, []string{"found.txt"}, r.ChangedFiles)
	assert.Contains(t, strings.Join(r.Warnings, "\n"), "unknown_outcome")
	assert.FileExists(t, filepath.Join(w.work, "found.txt"))
	tree := w.runs("tree", r.ExecutionID)
	require.Len(t, tree, 2)
	assert.Equal(t, "unknown_outcome", tree[1].Status)
	assert.Contains(t, w.qq("runs", "tree", r.ExecutionID).stdout, "unknown_outcome")
	assert.Equal(t, 4, m.requests(), "nothing was asked twice")
}
