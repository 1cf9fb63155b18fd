package ollamatest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/ollama/ollama/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/test/tinymodel"
)

// TestServer holds what the scenarios rely on, for both engines of the server.
func TestServer(t *testing.T) {
	for _, engine := range []string{"0", "1"} {
		t.Run("engine"+engine, func(t *testing.T) {
			s := Start(t, "OLLAMA_NEW_ENGINE="+engine)
			require.NoError(t, s.Create(t.Context(), Model{Name: "s", Spec: scenario()}))
			t.Run("hello", func(t *testing.T) {
				out, err := say(t.Context(), s, "s", "What?")
				require.NoError(t, err)
				assert.Equal(t, "Hello there. Größe 你好 🙂 done.", out)
			})
			t.Run("delegation", func(t *testing.T) {
				out, calls, err := agent(t.Context(), s.Client, "Do both. [[fan]]")
				require.NoError(t, err)
				assert.Equal(t, "Both are done.", out)
				assert.Equal(t, 2, calls)
			})
			t.Run("schema", func(t *testing.T) { testSchema(t, s) })
			t.Run("cancel", func(t *testing.T) { testCancel(t, s) })
			t.Run("broken off", func(t *testing.T) {
				_, err := say(t.Context(), s, "s", "[[stuck]]")
				assert.ErrorIs(t, err, errBroken)
			})
			t.Run("unknown model", func(t *testing.T) {
				_, err := say(t.Context(), s, "nope", "x")
				var status api.StatusError
				require.ErrorAs(t, err, &status)
				assert.Equal(t, http.StatusNotFound, status.StatusCode)
			})
			t.Run("no tools", func(t *testing.T) {
				require.NoError(t,
					s.Create(t.Context(), Model{Name: "plain", Spec: scenario(), Template: TemplateWithoutTools}))
				_, err := say(t.Context(), s, "plain", "x")
				assert.ErrorContains(t, err, "does not support tools")
			})
		})
	}
}

func testSchema(t *testing.T, s *Server) {
	var out strings.Builder
	err := s.Client.Chat(t.Context(), &api.ChatRequest{
		Model: "s", Messages: []api.Message{{Role: "user", Content: "judge"}}, Think: &api.ThinkValue{Value: false},
		Format: json.RawMessage(`{"type":"object","properties":{"ok":{"type":"boolean"},"why":{"type":"string"},` +
			`"list":{"type":"array","items":{"type":"integer"},"minItems":2}},"required":["ok","why","list"]}`),
	}, func(r api.ChatResponse) error { out.WriteString(r.Message.Content); return nil })
	require.NoError(t, err)
	var v struct {
		OK   *bool
		Why  string
		List []int
	}
	require.NoError(t, json.Unmarshal([]byte(out.String()), &v), out.String())
	assert.NotNil(t, v.OK)
	assert.Equal(t, "sample text", v.Why)
	assert.Len(t, v.List, 2)
}

// testCancel: the client does not report a stream that its caller cancelled.
func testCancel(t *testing.T, s *Server) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	err := s.Client.Chat(ctx,
		&api.ChatRequest{Model: "s", Messages: []api.Message{{Role: "user", Content: "[[loop]]"}}},
		func(api.ChatResponse) error {
			if n++; n == 20 {
				cancel()
			}
			return nil
		})
	require.NoError(t, err)
	assert.GreaterOrEqual(t, n, 20)
}

// TestManyScripts has more scripts than one attention head tells apart.
func TestManyScripts(t *testing.T) {
	s := Start(t)
	const n = 150
	scripts := make([]tinymodel.Script, n)
	for i := range scripts {
		scripts[i] = tinymodel.Script{Start: fmt.Sprintf("[[%d]]", i), Text: fmt.Sprintf("this is text %d of many", i)}
	}
	require.NoError(t, s.Create(t.Context(), Model{Name: "many", Spec: Spec(scripts...)}))
	for i := range n {
		out, err := say(t.Context(), s, "many", fmt.Sprintf("[[%d]] x [[%d]]", (i+7)%n, i))
		require.NoError(t, err)
		assert.Equal(t, scripts[i].Text, out)
	}
}

// TestKill leaves nothing of a server that has a runner at work.
func TestKill(t *testing.T) {
	s := Start(t)
	require.NoError(t, s.Create(t.Context(), Model{Name: "s", Spec: scenario()}))
	err := s.Client.Chat(t.Context(),
		&api.ChatRequest{Model: "s", Messages: []api.Message{{Role: "user", Content: "[[loop]]"}}},
		func(api.ChatResponse) error { return s.Kill() })
	require.NoError(t, err, "the client does not report a stream that its server broke")
	require.NoError(t, s.Kill(), "a second time")
	assert.Error(t, s.Client.Heartbeat(t.Context()))
}

func TestLaunchErrors(t *testing.T) {
	script := filepath.Join(t.TempDir(), "dies")
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\necho no way >&2; exit 7\n"), 0o700))
	_, err := Launch(script, t.TempDir())
	require.ErrorContains(t, err, "exit status 7")
	assert.ErrorContains(t, err, "no way")
	_, err = Launch(script+"-not", t.TempDir())
	assert.ErrorIs(t, err, os.ErrNotExist)
}

// TestWithoutServer runs this test binary again, to see how a test ends that
// has no server.
func TestWithoutServer(t *testing.T) {
	if os.Getenv("OLLAMATEST_PROBE") != "" {
		Start(t)
		return
	}
	for _, tt := range []struct {
		env, want string
		fails     bool
	}{
		{"X=1", "--- SKIP", false},
		{"CI=true", "required because CI is set", true},
		{"QQ_OLLAMA_REQUIRED=1", "required because QQ_OLLAMA_REQUIRED is set", true},
	} {
		t.Run(tt.env, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run=^TestWithoutServer$", "-test.v")
			cmd.Env = []string{"OLLAMATEST_PROBE=1", "TMPDIR=" + t.TempDir(), tt.env}
			out, err := cmd.CombinedOutput()
			assert.Contains(t, string(out), tt.want)
			assert.Contains(t, string(out), "test/server/tools.sh", "what to do")
			assert.Equal(t, tt.fails, err != nil, "%s", out)
		})
	}
}

func scenario() tinymodel.Spec {
	s := Spec(
		tinymodel.Script{Start: "[[hello]]", Text: "Hello there. Größe 你好 🙂 done."},
		tinymodel.Script{Start: "[[fan]]",
			Text: `<tool_call>{"name": "delegate_task", "arguments": {"agent": "poet", "task": "Write a line. ` +
				`[[poem]]"}}</tool_call>` +
				`<tool_call>{"name": "delegate_task", "arguments": {"agent": "critic", "task": "Judge it. ` +
				`[[judge]]"}}</tool_call>`},
		tinymodel.Script{Start: "[[poem]]", Text: "The sea is blue. [[sum]]"},
		tinymodel.Script{Start: "[[judge]]", Text: "It is good. [[sum]]"},
		tinymodel.Script{Start: "[[sum]]", Text: "Both are done."},
		tinymodel.Script{Start: "[[loop]]", Text: "tick tock", Loop: true},
		tinymodel.Script{Start: "[[stuck]]", Text: "no", Loop: true},
	)
	s.Default = "[[hello]]"
	return s
}

var errBroken = errors.New("the answer broke off")

// turn is one request; a stream that ends without done is an error.
func turn(ctx context.Context, c *api.Client, model string, messages []api.Message) (api.Message, error) {
	m := api.Message{Role: "assistant"}
	done := false
	err := c.Chat(ctx, &api.ChatRequest{Model: model, Messages: messages, Tools: delegateTool()},
		func(r api.ChatResponse) error {
			m.Content += r.Message.Content
			m.ToolCalls = append(m.ToolCalls, r.Message.ToolCalls...)
			done = r.Done
			return nil
		})
	if err == nil && !done {
		err = errors.Join(ctx.Err(), errBroken)
	}
	return m, err
}

func say(ctx context.Context, s *Server, model, prompt string) (string, error) {
	m, err := turn(ctx, s.Client, model, []api.Message{{Role: "user", Content: prompt}})
	return m.Content, err
}

// agent is a small agent loop: it answers delegate_task by running another agent.
func agent(ctx context.Context, c *api.Client, prompt string) (answer string, calls int, err error) {
	messages := []api.Message{{Role: "user", Content: prompt}}
	for range 5 {
		m, err := turn(ctx, c, "s", messages)
		if err != nil || len(m.ToolCalls) == 0 {
			return m.Content, calls, err
		}
		calls += len(m.ToolCalls)
		results := make([]string, len(m.ToolCalls))
		var children sync.WaitGroup
		for i, call := range m.ToolCalls {
			children.Go(func() {
				task, _ := call.Function.Arguments.Get("task")
				out, _, err := agent(ctx, c, fmt.Sprint(task))
				if err != nil {
					out = err.Error()
				}
				results[i] = out
			})
		}
		children.Wait()
		messages = append(messages, m)
		for i, call := range m.ToolCalls {
			messages = append(messages, api.Message{Role: "tool", ToolName: call.Function.Name, ToolCallID: call.ID,
				Content: results[i]})
		}
	}
	return "", calls, errors.New("too many turns")
}

func delegateTool() api.Tools {
	props := api.NewToolPropertiesMap()
	props.Set("agent", api.ToolProperty{Type: api.PropertyType{"string"}})
	props.Set("task", api.ToolProperty{Type: api.PropertyType{"string"}})
	f := api.ToolFunction{Name: "delegate_task", Description: "Gives a task to another agent"}
	f.Parameters.Type, f.Parameters.Required, f.Parameters.Properties = "object", []string{"task"}, props
	return api.Tools{{Type: "function", Function: f}}
}
