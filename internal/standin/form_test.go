package standin_test

import (
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/standin"
	"qq/internal/standin/form"
)

// requests are the same request in each form: a system prompt, a question, a call, its result, and a tool.
var requests = map[string]struct{ path, body, withSchema string }{
	"ollama": {"/api/chat", `{"model":"stand-in","messages":[{"role":"system","content":"be brief"},` +
		`{"role":"user","content":"[[fan]]"},{"role":"assistant","content":"","tool_calls":[{"function":` +
		`{"name":"delegate_task","arguments":{"x":1}}}]},{"role":"tool","content":"LAST"}]` + offer,
		`,"format":{"type":"object"}`},
	"openai": {"/v1/chat/completions", `{"model":"stand-in","stream_options":{"include_usage":true},"messages":[` +
		`{"role":"system","content":"be brief"},{"role":"user","content":[{"type":"text","text":"[[fan]]"}]},` +
		`{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":` +
		`{"name":"delegate_task","arguments":"{\"x\":1}"}}]},{"role":"tool","tool_call_id":"c1","content":"LAST"}]` +
		offer, `,"response_format":{"type":"json_schema","json_schema":{"schema":{"type":"object"}}}`},
	"anthropic": {"/v1/messages", `{"model":"stand-in","max_tokens":100,"system":[{"type":"text","text":"be brief"}],` +
		`"messages":[{"role":"user","content":"[[fan]]"},{"role":"assistant","content":[{"type":"tool_use","id":"c1",` +
		`"name":"delegate_task","input":{"x":1}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1",` +
		`"content":"LAST"}]}],"tools":[{"name":"delegate_task","input_schema":{}},` +
		`{"name":"give","input_schema":{"type":"object"}}]`, `,"tool_choice":{"type":"tool","name":"give"}`},
	"gemini": {"/v1beta/models/stand-in:streamGenerateContent", `{"systemInstruction":{"parts":[{"text":"be brief"}]},` +
		`"contents":[{"role":"user","parts":[{"text":"[[fan]]"}]},{"role":"model","parts":[{"functionCall":` +
		`{"name":"delegate_task","args":{"x":1}}}]},{"role":"user","parts":[{"functionResponse":{"name":"delegate_task",` +
		`"response":{"result":"LAST"}}}]}],"tools":[{"functionDeclarations":[{"name":"delegate_task",` +
		`"parametersJsonSchema":{}}]}]`, `,"generationConfig":{"responseJsonSchema":{"type":"object"}}`},
}

// reply returns the status and the body of the answer to a request.
func reply(t *testing.T, s *standin.Server, path, body string) (int, string) {
	t.Helper()
	resp, err := post(t, s, path, body)
	require.NoError(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(b)
}

// TestForms: all forms ask the same and are answered the same.
func TestForms(t *testing.T) {
	s := standin.Start(t, standin.Scripts(fan))
	marks := map[string][]string{ // in what follows the calls
		"ollama":    {`"done":true,"done_reason":"stop"`, `"eval_count":4`},
		"openai":    {`"finish_reason":"tool_calls"`, `"completion_tokens":4`, "data: [DONE]\n\n"},
		"anthropic": {`"stop_reason":"tool_use"`, `"output_tokens":4`, "event: message_stop\n"},
		"gemini":    {`"finishReason":"STOP"`, `"candidatesTokenCount":4`},
	}
	for name, r := range requests {
		t.Run(name, func(t *testing.T) {
			s.Forget()
			status, text := reply(t, s, r.path, r.body+"}")
			assert.Equal(t, 200, status)
			from := 0
			parts := append([]string{"Two.", "delegate_task", "[[poem]]", "delegate_task"}, marks[name]...)
			for _, part := range parts {
				i := strings.Index(text[from:], part)
				require.GreaterOrEqual(t, i, 0, "%q in %s", part, text)
				from += i + len(part)
			}
			chats := s.Ended(t)
			require.Len(t, chats, 1)
			assert.Equal(t, 1, s.Asked())
			assert.True(t, chats[0].Whole)
			assert.Equal(t, "stand-in", chats[0].Model)
			assert.Equal(t, "[[fan]]", chats[0].Task)
			assert.Equal(t, "tool", chats[0].Role)
			p := s.Requests(r.path)[0].Prompt()
			require.Len(t, p.Messages, 4)
			assert.Equal(t, standin.Message{Role: "system", Content: "be brief"}, p.Messages[0])
			assert.Equal(t, "assistant", p.Messages[2].Role)
			assert.Contains(t, string(p.Messages[2].ToolCalls), "delegate_task")
			assert.Equal(t, standin.Message{Role: "tool", Content: "LAST"}, p.Messages[3])

			status, text = reply(t, s, r.path, strings.ReplaceAll(r.body, "[[fan]]", "x")+r.withSchema+"}")
			assert.Equal(t, 200, status)
			assert.Contains(t, text, `"{}"`, "a document")
		})
	}
}

// TestFaultsOfForms: an error has the form of its server, as a status and in the stream.
func TestFaultsOfForms(t *testing.T) {
	for name, want := range map[string][3]string{
		"ollama":    {`{"error":"no"}` + "\n", `model 'stand-in' not found`, `{"error":"no"}` + "\n"},
		"openai":    {`{"error":{"message":"no","type":"server_error","code":null}}`, `model 'stand-in' not found`, `data: {"error":{"message":"no"`},
		"anthropic": {`{"type":"error","error":{"type":"api_error","message":"no"}}`, `"not_found_error"`, "event: error\ndata: {"},
		"gemini":    {`{"error":{"code":503,"message":"no","status":"SERVICE_UNAVAILABLE"}}`, `"NOT_FOUND"`, `data: {"error":{"code":500`},
	} {
		t.Run(name, func(t *testing.T) {
			r := requests[name]
			s := standin.Start(t, standin.Scripts(fan))
			s.Strike(standin.Rule{Fault: standin.Fault{Status: 503, Error: "no", Times: 1}})
			s.Strike(standin.Rule{Path: r.path, Fault: standin.Fault{Break: standin.ErrorLine, Error: "no", After: 1}})
			status, text := reply(t, s, r.path, r.body+"}")
			assert.Equal(t, 503, status)
			assert.Equal(t, want[0], text)
			status, text = reply(t, s, r.path, r.body+"}")
			assert.Equal(t, 200, status)
			assert.Contains(t, text, "Two.")
			assert.Contains(t, text, want[2])
			assert.False(t, s.Ended(t)[1].Whole)

			other := standin.Start(t, standin.Models(standin.Model{Name: "other"}))
			status, text = reply(t, other, r.path, r.body+"}")
			assert.Equal(t, 404, status)
			assert.Contains(t, text, want[1])
		})
	}
}

func TestLists(t *testing.T) {
	s := standin.Start(t, standin.Models(standin.Model{Name: "m", Context: 4096}))
	get := func(path string, header http.Header) string {
		req, err := http.NewRequest("GET", s.URL+path, nil)
		require.NoError(t, err)
		req.Header = header
		resp, err := client(t).Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return string(b)
	}
	assert.Contains(t, get("/v1/models", nil), `"object":"model"`)
	assert.Contains(t, get("/v1/models", http.Header{"Anthropic-Version": {"2023-06-01"}}), `"max_input_tokens":4096`)
	assert.Contains(t, get("/v1beta/models", nil), `"name":"models/m"`)
	assert.JSONEq(t, `{"default_generation_settings":{"n_ctx":4096}}`, get("/props", nil))
}

// TestOdd: the same oddities give the same answer, however it is split; what is sent to its end mark counts as whole.
func TestOdd(t *testing.T) {
	var of standin.Oddities
	s := standin.Start(t, standin.Scripts(fan), standin.Odd(func(standin.Prompt) *standin.Oddities {
		o := standin.AnyOddities(rand.New(rand.NewPCG(1, 1)))
		o.IDs, o.NamesRepeated, o.NoEnd, o.HalfCall, o.Whole = form.Repeated, true, of.NoEnd, false, false
		o.CRLF, o.Comments, o.Break, o.After, o.NoDone = of.CRLF, of.Comments, of.Break, of.After, of.NoDone
		return o
	}))
	r := requests["openai"]
	ask := func(o standin.Oddities) (string, bool) {
		of = o
		s.Forget()
		_, text := reply(t, s, r.path, r.body+"}")
		return text, s.Ended(t)[0].Whole
	}
	text, whole := ask(standin.Oddities{})
	assert.True(t, whole)
	again, _ := ask(standin.Oddities{})
	assert.Equal(t, text, strings.NewReplacer("call_3", "call_1", "call_4", "call_2").Replace(again))
	assert.Greater(t, strings.Count(text, `"name":"delegate_task"`), 2, "in each piece")
	end := strings.Index(text, `"finish_reason":"tool_calls"`)
	end += strings.Index(text[end:], "\n\n") + 2
	for after, want := range map[int]bool{10: false, end - 1: false, end: true, end + 1: true} {
		part, whole := ask(standin.Oddities{Break: standin.End, After: after})
		assert.Equal(t, want, whole, after)
		assert.Len(t, part, after)
	}
	text, whole = ask(standin.Oddities{Oddities: form.Oddities{NoEnd: true, CRLF: true, Comments: true, NoDone: true}})
	assert.False(t, whole)
	assert.NotContains(t, text, "[DONE]")
	assert.Contains(t, text, "\r\n\r\n")
	assert.NotContains(t, strings.ReplaceAll(text, "\r\n", ""), "\n")
	_, whole = ask(standin.Oddities{Break: standin.ErrorLine, After: 500})
	assert.False(t, whole)

	p := s.Requests(r.path)[0].Prompt()
	assert.True(t, json.Valid(p.Tools))
}
