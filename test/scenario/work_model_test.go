package scenario

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ollama/ollama/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// played is the name of the model of a workModel.
const played = "played"

// workAgent is what a model says next in a conversation. ctx ends when nobody
// waits for it any more.
type workAgent func(ctx context.Context, k workTalk) api.Message

// workModel is a model server played by the test, for what no scripted model can
// say: something that depends on an id that qq made up, or on what another agent
// is doing at that moment. It knows the two requests of Ollama's protocol that a
// run makes. Everything that it does not expect fails the test.
type workModel struct {
	t      *testing.T
	addr   string
	agents map[string]workAgent // by the name in the [[name]] of their task
}

// workPlay serves until the test ends.
func workPlay(t *testing.T, agents map[string]workAgent) *workModel {
	t.Helper()
	m := &workModel{t: t, agents: agents}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/show", m.show)
	mux.HandleFunc("POST /api/chat", m.chat)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		assert.Fail(t, "unexpected request", "%s %s", r.Method, r.URL)
		http.NotFound(w, r)
	})
	s := httptest.NewUnstartedServer(mux)
	// The context of a test ends before its clean-up: then no agent waits any more.
	s.Config.BaseContext = func(net.Listener) context.Context { return t.Context() }
	s.Start()
	t.Cleanup(s.Close)
	m.addr = s.Listener.Addr().String()
	return m
}

func (m *workModel) show(w http.ResponseWriter, r *http.Request) {
	var asked api.ShowRequest
	assert.NoError(m.t, json.NewDecoder(r.Body).Decode(&asked))
	assert.Equal(m.t, played, asked.Model)
	m.reply(w, r, map[string]any{
		"model_info":   map[string]any{"general.architecture": "llama", "llama.context_length": 1 << 20},
		"capabilities": []string{"completion", "tools"},
	})
}

func (m *workModel) chat(w http.ResponseWriter, r *http.Request) {
	var asked api.ChatRequest
	if !assert.NoError(m.t, json.NewDecoder(r.Body).Decode(&asked)) {
		return
	}
	k := workTalk{asked.Messages}
	agent := m.agents[k.task()]
	if agent == nil {
		assert.Fail(m.t, "nobody has this task", "%+v", asked.Messages)
		http.Error(w, "nobody has this task", http.StatusBadRequest)
		return
	}
	said := agent(r.Context(), k)
	if r.Context().Err() != nil {
		return
	}
	if said.Content == "" && len(said.ToolCalls) == 0 {
		assert.Fail(m.t, "nothing to say", "%s, turn %d, after %q", k.task(), k.turn(), k.last().Content)
		http.Error(w, "nothing to say", http.StatusBadRequest)
		return
	}
	m.reply(w, r, api.ChatResponse{Model: played, CreatedAt: time.Now(), Message: said, Done: true, DoneReason: "stop"})
}

func (m *workModel) reply(w http.ResponseWriter, r *http.Request, v any) {
	if err := json.NewEncoder(w).Encode(v); err != nil && r.Context().Err() == nil {
		assert.NoError(m.t, err)
	}
}

// workTalk is a conversation as the model gets it.
type workTalk struct{ messages []api.Message }

// task is the name in the first message of the user.
func (k workTalk) task() string {
	for _, m := range k.messages {
		if m.Role == "user" {
			if found := regexp.MustCompile(`\[\[(\w+)\]\]`).FindStringSubmatch(m.Content); found != nil {
				return found[1]
			}
		}
	}
	return ""
}

// turn counts the turns that the model had before.
func (k workTalk) turn() (n int) {
	for _, m := range k.messages {
		if m.Role == "assistant" {
			n++
		}
	}
	return n
}

func (k workTalk) last() api.Message { return k.messages[len(k.messages)-1] }

// results are what tools answered, in order.
func (k workTalk) results() (texts []string) {
	for _, m := range k.messages {
		if m.Role == "tool" {
			texts = append(texts, m.Content)
		}
	}
	return texts
}

// said reports whether a message of that role is in the conversation.
func (k workTalk) said(role, part string) bool {
	for _, m := range k.messages {
		if m.Role == role && strings.Contains(m.Content, part) {
			return true
		}
	}
	return false
}

// workSteps is an agent with one step for each turn.
func workSteps(steps ...workAgent) workAgent {
	return func(ctx context.Context, k workTalk) api.Message {
		if k.turn() >= len(steps) {
			return api.Message{}
		}
		return steps[k.turn()](ctx, k)
	}
}

// workText is a step that says a text.
func workText(text string) workAgent {
	return func(context.Context, workTalk) api.Message { return api.Message{Role: "assistant", Content: text} }
}

// workDo is a step that makes calls.
func workDo(calls ...api.ToolCall) workAgent {
	return func(context.Context, workTalk) api.Message { return workAsk(calls...) }
}

// workHang is a step that never ends by itself. It tells of its beginning, the first
// time: who is ended may be asked for a last word.
func workHang(began chan<- struct{}) workAgent {
	begin := sync.OnceFunc(func() { close(began) })
	return func(ctx context.Context, _ workTalk) api.Message {
		begin()
		<-ctx.Done()
		return api.Message{}
	}
}

// workAwait waits for c, or until nobody waits for the model any more.
func workAwait(ctx context.Context, c <-chan struct{}) {
	select {
	case <-c:
	case <-ctx.Done():
	}
}

// workAsk is a message with calls.
func workAsk(calls ...api.ToolCall) api.Message {
	return api.Message{Role: "assistant", ToolCalls: calls}
}

// workCall is a call; arguments are names and values by turns.
func workCall(tool string, arguments ...any) api.ToolCall {
	c := api.ToolCall{Function: api.ToolCallFunction{Name: tool, Arguments: api.NewToolCallFunctionArguments()}}
	for i := 0; i < len(arguments); i += 2 {
		c.Function.Arguments.Set(arguments[i].(string), arguments[i+1])
	}
	return c
}

// TestWorkModel holds what the scenarios rely on.
func TestWorkModel(t *testing.T) {
	m := workPlay(t, map[string]workAgent{"one": workSteps(
		workDo(workCall("list_files", "path", ".")),
		func(_ context.Context, k workTalk) api.Message {
			return api.Message{Role: "assistant", Content: "It has " + strings.TrimSpace(k.last().Content)}
		},
	)})
	w := newWorld(t, m.addr, played)
	w.file("a-file", "")
	e := w.qq("Look. [[one]]")
	require.Equal(t, 0, e.code)
	assert.Contains(t, e.stdout, "It has ")
	assert.Contains(t, e.stdout, "a-file")
}
