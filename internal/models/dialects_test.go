package models

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/standin"
	"qq/pkg/llm"
	"qq/pkg/tool"
)

// TestDialects: the same request says the same in all dialects, and the answer is the same.
func TestDialects(t *testing.T) {
	s := standin.Start(t,
		standin.Models(standin.Model{Name: "m", Capabilities: []string{"completion", "tools", "thinking"}}),
		standin.Reply(func(standin.Prompt) string {
			return "<think>hm</think>It is so. " +
				`<tool_call>{"name":"delegate_task","arguments":{"task":"a < b"}}</tool_call>`
		}))
	calls := []tool.Call{
		{ID: "c1", Name: "delegate_task", Arguments: json.RawMessage(`{"task":"x"}`)},
		{ID: "c2", Name: "now"},
	}
	r := llm.Request{System: "be brief", MaxTokens: 50, Tools: []tool.Spec{delegate}, Messages: []llm.Message{
		{Role: llm.User, Content: "first\nsecond"},
		{Role: llm.Assistant, Content: "I ask.", Calls: calls},
		{Role: llm.ToolRole, Content: "one", CallID: "c1", Tool: "delegate_task"},
		{Role: llm.ToolRole, Content: "two", CallID: "c2", Tool: "now"},
		{Role: llm.User, Content: "go on"},
	}}
	for _, server := range speakers(s) {
		t.Run(server.Kind, func(t *testing.T) {
			s.Forget()
			c, err := Open(server, "")
			require.NoError(t, err)
			defer c.Close()
			m, err := c.Find(t.Context(), "m")
			require.NoError(t, err)
			assert.Equal(t, 8192, m.Context)
			m.Thinking = true // which only some servers say
			b := c.Backend(m, Options{})
			resp, err := b.Chat(t.Context(), r, ignore)
			require.NoError(t, err)
			assert.Equal(t, "hm", resp.Message.Thinking)
			assert.Equal(t, "It is so. ", resp.Message.Content)
			require.Len(t, resp.Message.Calls, 1)
			assert.JSONEq(t, `{"task":"a < b"}`, string(resp.Message.Calls[0].Arguments))
			assert.Equal(t, 6, resp.Usage.OutputTokens)
			assert.Positive(t, resp.Usage.InputTokens)

			chats := s.Requests("")
			p := chats[len(chats)-1].Prompt()
			assert.Equal(t, "m", p.Model)
			assert.Equal(t, 50, p.Options.NumPredict)
			assert.Contains(t, string(p.Tools), "what to do")
			said := []string{}
			for _, m := range p.Messages {
				said = append(said, m.Role+": "+m.Content)
				assert.Equal(t, m.Role == "assistant", strings.Contains(string(m.ToolCalls), "delegate_task"))
			}
			assert.Equal(t, []string{"system: be brief", "user: first\nsecond", "assistant: I ask.", "tool: one",
				"tool: two", "user: go on"}, said)

			r := r
			r.Schema = json.RawMessage(`{"type":"object","required":["ok"],"properties":{"ok":{"type":"boolean"}}}`)
			resp, err = b.Chat(t.Context(), r, ignore)
			require.NoError(t, err)
			assert.JSONEq(t, `{"ok":true}`, resp.Message.Content)
			assert.Empty(t, resp.Message.Calls)
		})
	}
}
