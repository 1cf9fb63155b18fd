package dialect

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/llm"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// Servers differ in how they stream the same answer.
func TestStreams(t *testing.T) {
	const text = "Größe 1"
	calls := []tool.Call{
		{ID: "c1", Name: "read", Arguments: json.RawMessage(`{"path":"a"}`)},
		{ID: "c2", Name: "now", Arguments: json.RawMessage(`{}`)},
	}
	one := calls[:1]
	signed := []tool.Call{calls[0], calls[1]}
	signed[0].Signature = `[{"type":"thinking","thinking":"hm","signature":"x"}]`
	same := []tool.Call{calls[0], {ID: "c1", Name: "now", Arguments: calls[1].Arguments}}
	twice := []tool.Call{calls[0], {ID: "c2", Name: "read", Arguments: calls[1].Arguments}}
	for name, tt := range map[string]struct {
		of     Dialect
		stream string
		text   string
		think  string
		calls  []tool.Call
		usage  task.Usage
		stop   llm.Stop
	}{
		"openai": {OpenAI{}, `{"choices":[{"delta":{"role":"assistant","content":null}}]}
{"choices":[{"delta":{"content":"Größe"}}]}
{"choices":[{"delta":{"content":" 1"},"finish_reason":null}],"usage":null}
{"choices":[{"delta":{},"finish_reason":"stop"}]}
{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":5}}}
[DONE]
more`, text, "", nil, task.Usage{InputTokens: 7, OutputTokens: 3, CachedTokens: 5}, llm.StopEnd},
		"openai, without [DONE] and usage": {OpenAI{}, `{"choices":[{"delta":{"content":"Größe 1"},"finish_reason":"length"}]}`,
			text, "", nil, task.Usage{}, llm.StopLength},
		"openai, a whole answer": {OpenAI{}, `{"choices":[{"message":{"content":"Größe 1","tool_calls":` +
			`[{"id":"c1","function":{"name":"read","arguments":"{\"path\":\"a\"}"}}]},"finish_reason":"tool_calls"}]}`,
			text, "", one, task.Usage{}, llm.StopEnd},
		"openai, reasoning_content": {OpenAI{}, `{"choices":[{"delta":{"reasoning_content":"h"}}]}
{"choices":[{"delta":{"reasoning_content":"m"}}]}
{"choices":[{"delta":{"content":"Größe 1"},"finish_reason":"stop"}]}`, text, "hm", nil, task.Usage{}, llm.StopEnd},
		"openai, Mistral thinks": {OpenAI{}, `{"choices":[{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"h"}]}]}}]}
{"choices":[{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"m"}]},{"type":"text","text":"Größe"}]}}]}
{"choices":[{"delta":{"content":" 1"},"finish_reason":"model_length"}]}`, text, "hm", nil, task.Usage{}, llm.StopLength},
		"openai, the cache of DeepSeek": {OpenAI{}, `{"choices":[{"delta":{"content":"Größe 1"},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":3,"prompt_cache_hit_tokens":5,"prompt_cache_miss_tokens":2}}`,
			text, "", nil, task.Usage{InputTokens: 7, OutputTokens: 3, CachedTokens: 5}, llm.StopEnd},
		"openai, reasoning, and both": {OpenAI{}, `{"choices":[{"delta":{"reasoning":"h"}}]}
{"choices":[{"delta":{"reasoning":"m","reasoning_content":"m"}}]}
{"choices":[{"delta":{"content":"Größe 1"},"finish_reason":"stop"}]}`, text, "hm", nil, task.Usage{}, llm.StopEnd},
		"openai, calls in pieces": {OpenAI{}, `{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"read","arguments":""}}]}}]}
{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"pa"}}]}}]}
{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"th\":\"a\"}"}},{"index":1,"id":"c2","function":{"name":"now"}}]}}]}
{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}`, "", "", calls, task.Usage{}, llm.StopEnd},
		"openai, name and id in each piece": {OpenAI{}, `{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"read","arguments":"{\"pa"}}]}}]}
{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"read","arguments":"th\":\"a\"}"}}]}}]}
{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"read","arguments":""}}]}}]}
{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}`, "", "", one, task.Usage{}, llm.StopEnd},
		"openai, another id and the name in each piece": {OpenAI{}, `{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"read","arguments":"{\"pa"}}]}}]}
{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"read","arguments":"th\":\"a\"}"}}]}}]}
{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}`, "", "", one, task.Usage{}, llm.StopEnd},
		"openai, no index": {OpenAI{}, `{"choices":[{"delta":{"tool_calls":[{"id":"c1","function":{"name":"read","arguments":"{\"pa"}}]}}]}
{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"th\":\"a\"}"}}]}}]}
{"choices":[{"delta":{"tool_calls":[{"id":"c2","function":{"name":"now","arguments":"{}"}}]},"finish_reason":"stop"}]}`,
			"", "", calls, task.Usage{}, llm.StopEnd},
		"openai, one index for all": {OpenAI{}, `{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"read","arguments":"{\"path\":\"a\"}"}}]}}]}
{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c2","function":{"name":"now","arguments":"{}"}}]},"finish_reason":"stop"}]}`,
			"", "", calls, task.Usage{}, llm.StopEnd},
		"openai, another id in each piece": {OpenAI{}, `{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"read"}}]}}]}
{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","function":{"arguments":"{\"path\":\"a\"}"}}]}}]}
{"choices":[{"delta":{"tool_calls":[{"index":1,"id":"c2","function":{"name":"now"}}]}}]}
{"choices":[{"delta":{"tool_calls":[{"index":1,"id":"z","function":{"arguments":"{}"}}]},"finish_reason":"stop"}]}`,
			"", "", calls, task.Usage{}, llm.StopEnd},
		"openai, one tool twice, one index": {OpenAI{}, `{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"read","arguments":""}}]}}]}
{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"path\":\"a\"}"}}]}}]}
{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c2","function":{"name":"read","arguments":""}}]}}]}
{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]},"finish_reason":"stop"}]}`,
			"", "", twice, task.Usage{}, llm.StopEnd},
		"openai, one id for all": {OpenAI{}, `{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"read","arguments":"{\"path\":\"a\"}"}}]}}]}
{"choices":[{"delta":{"tool_calls":[{"index":1,"id":"c1","function":{"name":"now","arguments":"{}"}}]},"finish_reason":"stop"}]}`,
			"", "", same, task.Usage{}, llm.StopEnd},
		"openai, an index in later pieces only": {OpenAI{}, `{"choices":[{"delta":{"tool_calls":[{"id":"c1","function":{"name":"read"}}]}}]}
{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"path\":\"a\"}"}}]},"finish_reason":"stop"}]}`,
			"", "", one, task.Usage{}, llm.StopEnd},
		"openai, the name again after the arguments": {OpenAI{}, `{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"read","arguments":"{\"path\":\"a\"}"},"id":"c1"}]}}]}
{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"read","arguments":"\n"}}]},"finish_reason":"stop"}]}`,
			"", "", one, task.Usage{}, llm.StopEnd},
		"openai, the name in the second piece": {OpenAI{}, `{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"","arguments":""}}]}}]}
{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"read","arguments":"{\"path\":\"a\"}"}}]},"finish_reason":"stop"}]}`,
			"", "", one, task.Usage{}, llm.StopEnd},
		"openai, one call at two indexes": {OpenAI{}, `{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"read","arguments":""}}]}}]}
{"choices":[{"delta":{"tool_calls":[{"index":1,"id":"c1","function":{"arguments":"{\"path\":\"a\"}"}}]},"finish_reason":"stop"}]}`,
			"", "", one, task.Usage{}, llm.StopEnd},
		"openai, arguments that are an object": {OpenAI{}, `{"choices":[{"delta":{"tool_calls":[{"id":"c1","function":{"name":"read","arguments":{"path":"a"}}}]},"finish_reason":"stop"}]}`,
			"", "", one, task.Usage{}, llm.StopEnd},
		"openai, cut in a call": {OpenAI{}, `{"choices":[{"delta":{"content":"Größe 1","tool_calls":[{"id":"c1","function":{"name":"read","arguments":"{\"pa"}}]},"finish_reason":"length"}]}`,
			text, "", nil, task.Usage{}, llm.StopLength},
		"openai, cut before the arguments of a call": {OpenAI{}, `{"choices":[{"delta":{"content":"Größe 1","tool_calls":[{"id":"c1","function":{"name":"read","arguments":""}}]},"finish_reason":"length"}]}`,
			text, "", nil, task.Usage{}, llm.StopLength},
		"anthropic": {Anthropic{}, `{"type":"message_start","message":{"usage":{"input_tokens":2,"cache_read_input_tokens":4,"cache_creation_input_tokens":1,"output_tokens":1}}}
{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}
{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}
{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"x"}}
{"type":"content_block_stop","index":0}
{"type":"ping"}
{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}
{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Größe 1"}}
{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"c1","name":"read","input":{}}}
{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"path\""}}
{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":":\"a\"}"}}
{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"c2","name":"now","input":{}}}
{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":3}}
{"type":"message_stop"}`, text, "hm", signed, task.Usage{InputTokens: 7, OutputTokens: 3, CachedTokens: 4}, llm.StopEnd},
		"anthropic, whole inputs": {Anthropic{}, `{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"c1","name":"read","input":{"path":"a"}}}
{"type":"message_delta","delta":{"stop_reason":"max_tokens"}}
{"type":"message_stop"}`, "", "", one, task.Usage{}, llm.StopLength},
		"anthropic, without indexes": {Anthropic{}, `{"type":"content_block_start","content_block":{"type":"tool_use","id":"c1","name":"read","input":{}}}
{"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":"{\"path\":\"a\"}"}}
{"type":"content_block_start","content_block":{"type":"tool_use","id":"c2","name":"read","input":{}}}
{"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":"{}"}}
{"type":"message_delta","delta":{"stop_reason":"tool_use"}}
{"type":"message_stop"}`, "", "", twice, task.Usage{}, llm.StopEnd},
		"anthropic, usage after the reason": {Anthropic{}, `{"type":"content_block_delta","delta":{"type":"text_delta","text":"Größe 1"}}
{"type":"message_delta","delta":{"stop_reason":"end_turn"}}
{"type":"message_delta","delta":{},"usage":{"output_tokens":3}}
{"type":"message_stop"}`, text, "", nil, task.Usage{OutputTokens: 3}, llm.StopEnd},
		"anthropic, an answer by schema": {Anthropic{}, `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"c1","name":"give_answer","input":{}}}
{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"n\":1}"}}
{"type":"message_delta","delta":{"stop_reason":"tool_use"}}
{"type":"message_stop"}`, `{"n":1}`, "", nil, task.Usage{}, llm.StopEnd},
		"gemini": {Gemini{}, `{"candidates":[{"content":{"parts":[{"text":"hm","thought":true}],"role":"model"}}]}
{"candidates":[{"content":{"parts":[{"text":"Größe 1"}]}}],"usageMetadata":{"promptTokenCount":7}}
{"candidates":[{"content":{"parts":[{"text":""}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":7,"candidatesTokenCount":2,"thoughtsTokenCount":1,"cachedContentTokenCount":5}}`,
			text, "hm", nil, task.Usage{InputTokens: 7, OutputTokens: 3, CachedTokens: 5}, llm.StopEnd},
		"gemini, calls": {Gemini{}, `{"candidates":[{"content":{"parts":[{"functionCall":{"id":"c1","name":"read","args":{"path":"a"}}}]}}]}
{"candidates":[{"content":{"parts":[{"functionCall":{"id":"c2","name":"now"}}]},"finishReason":"STOP"}]}`,
			"", "", calls, task.Usage{}, llm.StopEnd},
		"gemini, a finish reason in each event": {Gemini{}, `{"candidates":[{"content":{"parts":[]},"finishReason":"STOP"}]}
{"candidates":[{"content":{"parts":[{"text":"Größe"}]},"finishReason":"STOP"}]}
{"candidates":[{"content":{"parts":[{"functionCall":{"id":"c1","name":"read","args":{"path":"a"}}}]},"finishReason":"STOP"}]}
{"candidates":[{"content":{"parts":[{"text":" 1"}]},"finishReason":"MAX_TOKENS"}]}
{"usageMetadata":{"promptTokenCount":7}}`,
			text, "", one, task.Usage{InputTokens: 7}, llm.StopLength},
		"gemini, one id for all, and the token limit": {Gemini{}, `{"candidates":[{"content":{"parts":[{"functionCall":{"id":"c1","name":"read","args":{"path":"a"}}}]}}]}
{"candidates":[{"content":{"parts":[{"functionCall":{"id":"c1","name":"now"}}]},"finishReason":"MAX_TOKENS"}]}`,
			"", "", same, task.Usage{}, llm.StopLength},
	} {
		t.Run(name, func(t *testing.T) {
			var got chunks
			a := NewAnswer(got.add, 0)
			require.NoError(t, takeAll(tt.of, a, tt.stream))
			a.Finish()
			r := a.Response()
			text, thinking := got.text()
			assert.Equal(t, tt.text, text)
			assert.Equal(t, tt.think, thinking)
			assert.Equal(t, tt.text, r.Message.Content)
			assert.Equal(t, tt.calls, r.Message.Calls)
			assert.Equal(t, tt.usage, r.Usage)
			assert.Equal(t, tt.stop, r.Stop)
		})
	}
}

// Calls without ids get one each; their signatures come back.
func TestCallsWithoutIDs(t *testing.T) {
	a := NewAnswer(nil, 0)
	require.NoError(t, takeAll(Gemini{}, a, `{"candidates":[{"content":{"parts":[{"functionCall":{"name":"now"},`+
		`"thoughtSignature":"sig"},{"functionCall":{"name":"now"}}]},"finishReason":"STOP"}]}`))
	calls := a.Response().Message.Calls
	require.Len(t, calls, 2)
	assert.NotEqual(t, calls[0].ID, calls[1].ID)
	assert.Equal(t, []string{"sig", ""}, []string{calls[0].Signature, calls[1].Signature})

	_, body, err := Gemini{}.Encode(&Ask{Model: "m", Request: llm.Request{Messages: []llm.Message{
		{Role: llm.Assistant, Calls: calls},
		{Role: llm.Assistant, Calls: []tool.Call{{ID: "other", Name: "now"}}},
	}}})
	require.NoError(t, err)
	assert.Contains(t, string(body), `{"functionCall":{"name":"now","args":{}},"thoughtSignature":"sig"},`+
		`{"functionCall":{"name":"now","args":{}}}`)
	assert.Contains(t, string(body), `"thoughtSignature":"skip_thought_signature_validator"`)
}

// What a server reports in the middle of a stream is no answer, and its class says what to do.
func TestFailuresInStreams(t *testing.T) {
	for name, tt := range map[string]struct {
		of     Dialect
		stream string
		kind   llm.Kind
		text   string
	}{
		"openai":           {OpenAI{}, `{"error":{"message":"it\ndied","type":"server_error","code":null}}`, llm.BrokenStream, "it died"},
		"openai, a text":   {OpenAI{}, `{"error":"it died"}`, llm.BrokenStream, "it died"},
		"vllm":             {OpenAI{}, `{"object":"error","message":"it died","code":400}`, llm.BrokenStream, "it died"},
		"openrouter":       {OpenAI{}, `{"error":{"code":429,"message":"slow down"},"choices":[{"delta":{"content":""},"finish_reason":"error"}]}`, llm.Busy, "slow down"},
		"openrouter, 502":  {OpenAI{}, `{"error":{"code":502,"message":"bad"}}`, llm.Busy, "bad"},
		"openrouter, 500":  {OpenAI{}, `{"error":{"code":500,"message":"it died"}}`, llm.BrokenStream, "it died"},
		"openai, quota":    {OpenAI{}, `{"error":{"code":"insufficient_quota","message":"pay"}}`, llm.Quota, "pay"},
		"openai, too long": {OpenAI{}, `{"error":{"code":"context_length_exceeded","message":"long"}}`, llm.ContextOverflow, "long"},
		"openai, wrong":    {OpenAI{}, `{"error":{"type":"invalid_request_error","message":"wrong"}}`, llm.Rejected, "wrong"},
		"openai, 600":      {OpenAI{}, `{"error":{"code":600,"message":"odd"}}`, llm.BrokenStream, "odd"},
		"openai, no text":  {OpenAI{}, `{"error":{"what":1}}`, llm.BrokenStream, `{"what":1}`},
		"openai, filtered": {OpenAI{}, `{"choices":[{"delta":{},"finish_reason":"content_filter"}]}`, llm.Rejected, "a filter of the server ended it (content_filter)"},
		"sglang":           {OpenAI{}, `{"choices":[{"delta":{},"finish_reason":"abort"}]}`, llm.BrokenStream, "the server ended it with abort"},
		"openai, HTML":     {OpenAI{}, `<html>`, llm.BrokenStream, "line that is no answer: <html>"},
		"openai, arguments": {OpenAI{}, `{"choices":[{"delta":{"tool_calls":[{"function":{"name":"x","arguments":"{"}}]},"finish_reason":"stop"}]}`,
			llm.BrokenStream, "arguments of a call of x are no JSON"},
		"openai, no name": {OpenAI{}, `{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"{}"}}]},"finish_reason":"stop"}]}`,
			llm.BrokenStream, "a call has no name"},
		"openai, no object": {OpenAI{}, `{"choices":[{"delta":{"tool_calls":[{"function":{"name":"x","arguments":"7"}}]},"finish_reason":"stop"}]}`,
			llm.BrokenStream, "arguments of a call of x are not an object"},
		"anthropic": {Anthropic{}, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, llm.Busy, "Overloaded"},
		"anthropic, refusal": {Anthropic{}, anthropicEnd("refusal"), llm.Rejected,
			"a filter of the server ended it (refusal)"},
		"anthropic, no reason": {Anthropic{}, `{"type":"message_stop"}`, llm.BrokenStream, "the server ended it with no reason"},
		"anthropic, pause": {Anthropic{}, anthropicEnd("pause_turn"), llm.BrokenStream,
			"the server ended it with pause_turn"},
		"gemini":          {Gemini{}, `{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}`, llm.Busy, "The model is overloaded."},
		"gemini, blocked": {Gemini{}, `{"promptFeedback":{"blockReason":"SAFETY"}}`, llm.Rejected, "a filter of the server ended it (SAFETY)"},
		"gemini, blocked at the end": {Gemini{}, `{"candidates":[{"content":{"parts":[{"text":"some"}]},"finishReason":"STOP"}]}
{"candidates":[{"finishReason":"SAFETY"}]}`, llm.Rejected, "a filter of the server ended it (SAFETY)"},
		"gemini, malformed": {Gemini{}, `{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL"}]}`, llm.BrokenStream, "the server ended it with MALFORMED_FUNCTION_CALL"},
	} {
		t.Run(name, func(t *testing.T) {
			a := NewAnswer(nil, 0)
			err := takeAll(tt.of, a, tt.stream)
			var f *Failure
			require.ErrorAs(t, err, &f)
			assert.Equal(t, tt.kind, f.Kind)
			assert.Equal(t, tt.text, f.Text)
			assert.False(t, a.Ended())
			assert.Empty(t, a.Response().Stop)
		})
	}
}

// A stream that ends before its end mark is no answer, in any dialect.
func TestNoEndMark(t *testing.T) {
	for name, tt := range map[string]struct {
		of     Dialect
		stream string
	}{
		"openai":            {OpenAI{}, `{"choices":[{"delta":{"content":"half"}}]}`},
		"openai, only DONE": {OpenAI{}, "{\"choices\":[{\"delta\":{\"content\":\"half\"}}]}\n[DONE]"},
		"anthropic": {Anthropic{}, `{"type":"content_block_delta","delta":{"text":"half"}}
{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`},
		"gemini": {Gemini{}, `{"candidates":[{"content":{"parts":[{"text":"half"}]}}]}`},
		"gemini, after another": {Gemini{}, `{"candidates":[{"content":{"parts":[{"text":"ha"}]},"finishReason":"STOP"}]}
{"candidates":[{"content":{"parts":[{"text":"lf"}]}}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			a := NewAnswer(nil, 0)
			require.NoError(t, takeAll(tt.of, a, tt.stream))
			assert.False(t, a.Ended())
			assert.Equal(t, "half", a.Response().Message.Content)
		})
	}
}

// anthropicEnd is the end of a stream that ended for that reason.
func anthropicEnd(reason string) string {
	return `{"type":"message_delta","delta":{"stop_reason":"` + reason + `"}}
{"type":"message_stop"}`
}

// TestManyCalls: an answer of calls without end is cut after some thousand of them. A hundred thousand took a minute of
// work.
func TestManyCalls(t *testing.T) {
	a := NewAnswer(nil, 8<<20)
	n := 0
	for ; n < 100_000; n++ {
		if err := a.Take(OpenAI{}, fmt.Appendf(nil, `{"choices":[{"delta":{"tool_calls":[{"index":%d,"id":"c%d","function":`+
			`{"name":"r","arguments":"{}"}}]}}]}`, n, n)); err != nil {
			require.ErrorIs(t, err, ErrTooLong)
			break
		}
	}
	assert.InDelta(t, 8<<10, n, 500)
}
