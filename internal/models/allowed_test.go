package models

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/models/servers"
	"qq/pkg/llm"
)

// TestAllowed: what a server says about further requests comes before its answer, and before its error. A quota that is
// used up is one whether the status says so or the stream.
func TestAllowed(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status int
		body   string
		kind   llm.Kind
	}{
		{"answer", 200, "data: {\"choices\":[{\"delta\":{\"content\":\"yes\"},\"finish_reason\":\"stop\"}]}\n\n" +
			"data: [DONE]\n\n", ""},
		{"too fast", 429, `{"error":{"message":"slower"}}`, llm.Busy},
		{"payment", 402, `{"error":{"message":"pay"}}`, llm.Quota},
		{"stream, by number", 200, "data: {\"error\":{\"message\":\"pay\",\"code\":402}}\n\n", llm.Quota},
		{"stream, by code", 200, "data: {\"error\":{\"code\":\"insufficient_quota\",\"message\":\"pay\"}}\n\n",
			llm.Quota},
		{"stream, in words", 200, "data: {\"error\":{\"message\":\"insufficient_quota\"}}\n\n", llm.BrokenStream},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("x-ratelimit-remaining-requests", "3")
				w.Header().Set("x-ratelimit-reset-requests", "2s")
				w.WriteHeader(tt.status)
				_, _ = w.Write([]byte(tt.body))
			}))
			defer s.Close()
			c, err := Open(servers.Server{Name: "lab", Kind: servers.OpenAI, URL: s.URL}, "")
			require.NoError(t, err)
			defer c.Close()
			var got chunks
			m := Model{Kind: servers.OpenAI, Server: "lab", Host: s.URL, Name: "m", Context: 8192}
			_, err = c.Backend(m, Options{}).Chat(t.Context(), ask("pay?"), got.add)
			require.NotEmpty(t, got)
			assert.Equal(t, &llm.Allowance{Requests: llm.Meter{Left: 3, Reset: 2 * time.Second}}, got[0].Allowed)
			if tt.kind == "" {
				require.NoError(t, err)
				require.Len(t, got, 2)
				assert.Equal(t, llm.Chunk{Text: "yes"}, got[1])
				return
			}
			e := failure(t, err, tt.kind)
			if tt.kind == llm.Quota {
				assert.Contains(t, e.Hint, "your plan and balance")
			}
		})
	}
}
