package models

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/models/servers"
	"qq/pkg/llm"
)

// clientFor returns a client for a server of that kind that answers with handle.
func clientFor(t *testing.T, kind string, handle http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewServer(handle)
	t.Cleanup(s.Close)
	c, err := Open(servers.Server{Name: "lab", Kind: kind, URL: s.URL, KeyName: "LAB_KEY"}, "secret-key")
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// The errors of vendors, as they send them.
func TestErrorsOfVendors(t *testing.T) {
	for name, tt := range map[string]struct {
		kind    string
		status  int
		body    string
		want    llm.Kind
		problem string
		hint    string
	}{
		"openai, too long": {servers.OpenAI, 400, `{"error":{"message":"This model's maximum context length is 8192 ` +
			`tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`,
			llm.ContextOverflow, "context overflow: This model's maximum", "shorten the task"},
		"llama.cpp, too long": {servers.OpenAI, 400, `{"error":{"code":400,"message":"request (9000 tokens) exceeds ` +
			`the available context size (4096 tokens)","type":"exceed_context_size_error","n_ctx":4096}}`,
			llm.ContextOverflow, "context overflow: request (9000 tokens)", ""},
		"llama.cpp, too long, in the stream": {servers.OpenAI, 200, "data: " + `{"error":{"code":400,"message":"it ` +
			`exceeds","type":"exceed_context_size_error"}}` + "\n\n", llm.ContextOverflow, "overflow: it exceeds", "split"},
		"vllm, too long": {servers.OpenAI, 400, `{"object":"error","message":"This model's maximum context length is ` +
			`4096 tokens.","type":"BadRequestError","param":null,"code":400}`, llm.ContextOverflow, "4096 tokens", ""},
		"vllm, too long, in the stream": {servers.OpenAI, 200, "data: " + `{"error":{"code":400,"message":"the maximum ` +
			`context length is 4096","type":"BadRequestError"}}` + "\n\n", llm.ContextOverflow, "is 4096", ""},
		"anthropic, too long": {servers.Anthropic, 400, `{"type":"error","error":{"type":"invalid_request_error",` +
			`"message":"prompt is too long: 213462 tokens > 200000 maximum"}}`, llm.ContextOverflow, "213462", ""},
		"gemini, too long": {servers.Gemini, 400, `{"error":{"code":400,"message":"The input token count (1048577) ` +
			`exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}`,
			llm.ContextOverflow, "1048577", ""},
		"anthropic, overloaded": {servers.Anthropic, 529, `{"type":"error","error":{"type":"overloaded_error",` +
			`"message":"Overloaded"}}`, llm.Busy, "529: Overloaded", "try again later"},
		"gemini, bad key": {servers.Gemini, 400, `{"error":{"code":400,"message":"API key not valid.","status":` +
			`"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}`, llm.Rejected, "not valid", "LAB_KEY"},
		"openrouter, data policy": {servers.OpenAI, 404, `{"error":{"message":"No endpoints found matching your data ` +
			`policy","code":404}}`, llm.UnknownModel, `no model "m": No endpoints found matching`, "qq models list"},
		"mistral, bad order": {servers.OpenAI, 400, `{"object":"error","message":"Unexpected role 'user' after role ` +
			`'tool'","type":"invalid_request_message_order","code":"3230"}`, llm.Rejected, "Unexpected role", ""},
		"openai, too fast in the stream": {servers.OpenAI, 200, "data: " + `{"error":{"message":"slow down","type":` +
			`"tokens","code":"rate_limit_exceeded"}}` + "\n\n", llm.Busy, "slow down", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := clientFor(t, tt.kind, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.body)
			})
			_, err := c.Backend(Model{Kind: tt.kind, Name: "m"}, Options{}).Chat(t.Context(), ask("x"), ignore)
			e := failure(t, err, tt.want)
			assert.Contains(t, e.Problem, tt.problem)
			assert.Contains(t, e.Hint, tt.hint)
		})
	}
}
