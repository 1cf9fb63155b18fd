package dialect

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/models/tokens"
	"qq/pkg/llm"
)

// However a stream is made and wherever it is torn, what is handed on is what
// is kept, calls have ids and objects for arguments, and only a line that says
// so makes it done.
func FuzzStream(f *testing.F) {
	for _, s := range []string{
		`{"message":{"content":"a"}}` + "\n" +
			`{"done":true,"done_reason":"stop","prompt_eval_count":3,"eval_count":1}`,
		`{"message":{"tool_calls":[{"function":{"name":"x","arguments":null}},{"id":"1","function":{"arguments":{ ` +
			`"a" : 1 }}}]}}`,
		`{"message":{"tool_calls":[{"function":{"arguments":"{}"}}]}}`,
		`{"error":"it\ndied"}`, "\n\n", "<html>", `{"message":{"content":"<thi"}}`, `{"message":7}`,
		"{\"error\":\"\xff\"}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		var got chunks
		a := NewAnswer(got.add, 0)
		err := takeAll(Ollama{}, a, string(stream))
		a.Finish()
		resp := a.Response()
		text, thinking := got.text()
		assert.Equal(t, text, resp.Message.Content)
		assert.Equal(t, thinking, resp.Message.Thinking)
		for _, c := range resp.Message.Calls {
			assert.NotEmpty(t, c.ID)
			var object map[string]any
			require.NoError(t, json.Unmarshal(c.Arguments, &object))
		}
		if err != nil {
			assert.NotContains(t, err.Error(), "\n")
		}
		assert.Equal(t, a.Ended(), resp.Stop != "")

		short := NewAnswer(nil, 16)
		err = takeAll(Ollama{}, short, string(stream))
		short.Finish()
		size := short.text.Len() + short.thinking.Len()
		assert.LessOrEqual(t, size, short.most)
		assert.Equal(t, short.full(), errors.Is(err, ErrTooLong))
	})
}

// The same for all dialects: whatever they stream, calls have names, ids and objects for arguments, and nothing of an
// answer is lost between its pieces and the whole.
func FuzzDialects(f *testing.F) {
	for i, s := range []string{
		`{"message":{"content":"a","tool_calls":[{"function":{"name":"x","arguments":{}}}]}}` + "\n" + `{"done":true}`,
		`{"choices":[{"delta":{"content":"a","tool_calls":[{"index":0,"id":"c","function":{"name":"x","arguments":"{"}}]}}]}` +
			"\n" + `{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"}"}}]},"finish_reason":"stop"}]}` + "\n[DONE]",
		`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"c","name":"x","input":{}}}` + "\n" +
			`{"type":"content_block_delta","index":1,"delta":{"partial_json":"{}"}}` + "\n" + anthropicEnd("tool_use"),
		`{"candidates":[{"content":{"parts":[{"text":"a","thought":true},{"functionCall":{"name":"x"}}]},` +
			`"finishReason":"STOP"}]}` + "\n" + `{"candidates":[{"content":{"parts":[{"text":"b"}]},"finishReason":"MAX_TOKENS"}]}`,
	} {
		f.Add(byte(i), []byte(s))
	}
	f.Fuzz(func(t *testing.T, kind byte, stream []byte) {
		of := [...]Dialect{Ollama{}, OpenAI{}, Anthropic{}, Gemini{}}[kind%4]
		var got chunks
		a := NewAnswer(got.add, 0)
		err := takeAll(of, a, string(stream))
		a.Finish()
		resp := a.Response()
		text, thinking := got.text()
		assert.Equal(t, text, resp.Message.Content)
		assert.Equal(t, thinking, resp.Message.Thinking)
		for _, c := range resp.Message.Calls {
			assert.NotEmpty(t, c.ID)
			var object map[string]any
			require.NoError(t, json.Unmarshal(c.Arguments, &object))
			require.NotNil(t, object)
		}
		assert.Equal(t, a.Ended(), resp.Stop != "")
		if err != nil {
			assert.NotContains(t, err.Error(), "\n")
		}
		a.Believe(1000, len(stream), 10, 1000)
		usage := a.Response().Usage
		assert.GreaterOrEqual(t, usage.InputTokens, 0)
		assert.GreaterOrEqual(t, usage.OutputTokens, 0)
		assert.LessOrEqual(t, usage.CachedTokens, usage.InputTokens)

		short := NewAnswer(nil, 16)
		_ = takeAll(of, short, string(stream)) // however it ends
		short.Finish()
		assert.LessOrEqual(t, short.text.Len()+short.thinking.Len(), short.most)
	})
}

func FuzzEstimate(f *testing.F) {
	f.Add("a", "b c")
	f.Add("12", "你好\xff")
	f.Add("\xc0 ", " \xd2")
	f.Fuzz(func(t *testing.T, a, b string) {
		n := tokens.Estimate(a + b)
		assert.LessOrEqual(t, n, len(a)+len(b))
		// Two spaces that meet become a run, and the rounding of wide characters is
		// done once for both: each adds one at most.
		assert.LessOrEqual(t, n, tokens.Estimate(a)+tokens.Estimate(b)+2,
			"text put together costs no more than its parts")
		assert.GreaterOrEqual(t, PromptTokens(llm.Request{System: a, Messages: []llm.Message{{Content: b}}}),
			tokens.Estimate(a)+tokens.Estimate(b))
	})
}
