package models

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"qq/internal/models/servers"
	"qq/internal/standin"
	"qq/pkg/llm"
	"qq/pkg/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clientOf returns a client of s.
func clientOf(t testing.TB, s *standin.Server) *Client {
	t.Helper()
	return clientAt(t, s.URL)
}

func clientAt(t testing.TB, host string) *Client {
	t.Helper()
	c, err := New(host)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// standIn is what a server without options has.
var standIn = Model{Name: "stand-in", Context: 8192, Tools: true}

func ask(text string) llm.Request {
	return llm.Request{Messages: []llm.Message{{Role: llm.User, Content: text}}}
}

// chunks collects what a backend yields.
type chunks []llm.Chunk

func (c *chunks) add(x llm.Chunk) { *c = append(*c, x) }

func (c chunks) text() (text, thinking string) {
	var a, b strings.Builder
	for _, x := range c {
		a.WriteString(x.Text)
		b.WriteString(x.Thinking)
	}
	return a.String(), b.String()
}

func ignore(llm.Chunk) {}

// failure demands an *llm.Error of that kind.
func failure(t testing.TB, err error, kind llm.Kind) *llm.Error {
	t.Helper()
	var e *llm.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, kind, e.Kind, "%v", e)
	require.NotContains(t, e.Problem, "\n")
	return e
}

// sent is a chat request as the server got it.
type sent struct {
	Model    string
	Truncate *bool
	Shift    *bool
	Think    any
	Format   json.RawMessage
	Options  map[string]any
	Tools    []struct {
		Type     string
		Function struct {
			Name, Description string
			Parameters        json.RawMessage
		}
	}
	Messages []struct {
		Role, Content, Thinking string
		ToolName                string `json:"tool_name"`
		ToolCallID              string `json:"tool_call_id"`
		ToolCalls               []struct {
			ID       string
			Function struct {
				Name      string
				Arguments json.RawMessage
			}
		} `json:"tool_calls"`
	}
}

func sentTo(t *testing.T, s *standin.Server) []sent {
	t.Helper()
	var all []sent
	for _, r := range s.Requests("/api/chat") {
		var one sent
		require.NoError(t, json.Unmarshal(r.Body, &one))
		all = append(all, one)
	}
	return all
}

func sizes(t *testing.T, s *standin.Server) []int {
	t.Helper()
	var all []int
	for _, r := range sentTo(t, s) {
		all = append(all, int(r.Options["num_ctx"].(float64)))
	}
	return all
}

var delegate = tool.Spec{Name: "delegate_task", Description: "Gives a task to another agent.",
	Parameters: json.RawMessage(`{"type":"object","properties":{"task":{"type":"string","description":"what to do"},` +
		`"agent":{"type":"string"}},"required":["task"]}`)}

var errStop = errors.New("stopped by the test")

// stopped is a context that ended for errStop.
func stopped(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	cancel(errStop)
	return ctx
}

// ollamaAt returns the servers of a resolver that only knows Ollama at host.
func ollamaAt(host string) []servers.Server {
	return []servers.Server{{Name: "ollama", Kind: servers.Ollama, URL: host}}
}
