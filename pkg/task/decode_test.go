package task

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDecode(t *testing.T) {
	got, err := Decode([]byte(` {"task":"do","agent":"coder","id":"a","context":"c","timeout":1.5,"model":"m",
		"read_only":true,"schema":{"type":"object"},"working_dir":"d"} `))
	require.NoError(t, err)
	assert.Equal(t, Task{Text: "do", Agent: "coder", ID: "a", Context: "c", Timeout: 1.5, Model: "m",
		ReadOnly: true, Schema: json.RawMessage(`{"type":"object"}`), WorkingDir: "d"}, got)

	got, err = Decode([]byte(`{"task":"do","agent":null,"timeout":null,"schema":null}`))
	require.NoError(t, err)
	assert.Equal(t, Task{Text: "do"}, got)
}

// Whatever a Task can hold, Decode knows.
func TestDecodeKnowsEveryKey(t *testing.T) {
	full := Task{Text: "t", Agent: "a", ID: "i", Context: "c", Timeout: 1, Model: "m", ReadOnly: true,
		Schema: json.RawMessage(`{}`), WorkingDir: "w", Targets: []string{"a/*.go"}, RequireFileReferences: true,
		Needs: []string{"b"}, Priority: 1, Role: "content-modification", Check: "true", CheckAsked: true,
		Idempotent: true}
	data, err := json.Marshal(full)
	require.NoError(t, err)
	got, err := Decode(data)
	require.NoError(t, err)
	assert.Equal(t, full, got)
	var members map[string]any
	require.NoError(t, json.Unmarshal(data, &members))
	assert.Len(t, members, len(Keys()))
	for _, k := range Keys() {
		assert.Contains(t, members, k)
	}
}

func TestDecodeErrors(t *testing.T) {
	for data, want := range map[string]string{
		``:                                         `not valid JSON: it is empty`,
		"{\n\n\"task\": }":                         `not valid JSON: line 3: invalid character '}' looking for beginning of value`,
		`{"task":"x"} {}`:                          `not valid JSON: line 1: invalid character '{' after top-level value`,
		`"do it"`:                                  `must be a JSON object`,
		`[]`:                                       `must be a JSON object`,
		`null`:                                     `must be a JSON object`,
		`{}`:                                       `"task" is missing: say what to do`,
		`{"agent":"x"}`:                            `"task" is missing: say what to do`,
		`{"task":null}`:                            `task is empty`,
		`{"task":" "}`:                             `task is empty`,
		`{"task":1}`:                               `"task" must be text`,
		`{"task":"x","agent":["a"]}`:               `"agent" must be text`,
		`{"task":"x","timeout":"60"}`:              `"timeout" must be a number`,
		`{"task":"x","timeout":1e400}`:             `"timeout" must be a number`,
		`{"task":"x","timeout":1e300}`:             `"timeout" is 1e+300: use seconds, at most 31622400`,
		`{"task":"x","timeout":-1}`:                `timeout is -1: use seconds above 0`,
		`{"task":"x","read_only":"true"}`:          `"read_only" must be true or false`,
		`{"task":"x","schema":"{}"}`:               `"schema" must be an object`,
		`{"task":"x","task":"y"}`:                  `"task" is given twice`,
		`{"task":"x","needs":7}`:                   `"needs" must be an id or a list of ids`,
		`{"task":"x","targets":[1]}`:               `"targets" must be a text or a list of texts`,
		`{"task":"x","targets":" , "}`:             `targets and needs must not contain an empty text`,
		`{"task":"x","targets":""}`:                `targets and needs must not contain an empty text`,
		`{"task":"x","priority":1.5}`:              `"priority" must be a whole number`,
		`{"task":"x","priority":1001}`:             `priority is 1001: use a number from -1000 to 1000`,
		`{"task":"x","role":"boss"}`:               `role is "boss": use information-gathering or content-modification`,
		`{"task":"x","check":"a\u0000b"}`:          `check contains a NUL character`,
		`{"task":"x","readonly":true}`:             `unknown key "readonly", did you mean "read_only"? (known: task, agent, id, context, timeout, model, read_only, schema, working_dir, targets, needs, priority, role, check, check_asked, require_file_references, idempotent)`,
		`{"Task":"x"}`:                             `unknown key "Task", did you mean "task"? (known: task, agent, id, context, timeout, model, read_only, schema, working_dir, targets, needs, priority, role, check, check_asked, require_file_references, idempotent)`,
		`{"task":"x","colour":1}`:                  `unknown key "colour" (known: task, agent, id, context, timeout, model, read_only, schema, working_dir, targets, needs, priority, role, check, check_asked, require_file_references, idempotent)`,
		`{"task":"x","require_file_references":1}`: `"require_file_references" must be true or false`,
	} {
		_, err := Decode([]byte(data))
		assert.EqualError(t, err, want, data)
	}
}

func TestDecodeManyUnknownKeys(t *testing.T) {
	var b strings.Builder
	for i := range 50 {
		b.WriteString(`,"k` + strings.Repeat("x", i) + `":1`)
	}
	_, err := Decode([]byte(`{"task":"x"` + b.String() + `}`))
	assert.ErrorContains(t, err, `unknown key "k"`)
}

func TestDecodeList(t *testing.T) {
	got, err := DecodeList([]byte(`[{"task":"a"},{"task":"b","agent":"coder"}]`))
	require.NoError(t, err)
	assert.Equal(t, []Task{{Text: "a"}, {Text: "b", Agent: "coder"}}, got)

	got, err = DecodeList([]byte(`[]`))
	require.NoError(t, err)
	assert.Empty(t, got)

	for data, want := range map[string]string{
		`{"task":"a"}`: `must be a JSON array of tasks`,
		`null`:         `must be a JSON array of tasks`,
		`[{"task":"a"},{"task":"b"},{"task":"c"},{"task":"d","timeout":"x"}]`: `task 3: "timeout" must be a number`,
		`[{"task":"a"},"b"]`:        `task 1: must be a JSON object`,
		`[{"task":"a"}, null]`:      `task 1: must be a JSON object`,
		`[{"task":"a"},{"tsk":""}]`: `task 1: unknown key "tsk", did you mean "task"? (known: task, agent, id, context, timeout, model, read_only, schema, working_dir, targets, needs, priority, role, check, check_asked, require_file_references, idempotent)`,
		"[{\"task\":\"a\"},\n":      `not valid JSON: line 2: unexpected end of JSON input`,
	} {
		_, err := DecodeList([]byte(data))
		assert.EqualError(t, err, want, data)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"task":"do","timeout":1e9,"schema":{"a":[1]},"read_only":false}`))
	f.Add([]byte(`{"task":"x","task":"y","targets":null}`))
	f.Add([]byte("{\"\\u0074ask\":\"\xff\"}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := Decode(data)
		if err != nil {
			if strings.TrimSpace(err.Error()) == "" {
				t.Fatal("error without text")
			}
			return
		}
		if err := got.Validate(); err != nil {
			t.Fatal(err)
		}
		if got.Deadline(0) < 0 {
			t.Fatalf("deadline of %v is %v", got.Timeout, got.Deadline(0))
		}
		again, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := Decode(again); err != nil || back.Text != got.Text {
			t.Fatalf("%s: %v", again, err)
		}
	})
}

// TestTexts: models write a list of one text as the text, and lists as JSON inside of a text.
func TestTexts(t *testing.T) {
	for given, want := range map[string][]string{
		`"a.go"`:             {"a.go"},
		`["a.go","b"]`:       {"a.go", "b"},
		`"[\"a.go\",\"b\"]"`: {"a.go", "b"},
		`"[id]/page.tsx"`:    {"[id]/page.tsx"},
		`"f, g;h\ni"`:        {"f", "g", "h", "i"},
		`"*.{ts,js}, a"`:     {"*.{ts,js}", "a"},
		`["f, g"]`:           {"f, g"},
		`null`:               nil,
		`[]`:                 {},
	} {
		got, err := Decode([]byte(`{"task":"x","targets":` + given + `}`))
		require.NoError(t, err, given)
		assert.Equal(t, want, got.Targets, given)
	}
}
