package loop

import (
	"context"
	"encoding/json"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/llm"
	"qq/pkg/task"
	"qq/pkg/tool"
)

const number = `{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`

// bound tells for each request whether it had the schema and whether it had tools.
func bound(asked []llm.Request) (s []string) {
	for _, r := range asked {
		what := "free"
		if r.Schema != nil {
			what = "bound"
		}
		if len(r.Tools) > 0 {
			what += ", tools"
		}
		s = append(s, what)
	}
	return s
}

func TestSchemaBindsAtOnceWithoutTools(t *testing.T) {
	model := &script{steps: []step{says(` {"n":1} `)}}
	out, rec := start(t, t.Context(), Config{Backend: model, Schema: json.RawMessage(number)}, nil)
	assert.Equal(t, task.Result{Output: `{"n":1}`, Status: task.Completed, Success: true,
		Structured: json.RawMessage(`{"n":1}`), Usage: task.Usage{InputTokens: 10, OutputTokens: 1}}, out)
	assert.Equal(t, []string{"bound"}, bound(model.asked))
	assert.Equal(t, []bool{true}, rec.ends)
}

// The first answer of an agent with tools is free, so that it can call them; only a
// repair enforces the schema.
func TestSchemaBindsTheRepair(t *testing.T) {
	look := reading("look", func(context.Context) tool.Result { return tool.Text("seen") })
	model := &script{steps: []step{says("", calling("look")), says("n is 1"), says(`{"n":1}`)}}
	out, rec := start(
		t,
		t.Context(),
		Config{Backend: model, Tools: tool.Set{look}, MaxTurns: 9, Schema: json.RawMessage(number)},
		nil,
	)
	assert.Equal(t, task.Completed, out.Status)
	assert.JSONEq(t, `{"n":1}`, string(out.Structured))
	assert.Equal(t, []string{"free, tools", "free, tools", "bound"}, bound(model.asked))
	assert.Equal(t, []bool{false, false, true}, rec.ends)
	assert.Equal(
		t,
		"Your answer does not fit the JSON Schema: it is not JSON: invalid character ' ' "+
			"in literal null (expecting 'u'). "+
			"Answer again with the JSON document alone.",
		rec.messages[len(rec.messages)-2].Content,
	)
}

// A tool call in a repair is run although no tool was offered, and the repair continues.
func TestSchemaRepairWithCalls(t *testing.T) {
	look := reading("look", func(context.Context) tool.Result { return tool.Text("seen") })
	model := &script{steps: []step{says("no"), says("", calling("look")), says(`{"n":1}`)}}
	out, _ := start(
		t,
		t.Context(),
		Config{Backend: model, Tools: tool.Set{look}, MaxTurns: 2, Schema: json.RawMessage(number)},
		nil,
	)
	assert.Equal(t, task.Completed, out.Status)
	assert.Equal(t, []string{"free, tools", "bound", "bound"}, bound(model.asked))
}

// An answer is sent back twice, whatever the turn limit is. Then the task fails and keeps
// the text.
func TestSchemaSentBackAtMostTwice(t *testing.T) {
	for _, turns := range []int{1, 9} {
		model := &script{steps: []step{says("no"), says(`{"n":"x"}`), says(`{}`)}}
		out, rec := start(t, t.Context(), Config{Backend: model, MaxTurns: turns, Schema: json.RawMessage(number)}, nil)
		assert.Equal(t, task.Failed, out.Status)
		assert.Contains(t, out.Err(), "the answer does not fit the schema: ")
		assert.Contains(t, out.Err(), `required: missing properties: ["n"]`)
		assert.Equal(t, "{}", out.Output)
		assert.Nil(t, out.Structured)
		assert.Contains(t, rec.messages[4].Content, `has type "string", want "integer"`)
		assert.Equal(t, []bool{false, false, true}, rec.ends)
	}
}

// An answer that hit the token limit is not sent back, because it would hit it again.
func TestSchemaCutAnswer(t *testing.T) {
	model := &script{steps: []step{cut(`{"n":`)}}
	out, _ := start(t, t.Context(), Config{Backend: model, Schema: json.RawMessage(number)}, nil)
	assert.Equal(t, task.Limit, out.Status)
	assert.Equal(t, `{"n":`, out.Output)
}

func TestSchemaEmptyAnswers(t *testing.T) {
	model := &script{steps: []step{says(""), says(""), says("")}}
	out, _ := start(t, t.Context(), Config{Backend: model, Schema: json.RawMessage(number)}, nil)
	assert.Equal(t, task.Empty, out.Status)
}

func TestSchemaLastWord(t *testing.T) {
	look := reading("look", func(context.Context) tool.Result { return tool.Text("seen") })
	for answer, structured := range map[string]string{`{"n":1}`: `{"n":1}`, "I ran out of time": ""} {
		model := &script{steps: []step{says("", calling("look")), says(answer)}}
		out, _ := start(
			t,
			t.Context(),
			Config{Backend: model, Tools: tool.Set{look}, MaxTurns: 1, Schema: json.RawMessage(number)},
			nil,
		)
		assert.Equal(t, task.TurnLimit, out.Status)
		assert.Equal(t, answer, out.Output)
		assert.Equal(t, structured, string(out.Structured))
		assert.Equal(t, []string{"free, tools", "bound"}, bound(model.asked))
	}
}

func TestFencedAnswers(t *testing.T) {
	for text, want := range map[string]string{
		"```json\n{\"n\":1}\n```":   `{"n":1}`,
		" ```\n{\"n\": 1}\n```\n\n": `{"n": 1}`,
		"```\r\n{\"n\":1}\r\n```":   `{"n":1}`,
		"{\"n\":1, \"s\":\"```\"}":  "{\"n\":1, \"s\":\"```\"}",
	} {
		out, _ := start(
			t,
			t.Context(),
			Config{Backend: &script{steps: []step{says(text)}}, Schema: json.RawMessage(number)},
			nil,
		)
		assert.Equal(t, task.Completed, out.Status, text)
		assert.Equal(t, want, string(out.Structured))
		assert.Equal(t, strings.TrimSpace(text), out.Output, "the text stays as it was")
	}
	for _, text := range []string{"```json\n{\"n\":1}", "{\"n\":1}\n```", "```", "``````", "here: {\"n\":1}"} {
		out, _ := start(
			t,
			t.Context(),
			Config{
				Backend: &script{steps: []step{says(text), says(text), says(text)}},
				Schema:  json.RawMessage(number),
			},
			nil,
		)
		assert.Equal(t, task.Failed, out.Status, text)
	}
}

// The text of a problem is limited, although it may quote the whole answer.
func TestLongProblemIsShort(t *testing.T) {
	long := `"` + strings.Repeat("x", 1<<20) + `"`
	out, rec := start(
		t,
		t.Context(),
		Config{Backend: &script{steps: []step{says(long), says(long), says(long)}}, Schema: json.RawMessage(number)},
		nil,
	)
	assert.Less(t, len(out.Err()), 1000)
	assert.Less(t, len(rec.messages[2].Content), 1000)
}

// An unusable schema is a usage error: no model is called and nothing is recorded.
func TestSchemaThatCannotBeUsed(t *testing.T) {
	model := &script{}
	out, rec := start(t, t.Context(), Config{Backend: model, Schema: json.RawMessage(`{"type":5}`)}, nil)
	assert.Equal(t, task.Misused, out.Status)
	require.Contains(t, out.Err(), `read the schema: invalid value for "type"`)
	assert.Empty(t, model.asked)
	assert.Empty(t, rec.messages)
}

func TestParseSchema(t *testing.T) {
	for schema, want := range map[string]string{
		``:        "read the schema: it is not JSON",
		`{"a":`:   "read the schema: it is not JSON",
		`[]`:      "read the schema: it is not a JSON object",
		`"x"`:     "read the schema: it is not a JSON object",
		`true`:    "read the schema: it is not a JSON object",
		` {} `:    "",
		`{"x":1}`: "",
		number:    "",
		`{"$ref":"http://127.0.0.1/x"}`: "read the schema: loading http://127.0.0.1/x: " +
			"cannot resolve remote schemas: no loader passed to Schema.Resolve",
		`{"$defs":{"a":{"$id":"http://x/a"}}}`:                               `read the schema: "$id" "http://x/a" inside of a schema is not supported`,
		`{"$id":"http://x/y","$ref":"http://x/y#/$defs/a","$defs":{"a":{}}}`: `read the schema: reference "http://x/y#/$defs/a" is not supported: use # or #/$defs/NAME`,
	} {
		_, err := ParseSchema(json.RawMessage(schema))
		if want == "" {
			assert.NoError(t, err, schema)
			continue
		}
		assert.EqualError(t, err, want)
	}
	_, err := ParseSchema(json.RawMessage(`{"pattern":"("}`))
	assert.ErrorContains(t, err, "missing closing )")
	_, err = ParseSchema(json.RawMessage(`{"properties":[]}`))
	require.Error(t, err)
	assert.Less(t, len(err.Error()), 600)
}

// A schema may recurse into parts of the value. Recursion on the same value is refused,
// because it would overflow the stack.
func TestRecursiveSchemas(t *testing.T) {
	for _, schema := range []string{
		`{"type":"object","properties":{"next":{"$ref":"#"}}}`,
		`{"$ref":"#/$defs/tree","$defs":{"tree":{"type":"array","items":{"$ref":"#/$defs/tree"}}}}`,
		`{"$ref":"#t","$defs":{"tree":{"$anchor":"t","additionalProperties":{"$ref":"#t"}}}}`,
		`{"allOf":[{"$ref":"#/$defs/a~1b"},{"$ref":"#/$defs/a~1b"}],"$defs":{"a/b":{"type":"object"}}}`,
		`{"$ref":"#/anyOf/1","anyOf":[{},{"type":"object"}]}`,
		`{"$ref":"#/$defs/%61","$defs":{"a":{}}}`,
		`{"default":{"$ref":"#"},"type":"object"}`,
	} {
		s, err := ParseSchema(json.RawMessage(schema))
		require.NoError(t, err, schema)
		var v any
		require.NoError(t, json.Unmarshal([]byte(`{"next":{"next":{}}}`), &v))
		_ = s.Validate(v) // returns
	}
	for _, schema := range []string{
		`{"$ref":"#"}`,
		`{"$REF":"#"}`,
		`{"allOf":[{"$ref":"#"}]}`,
		`{"not":{"$ref":"#"}}`,
		`{"if":{},"then":{"anyOf":[{},{"$ref":"#"}]}}`,
		`{"anyOf":[{"$ref":"#/anyOf/0"}]}`,
		`{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"oneOf":[{"$ref":"#/$defs/a"}]}}}`,
		`{"properties":{"x":{"$ref":"#/properties/x"}}}`,
		`{"$anchor":"top","$ref":"#top"}`,
		`{"$dynamicAnchor":"top","allOf":[{"$dynamicRef":"#top"}]}`,
		`{"dependentSchemas":{"x":{"$ref":"#"}}}`,
		`{"$schema":"http://json-schema.org/draft-07/schema#","dependencies":{"x":{"$ref":"#"}}}`,
	} {
		_, err := ParseSchema(json.RawMessage(schema))
		assert.EqualError(t, err, "read the schema: it refers to itself without an end", schema)
	}
}

// For any schema and answer: nothing panics or overflows the stack, and an accepted
// answer is JSON.
func FuzzSchema(f *testing.F) {
	for _, schema := range []string{
		number, `{"$ref":"#"}`, `{"properties":{"a":{"$ref":"#"}}}`,
		`{"$defs":{"a":{"$anchor":"b","$dynamicRef":"#b"}},"$ref":"#b"}`,
		`{"if":{"$ref":"#/not"},"not":{"propertyNames":{"$ref":"#"}}}`,
		`{"unevaluatedProperties":{"$ref":"#"},"dependentSchemas":{"a":{}}}`,
		`{"$dynamicAnchor":"x","items":{"$dynamicRef":"#x"}}`, `{"$id":"http://a/b","contains":{"$ref":"#"}}`,
		`{"type":["object","null"],"minProperties":1}`,
	} {
		for _, answer := range []string{`{"n":1}`, "```\n[{\"a\":[]}]\n```", "```", `{"a":{"a":{}}}`} {
			f.Add([]byte(schema), answer)
		}
	}
	defer debug.SetMaxStack(debug.SetMaxStack(64 << 20))
	f.Fuzz(func(t *testing.T, schema []byte, answer string) {
		check, err := newSchemaCheck(schema)
		if err != nil || check == nil {
			return
		}
		if check.accept(answer) != json.Valid(check.value) {
			t.Fatalf("%q: accepted %q, problem %q", answer, check.value, check.problem)
		}
	})
}
