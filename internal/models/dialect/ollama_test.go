package dialect

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/ollama/ollama/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/llm"
	"qq/pkg/tool"
)

// conversation has everything that a request can have.
func conversation() llm.Request {
	temperature := 0.25
	return llm.Request{
		System: "Be brief & <plain>.",
		Messages: []llm.Message{
			{Role: llm.User, Content: "go\u2028on \"now\" \xff"},
			{Role: llm.Assistant, Content: "yes", Thinking: "hm", Calls: []tool.Call{
				{ID: "c1", Name: "delegate_task",
					Arguments: json.RawMessage(`{"z":1,"a":"<b>","list":[1.50,{"x":null}]}`)},
				{ID: "c2", Name: "now"},
			}},
			{Role: llm.ToolRole, Content: "done", CallID: "c1", Tool: "delegate_task"},
		},
		Tools: []tool.Spec{
			delegate,
			{Name: "now", Parameters: json.RawMessage(`{"type":"object"}`)},
			{Name: "null", Description: "d", Parameters: json.RawMessage(`{"properties":null,"type":"object"}`)},
			{Name: "deep", Parameters: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{
				"b":{"type":["string","null"],"enum":["x","y"]},"a":{"type":"array","items":{"type":"integer","minimum":1}}}}`)},
		},
		MaxTokens: 50, Temperature: &temperature,
	}
}

// apiRequest writes r with the types of Ollama's own client.
func apiRequest(t *testing.T, ask *Ask) *api.ChatRequest {
	t.Helper()
	no, r := false, ask.Request
	req := &api.ChatRequest{Model: ask.Model, Truncate: &no, Shift: &no, Options: map[string]any{"num_ctx": 8192}}
	if ask.Limit > 0 {
		req.Options["num_predict"] = ask.Limit
	}
	if r.Temperature != nil {
		req.Options["temperature"] = *r.Temperature
	}
	switch {
	case r.Schema != nil:
		req.Format, req.Think = r.Schema, &api.ThinkValue{Value: false}
	case ask.Thinking:
		req.Think = &api.ThinkValue{Value: true}
	}
	if r.System != "" {
		req.Messages = append(req.Messages, api.Message{Role: "system", Content: r.System})
	}
	for _, m := range r.Messages {
		out := api.Message{
			Role: string(m.Role), Content: m.Content, Thinking: m.Thinking, ToolName: m.Tool, ToolCallID: m.CallID,
		}
		for i, c := range m.Calls {
			call := api.ToolCall{ID: c.ID, Function: api.ToolCallFunction{Index: i, Name: c.Name}}
			if len(c.Arguments) > 0 {
				require.NoError(t, json.Unmarshal(c.Arguments, &call.Function.Arguments))
			}
			out.ToolCalls = append(out.ToolCalls, call)
		}
		req.Messages = append(req.Messages, out)
	}
	for _, spec := range r.Tools {
		out := api.Tool{Type: "function", Function: api.ToolFunction{Name: spec.Name, Description: spec.Description}}
		require.NoError(t, json.Unmarshal(spec.Parameters, &out.Function.Parameters))
		if out.Function.Parameters.Properties == nil {
			out.Function.Parameters.Properties = api.NewToolPropertiesMap()
		}
		req.Tools = append(req.Tools, out)
	}
	return req
}

// TestRequestIsOllamas: the server reads our request as it reads one of Ollama's
// own client.
func TestRequestIsOllamas(t *testing.T) {
	brief, schema := question("x"), conversation()
	schema.Tools, schema.Schema = nil, json.RawMessage(`{"type":"object","properties":{"b":{},"a":{}}}`)
	for name, ask := range map[string]*Ask{
		"all of it": {Request: conversation(), Limit: 50},
		"thinking":  {Request: conversation(), Thinking: true},
		"brief":     {Request: brief},
		"schema":    {Request: schema, Thinking: true},
	} {
		t.Run(name, func(t *testing.T) {
			ask.Model, ask.Context = "m", 8192
			path, body, err := Ollama{}.Encode(ask)
			require.NoError(t, err)
			assert.Equal(t, "api/chat", path)
			var got, want api.ChatRequest
			require.NoError(t, json.Unmarshal(body, &got), "%s", body)
			theirs, err := json.Marshal(apiRequest(t, ask))
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(theirs, &want))
			assert.Equal(t, want, got)
			ours, err := json.Marshal(got)
			require.NoError(t, err)
			theirs, err = json.Marshal(want)
			require.NoError(t, err)
			assert.Equal(t, string(theirs), string(ours), "to the order of keys")
		})
	}
}

// TestRequestsBeginAlike: the prompt cache of the server, and whoever looks at the
// bytes, find the same beginning for all tasks of an agent.
func TestRequestsBeginAlike(t *testing.T) {
	encoded := func(task string) []byte {
		r := conversation()
		r.Messages = []llm.Message{{Role: llm.User, Content: task}}
		_, body, err := Ollama{}.Encode(&Ask{Request: r, Model: "m", Thinking: true})
		require.NoError(t, err)
		return body
	}
	a, b := encoded("first task"), encoded("Second, with more words")
	end := bytes.Index(a, []byte("first task"))
	require.Positive(t, end)
	assert.Equal(t, string(a[:end]), string(b[:end]))
	assert.Less(t, bytes.Index(a, []byte(`"delegate_task"`)), end)
	assert.Less(t, bytes.Index(a, []byte("Be brief & <plain>.")), end)
}

// TestAnswerIsOllamas: what a server writes with its own types is what we read.
func TestAnswerIsOllamas(t *testing.T) {
	arguments := api.NewToolCallFunctionArguments()
	arguments.Set("z", "a < b")
	arguments.Set("a", []any{1.5, nil})
	replies := []api.ChatResponse{
		{Model: "m", CreatedAt: time.Now(), Message: api.Message{Role: "assistant", Thinking: "hm "}},
		{Model: "m", Message: api.Message{Role: "assistant", Content: "Größe \"1\"\n"}},
		{Model: "m", Message: api.Message{Role: "assistant", ToolCalls: []api.ToolCall{
			{ID: "c1", Function: api.ToolCallFunction{Name: "x", Arguments: arguments}},
			{Function: api.ToolCallFunction{Index: 1, Name: "y", Arguments: api.NewToolCallFunctionArguments()}},
		}}},
		{Model: "m", Message: api.Message{Role: "assistant"}, Done: true, DoneReason: "length", Metrics: api.Metrics{
			TotalDuration: 10 * time.Second, LoadDuration: time.Second, PromptEvalCount: 7,
			PromptEvalDuration: 2 * time.Second,
			EvalCount:          3, EvalDuration: 4 * time.Second,
		}},
	}
	var stream bytes.Buffer
	for _, r := range replies {
		require.NoError(t, json.NewEncoder(&stream).Encode(r))
	}
	began := time.Now()
	a := &Answer{asked: began.Add(-time.Hour)}
	require.NoError(t, takeAll(Ollama{}, a, stream.String()))
	a.Finish()
	resp := a.Response()
	assert.Equal(t, "hm ", resp.Message.Thinking)
	assert.Equal(t, "Größe \"1\"\n", resp.Message.Content)
	require.Len(t, resp.Message.Calls, 2)
	assert.Equal(t, "c1", resp.Message.Calls[0].ID)
	assert.Equal(t, `{"z":"a \u003c b","a":[1.5,null]}`, string(resp.Message.Calls[0].Arguments))
	assert.Equal(t, `{}`, string(resp.Message.Calls[1].Arguments))
	assert.NotEmpty(t, resp.Message.Calls[1].ID)
	assert.Equal(t, llm.StopLength, resp.Stop)
	assert.Equal(t, 7, resp.Usage.InputTokens)
	assert.Equal(t, 3, resp.Usage.OutputTokens)
	assert.Equal(t, llm.Timing{Queued: 3 * time.Second, Served: 6 * time.Second}, resp.Timing)

	var broken bytes.Buffer
	require.NoError(t, json.NewEncoder(&broken).Encode(map[string]string{"error": "it died"}))
	assert.EqualError(t, takeAll(Ollama{}, &Answer{}, broken.String()), "it died")
}

// Whatever parameters Ollama's own types take, ours take; what is sent is an object
// whose properties are one.
func FuzzToolParameters(f *testing.F) {
	for _, s := range []string{`{}`, `[]`, `null`, ``, `{"properties":null}`, `{"properties":7}`,
		`{"Properties":{"a":{}}}`,
		`{"type":"object","required":["a"],"properties":{"a":{"type":"string"}}}`, `{"properties":[]}`,
		`{"properties":{}}x`, `7`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		sent, err := toolParameters(tool.Spec{Name: "x", Parameters: raw})
		var theirs api.ToolFunctionParameters
		if json.Unmarshal(raw, &theirs) == nil && string(bytes.TrimSpace(raw)) != "null" {
			require.NoError(t, err)
		}
		if err != nil {
			require.ErrorAs(t, err, new(*llm.Error))
			return
		}
		var got struct {
			Properties map[string]json.RawMessage `json:"properties"`
		}
		require.NoError(t, json.Unmarshal(sent, &got))
		assert.NotNil(t, got.Properties)
	})
}

// Calls go back to the server with the arguments that they had, or not at all.
func FuzzCallArguments(f *testing.F) {
	for _, s := range []string{`{}`, ``, `null`, `7`, `{"a":1,"a":2}`, `{"a":"<&>"}`, ` {"b":[{}]} `, `{`, `[]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := newChatMessage(&llm.Message{Role: llm.Assistant, Calls: []tool.Call{{Name: "x", Arguments: raw}}})
		if err != nil {
			require.ErrorAs(t, err, new(*llm.Error))
			return
		}
		body, err := encode(&chatRequest{Messages: []chatMessage{m}})
		require.NoError(t, err)
		var got chatRequest
		require.NoError(t, json.Unmarshal(body, &got))
		want := raw
		if len(want) == 0 {
			want = []byte("{}")
		}
		assert.JSONEq(t, string(want), string(got.Messages[0].ToolCalls[0].Function.Arguments))
	})
}

// The last line says where the time went; what is left of it was spent waiting.
func TestTiming(t *testing.T) {
	const ms = 1e6
	for name, tt := range map[string]struct {
		last  string
		began time.Duration
		want  llm.Timing
	}{
		"waited": {`"total_duration":900e6,"load_duration":100e6,"prompt_eval_duration":200e6,` +
			`"eval_duration":300e6`, 600 * ms, llm.Timing{Queued: 300 * ms, Served: 500 * ms}},
		"did not wait": {`"total_duration":601e6,"load_duration":100e6,"prompt_eval_duration":200e6,` +
			`"eval_duration":300e6`, 300 * ms, llm.Timing{Queued: 0, Served: 501 * ms}},
		"the choosing of tokens": {`"total_duration":900e6,"load_duration":100e6,"prompt_eval_duration":200e6,` +
			`"eval_duration":300e6`, 310 * ms, llm.Timing{Queued: 10 * ms, Served: 790 * ms}},
		"it loaded for long": {`"total_duration":9000e6,"load_duration":8500e6,"prompt_eval_duration":200e6,` +
			`"eval_duration":300e6`, 8700 * ms, llm.Timing{Queued: 0, Served: 500 * ms}},
		"the prompt was known": {`"total_duration":900e6,"load_duration":1,"eval_duration":400e6`, 500 * ms,
			llm.Timing{Queued: 500*ms - 1, Served: 400 * ms}},
		"more parts than the whole": {`"total_duration":100e6,"load_duration":1,"prompt_eval_duration":100e6,` +
			`"eval_duration":100e6`, 100 * ms, llm.Timing{Queued: 0, Served: 100*ms - 1}},
		"load is more than all": {`"total_duration":1,"load_duration":5,"eval_duration":1`, 100 * ms, llm.Timing{}},
		"nothing":               {`"eval_count":1`, ms, llm.Timing{}},
		"the total alone":       {`"total_duration":900e6,"load_duration":1`, 500 * ms, llm.Timing{}},
		"the parts alone":       {`"prompt_eval_duration":200e6,"eval_duration":300e6`, 500 * ms, llm.Timing{}},
		"less than nothing":     {`"total_duration":900e6,"eval_duration":-1`, 500 * ms, llm.Timing{}},
		"more than a day":       {`"total_duration":1e300,"eval_duration":1`, 500 * ms, llm.Timing{}},
	} {
		t.Run(name, func(t *testing.T) {
			a := &Answer{asked: time.Unix(0, 0)}
			a.began = a.asked.Add(tt.began)
			require.NoError(t, a.Take(Ollama{}, []byte(`{"done":true,`+tt.last+"}")))
			assert.Equal(t, tt.want, a.Response().Timing)
		})
	}
}
