package delegate

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"qq/internal/standin"
	"qq/pkg/task"
)

// TestPlanOfTasks: the keys that order tasks are taken as models write them: one text, a list, or a list in a text.
func TestPlanOfTasks(t *testing.T) {
	want := task.Task{Text: "do", ID: "b", Targets: []string{"a.go", "src/*.{ts,js}"}, Needs: []string{"x", "y"},
		Priority: 2, Role: "information-gathering", Check: "go test ./..."}
	const rest = `"task":"do","id":"b","role":"information-gathering","check":"go test ./..."`
	for _, args := range []string{
		`{` + rest + `,"targets":["a.go","src/*.{ts,js}"],"needs":["x","y"],"priority":2}`,
		`{` + rest + `,"targets":"a.go, src/*.{ts,js}","needs":"x,y","priority":"2"}`,
		`{` + rest + `,"targets":"[\"a.go\",\"src/*.{ts,js}\"]","needs":"[\"x\",\"y\"]","priority":2}`,
		`{` + rest + `,"targets":"a.go\nsrc/*.{ts,js}","needs":"x\ny","priority":2}`,
	} {
		s := &scripted{}
		standin.CallTool(t, delegating(s), "delegate_task", args)
		assert.Equal(t, []task.Task{want}, s.asked, args)
		standin.CallTool(t, delegating(s), "run_parallel_tasks", `{"tasks":[`+args+`]}`)
		assert.Equal(t, []task.Task{want}, s.asked, args)
	}
}

// TestNamesOfOthers: the names that other systems have for keys are understood, and none is guessed at.
func TestNamesOfOthers(t *testing.T) {
	do := task.Task{Text: "do", Agent: "coder"}
	for args, want := range map[string]task.Task{
		`{"task":"do","agentId":"coder"}`:                                            do,
		`{"task":"do","agent_id":"coder","agent":null}`:                              do,
		`{"agent":"coder","agent_id":null,"prompt":"do"}`:                            do,
		`{"description":"do","subagent_type":"coder"}`:                               do,
		`{"description":"Mend it","prompt":"do","subagent_type":"coder"}`:            do, // the first is a title
		`{"agent":"coder","subagent_type":"coder","task":"do","prompt":"do"}`:        do,
		`{"agent_id":"coder","subagent_type":"coder","task":null,"prompt":"do"}`:     do,
		`{"agent":"coder","task":"do","description":"do"}`:                           do,
		`{"agent":"coder","prompt":"[\"do\"]"}`:                                      {Text: `["do"]`, Agent: "coder"},
		`{"agent":"coder","task":"{\"task\":\"x\"} a &lt; b"}`:                       {Text: `{"task":"x"} a &lt; b`, Agent: "coder"},
		`{"agent":"coder","task":"do","context":"&amp; [1]","targets":"a&amp;b.go"}`: {Text: "do", Agent: "coder", Context: "&amp; [1]", Targets: []string{"a&amp;b.go"}},
	} {
		s := &scripted{}
		standin.CallTool(t, delegating(s), "delegate_task", args)
		assert.Equal(t, []task.Task{want}, s.asked, args)
		s.asked = nil
		standin.CallTool(t, delegating(s), "run_parallel_tasks", `{"tasks":[`+args+`]}`)
		assert.Equal(t, []task.Task{want}, s.asked, args)
	}

	s := &scripted{results: []task.Result{{Success: true, Output: "done"}}}
	standin.CallTool(t, delegating(s), "spawn_agent", `{"instructions":"do","subagent_type":"coder"}`)
	assert.Equal(t, []task.Task{do}, s.asked)
}

// TestNamesThatDiffer: two names for one key must not have different values, and no key is lost.
func TestNamesThatDiffer(t *testing.T) {
	s := &scripted{}
	const same = ` are the same and have different values: give one of them`
	for args, want := range map[string]string{
		`{"task":"x","agent":"coder","agent_id":"explorer"}`:      `Error: "agent" and "agent_id"` + same,
		`{"task":"x","agentId":"coder","subagent_type":"worker"}`: `Error: "agentId" and "subagent_type"` + same,
		`{"task":"x","prompt":"y"}`:                               `Error: "task" and "prompt"` + same,
		`{"task":"x","description":"y"}`:                          `Error: "task" and "description"` + same,
		`{"task":"x","prompt":1}`:                                 `Error: "task" and "prompt"` + same,
		`{"prompt":["x"]}`:                                        `Error: "task" must be text`,
		`{"task":"x","task":"y","agent_id":"coder"}`:              `Error: "task" is given twice`,
		`{"task":"x","prompts":"y"}`:                              `Error: unknown key "prompts"`,
		`{"description":null}`:                                    `Error: "task" is missing`,
	} {
		r := standin.CallTool(t, delegating(s), "delegate_task", args)
		assert.True(t, strings.HasPrefix(r.Content, want), r.Content)
		r = standin.CallTool(t, delegating(s), "run_parallel_tasks", `{"tasks":[{"task":"a"},`+args+`]}`)
		want = strings.Replace(want, "Error: ", "Error: task 1: ", 1)
		assert.True(t, strings.HasPrefix(r.Content, want), r.Content)
		assert.True(t, strings.HasSuffix(r.Content, ". Nothing was started"), r.Content)
	}
	r := standin.CallTool(t, delegating(s), "spawn_agent", `{"instructions":"x","agent":"a","agentId":"b"}`)
	assert.Equal(t, `Error: "agent" and "agentId"`+same, r.Content)
	assert.Nil(t, s.asked, "nothing was started")
}

// FuzzLenient: what a model wrote correctly stays as it is, whatever other names it has.
func FuzzLenient(f *testing.F) {
	for _, s := range []string{`{"task":"a"}`, `{"prompt":"a","agentId":"b"}`, `{"task":"[1]","needs":"[\"a\"]"}`,
		`{"task":"a","task":"b"}`, `{}`, `{"description":"a","prompt":null}`, `{"targets":"a,b","\u0000":1}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, args string) {
		given, err := task.Decode(json.RawMessage(args))
		if err != nil {
			data, err := lenient(json.RawMessage(args))
			if err == nil && json.Valid([]byte(args)) && !json.Valid(data) {
				t.Errorf("%q became %q", args, data)
			}
			return
		}
		data, err := lenient(json.RawMessage(args))
		if err != nil {
			t.Fatalf("%q: %v", args, err)
		}
		again, err := task.Decode(data)
		if err != nil || again.Text != given.Text || again.Agent != given.Agent || again.Context != given.Context {
			t.Errorf("%q became %q: %v", args, data, err)
		}
	})
}
