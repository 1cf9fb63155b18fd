package delegate

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/standin"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// family is a scripted [task.Family]. It records what it is asked.
type family struct {
	children []task.Child
	results  []task.Result
	err      error

	spawned []task.Task
	waited  []string
	atMost  time.Duration
	ended   string
	sent    [2]string
}

func (f *family) Spawn(_ context.Context, t task.Task) (task.Child, error) {
	f.spawned = append(f.spawned, t)
	return task.Child{ID: one, Agent: t.Agent}, f.err
}

func (f *family) Children(context.Context) ([]task.Child, error) { return f.children, nil }

func (f *family) Wait(_ context.Context, ids []string, atMost time.Duration) ([]task.Result, error) {
	f.waited, f.atMost = ids, atMost
	return f.results, f.err
}

func (f *family) Terminate(_ context.Context, id string) error {
	f.ended = id
	return f.err
}

func (f *family) Send(_ context.Context, to, text string) error {
	f.sent = [2]string{to, text}
	return f.err
}

const (
	one = "0198c7f3-1111-7000-8000-00000000abcd"
	two = "0198c7f3-1111-7000-8000-0000000012cd"
)

// twins are two children, of which the second has ended.
func twins() *family {
	return &family{children: []task.Child{{ID: one, Agent: "coder", Task: "write", Status: task.Running},
		{ID: two, Agent: "explorer", Task: "find", Status: task.Completed}}}
}

func (f *family) run(t testing.TB, name, args string) tool.Result {
	t.Helper()
	return standin.CallTool(t, Tools(kin{echo{}, f}, Roster{}, everybody), name, args)
}

func TestSpawnAgent(t *testing.T) {
	s := &scripted{results: []task.Result{{Success: true, Output: "done"}}}
	r := standin.CallTool(t, delegating(s), "spawn_agent", `{"instructions":"do","system_prompt":"You are brief.","tools":"read_file, grep_file",
		"mode":"read-only","context":"c","timeout":"60","schema":"{\"type\":\"object\"}","require_file_references":"true"}`)
	assert.Equal(t, tool.Text("done"), r)
	assert.Equal(t, []task.Task{{Text: "do", Context: "c", Timeout: 60, ReadOnly: true, RequireFileReferences: true,
		Schema:    json.RawMessage(`{"type":"object"}`),
		Temporary: &task.Temporary{Prompt: "You are brief.", Tools: []string{"read_file", "grep_file"}}}}, s.asked)

	standin.CallTool(t, delegating(s), "spawn_agent", `{"instructions":"do"}`)
	assert.NotNil(t, s.asked[0].Temporary, "with no choice at all it is still a temporary one")

	standin.CallTool(t, delegating(s), "spawn_agent",
		`{"instructions":"do","name":" scout","model":"ollama:small","working_dir":"src/api"}`)
	assert.Equal(t, []task.Task{{Text: "do", Model: "ollama:small", WorkingDir: "src/api",
		Temporary: &task.Temporary{Name: "scout"}}}, s.asked)

	standin.CallTool(t, delegating(s), "spawn_agent", `{"instructions":"do","agent":"coder","mode":"default"}`)
	assert.Equal(t, []task.Task{{Text: "do", Agent: "coder"}}, s.asked)
}

func TestSpawnAgentInBackground(t *testing.T) {
	f := &family{}
	r := f.run(t, "spawn_agent", `{"instructions":"do","agent":"coder","background":"true"}`)
	assert.Equal(t, tool.Text("started "+one+" (coder): collect it with wait_children"), r)
	assert.Equal(t, []task.Task{{Text: "do", Agent: "coder"}}, f.spawned)

	for _, targets := range []string{`["a.go","src/*.{ts,js}"]`, `"a.go, src/*.{ts,js}"`,
		`"[\"a.go\",\"src/*.{ts,js}\"]"`, `"a.go\nsrc/*.{ts,js}"`} {
		f.spawned = nil
		f.run(t, "spawn_agent", `{"instructions":"do","agent":"coder","background":true,"targets":`+targets+`}`)
		want := task.Task{Text: "do", Agent: "coder", Targets: []string{"a.go", "src/*.{ts,js}"}}
		assert.Equal(t, []task.Task{want}, f.spawned, targets)
	}

	f.err = errors.New("Maximum 200 sub-agents exceeded")
	assert.Equal(t, "Error: Maximum 200 sub-agents exceeded",
		f.run(t, "spawn_agent", `{"instructions":"do","background":true}`).Content)
}

func TestSpawnAgentRefusesWhatIsWrong(t *testing.T) {
	f := &family{}
	for args, want := range map[string]string{
		`{}`:                     `Error: argument "instructions" is missing`,
		`{"instructions":" "}`:   `Error: task is empty`,
		`{"instructions":["a"]}`: `Error: argument "instructions" must be text`,
		`{"instructions":"a","mode":"root"}`: `Error: mode "root" is not known: use default or ` +
			`read_only`,
		`{"instructions":"a","tools":[]}`:  `Error: tools is empty`,
		`{"instructions":"a","tools":[1]}`: `Error: argument "tools" must be a list of texts`,
		`{"instructions":"a","agent":"coder","tools":["x"]}`: `Error: a registered agent has its own prompt ` +
			`and tools`,
		`{"instructions":"a","agent":"coder","system_prompt":"x"}`: `Error: a registered agent has its own prompt ` +
			`and tools`,
		`{"instructions":"a","agent":"coder","name":"x"}`: `Error: a registered agent has its own prompt`,
		`{"instructions":"a","working_dir":"../x"}`: `Error: "working_dir" must be a folder inside the ` +
			`working directory`,
		`{"instructions":"a","targets":[1]}`: `Error: "targets" must be a text or a list of texts`,
		`{"instructions":"a","timeout":-1}`:  `Error: timeout is -1`,
		`{"instructions":"a","schema":[]}`:   `Error: "schema" must be an object`,
		standin.Args("instructions", "a", "system_prompt",
			"\x00"): `Error: system_prompt contains a character that is no text`,
		standin.Args("instructions", "a", "system_prompt",
			long(65)): `Error: system_prompt is 66560 bytes long, at most 65536`,
	} {
		r := f.run(t, "spawn_agent", args)
		assert.True(t, strings.HasPrefix(r.Content, want), r.Content)
	}
	assert.Empty(t, f.spawned)
}

func long(kb int) string { return strings.Repeat("x", kb<<10) }

func TestListChildren(t *testing.T) {
	assert.Equal(t, one+" running coder: write\n"+two+" completed explorer: find",
		twins().run(t, "list_children", "").Content)
	assert.Equal(t, "[no children]", (&family{}).run(t, "list_children", "{}").Content)
}

func TestWaitChildren(t *testing.T) {
	f := twins()
	f.results = []task.Result{task.Task{Text: "find <x>"}.Ended(task.Cancelled, "Sub-agent cancelled by user.")}
	f.results[0].ExecutionID = two
	r := f.run(t, "wait_children", `{"timeout":"1.5"}`)
	assert.Empty(t, f.waited)
	assert.Equal(t, 1500*time.Millisecond, f.atMost)
	array, rest, _ := strings.Cut(r.Content, "\n")
	var results []task.Result
	require.NoError(t, json.Unmarshal([]byte(array), &results))
	assert.Equal(t, f.results, results)
	assert.Contains(t, array, "Sub-agent cancelled by user.")
	assert.Equal(t, "[not collected: "+one+" (coder) running]", rest)

	r = f.run(t, "wait_children", standin.Args("ids", []string{"12cd", two}))
	assert.Equal(t, []string{two}, f.waited, "one child is asked for once")
	assert.Zero(t, f.atMost)
	assert.NotContains(t, r.Content, one, "nobody asked for it")

	f.results = nil
	assert.Equal(t, "[]\n[not collected: "+one+" (coder) running]",
		f.run(t, "wait_children", `{"ids":"abcd","timeout":1}`).Content)
	assert.Equal(t, "[no children to wait for]", (&family{}).run(t, "wait_children", "").Content)
}

// Results are handed out once: an error does not swallow them.
func TestWaitChildrenFails(t *testing.T) {
	f := twins()
	f.err = errors.New("the run ends")
	assert.Equal(t, "Error: the run ends", f.run(t, "wait_children", "").Content)
	f.results = []task.Result{{Output: "found", ExecutionID: two}}
	r := f.run(t, "wait_children", "")
	assert.True(t, r.Failed)
	assert.Contains(t, r.Content, `Error: the run ends`)
	assert.Contains(t, r.Content, `"output":"found"`)
	for args, want := range map[string]string{
		`{"timeout":"soon"}`: `Error: argument "timeout" must be a number of seconds`,
		`{"timeout":-1}`:     `Error: argument "timeout" must be a number of seconds`,
		`{"timeout":"NaN"}`:  `Error: argument "timeout" must be a number of seconds`,
		`{"timeout":1e9}`:    `Error: argument "timeout" must be a number of seconds`,
		`{"ids":{}}`:         `Error: argument "ids" must be a list of texts`,
		`{"ids":["0198c7f3"]}`: `Error: 0198c7f3 means several children: ` + one + ` (coder), ` + two +
			` (explorer). Give the whole id`,
		`{"ids":["bcd"]}`: `Error: there is no child "bcd": there are ` + one + ` (coder), ` + two + ` (explorer)`,
	} {
		assert.True(t, strings.HasPrefix(f.run(t, "wait_children", args).Content, want),
			f.run(t, "wait_children", args).Content)
	}
	assert.Contains(t, (&family{}).run(t, "wait_children", `{"ids":"abcd"}`).Content,
		`Error: there is no child "abcd": there are none`)
}

func TestTerminateChild(t *testing.T) {
	f := twins()
	assert.Equal(t, "ended "+one+" (coder): wait_children has what it did",
		f.run(t, "terminate_child", `{"id":"ABCD"}`).Content)
	assert.Equal(t, one, f.ended)

	f.ended = ""
	assert.Equal(t, "Error: "+two+" (explorer) has ended already (completed): collect it with wait_children",
		f.run(t, "terminate_child", standin.Args("id", two)).Content)
	assert.Equal(t, `Error: argument "id" is missing`, f.run(t, "terminate_child", `{}`).Content)
	assert.Empty(t, f.ended, "no other is ended")
	f.err = errors.New("gone")
	assert.Equal(t, "Error: gone", f.run(t, "terminate_child", `{"id":"abcd"}`).Content)
}

func TestSendMessage(t *testing.T) {
	f := twins()
	assert.Equal(t, "sent to "+one+" (coder)", f.run(t, "send_message", `{"to":"abcd","text":"stop writing"}`).Content)
	assert.Equal(t, [2]string{one, "stop writing"}, f.sent)
	assert.Equal(t, "sent to the agent that started you", f.run(t, "send_message",
		`{"to":" Parent","text":"hello"}`).Content)
	assert.Equal(t, [2]string{task.Parent, "hello"}, f.sent)
	f.run(t, "send_message", standin.Args("to", "parent", "text", long(64)))
	assert.Len(t, f.sent[1], task.MaxMessage)

	f.sent = [2]string{}
	for args, want := range map[string]string{
		`{"text":"x"}`:    `Error: argument "to" is missing`,
		`{"to":"parent"}`: `Error: argument "text" is missing`,
		`{"to":"12cd","text":"x"}`: `Error: ` + two +
			` (explorer) has ended already (completed)`,
		`{"to":"nobody","text":"x"}`:                       `Error: there is no child "nobody"`,
		standin.Args("to", "parent", "text", "a\x00"):      `Error: the text contains a character that is no text`,
		standin.Args("to", "parent", "text", "a"+long(64)): `Error: the text is 65537 bytes long, at most 65536`,
		standin.Args("to", "parent", "text", "x", "urgent",
			"y"): `Error: unknown argument "urgent" (accepted: text, to)`,
	} {
		assert.True(t, strings.HasPrefix(f.run(t, "send_message", args).Content, want), args)
	}
	assert.Empty(t, f.sent[0])
	f.err = errors.New("the root has no parent")
	assert.Equal(t, "Error: the root has no parent", f.run(t, "send_message", `{"to":"parent","text":"x"}`).Content)
	assert.Equal(t, "Error: the root has no parent", f.run(t, "send_message", `{"to":"abcd","text":"x"}`).Content)
}

// Whatever hands work on is judged where that is done, and the rest is harmless.
func TestIntents(t *testing.T) {
	set := Tools(kin{echo{}, twins()}, Roster{}, everybody)
	for _, f := range set {
		in, err := tool.Plan(t.Context(), f, json.RawMessage(`{}`))
		require.NoError(t, err)
		assert.Equal(t, tool.Low, in.Risk, in.Tool)
	}
}

// What was not allowed to begin is a refusal; what a child was not allowed to do
// is part of its own result.
func TestRefusals(t *testing.T) {
	never := task.Task{}.Ended(task.Refused, "Cannot delegate to self")
	child := task.Task{}.Ended(task.Refused, "edit_file was refused: no")
	child.Attempts = 1
	for _, c := range []struct {
		result task.Result
		why    string
	}{{never, "Cannot delegate to self"}, {child, ""}} {
		for name, args := range map[string]string{
			"delegate_task": `{"task":"x"}`, "run_parallel_tasks": `{"tasks":[{"task":"x"}]}`,
			"spawn_agent": `{"instructions":"x"}`,
		} {
			r := standin.CallTool(t, delegating(&scripted{results: []task.Result{c.result}}), name, args)
			if c.why == "" {
				assert.Nil(t, r.Refused, name)
				continue
			}
			require.NotNil(t, r.Refused, name)
			assert.Equal(t, tool.RefusedError{Tool: name, Reason: c.why}, *r.Refused)
		}
	}
}
