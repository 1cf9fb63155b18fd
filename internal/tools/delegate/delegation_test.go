package delegate

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/standin"
	"qq/pkg/agents"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// echo answers each task with its text.
type echo struct{}

func (echo) Delegate(_ context.Context, tasks []task.Task) (results []task.Result) {
	for i, t := range tasks {
		r := t.Ended(task.Completed, "")
		r.Index, r.Output = i, t.Agent+" <"+t.Text+">"
		results = append(results, r)
	}
	return results
}

// scripted records what it is asked and answers what it is told.
type scripted struct {
	asked   []task.Task
	results []task.Result
}

func (s *scripted) Delegate(_ context.Context, tasks []task.Task) []task.Result {
	s.asked = tasks
	return s.results
}

func everybody() []AgentInfo {
	return []AgentInfo{{"coder", "content-modification", "Writes\ncode."},
		{"explorer", "information-gathering", "Finds."}}
}

// kin is a Parent of two parts.
type kin struct {
	task.Delegator
	task.Family
}

func delegating(d task.Delegator) tool.Set { return Tools(kin{d, nil}, Roster{}, everybody) }

func TestDelegateTask(t *testing.T) {
	s := &scripted{results: []task.Result{{Success: true, Output: "done"}}}
	r := standin.CallTool(t, delegating(s), "delegate_task", `{"task":"do","agent":"coder","context":"c","timeout":"60","model":"m","read_only":"true","schema":{"type":"object"},"working_dir":"sub",
		"targets":"a.go, src/*.{ts,js}","require_file_references":"true"}`)
	assert.Equal(t, tool.Text("done"), r)
	assert.Equal(t, []task.Task{{Text: "do", Agent: "coder", Context: "c", Timeout: 60, Model: "m", ReadOnly: true,
		Schema: json.RawMessage(`{"type":"object"}`), WorkingDir: "sub",
		Targets: []string{"a.go", "src/*.{ts,js}"}, RequireFileReferences: true}}, s.asked)

	standin.CallTool(t, delegating(s), "delegate_task", `{"task":"do"}`)
	assert.Empty(t, s.asked[0].Agent, "who is meant by nobody is decided elsewhere")
}

func TestDelegateTaskFailures(t *testing.T) {
	for _, test := range []struct {
		err, output, want string
	}{
		{"Child process timed out after 300s", "", "Child agent error: Child process timed out after 300s"},
		{"Sub-agent inactive for 300 seconds", "half",
			"Child agent error: Sub-agent inactive for 300 seconds\n\nPartial output:\nhalf"},
		{"Error: Maximum recursion depth (3) exceeded", "", "Error: Maximum recursion depth (3) exceeded"},
		{"Cannot delegate to self", " \n", "Child agent error: Cannot delegate to self"},
	} {
		ended := task.Task{}.Ended(task.Failed, test.err)
		ended.Output = test.output
		r := standin.CallTool(t, delegating(&scripted{results: []task.Result{ended}}), "delegate_task", `{"task":"do"}`)
		assert.Equal(t, tool.Failure(test.want), r)
	}
}

// What a task took is below its answer, and below its error, and not in it.
func TestFooter(t *testing.T) {
	r := task.Result{Agent: "coder", Success: true, Status: task.Completed, Output: "done", Attempts: 1,
		ExecutionID: one, DurationMS: 12345, Usage: task.Usage{InputTokens: 1003120, OutputTokens: 410}}
	call := func(name, args string) tool.Result {
		return standin.CallTool(t, delegating(&scripted{results: []task.Result{r}}), name, args)
	}
	const want = "[coder 0000abcd: completed in 12.3 s, 1,003,120 tokens in, 410 out]"
	assert.Equal(t, tool.Result{Content: "done", Footer: want}, call("delegate_task", `{"task":"x"}`))
	assert.Equal(t, tool.Result{Content: "done", Footer: want}, call("spawn_agent", `{"instructions":"x"}`))

	array := call("run_parallel_tasks", `{"tasks":[{"task":"x"}]}`)
	assert.Equal(t, "\n1 task: 1 completed", array.Footer, "a block of its own below the array")
	assert.True(t, json.Valid([]byte(array.Content)))
	assert.NotContains(t, array.Content, "\n", "the array is the first line")
	assert.Contains(t, array.Content, `"duration_ms":12345`)
	assert.Contains(t, array.Content, `"usage":{"input_tokens":1003120,"output_tokens":410}`)

	r.End(task.Timeout, "Child process timed out after 300s")
	r.Usage = task.Usage{}
	assert.Equal(t, tool.Result{Failed: true, Footer: "[coder 0000abcd: timeout after 12.3 s]",
		Content: "Child agent error: Child process timed out after 300s\n\nPartial output:\ndone"},
		call("delegate_task", `{"task":"x"}`))
	r.Attempts = 0
	assert.Empty(t, call("delegate_task", `{"task":"x"}`).Footer, "it never started")
	for n, text := range map[int]string{0: "0", 999: "999", 1000: "1,000", 123456: "123,456"} {
		assert.Equal(t, text, grouped(n))
	}
}

func TestDelegateTaskRefusesWhatIsWrong(t *testing.T) {
	s := &scripted{}
	for args, want := range map[string]string{
		`{}`:                                   `Error: "task" is missing: say what to do`,
		`{"task":"x","agnet":"y"}`:             `Error: unknown key "agnet", did you mean "agent"? (known: `,
		`{"task":"x","timeout":"soon"}`:        `Error: "timeout" must be a number`,
		`{"task":"x","priority":1.5}`:          `Error: "priority" must be a whole number`,
		`{"task":"x","priority":"1.5"}`:        `Error: "priority" must be a whole number`,
		`{"task":"x","role":"boss"}`:           `Error: role is "boss": use information-gathering or `,
		`{"task":"x","working_dir":"/"}`:       `Error: "working_dir" must be a folder inside the working directory`,
		`{"task":"x","working_dir":"a/../.."}`: `Error: "working_dir" must be a folder inside the working directory`,
		`[]`:                                   `Error: must be a JSON object`,
		``:                                     `Error: "task" is missing: say what to do`,
		`{"task":"x","task":"y"}`:              `Error: "task" is given twice`,
	} {
		r := standin.CallTool(t, delegating(s), "delegate_task", args)
		assert.True(t, strings.HasPrefix(r.Content, want), r.Content)
	}
	assert.Nil(t, s.asked, "nothing was started")
	assert.True(t, standin.CallTool(t, delegating(s), "delegate_task", `{"task":"x"}`).Failed,
		"a result must come back")
}

func TestRunParallelTasks(t *testing.T) {
	for _, args := range []string{
		`{"tasks":[{"task":"a"},{"task":"b","agent":"coder","timeout":"9"}]}`,
		`{"tasks_json":"[{\"task\":\"a\"},{\"task\":\"b\",\"agent\":\"coder\"}]"}`,
		standin.Args("tasks_json", "```json\n[{\"task\":\"a\"},\n{\"task\":\"b\",\"agent\":\"coder\"}]\n```\n"),
		standin.Args("tasks", "``` [{\"task\":\"a\"},{\"task\":\"b\",\"agent\":\"coder\"}]```"),
		`{"tasks_json":[{"task":"a"},{"task":"b","agent":"coder"}],"tasks":null}`,
	} {
		r := standin.CallTool(t, delegating(echo{}), "run_parallel_tasks", args)
		require.False(t, r.Failed, r.Content)
		var results []task.Result
		require.NoError(t, json.Unmarshal([]byte(r.Content), &results))
		require.Len(t, results, 2)
		assert.Equal(t, " <a>", results[0].Output)
		assert.Equal(t, "coder <b>", results[1].Output)
		assert.Contains(t, r.Content, "<a>", "nothing is escaped for HTML")
		assert.NotContains(t, r.Content, "\n")
	}
}

func TestRunParallelTasksRefusesAll(t *testing.T) {
	many := "[" + strings.TrimSuffix(strings.Repeat(`{"task":"x"},`, 101), ",") + "]"
	s := &scripted{}
	for args, want := range map[string]string{
		`{"tasks":[{"task":"a"},{"task":"b","timeout":"x"}]}`: `Error: task 1: "timeout" must be a number. Nothing ` +
			`was started`,
		`{"tasks":[{"task":"a"},{"task":"b","needs":[1]}]}`: `Error: task 1: "needs" must be an id or a list of ` +
			`ids. Nothing was started`,
		`{"tasks":[{"task":"a"},"b"]}`: `Error: task 1: must be a JSON object. Nothing ` +
			`was started`,
		`{"tasks":[{"task":"a"},{"tsk":"b"}]}`: `Error: task 1: unknown key "tsk"`,
		`{"tasks":[{"task":"a","task":"b"}]}`:  `Error: task 0: "task" is given twice`,
		`{"tasks":null}`:                       `Error: argument "tasks" is missing. Nothing was started`,
		`{"tasks_json":"null"}`: `Error: must be a JSON array of tasks. Nothing ` +
			`was started`,
		`{"tasks":{"task":"a"}}`: `Error: must be a JSON array of tasks. Nothing ` +
			`was started`,
		`{"tasks_json":"[{\"task\":"}`: `Error: not valid JSON: line 1: unexpected end of ` +
			`JSON input. Nothing was started`,
		`{"tasks":[]}`: `Error: 0 tasks in one call: give 1 to 100. Nothing ` +
			`was started`,
		fmt.Sprintf(`{"tasks":%s}`,
			many): `Error: 101 tasks in one call: give 1 to 100. Nothing was started`,
		`{"tasks":[{"task":"a","working_dir":"../x"}]}`: `Error: task 0: "working_dir" must be a folder inside ` +
			`the working directory`,
		`{"tasks":[{"task":"a"}],"tasks_json":"[]"}`: `Error: give tasks or tasks_json, not both`,
		`{}`:           `Error: argument "tasks" is missing. Nothing was started`,
		`{"task":"a"}`: `Error: unknown argument "task" (accepted: tasks, tasks_json)`,
	} {
		r := standin.CallTool(t, delegating(s), "run_parallel_tasks", args)
		assert.True(t, strings.HasPrefix(r.Content, want), r.Content)
	}
	assert.Nil(t, s.asked)
}

// The text of delegate_task has a line for each agent: its name and the beginning of its description.
func TestRoster(t *testing.T) {
	var r Roster
	assert.Empty(t, r.String())
	for _, c := range [][3]string{
		{"a", "Judges code, documents and more. Then sleeps.", "a: Judges code, documents and more"},
		{"b", "Finds where something is, quickly, in a tree", "b: Finds where something is"},
		{"c", "General agent. Answers", "c: General agent"},
		{"d", "Use this agent when you need to review v1.2", "d: Use this agent when you need"},
		{"e", "", "e"},
		{"f", " Reviews:\n\"all\" of it", "f: Reviews"},
		{"g", strings.Repeat("ä", 100), "g: " + strings.Repeat("ä", 60)},
	} {
		var one Roster
		one.Add(agents.Agent{Name: c[0], Description: c[1]})
		assert.Equal(t, "\nAgents:\n"+c[2], one.String())
	}
	for i := range 23 {
		r.Add(agents.Agent{Name: fmt.Sprint("x", i), Description: "d"})
	}
	assert.Equal(t, 22, strings.Count(r.String(), "\n"))
	assert.True(t, strings.HasSuffix(r.String(), "\nx19: d\n3 more: list_agents"))
	about, _ := Tools(kin{echo{}, nil}, r, everybody).Lookup("delegate_task")
	assert.True(t, strings.HasSuffix(about.Spec().Description, `"explorer"}`+r.String()))
}

func TestListAgents(t *testing.T) {
	assert.Equal(t, "coder (content-modification): Writes code.\nexplorer (information-gathering): Finds.",
		standin.CallTool(t, delegating(echo{}), "list_agents", "{}").Content)
}

func TestNames(t *testing.T) {
	set := delegating(echo{})
	assert.Equal(t, []string{"delegate_task", "run_parallel_tasks", "spawn_agent", "list_agents",
		"list_children", "wait_children", "terminate_child", "send_message"}, set.Names())
}

func FuzzArguments(f *testing.F) {
	for _, s := range []string{`{"task":"a"}`, `"{}"`, `{"tasks":[{"task":1}]}`, `{"tasks_json":"[{}]"}`,
		`{"instructions":"a","tools":"x,y","background":1}`, `{"ids":"7f3c","timeout":"1e3"}`,
		`{"to":"parent","text":"a"}`} {
		f.Add(s)
	}
	children := []task.Child{{ID: "0198c7f3", Status: task.Running}}
	set := Tools(kin{echo{}, &family{children: children}}, Roster{}, everybody)
	f.Fuzz(func(t *testing.T, args string) {
		for i, name := range set.Names() {
			_, planErr := tool.Plan(t.Context(), set[i], json.RawMessage(args))
			r := standin.CallTool(t, set, name, args)
			if planErr != nil && !r.Failed {
				t.Errorf("%s works and cannot be planned: %v", name, planErr)
			}
		}
	})
}

// What a person can do about a refusal is in the error of the run, and not in what the model reads.
func TestRefusalHint(t *testing.T) {
	const hint = "--allow 'x' is enough"
	r := task.Task{Text: "x"}.Fail(&task.Error{Status: task.Refused, Problem: "no", Hint: hint})
	assert.Equal(t, &tool.RefusedError{Reason: "no", Hint: hint}, refusal([]task.Result{r}))
	assert.Equal(t, "Child agent error: no", failure(r).Error())
	text, err := encode([]task.Result{r})
	require.NoError(t, err)
	assert.NotContains(t, text, "hint")
	assert.Equal(t, "no\nhint: "+hint, r.Err(), "the result itself stays as it is")
	text, err = encode(nil)
	require.NoError(t, err)
	assert.Equal(t, "[]", text)
}
