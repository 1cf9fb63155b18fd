// Command server stands in for a model server, so that the bench measures qq
// and nothing else. It speaks as much of Ollama's protocol as a client of
// /api/chat needs, listens on a loopback port of the kernel's choice, prints
// its URL, and ends when its stdin does.
//
// The name of a model says how it answers: "fast" at once, "slow200" after
// 200 ms, "say5000" with 5,000 bytes of text, "hang" never, "script" with the
// calls that the task asks for (see script.go). /bench/waiting tells how many
// requests hang, /bench/page is a page to fetch.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// piece is the most text in one line of a stream.
const piece = 64 << 10

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench server:", err)
		os.Exit(1)
	}
}

func run() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	// A request that hangs must not outlive the server.
	ctx, cancel := context.WithCancel(context.Background())
	s := &http.Server{Handler: newHandler(), BaseContext: func(net.Listener) context.Context { return ctx }}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
		s.Close()
	}()
	fmt.Printf("http://%s\n", l.Addr())
	if err := s.Serve(l); err != http.ErrServerClosed {
		return err
	}
	return nil
}

type handler struct{ waiting atomic.Int64 }

func newHandler() http.Handler {
	h := &handler{}
	mux := http.NewServeMux()
	mux.HandleFunc("HEAD /{$}", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "Ollama is running") })
	mux.HandleFunc("GET /api/version", answer(map[string]any{"version": "0.17.4"}))
	mux.HandleFunc("GET /api/tags", answer(map[string]any{"models": []any{
		map[string]any{"name": "fast:latest", "model": "fast:latest", "modified_at": "2026-01-01T00:00:00Z", "size": 1, "digest": "0"},
	}}))
	mux.HandleFunc("POST /api/show", answer(map[string]any{
		"capabilities": []string{"completion", "tools"},
		"details":      map[string]any{"family": "llama", "format": "gguf"},
		"model_info":   map[string]any{"general.architecture": "llama", "llama.context_length": 131072},
	}))
	mux.HandleFunc("POST /api/chat", h.chat)
	mux.HandleFunc("GET /bench/page", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "a page") })
	mux.HandleFunc("GET /bench/waiting", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, h.waiting.Load()) })
	return mux
}

func answer(v any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		_ = json.NewEncoder(w).Encode(v) // the client went away
	}
}

// line is one line of a stream.
type line struct {
	Model     string    `json:"model"`
	CreatedAt time.Time `json:"created_at"`
	Message   struct {
		Role      string     `json:"role"`
		Content   string     `json:"content"`
		ToolCalls []toolCall `json:"tool_calls,omitempty"`
	} `json:"message"`
	Done            bool   `json:"done"`
	DoneReason      string `json:"done_reason,omitempty"`
	PromptEvalCount int    `json:"prompt_eval_count,omitempty"`
	EvalCount       int    `json:"eval_count,omitempty"`
}

func (h *handler) chat(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var asked struct {
		Model    string
		Messages []message
	}
	if err == nil {
		err = json.Unmarshal(body, &asked)
	}
	kind, n := split(asked.Model)
	texts, calls := []string{"One", " two", " three."}, []toolCall(nil)
	if err == nil && kind == "script" {
		texts, calls, err = play(asked.Messages)
	}
	switch {
	case err != nil:
		refuse(w, http.StatusBadRequest, err.Error())
		return
	case kind == "fast", kind == "script":
	case kind == "slow" && n > 0:
		if !wait(r.Context(), time.Duration(n)*time.Millisecond) {
			return
		}
	case kind == "say" && n > 0:
		texts = pieces(n)
	case kind == "hang":
		h.waiting.Add(1)
		<-r.Context().Done()
		h.waiting.Add(-1)
		return
	default:
		refuse(w, http.StatusNotFound, fmt.Sprintf("model '%s' not found", asked.Model))
		return
	}
	stream(w, asked.Model, texts, calls, len(body)/4)
}

// split cuts the number off the name of a model.
func split(model string) (kind string, n int) {
	model = strings.TrimSuffix(model, ":latest")
	kind = strings.TrimRight(model, "0123456789")
	n, _ = strconv.Atoi(model[len(kind):])
	return kind, n
}

func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// pieces are n bytes of text; all but the last are one string.
func pieces(n int) []string {
	whole := strings.Repeat("All work and no play. ", piece/22+1)[:piece]
	var texts []string
	for ; n > piece; n -= piece {
		texts = append(texts, whole)
	}
	return append(texts, whole[:n])
}

func refuse(w http.ResponseWriter, status int, message string) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": message}) // the client went away
}

func stream(w http.ResponseWriter, model string, texts []string, calls []toolCall, promptTokens int) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	lines := json.NewEncoder(w)
	l := line{Model: model, CreatedAt: time.Now().UTC()}
	l.Message.Role = "assistant"
	for _, text := range texts {
		l.Message.Content = text
		if lines.Encode(l) != nil {
			return // the client went away
		}
	}
	l.Message.Content, l.Message.ToolCalls = "", calls
	l.Done, l.DoneReason, l.PromptEvalCount, l.EvalCount = true, "stop", max(promptTokens, 1), len(texts)
	_ = lines.Encode(l)
}
