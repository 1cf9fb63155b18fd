package scenario

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ollama/ollama/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// endureTalk is one request to an endureModel.
type endureTalk struct {
	workTalk
	model string
	body  string // as it came
	// stream sends a part of the answer ahead of the rest.
	stream func(text string)
}

// text is the last line of the first message of the user: the task, behind what
// it is about.
func (k endureTalk) text() string {
	for _, m := range k.messages {
		if m.Role == "user" {
			text := strings.TrimSpace(m.Content)
			return text[strings.LastIndexByte(text, '\n')+1:]
		}
	}
	return ""
}

// endureModel is a model server played by one function of the test. It takes any
// model for one of its own, counts a token for each four bytes, and keeps what it
// was asked.
type endureModel struct {
	t    *testing.T
	addr string
	room int // context of its models, in tokens
	say  func(ctx context.Context, k endureTalk) api.Message

	mu    sync.Mutex
	asked []endureTalk
}

// endurePlay serves until the test ends.
func endurePlay(t *testing.T, say func(ctx context.Context, k endureTalk) api.Message) *endureModel {
	t.Helper()
	m := &endureModel{t: t, room: 1 << 20, say: say}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/show", m.show)
	mux.HandleFunc("POST /api/chat", m.chat)
	s := httptest.NewUnstartedServer(mux)
	// The context of a test ends before its clean-up: then nobody waits any more.
	s.Config.BaseContext = func(net.Listener) context.Context { return t.Context() }
	s.Start()
	t.Cleanup(s.Close)
	m.addr = s.Listener.Addr().String()
	return m
}

// endureEcho answers each task with its text.
func endureEcho(_ context.Context, k endureTalk) api.Message {
	return endureSay("Answer to " + k.text())
}

func endureSay(text string) api.Message { return api.Message{Role: "assistant", Content: text} }

func (m *endureModel) show(w http.ResponseWriter, _ *http.Request) {
	_ = json.NewEncoder(w).Encode(map[string]any{
		"model_info":   map[string]any{"general.architecture": "llama", "llama.context_length": m.room},
		"capabilities": []string{"completion", "tools"},
	})
}

func (m *endureModel) chat(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var asked api.ChatRequest
	if !assert.NoError(m.t, err) || !assert.NoError(m.t, json.Unmarshal(body, &asked)) {
		return
	}
	line := func(part api.ChatResponse) {
		part.Model, part.CreatedAt = asked.Model, time.Now()
		_ = json.NewEncoder(w).Encode(part) // to one that is gone
	}
	k := endureTalk{workTalk: workTalk{asked.Messages}, model: asked.Model, body: string(body),
		stream: func(text string) {
			line(api.ChatResponse{Message: endureSay(text)})
			_ = http.NewResponseController(w).Flush()
		}}
	m.mu.Lock()
	m.asked = append(m.asked, k)
	m.mu.Unlock()
	said := m.say(r.Context(), k)
	if r.Context().Err() != nil {
		return
	}
	last := api.ChatResponse{Message: said, Done: true, DoneReason: "stop"}
	for _, message := range asked.Messages {
		last.PromptEvalCount += 1 + len(message.Content)/4
	}
	last.EvalCount = 1 + len(said.Content)/4
	line(last)
}

// requests is how many chats there were so far.
func (m *endureModel) requests() int { return len(m.tasks()) }

// tasks are the texts of the tasks of all chats so far, in the order in which
// they came.
func (m *endureModel) tasks() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	texts := []string{}
	for _, k := range m.asked {
		texts = append(texts, k.text())
	}
	return texts
}

// forget makes the model count anew.
func (m *endureModel) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = nil
}

// endureResult is what qq says about a task in JSON.
type endureResult struct {
	result
	ExecutionID  string   `json:"execution_id"`
	BatchID      string   `json:"batch_id"`
	Attempts     int      `json:"attempts"`
	ChangedFiles []string `json:"changed_files"`
	Warnings     []string `json:"warnings"`
	Cached       bool     `json:"cached"`
}

func endureParse(t *testing.T, document string) endureResult {
	t.Helper()
	var r endureResult
	require.NoError(t, json.Unmarshal([]byte(document), &r), "%q", document)
	r.result = parse(t, document)
	return r
}

// endureLines are the results of a batch in JSON lines, which are in order.
func endureLines(t *testing.T, e ended) []endureResult {
	t.Helper()
	var list []endureResult
	for line := range strings.Lines(e.stdout) {
		r := endureParse(t, line)
		assert.Equal(t, len(list), r.Index, "index")
		list = append(list, r)
	}
	return list
}

// endureRun is what qq runs says about a run or a batch in JSON.
type endureRun struct {
	Type   string         `json:"type"`
	ID     string         `json:"id"`
	Parent string         `json:"parent"`
	Batch  string         `json:"batch"`
	Root   string         `json:"root"`
	Agent  string         `json:"agent"`
	Task   string         `json:"task"`
	Status string         `json:"status"`
	Error  string         `json:"error"`
	Depth  int            `json:"depth"`
	Index  int            `json:"index"`
	Live   bool           `json:"live"`
	Count  int            `json:"count"`
	Counts map[string]int `json:"counts"`
}

// runs is the answer to qq runs ARGS --json.
func (w *world) runs(args ...string) []endureRun {
	w.t.Helper()
	e := w.qq(append(append([]string{"runs"}, args...), "--json")...)
	require.Equal(w.t, 0, e.code, "exit code")
	var list []endureRun
	require.NoError(w.t, json.Unmarshal([]byte(e.stdout), &list), "%q", e.stdout)
	return list
}

// endureShort is how people name an id.
func endureShort(id string) string { return id[len(id)-8:] }

// refused is a mistake of a person: nothing on stdout, two lines on stderr, exit 2.
func (e ended) refused(problem string) {
	e.t.Helper()
	assert.Equal(e.t, 2, e.code, "exit code")
	assert.Empty(e.t, e.stdout)
	assert.Contains(e.t, e.stderr, problem)
	assert.Contains(e.t, e.stderr, "\n  hint: ")
}

func endureDecode(t *testing.T, document string, to any) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(document), to), "%q", document)
}
