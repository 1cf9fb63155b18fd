// Package labtest is a small model server for tests of the commands about models. It speaks chat completions, wants a
// key if it has one, and calls the tool and obeys the schema that a request has.
package labtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// Lab says how the server behaves.
type Lab struct {
	Key    string // that it wants; empty means none
	List   string // its JSON of /v1/models; empty means one model called small
	Props  string // its JSON of /props; empty means that it has none
	Mute   bool   // it answers a chat with status 500
	Wordy  bool   // it calls no tool and writes no JSON
	Silent bool   // it never answers
}

// Server is a running Lab.
type Server struct {
	URL   string
	chats atomic.Int64
}

// Chats returns how many chats were asked for.
func (s *Server) Chats() int { return int(s.chats.Load()) }

// Start runs the server until the test ends.
func Start(t testing.TB, lab Lab) *Server {
	t.Helper()
	s := &Server{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serve(lab, w, r) }))
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

func (s *Server) serve(lab Lab, w http.ResponseWriter, r *http.Request) {
	switch {
	case lab.Silent:
		<-r.Context().Done()
	case lab.Key != "" && r.Header.Get("Authorization") != "Bearer "+lab.Key:
		http.Error(w, `{"error":{"message":"wrong key"}}`, http.StatusUnauthorized)
	case r.URL.Path == "/v1/models":
		list := lab.List
		if list == "" {
			list = `{"data":[{"id":"small","context_length":16384}]}`
		}
		fmt.Fprint(w, list)
	case r.URL.Path == "/props" && lab.Props != "":
		fmt.Fprint(w, lab.Props)
	case r.URL.Path == "/v1/chat/completions":
		s.chats.Add(1)
		chat(lab, w, r)
	default:
		http.NotFound(w, r)
	}
}

func chat(lab Lab, w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Tools  json.RawMessage `json:"tools"`
		Format json.RawMessage `json:"response_format"`
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || lab.Mute {
		http.Error(w, `{"error":{"message":"out of order"}}`, http.StatusInternalServerError)
		return
	}
	pieces := []string{`{"content":"I "}`, `{"content":"am "}`, `{"content":"ready."}`}
	switch {
	case lab.Wordy:
	case strings.Contains(string(asked.Tools), "get_weather"):
		pieces = []string{`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"get_weather",` +
			`"arguments":"{\"city\":\"Paris\"}"}}]}`}
	case asked.Format != nil:
		pieces = []string{`{"content":"{\"city\":"}`, `{"content":"\"Paris\"}"}`}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	var b strings.Builder
	for _, p := range pieces {
		fmt.Fprintf(&b, "data: {\"choices\":[{\"delta\":%s}]}\n\n", p)
	}
	b.WriteString("data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n")
	b.WriteString("data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":3}}\n\ndata: [DONE]\n\n")
	for event := range strings.SplitAfterSeq(b.String(), "\n\n") {
		fmt.Fprint(w, event)
		_ = http.NewResponseController(w).Flush()
	}
}
