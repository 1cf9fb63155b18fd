package dialect

import (
	"encoding/json"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/llm"
	"qq/pkg/tool"
)

func TestVendorAt(t *testing.T) {
	for host, want := range map[string]Vendor{
		"api.openai.com": OpenAIOwn, "EU.api.openai.com": OpenAIOwn, "lab.openai.azure.com": OpenAIOwn,
		"api.deepseek.com": DeepSeek, "api.mistral.ai": Mistral, "openrouter.ai": OpenRouter, "api.groq.com": "",
		"127.0.0.1": "", "api.openai.com.lab.example": "", "notopenrouter.ai": "", "": "",
	} {
		assert.Equal(t, want, VendorAt(host), host)
	}
}

// called is a conversation in which the user speaks behind the results of tools.
func called() llm.Request {
	temperature := 0.2
	return llm.Request{System: "Be brief.", Temperature: &temperature, MaxTokens: 50, Messages: []llm.Message{
		{Role: llm.User, Content: "go"},
		{Role: llm.Assistant, Thinking: "I look.", Calls: []tool.Call{
			{ID: "call_1", Name: "read"}, {ID: "AbCdE1234", Name: "now"},
		}},
		{Role: llm.ToolRole, CallID: "call_1", Tool: "read", Content: "text"},
		{Role: llm.ToolRole, CallID: "AbCdE1234", Tool: "now", Content: "12:00"},
		{Role: llm.User, Content: "hurry"},
		{Role: llm.Assistant, Content: "Done."},
	}}
}

// bodyOf returns the body of the request of d.
func bodyOf(t *testing.T, d Dialect, r llm.Request) (text string, body completionRequest) {
	t.Helper()
	_, raw, err := d.Encode(&Ask{Request: r, Model: "m", Limit: r.MaxTokens})
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &body))
	return string(raw), body
}

func roles(body completionRequest) (all string) {
	for _, m := range body.Messages {
		all += m.Role[:1]
	}
	return all
}

// What one vendor needs, no other server gets.
func TestVendors(t *testing.T) {
	text, body := bodyOf(t, OpenAI{}, called())
	assert.Equal(t, "suattua", roles(body))
	assert.NotContains(t, text, "reasoning")
	assert.NotContains(t, text, "tool_choice")
	assert.NotContains(t, text, "max_completion_tokens")
	assert.Equal(t, 50, body.MaxTokens)
	assert.NotNil(t, body.Temperature)
	assert.True(t, body.Options.Usage)

	_, body = bodyOf(t, OpenAI{OpenAIOwn}, called())
	assert.Equal(t, 50, body.MaxCompletionTokens)
	assert.Zero(t, body.MaxTokens)
	assert.Nil(t, body.Temperature)

	_, body = bodyOf(t, OpenAI{DeepSeek}, called())
	assert.Equal(t, "I look.", *body.Messages[2].Thinking)
	assert.Empty(t, *body.Messages[6].Thinking)
	for _, i := range []int{0, 1, 3, 5} {
		assert.Nil(t, body.Messages[i].Thinking)
	}

	text, body = bodyOf(t, OpenAI{OpenRouter}, called())
	assert.Contains(t, text, `"tool_choice":"none"`)
	require.Len(t, body.Tools, 2)
	assert.Equal(t, "read", body.Tools[0].Function.Name)
}

// Mistral refuses options of streams, ids of calls that are not its own, and a user right behind results.
func TestMistral(t *testing.T) {
	text, body := bodyOf(t, OpenAI{Mistral}, called())
	assert.NotContains(t, text, "stream_options")
	assert.Equal(t, "suattaua", roles(body))
	first := body.Messages[2].Calls[0].ID
	assert.Regexp(t, regexp.MustCompile("^[a-zA-Z0-9]{9}$"), first)
	assert.Equal(t, first, body.Messages[3].CallID)
	assert.Equal(t, "AbCdE1234", body.Messages[4].CallID)
	assert.Equal(t, "AbCdE1234", body.Messages[2].Calls[1].ID)
}

// A server without schemas is asked in words.
func TestSchemaInWords(t *testing.T) {
	const object, list = `{"type":"object","properties":{}}`, `{"type":"array"}`
	for _, tt := range []struct {
		of     Dialect
		schema string
		words  bool
		format string
	}{
		{OpenAI{}, object, false, `"json_schema"`}, {OpenAI{DeepSeek}, object, true, `"response_format":{"type":"json_object"}`},
		{OpenAI{DeepSeek}, list, true, ""}, {Anthropic{}, object, false, `"give_answer"`}, {Anthropic{}, list, true, ""},
		{Anthropic{Own: true}, object, false, `"output_config":{"format":{"type":"json_schema","schema":` +
			`{"additionalProperties":false,"properties":{},"type":"object"}`},
		{Anthropic{Own: true}, list, true, ""},
		{Gemini{}, list, false, `"responseJsonSchema"`},
	} {
		r := llm.Request{System: "Be brief.", Schema: json.RawMessage(tt.schema)}
		_, body, err := tt.of.Encode(&Ask{Request: r, Model: "m"})
		require.NoError(t, err)
		said := regexp.MustCompile(`Be brief\.\\n\\nAnswer with one JSON document .* Schema:\\n\{\\"type\\"`).Match(body)
		assert.Equal(t, tt.words, said, "%T %s: %s", tt.of, tt.schema, body)
		assert.Contains(t, string(body), tt.format)
		if tt.format == "" {
			assert.NotContains(t, string(body), "response_format")
			assert.NotContains(t, string(body), "give_answer")
		}
	}
}

// A model that cannot think and call tools is told not to think.
func TestNoThinking(t *testing.T) {
	_, body, err := OpenAI{OpenAIOwn}.Encode(&Ask{Request: called(), NoThinking: true})
	require.NoError(t, err)
	assert.Contains(t, string(body), `"reasoning_effort":"none"`)
}

// thinkingOf returns the types of the blocks of each turn.
func blocksOf(t *testing.T, d Anthropic, r llm.Request) (all [][]string, tools int, choice string) {
	t.Helper()
	_, raw, err := d.Encode(&Ask{Request: r, Model: "m"})
	require.NoError(t, err)
	var body messagesRequest
	require.NoError(t, json.Unmarshal(raw, &body))
	for _, m := range body.Messages {
		var types []string
		for _, b := range m.Content {
			types = append(types, b.Type)
		}
		all = append(all, types)
	}
	if body.ToolChoice != nil {
		choice = body.ToolChoice.Type
	}
	return all, len(body.Tools), choice
}

// Anthropic gets the thinking of the turn back, as it was, and none of before.
func TestThinkingGoesBack(t *testing.T) {
	a := NewAnswer(nil, 0)
	require.NoError(t, takeAll(Anthropic{}, a, `{"type":"content_block_start","content_block":{"type":"thinking","thinking":"","signature":""}}
{"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"Let"}}
{"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":" me"}}
{"type":"content_block_delta","delta":{"type":"signature_delta","signature":"s1"}}
{"type":"content_block_start","content_block":{"type":"redacted_thinking","data":"d"}}
{"type":"content_block_start","content_block":{"type":"text","text":"I look."}}
{"type":"content_block_start","content_block":{"type":"tool_use","id":"c1","name":"now","input":{}}}
{"type":"content_block_start","content_block":{"type":"thinking","thinking":"","signature":"s2"}}
{"type":"content_block_start","content_block":{"type":"tool_use","id":"c2","name":"now","input":{}}}
{"type":"content_block_start","content_block":{"type":"tool_use","id":"c3","name":"now","input":{}}}
`+anthropicEnd("tool_use")))
	calls := a.Response().Message.Calls
	require.Len(t, calls, 3)
	assert.Equal(t, `[{"type":"thinking","thinking":"Let me","signature":"s1"},{"type":"redacted_thinking","data":"d"}]`,
		calls[0].Signature)
	assert.Equal(t, `[{"type":"thinking","thinking":"","signature":"s2"}]`, calls[1].Signature)
	assert.Empty(t, calls[2].Signature)

	r := llm.Request{Tools: []tool.Spec{{Name: "now", Parameters: json.RawMessage(`{"type":"object"}`)}},
		Messages: []llm.Message{
			{Role: llm.User, Content: "go"}, {Role: llm.Assistant, Content: "I look.", Calls: calls},
		}}
	turns, _, _ := blocksOf(t, Anthropic{}, r)
	assert.Equal(t, []string{"thinking", "redacted_thinking", "text", "tool_use", "thinking", "tool_use", "tool_use"},
		turns[1])
	later := r
	later.Messages = append(later.Messages[:2:2], llm.Message{Role: llm.ToolRole, CallID: "c1", Content: "x"},
		llm.Message{Role: llm.User, Content: "and?"})
	turns, _, _ = blocksOf(t, Anthropic{}, later)
	assert.Equal(t, []string{"text", "tool_use", "tool_use", "tool_use"}, turns[1], "it belongs to an earlier turn")
	without := r
	without.Tools = nil
	turns, tools, choice := blocksOf(t, Anthropic{}, without)
	assert.Equal(t, []string{"text", "tool_use", "tool_use", "tool_use"}, turns[1], "the tools have changed")
	assert.Zero(t, tools)
	assert.Empty(t, choice)
	_, tools, choice = blocksOf(t, Anthropic{Own: true}, without)
	assert.Equal(t, 1, tools)
	assert.Equal(t, "none", choice)

	_, body, err := Gemini{}.Encode(&Ask{Request: r, Model: "m"})
	require.NoError(t, err)
	assert.NotContains(t, string(body), "redacted")
	assert.Contains(t, string(body), noSignature)
	calls[0].Signature = "of Gemini"
	turns, _, _ = blocksOf(t, Anthropic{}, r)
	assert.Equal(t, []string{"text", "tool_use", "thinking", "tool_use", "tool_use"}, turns[1])
}

// OpenRouter gets the details of the thinking back, put together from their pieces.
func TestReasoningDetails(t *testing.T) {
	const stream = `{"choices":[{"delta":{"reasoning":"Let","reasoning_details":[{"type":"reasoning.text","text":"Let","format":"f","index":0}]}}]}
{"choices":[{"delta":{"reasoning":" me","reasoning_details":[{"type":"reasoning.text","text":" me","index":0}]}}]}
{"choices":[{"delta":{"reasoning_details":[{"type":"reasoning.text","signature":"s","index":0}]}}]}
{"choices":[{"delta":{"reasoning_details":[{"type":"reasoning.summary","summary":"a","index":1},{"type":"reasoning.summary","summary":"b","index":1}]}}]}
{"choices":[{"delta":{"reasoning_details":[{"type":"reasoning.encrypted","data":"x","id":"c1","index":2},{"type":"reasoning.encrypted","data":"y","index":2}]}}]}
{"choices":[{"delta":{"tool_calls":[{"id":"c1","function":{"name":"now","arguments":"{}"}},{"id":"c2","function":{"name":"then","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`
	const want = `[{"type":"reasoning.text","text":"Let me","signature":"s","format":"f","index":0},` +
		`{"type":"reasoning.summary","summary":"ab","index":1},{"type":"reasoning.encrypted","data":"x","id":"c1",` +
		`"index":2},{"type":"reasoning.encrypted","data":"y","index":2}]`
	a := NewAnswer(nil, 0)
	require.NoError(t, takeAll(OpenAI{OpenRouter}, a, stream))
	m := a.Response().Message
	assert.Equal(t, "Let me", m.Thinking)
	require.Len(t, m.Calls, 2)
	assert.Equal(t, want, m.Calls[0].Signature)
	assert.Empty(t, m.Calls[1].Signature)

	r := llm.Request{Messages: []llm.Message{m}}
	_, body := bodyOf(t, OpenAI{OpenRouter}, r)
	assert.Equal(t, want, string(body.Messages[0].Details))
	text, _ := bodyOf(t, OpenAI{}, r)
	assert.NotContains(t, text, "reasoning")
	turns, _, _ := blocksOf(t, Anthropic{}, llm.Request{Messages: r.Messages, Tools: []tool.Spec{
		{Name: "now", Parameters: json.RawMessage(`{"type":"object"}`)}}})
	assert.Equal(t, [][]string{{"tool_use", "tool_use"}}, turns)
	r.Messages[0].Calls[0].Signature = "of Gemini"
	text, _ = bodyOf(t, OpenAI{OpenRouter}, r)
	assert.NotContains(t, text, "of Gemini")

	a = NewAnswer(nil, 0)
	require.NoError(t, takeAll(OpenAI{}, a, stream))
	assert.Empty(t, a.Response().Message.Calls[0].Signature)
}

// What a model thinks is asked for; a message without anything is left out, because servers refuse it.
func TestEmptyMessages(t *testing.T) {
	r := llm.Request{Messages: []llm.Message{
		{Role: llm.User, Content: "go"}, {Role: llm.Assistant}, {Role: llm.User, Content: "on"},
		{Role: llm.Assistant, Content: "yes"}, {Role: llm.User, Content: "why?"}}}
	turns, _, _ := blocksOf(t, Anthropic{}, r)
	assert.Equal(t, [][]string{{"text", "text"}, {"text"}, {"text"}}, turns)
	_, body, err := Gemini{}.Encode(&Ask{Request: r, Model: "m", Thinking: true})
	require.NoError(t, err)
	assert.Contains(t, string(body), `"contents":[{"role":"user","parts":[{"text":"go"},{"text":"on"}]},{"role":"model",`)
	assert.Contains(t, string(body), `"thinkingConfig":{"includeThoughts":true}`)
}

// The whole conversation stays in the cache of Anthropic, if a further request is likely.
func TestCacheOfTheConversation(t *testing.T) {
	for tools, want := range map[int][]bool{0: {false, false}, 1: {false, true}} {
		r := llm.Request{Messages: []llm.Message{{Role: llm.User, Content: "a"}, {Role: llm.User, Content: "b"}}}
		if tools > 0 {
			r.Tools = []tool.Spec{{Name: "now", Parameters: json.RawMessage(`{"type":"object"}`)}}
		}
		_, raw, err := Anthropic{}.Encode(&Ask{Request: r, Model: "m"})
		require.NoError(t, err)
		var body messagesRequest
		require.NoError(t, json.Unmarshal(raw, &body))
		var marked []bool
		for _, b := range body.Messages[0].Content {
			marked = append(marked, b.Cache != nil)
		}
		assert.Equal(t, want, marked)
	}
	_, _, err := Anthropic{}.Encode(&Ask{Model: "m", Request: llm.Request{Tools: []tool.Spec{
		{Name: "now", Parameters: json.RawMessage(`{"type":"object"}`)}}}})
	require.NoError(t, err, "nothing was said")
}

// A first question has nothing that only a conversation with calls needs.
func TestFirstQuestion(t *testing.T) {
	for _, v := range []Vendor{OpenAIOwn, DeepSeek, Mistral, OpenRouter} {
		text, body := bodyOf(t, OpenAI{v}, question("go"))
		assert.Equal(t, "u", roles(body), v)
		assert.NotContains(t, text, "tool", v)
	}
	r := called()
	r.Schema = json.RawMessage(`{"type":"object"}`)
	text, _ := bodyOf(t, OpenAI{OpenRouter}, r)
	assert.NotContains(t, text, "tool_choice", "some refuse tools and a schema in one request")
}

// Details of thinking count in the size of an answer, however small they are.
func TestDetailsAreBounded(t *testing.T) {
	a := NewAnswer(nil, 100*callBytes)
	for range 200 {
		err := a.Take(OpenAI{OpenRouter}, []byte(`{"choices":[{"delta":{"reasoning_details":[{},{}]}}]}`))
		if err != nil {
			assert.ErrorIs(t, err, ErrTooLong)
			assert.Less(t, len(a.details.whole)+len(a.details.texts), 120)
			return
		}
	}
	t.Fatal("it did not end")
}
