package app

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/standin"
	"qq/pkg/task"
)

// toolCall is a model's call of a tool.
func toolCall(name, args string) string {
	return `<tool_call>{"name":"` + name + `","arguments":` + args + `}</tool_call>`
}

// planScripts are scripts for agents that plan. The marker in a hint of a failed call selects the next one.
func planScripts() standin.Option {
	const plan = `{"tasks":[{"id":"a","prompt":"Rename in a.go <now>","subagent_type":"coder","targets":"a.go, b.go"},` +
		`{"task":"Run the tests","agent":"executor","needs":"[\"a\"]","context":"go test","priority":"2"}]}`
	return standin.Scripts(
		standin.Script{Start: "[[look]]", Text: toolCall("read_file", `{"path":"notes.txt"}`)},
		standin.Script{Start: "[[plan]]", Text: toolCall("run_parallel_tasks", plan)},
		standin.Script{Start: "[[text]]", Text: "First rename it,\nthen test it."},
		standin.Script{Start: "[[lazy]]", Text: "I would rename it [[plan]]"},
		standin.Script{Start: "[[single]]", Text: delegate("coder", "do one") + delegate("explorer", "do two") +
			delegate("coder", "do three") + delegate("explorer", "do four")},
		standin.Script{Start: "[[wrong]]", Text: toolCall("run_parallel_tasks",
			`{"tasks":[{"task":"x","agent":"nobody[[plan]]"},{"task":"y"}]}`)},
		standin.Script{Start: "[[cycle]]", Text: toolCall("run_parallel_tasks",
			`{"tasks":[{"id":"[[text]]","task":"x","needs":["b"]},{"id":"b","task":"y","needs":["[[text]]"]}]}`)},
		standin.Script{Start: "[[elsewhere]]", Text: toolCall("run_parallel_tasks",
			`{"tasks":[{"task":"x","model":"openai:gpt-5","context":"[[text]]"}]}`)},
		standin.Script{Start: "[[check]]", Text: delegate("coder", "x\",\"check\":\"make test")},
	)
}

// TestPlanCommand: the first call that hands out tasks is printed with the names of qq batch, and nothing is started.
func TestPlanCommand(t *testing.T) {
	w, server := newServedWorld(t, planScripts())
	w.file("notes.txt", "the rest [[plan]]\n")
	const want = `{"task":"Rename in a.go <now>","agent":"coder","id":"a","targets":["a.go","b.go"]}` + "\n" +
		`{"task":"Run the tests","agent":"executor","context":"go test","needs":["a"],"priority":2}` + "\n"
	assert.Equal(t, ended{out: want}, w.run("plan", "Look first [[look]]"))
	chats := server.Count("/api/chat")
	assert.Equal(t, 2, chats, "the answer with the plan is the last request")
	assert.Equal(t, ended{out: want}, w.run("plan", "[[plan]]", "all", "of", "it"), "several words are a prompt")
	assert.Equal(t, ended{out: want}, w.pipe("[[plan]]", "plan"), "the task comes through a pipe")
	assert.Equal(t, ended{out: want}, w.pipe("notes [[plan]]", "plan", "Do it"), "its context does")
	assert.Equal(t, chats+3, server.Count("/api/chat"))

	e := w.run("plan", "-m", "[[plan]]", "-o", "plan.jsonl")
	assert.Equal(t, ended{errors: "qq: 2 tasks: read them, then: qq batch plan.jsonl\n"}, e)
	text, err := os.ReadFile(filepath.Join(w.dir, "plan.jsonl"))
	require.NoError(t, err)
	assert.Equal(t, want, string(text))
	e = w.run("batch", "plan.jsonl", "--dry-run", "--output-format", "jsonl")
	assert.Equal(t, 0, e.code, e.errors)
	assert.Equal(t, want, e.out, "qq batch takes it unchanged")

	runs := w.run("runs").out
	assert.NotContains(t, runs, "coder", "no child was recorded")
	assert.Equal(t, 5, strings.Count(runs, " completed  planner "), runs)
	left, err := filepath.Glob(filepath.Join(w.dir, "*"))
	require.NoError(t, err)
	assert.Len(t, left, 2, "nothing was changed: %v", left)
}

// TestPlanOfCalls: the calls of one answer are one plan, in their order.
func TestPlanOfCalls(t *testing.T) {
	w, _ := newServedWorld(t, planScripts())
	for range 5 {
		e := w.run("plan", "[[single]]")
		require.Zero(t, e.code, e.errors)
		var texts []string
		for _, line := range jsonLines(t, e.out) {
			texts = append(texts, line["task"].(string))
		}
		require.Equal(t, []string{"do one", "do two", "do three", "do four"}, texts)
	}
}

// TestPlanFails: an answer without tasks is asked for once more, and then it is an error. A plan that cannot be run
// goes back to the model.
func TestPlanFails(t *testing.T) {
	w, server := newServedWorld(t, planScripts())
	e := w.run("plan", "[[lazy]]")
	assert.Zero(t, e.code, e.errors)
	assert.Len(t, jsonLines(t, e.out), 2, "the second answer has the plan")

	before := server.Count("/api/chat")
	w.file("plan.jsonl", "old\n")
	for _, args := range [][]string{{}, {"-o", "plan.jsonl"}, {"-o", "new.jsonl"}} {
		e = w.run(append([]string{"plan", "[[text]]"}, args...)...)
		assert.Equal(t, ended{1, "", "qq: planner handed out no task, and answered: First rename it, then test it.\n" +
			"  hint: say in the task which parts the work has, or name another model with --model; qq models test " +
			"says which models call tools\n"}, e)
	}
	assert.Equal(t, before+6, server.Count("/api/chat"), "asked again once")
	text, err := os.ReadFile(filepath.Join(w.dir, "plan.jsonl"))
	require.NoError(t, err)
	assert.Equal(t, "old\n", string(text))
	assert.NoFileExists(t, filepath.Join(w.dir, "new.jsonl"))

	e = w.run("plan", "[[wrong]]")
	assert.Zero(t, e.code, e.errors)
	assert.Len(t, jsonLines(t, e.out), 2, "the agent was corrected")
	e = w.run("plan", "[[cycle]]")
	assert.Equal(t, 1, e.code)
	assert.Contains(t, e.errors, "made no plan that can be run: ")
	assert.Contains(t, e.errors, "[[text]] -> b -> [[text]]", "the cycle is named")
	assert.Equal(t, 1, strings.Count(e.errors, "hint: "), "one hint, for the person")
	e = w.run("plan", "[[elsewhere]]")
	assert.Equal(t, 1, e.code)
	assert.Contains(t, e.errors, "planner made no plan that can be run: task 0: ")
	assert.Contains(t, e.errors, "no person named it")
	assert.Empty(t, e.out)
}

// TestPlanRefuses: what cannot make a plan is refused before a model is asked.
func TestPlanRefuses(t *testing.T) {
	w, server := newServedWorld(t, planScripts(), standin.Models(standin.Model{Name: standin.DefaultModel},
		standin.Model{Name: "mute:latest", Capabilities: []string{"completion"}}))
	w.file("task.txt", "[[plan]]")
	for _, c := range []struct {
		code int
		want string
		args []string
	}{
		{2, "the agent explorer hands out no tasks\n  hint: ", []string{"-a", "explorer", "[[plan]]"}},
		{2, "Agent not found in registry: nobody", []string{"-a", "nobody", "[[plan]]"}},
		{2, "ollama:mute calls no tools", []string{"--model", "ollama:mute", "[[plan]]"}},
		{2, "no task", nil},
		{2, "-o takes a file that you may write", []string{"-o", "missing/plan.jsonl", "[[plan]]"}},
		{2, "-o would overwrite task.txt, which has the task", []string{"-o", "task.txt", "-f", "task.txt"}},
		{2, "--max-turns is 0", []string{"--max-turns", "0", "[[plan]]"}},
		{2, "unknown flag: --halt", []string{"--halt", "now", "[[plan]]"}},
	} {
		e := w.run(append([]string{"plan"}, c.args...)...)
		assert.Equal(t, c.code, e.code, c.want)
		assert.Contains(t, e.errors, c.want)
		assert.Contains(t, e.errors, "\n  hint: ")
		assert.Empty(t, e.out)
	}
	e := w.with("QQ_MAX_DEPTH=1").run("plan", "[[plan]]")
	assert.Equal(t, 5, e.code)
	assert.Contains(t, e.errors, "hint: the tasks of a plan run one level deeper: raise QQ_MAX_DEPTH")
	assert.Zero(t, server.Count("/api/chat"))
}

// TestPlanReadsOnly: an agent that could change files cannot while it plans.
func TestPlanReadsOnly(t *testing.T) {
	w, server := newServedWorld(t, planScripts(), standin.Scripts(standin.Script{Start: "[[write]]",
		Text: toolCall("run_parallel_tasks", `{"tasks":[{"task":"x","agent":"coder"}]}`)}))
	e := w.run("plan", "--auto-approve", "-a", "coder", "[[write]]")
	request := string(server.Requests("/api/chat")[0].Body)
	assert.Contains(t, request, "You only plan")
	assert.Contains(t, request, `coder: Writes and changes files`, "who changes files later is named")
	assert.NotContains(t, request, `"name":"create_file"`)
	assert.Equal(t, `{"task":"x","agent":"coder"}`+"\n", e.out)
}

// TestPlanWarns: a check is a command that a model wrote.
func TestPlanWarns(t *testing.T) {
	w, _ := newServedWorld(t, standin.Scripts(standin.Script{Start: "[[check]]",
		Text: toolCall("delegate_task", `{"task":"x","agent":"coder","check":"make test"}`)}))
	e := w.run("plan", "-q", "[[check]]")
	assert.Equal(t, ended{0, `{"task":"x","agent":"coder","check":"make test","check_asked":true}` + "\n",
		"qq: warning: a model wrote the check of 1 task, which is a command: " +
			"qq batch asks about it until you keep the plan with -o FILE, look at it, and run: qq trust FILE\n"}, e)
	assert.True(t, strings.HasSuffix(e.out, "\n"))
	var one task.Task
	require.NoError(t, json.Unmarshal([]byte(e.out), &one))
}
