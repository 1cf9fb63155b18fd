package models

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/models/dialect"
	"qq/internal/models/servers"
	"qq/pkg/task"
)

// TestHiddenThinking: what a model thinks is paid, also if its server does not send it.
func TestHiddenThinking(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/models" {
			_, _ = io.WriteString(w, `{"data":[{"id":"gpt-5"}]}`)
			return
		}
		_, _ = io.WriteString(w, `data: {"choices":[{"delta":{"content":"42"},"finish_reason":"stop"}]}`+"\n\n"+
			`data: {"choices":[],"usage":{"prompt_tokens":20,"completion_tokens":20002,"total_tokens":20022}}`+"\n\n"+
			"data: [DONE]\n\n")
	}))
	defer server.Close()
	client, err := Open(servers.Server{Name: "s", Kind: servers.OpenAI, URL: server.URL + "/v1"}, "")
	require.NoError(t, err)
	defer client.Close()
	m, err := client.Find(t.Context(), "gpt-5")
	require.NoError(t, err)
	resp, err := client.Backend(m, Options{}).Chat(t.Context(), ask("hi"), ignore)
	require.NoError(t, err)
	assert.Equal(t, 20002, resp.Usage.OutputTokens)
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
