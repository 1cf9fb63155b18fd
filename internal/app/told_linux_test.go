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

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/standin"
	"qq/pkg/event"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// calls is a model's answer with calls: names of tools and their arguments, in turn.
func calls(namesAndArguments ...string) string {
	text := ""
	for pair := range slices.Chunk(namesAndArguments, 2) {
		text += fmt.Sprintf(`<tool_call>{"name":%q,"arguments":%s}</tool_call>`, pair[0], pair[1])
	}
	return text
}

// newChangingWorld makes a world in which the agent lead makes the calls that it is told with its prompt,
// and then answers. Its child, whose task is to write, writes a file and then gets no answer any more.
func newChangingWorld(t *testing.T) (*world, *standin.Server) {
	release := make(chan struct{})
	w, server := newServedWorld(t, standin.Reply(func(p standin.Prompt) string {
		asked, told := p.Last("user"), p.Last("tool")
		switch {
		case asked == "Look.":
			return "nothing"
		case asked == "Write." && told == "":
			return calls("create_file", `{"path":"made.txt","content":"x"}`)
		case asked == "Write.":
			<-release
			return "too late"
		case told == "":
			return asked
		}
		return "done"
	}))
	t.Cleanup(func() { close(release) })
	w.set("QQ_APPROVE=auto")
	w.lead()
	return w, server
}

// lead defines an agent that hands on work in each way that there is.
func (w *world) lead() {
	w.file(".qq/agents/lead.md", `---
name: lead
description: hands on work
tools: delegate_task, run_parallel_tasks, spawn_agent, wait_children, list_children, send_message, list_agents, create_file
---
You hand on work.
`)
}

// TestChangedFilesAfterTimeout: the agent that asked is told which files its child has changed, by
// whatever tool it asked, though the time of the child was up; so is who started qq.
func TestChangedFilesAfterTimeout(t *testing.T) {
	for name, prompt := range map[string]string{
		"one": calls("delegate_task", `{"task":"Write.","agent":"coder","timeout":1.5}`),
		"many": calls("run_parallel_tasks", `{"tasks":[{"task":"Write.","agent":"coder","timeout":1.5},`+
			`{"task":"Look.","agent":"explorer"}]}`),
		"later": calls("spawn_agent", `{"instructions":"Write.","agent":"coder","timeout":1.5,"background":true}`,
			"wait_children", `{}`),
	} {
		w, _ := newChangingWorld(t)
		e := w.run("--json", "-a", "lead", prompt)
		assert.Equal(t, []string{"made.txt"}, e.document(t).ChangedFiles, name)
		results := w.toolResults()
		told := results[len(results)-1]
		assert.Contains(t, told, "timed out after 1.5s", name)
		if name == "one" {
			assert.Contains(t, told, "\n[changed files: made.txt]", name)
			continue
		}
		var list []task.Result
		require.NoError(t, json.NewDecoder(strings.NewReader(told)).Decode(&list), told)
		assert.Equal(t, []string{"made.txt"}, list[0].ChangedFiles, name)
	}
}

// startChanging starts qq, and returns when the child of its agent has written its file.
func startChanging(t *testing.T) (*world, *started) {
	w, server := newChangingWorld(t)
	p := w.start("--json", "-a", "lead", calls("delegate_task", `{"task":"Write.","agent":"coder"}`))
	w.asked(server, 3)
	return w, p
}

// endChanging checks that the agent and who started it are told of the file.
func endChanging(w *world, p *started, why string) {
	w.t.Helper()
	assert.Equal(w.t, []string{"made.txt"}, p.end().document(w.t).ChangedFiles)
	results := w.toolResults()
	require.Len(w.t, results, 1)
	assert.Contains(w.t, results[0], why)
	assert.Contains(w.t, results[0], "\n[changed files: made.txt]")
}

// TestChangedFilesAfterCancel: the same after somebody has cancelled the child.
func TestChangedFilesAfterCancel(t *testing.T) {
	w, p := startChanging(t)
	var id string
	w.until(func() bool {
		var rows []struct{ ID string }
		_ = json.Unmarshal([]byte(w.run("runs", "list", "-a", "coder", "--json").out), &rows)
		if len(rows) == 1 {
			id = rows[0].ID
		}
		return id != ""
	})
	w.until(func() bool { return w.run("runs", "cancel", id).code == 0 })
	endChanging(w, p, "cancelled by user")
}

// TestChangedFilesAfterCrash: the same after the child was killed.
func TestChangedFilesAfterCrash(t *testing.T) {
	w, p := startChanging(t)
	killed := false
	for _, pid := range w.processes() {
		if pid != p.Process.Pid {
			killed = true
			require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		}
	}
	require.True(t, killed)
	endChanging(w, p, "killed by signal 9")
}

// TestMessageToQueuedChild: a message to a child that waits for its turn reaches it when it starts.
func TestMessageToQueuedChild(t *testing.T) {
	spawn := func(text, agent string) string {
		return calls("spawn_agent", fmt.Sprintf(`{"instructions":%q,"agent":%q,"background":true}`, text, agent))
	}
	reply := func(p standin.Prompt) string {
		results := slices.DeleteFunc(slices.Clone(p.Messages), func(m standin.Message) bool { return m.Role != "tool" })
		switch asked := p.Last("user"); {
		case strings.Contains(asked, "[message from your parent]\npsst"):
			return "heard psst"
		case strings.Contains(asked, "Listen."):
			return "heard nothing"
		case strings.Contains(asked, "Be slow.") && len(results) == 0:
			return calls("run_pty_cmd", `{"command":"sleep 2"}`) // so long it has the only slot, but no request
		case strings.Contains(asked, "Be slow."):
			return "slowly"
		}
		switch len(results) {
		case 0:
			return spawn("Be slow.", "executor")
		case 1:
			return spawn("Listen.", "explorer")
		case 2:
			id := strings.Fields(results[1].Content)[1]
			return calls("list_children", `{}`, "send_message", fmt.Sprintf(`{"to":%q,"text":"psst"}`, id))
		case 4:
			return calls("wait_children", `{}`)
		}
		return "done"
	}
	w, _ := newServedWorld(t, standin.Reply(reply))
	w.set("QQ_MAX_PARALLEL=1", "QQ_APPROVE=auto")
	w.lead()
	require.Equal(t, "done\n", w.run("-a", "lead", "Begin.").out)
	results := w.toolResults()
	require.Len(t, results, 5)
	assert.Contains(t, results[2], "queued explorer: Listen.")
	assert.Contains(t, results[3], "sent to ")
	assert.Contains(t, results[4], `"output":"heard psst"`)
}

// TestTemporaryAgentsAreNotListed: who asks which agents there are is told of those that can be asked
// again, not of one that was made for a task.
func TestTemporaryAgentsAreNotListed(t *testing.T) {
	w, _ := newServedWorld(t, standin.Scripts(
		standin.Script{Start: "[[made]]", Text: calls("spawn_agent",
			`{"instructions":"[[quick]]","system_prompt":"You are brief.","mode":"read_only"}`,
			"spawn_agent", `{"instructions":"[[last]]","tools":["list_agents"],"background":true}`,
			"list_children", `{}`, "list_agents", `{}`, "wait_children", `{}`)},
		standin.Script{Start: "[[quick]]", Text: "made"}, standin.Script{Start: "[[last]]", Text: "[[end]]"},
		standin.Script{Start: "[[end]]", Text: "done"},
	))
	w.set("QQ_APPROVE=auto")
	w.lead()
	w.run("-a", "lead", "[[made]]")
	results := w.toolResults()
	require.Len(t, results, 5)
	assert.Regexp(t, `^made\b`, results[0])
	assert.Contains(t, results[2], "temporary-", "one is there")
	assert.Contains(t, results[3], "explorer (")
	assert.NotContains(t, results[3], "temporary")
}

// events runs qq and returns its events and their lines that stand for them.
func (w *world) events(args ...string) []event.Event {
	w.t.Helper()
	var all []event.Event
	for _, line := range strings.Split(w.run(append(args, "--output-format", "stream-json")...).out, "\n") {
		var e event.Event
		if json.Unmarshal([]byte(line), &e) == nil && e.V > 0 {
			all = append(all, e)
		}
	}
	return all
}

// only are the events of those types.
func only(events []event.Event, types ...event.Type) (some []event.Event) {
	for _, e := range events {
		if slices.Contains(types, e.Type) {
			some = append(some, e)
		}
	}
	return some
}

// TestEventsBelongTogether: the events of a run say which agent has made which call, which call has
// started which child, and which children run together.
func TestEventsBelongTogether(t *testing.T) {
	w, _ := newServedWorld(t, delegationScripts(), standin.Scripts(
		standin.Script{Start: "[[outer]]", Text: delegate("coder", "[[lead]]")},
		standin.Script{Start: "[[joined]]", Text: "first and second [[done]]"},
	), standin.NoCallIDs())
	events := w.events("-a", "worker", "--system", "You work.", "[[outer]]")
	first, last := events[0], events[len(events)-1]
	assert.Equal(t, []any{event.SubAgentStart, "worker", 0, "", "[[outer]]"},
		[]any{first.Type, first.Agent, first.Depth, first.CallID, first.Task})
	assert.Equal(t, []any{event.SubAgentComplete, first.ExecutionID, 0, "as said [[done]]"},
		[]any{last.Type, last.ExecutionID, last.Depth, last.Summary})

	tools := only(events, event.ToolStart, event.ToolEnd)
	require.Len(t, tools, 4)
	assert.Equal(t, tools[0].CallID, tools[3].CallID)
	assert.Equal(t, tools[1].CallID, tools[2].CallID, "the calls of the child are nested")
	assert.NotEmpty(t, tools[0].CallID)
	batch := only(events, event.BatchStart, event.BatchComplete)
	require.Len(t, batch, 2)
	lead := tools[1].ExecutionID
	for _, e := range batch {
		assert.Equal(t, []any{lead, tools[1].CallID, "coder", 2}, []any{e.ExecutionID, e.CallID, e.Agent, e.Count})
	}
	children := map[string][]string{}
	for _, e := range only(events, event.SubAgentStart, event.SubAgentComplete) {
		if e.Depth > 0 {
			children[e.ParentExecutionID] = append(children[e.ParentExecutionID], e.CallID+" "+e.BatchID)
		}
	}
	assert.Equal(t, map[string][]string{
		first.ExecutionID: slices.Repeat([]string{tools[0].CallID + " "}, 2),
		lead:              slices.Repeat([]string{tools[1].CallID + " " + batch[0].BatchID}, 4),
	}, children)

	require.NotEmpty(t, batch[0].BatchID)
	for _, args := range []string{"runs list --limit 0 --json", "runs tree --json " + first.ExecutionID} {
		out := w.run(strings.Fields(args)...).out
		assert.Contains(t, out, first.ExecutionID, args)
		assert.NotContains(t, out, `"batch"`, "the ledger knows no such batch")
	}
}

// TestProgressOfARun: progress says what each agent does.
func TestProgressOfARun(t *testing.T) {
	w, _ := newServedWorld(t, delegationScripts())
	var lines []string
	for _, e := range only(w.events("--max-turns", "7", "[[lead]]"), event.SubAgentProgress) {
		if e.Depth == 0 {
			lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %d/%d %s", e.Phase, e.Done, e.Total,
				strings.Join(e.Tasks, ", "))))
		}
	}
	assert.Equal(t, []string{"model 0/7", "tools 0/1", "delegating 0/2 coder: [[slow]], explorer: [[quick]]",
		"delegating 1/2", "delegating 2/2", "model 1/7"}, lines)
}

// TestEventsWithoutAPerson: a call that is refused because nobody can be asked has the events of a
// question, with what was asked.
func TestEventsWithoutAPerson(t *testing.T) {
	w, _ := newServedWorld(t, standin.Scripts(
		standin.Script{Start: "[[two]]", Text: calls("run_parallel_tasks",
			`{"tasks":[{"task":"Mend a","agent":"coder"},{"task":"Mend b","agent":"coder"}]}`)},
		standin.Script{Start: "[[one]]", Text: calls("create_file", `{"path":"x","content":"y"}`)},
	))
	w.set("QQ_ALLOW=")
	w.lead()
	for prompt, want := range map[string]event.Event{
		"[[one]]": {Operation: "create_file", Risk: tool.Medium},
		"[[two]]": {Operation: "run_parallel_tasks", Risk: tool.High, Count: 2,
			Tasks: []string{"coder: Mend a", "coder: Mend b"}},
	} {
		events := w.events("-a", "lead", "--max-turns", "1", prompt)
		calls := only(events, event.ToolStart)
		asked := only(events, event.ValidationRequired, event.ValidationResolved)
		require.Len(t, asked, 2, prompt)
		require.Len(t, calls, 1, prompt)
		for _, e := range asked {
			got := event.Event{Operation: e.Operation, Risk: e.Risk, Count: e.Count, Tasks: e.Tasks}
			assert.Equal(t, want, got, prompt)
			assert.Equal(t, calls[0].CallID, e.CallID, prompt)
		}
		assert.Equal(t, "unanswered", asked[1].Decision, prompt)
	}
}

// TestDispatchLog: tasks that run in parallel have one line in the log of children, whoever hands them
// on and in how many calls.
func TestDispatchLog(t *testing.T) {
	w, _ := newServedWorld(t, delegationScripts(), standin.Scripts(standin.Script{Start: "[[mixed]]", Text: calls(
		"delegate_task", `{"task":"[[slow]]","agent":"coder"}`,
		"run_parallel_tasks", `{"tasks":[{"task":"[[quick]]","agent":"explorer"},{"task":"[[slow]]","agent":"coder"}]}`,
	)}))
	w.set("QQ_LOG_DIR=" + filepath.Join(w.dir, "logs"))
	for prompt, want := range map[string]string{
		"[[lead]]":  `Running 2 tasks in parallel: coder: \[\[slow\]\]; explorer: \[\[quick\]\]$`,
		"[[both]]":  `Running 2 tasks in parallel: coder: \[\[slow\]\]; explorer: \[\[quick\]\]$`,
		"[[mixed]]": `Running 3 tasks in parallel: coder: \[\[slow\]\]; explorer: \[\[quick\]\]; coder: \[\[slow\]\]$`,
		"[[top]]":   "",
	} {
		for _, args := range [][]string{{prompt}, {"batch", "-q", "tasks.jsonl"}} {
			require.NoError(t, os.RemoveAll(filepath.Join(w.dir, "logs")))
			w.file("tasks.jsonl", fmt.Sprintf(`{"task":%q}`, prompt)+"\n")
			w.run(args...)
			data, err := os.ReadFile(filepath.Join(w.dir, "logs", "child_process.log"))
			require.NoError(t, err)
			if want == "" {
				assert.NotContains(t, string(data), "in parallel", args)
				continue
			}
			assert.Equal(t, 1, strings.Count(string(data), "in parallel"), "%v: %s", args, data)
			assert.Regexp(t, `(?m) - INFO - \[[0-9a-f]{8}\] `+want, string(data), args)
		}
	}
}

// TestTerminated: a run, a batch task and a child that SIGTERM has ended read terminated, on stderr, in JSON
// and in the ledger. What was terminated has no outcome of its own, so a resumed batch runs it again.
func TestTerminated(t *testing.T) {
	w, p := startChanging(t)
	p.signal(syscall.SIGTERM)
	e := p.end()
	r := e.document(t)
	assert.Equal(t, []any{143, task.Terminated, "terminated", 143}, []any{e.code, r.Status, r.Err(), r.ExitCode})
	assert.Equal(t, "qq: terminated\n", e.errors)
	assert.Contains(t, w.run("runs").out, " terminated ")
	assert.Contains(t, w.run("runs", "list", "--status", "terminated").out, " terminated ")
	tree := w.run("runs", "tree", r.ExecutionID).out
	assert.Equal(t, 2, strings.Count(tree, " terminated "), "its child too: %s", tree)

	w, p = startChanging(t)
	for _, pid := range w.processes() {
		if pid != p.Process.Pid {
			require.NoError(t, syscall.Kill(pid, syscall.SIGTERM))
		}
	}
	endChanging(w, p, "terminated")
	assert.Contains(t, w.run("runs", "list", "-a", "coder").out, " terminated ")

	assert.False(t, task.Terminated.Conclusive())
}

// TestProgressOfALongText: the parts of a text that is too long are counted, over all that is asked for at once.
func TestProgressOfALongText(t *testing.T) {
	w, _ := newServedWorld(t, standin.Reply(func(standin.Prompt) string { return "short" }))
	w.file("long.txt", "Sum it up.\n\n"+strings.Repeat("A line of a long text.\n", 4000))
	var lines []string
	for _, e := range only(w.events("-f", "long.txt"), event.SubAgentProgress) {
		if e.Depth == 0 && e.Phase == event.PhaseParts {
			lines = append(lines, fmt.Sprintf("%d/%d", e.Done, e.Total))
		}
	}
	require.Greater(t, len(lines), 3)
	n := len(lines) - 1
	for i, line := range lines {
		assert.Equal(t, fmt.Sprintf("%d/%d", i, n), line)
	}
}
