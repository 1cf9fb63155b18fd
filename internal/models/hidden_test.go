package models

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/models/dialect"
	"qq/internal/models/servers"
	"qq/pkg/task"
)

// TestHiddenThinking: what a model thinks is paid, also if its server does not send it. A count that no model can reach
// is not believed.
func TestHiddenThinking(t *testing.T) {
	for counted, want := range map[int]int{20_002: 20_002, 1e9: 1} {
		s := serverOf(t, servers.OpenAI, map[string]string{
			"/v1/models": `{"data":[{"id":"gpt-5"}]}`,
			"/v1/chat/completions": `data: {"choices":[{"delta":{"content":"42"},"finish_reason":"stop"}]}` + "\n\n" +
				fmt.Sprintf(`data: {"choices":[],"usage":{"prompt_tokens":20,"completion_tokens":%d}}`, counted) + "\n\n" +
				"data: [DONE]\n\n",
		})
		client, err := Open(s, "")
		require.NoError(t, err)
		t.Cleanup(client.Close)
		m, err := client.Find(t.Context(), "gpt-5")
		require.NoError(t, err)
		resp, err := client.Backend(m, Options{}).Chat(t.Context(), ask("hi"), ignore)
		require.NoError(t, err)
		assert.Equal(t, want, resp.Usage.OutputTokens)
	}
}

// TestThinkingInTheTotal: xAI has the tokens of thinking in the total alone.
func TestThinkingInTheTotal(t *testing.T) {
	a := dialect.NewAnswer(nil, 0)
	for _, line := range []string{
		`{"choices":[{"delta":{"content":"42"},"finish_reason":"stop"}]}`,
		`{"choices":[],"usage":{"prompt_tokens":32,"completion_tokens":9,"total_tokens":135}}`,
	} {
		require.NoError(t, a.Take(dialect.OpenAI{}, []byte(line)))
	}
	assert.Equal(t, task.Usage{InputTokens: 32, OutputTokens: 103}, a.Response().Usage)
}
