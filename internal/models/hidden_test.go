package models

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/models/servers"
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
