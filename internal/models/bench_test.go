package models

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qq/internal/models/dialect"
	"qq/internal/standin"
	"qq/pkg/llm"
	"qq/pkg/tool"
)

// BenchmarkChat is what a chat costs; the stand-in's part is in both.
func BenchmarkChat(b *testing.B) {
	s := httptest.NewServer(standin.New())
	defer s.Close()
	r := ask("You are one of many.\n" + strings.Repeat("Some text of a prompt. ", 100) +
		"\nSay this back to me, in about twelve words, one by one.")
	r.Tools = []tool.Spec{delegate, delegate, delegate}
	b.Run("backend", func(b *testing.B) {
		backend := clientAt(b, s.URL).Backend(Model{Name: standin.DefaultModel, Context: 8192, Tools: true}, Options{})
		b.ReportAllocs()
		for b.Loop() {
			_, err := backend.Chat(b.Context(), r, ignore)
			require.NoError(b, err)
		}
	})
	b.Run("new client and connection", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			c, err := New(s.URL)
			require.NoError(b, err)
			_, err = c.Backend(Model{Name: standin.DefaultModel, Context: 8192, Tools: true},
				Options{}).Chat(b.Context(), r, ignore)
			require.NoError(b, err)
			c.Close()
		}
	})
	// The floor: the same bytes over net/http, each line decoded once.
	b.Run("net http", func(b *testing.B) {
		client := clientAt(b, s.URL)
		_, body, err := dialect.Ollama{}.Encode(&dialect.Ask{Request: r, Model: standin.DefaultModel})
		require.NoError(b, err)
		plain := &http.Client{Transport: client.transport}
		b.ReportAllocs()
		for b.Loop() {
			resp, err := plain.Post(s.URL+"/api/chat", "application/json", bytes.NewReader(body))
			require.NoError(b, err)
			var text strings.Builder
			for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
				var chunk struct{ Message struct{ Content string } }
				require.NoError(b, json.Unmarshal(lines.Bytes(), &chunk))
				text.WriteString(chunk.Message.Content)
			}
			resp.Body.Close()
		}
	})
}

func BenchmarkPromptTokens(b *testing.B) {
	r := llm.Request{System: strings.Repeat("The quick brown fox, jumps over 12 lazy dogs.\n", 1000)}
	b.SetBytes(int64(len(r.System)))
	b.ReportAllocs()
	for b.Loop() {
		dialect.PromptTokens(r)
	}
}
