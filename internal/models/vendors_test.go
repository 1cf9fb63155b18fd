package models

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/models/dialect"
	"qq/internal/models/listing"
	"qq/internal/models/servers"
	"qq/pkg/llm"
	"qq/pkg/tool"
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
		"anthropic, nothing paid": {servers.Anthropic, 400, `{"type":"error","error":{"type":"invalid_request_error",` +
			`"message":"Your credit balance is too low to access the Anthropic API."}}`, llm.Quota, "too low", "plan"},
		"openai, the words of Anthropic": {servers.OpenAI, 400, `{"error":{"message":"credit balance is too low"}}`,
			llm.Rejected, "too low", ""},
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

const said = "data: {\"choices\":[{\"delta\":{\"content\":\"{}\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"

// What a server refuses is left out of the next request, and of all further ones; another refusal is one.
func TestRefusals(t *testing.T) {
	schema := json.RawMessage(`{"type":"object"}`)
	tools := []tool.Spec{{Name: "now", Parameters: schema}}
	for name, tt := range map[string]struct {
		refuses string // a request with that
		unless  string // but not one with that
		status  int
		body    string
		request llm.Request
		asked   []int // so many requests after each chat
		fails   bool
	}{
		"schema": {"response_format", "none", 400, `{"error":{"message":"unavailable now"}}`,
			llm.Request{Schema: schema}, []int{2, 3}, false},
		"schema, by 422": {"response_format", "none", 422, "", llm.Request{Schema: schema}, []int{2, 3}, false},
		"thinking": {`"tools"`, `"reasoning_effort":"none"`, 400, `{"error":{"param":"reasoning_effort"}}`,
			llm.Request{Tools: tools}, []int{2, 3}, false},
		"something else": {`"tools"`, "none", 400, `{"error":{"param":"tools"}}`,
			llm.Request{Tools: tools}, []int{1, 2}, true},
		"all": {"messages", "none", 400, "", llm.Request{Schema: schema}, []int{2, 3}, true},
		"key": {"response_format", "none", 401, "", llm.Request{Schema: schema}, []int{1, 2}, true},
	} {
		t.Run(name, func(t *testing.T) {
			var bodies []string
			c := clientFor(t, servers.OpenAI, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				bodies = append(bodies, string(body))
				if strings.Contains(string(body), tt.refuses) && !strings.Contains(string(body), tt.unless) {
					w.WriteHeader(tt.status)
					_, _ = io.WriteString(w, tt.body)
					return
				}
				_, _ = io.WriteString(w, said)
			})
			b := c.Backend(Model{Kind: servers.OpenAI, Name: "m", Tools: true}, Options{})
			for _, asked := range tt.asked {
				r := tt.request
				r.Messages = ask("x").Messages
				_, err := b.Chat(t.Context(), r, ignore)
				assert.Equal(t, tt.fails, err != nil, "%v", err)
				assert.Len(t, bodies, asked)
			}
			if tt.request.Schema != nil && !tt.fails {
				assert.Contains(t, bodies[1], "JSON Schema")
				assert.Contains(t, bodies[2], "JSON Schema")
			}
		})
	}
}

// Anthropic does not list the aliases of its models, but knows them.
func TestAlias(t *testing.T) {
	for _, kind := range []string{servers.Anthropic, servers.Gemini} {
		c := clientFor(t, kind, func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/models":
				_, _ = io.WriteString(w, `{"data":[{"id":"claude-haiku-4-5-20251001"}]}`)
			case "/models/claude-haiku-4-5":
				_, _ = io.WriteString(w, `{"id":"claude-haiku-4-5-20251001","max_input_tokens":200000,"max_tokens":64000}`)
			case "/models/odd":
				_, _ = io.WriteString(w, `{}`)
			default:
				http.NotFound(w, r)
			}
		})
		m, err := c.Find(t.Context(), "claude-haiku-4-5")
		require.NoError(t, err)
		assert.Equal(t, "claude-haiku-4-5", m.Name)
		assert.Equal(t, 200000, m.Context)
		assert.Equal(t, 64000, m.Answer)
		for _, name := range []string{"claude-haiku", "odd", "../models"} {
			_, err = c.Find(t.Context(), name)
			failure(t, err, llm.UnknownModel)
		}
	}
}

// A variant of OpenRouter is the model that is listed, routed in another way.
func TestVariant(t *testing.T) {
	c, err := Open(servers.Server{Name: "openrouter", Kind: servers.OpenAI, URL: "https://openrouter.ai/api/v1"}, "")
	require.NoError(t, err)
	defer c.Close()
	all := []listing.Entry{{ID: "x/y"}, {ID: "x/z:free"}}
	l, ok := c.unlisted(t.Context(), "x/y:nitro", all)
	assert.True(t, ok)
	assert.Equal(t, "x/y", l.Name())
	_, ok = c.unlisted(t.Context(), "x/z:nitro", all)
	assert.False(t, ok)
}

// What is special about a vendor goes by the host.
func TestDialectOf(t *testing.T) {
	for url, want := range map[string]dialect.Dialect{
		"https://api.openai.com/v1":       dialect.OpenAI{Vendor: dialect.OpenAIOwn},
		"https://api.mistral.ai/v1":       dialect.OpenAI{Vendor: dialect.Mistral},
		"http://127.0.0.1:8080/v1":        dialect.OpenAI{},
		"https://api.anthropic.com/v1":    dialect.Anthropic{Own: true},
		"http://127.0.0.1:11434/v1":       dialect.Anthropic{},
		"https://gemini.example.com/v1":   dialect.Gemini{},
		"https://api.anthropic.com:81/v1": dialect.Anthropic{Own: true},
	} {
		kind := map[string]string{"OpenAI": servers.OpenAI, "Anthropic": servers.Anthropic, "Gemini": servers.Gemini}
		name := reflect.TypeOf(want).Name()
		c, err := Open(servers.Server{Name: "lab", Kind: kind[name], URL: url}, "")
		require.NoError(t, err)
		assert.Equal(t, want, c.dialect, url)
		c.Close()
	}
}
