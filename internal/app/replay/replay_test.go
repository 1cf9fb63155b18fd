package replay

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/record/history"
	"qq/internal/record/ledger"
	"qq/pkg/llm"
	"qq/pkg/picture"
	"qq/pkg/session"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// model says what it is told to say, in turn, and keeps what it is asked.
type model struct {
	says  []llm.Message
	asked []llm.Request
}

// Chat implements llm.Backend.
func (m *model) Chat(ctx context.Context, r llm.Request, _ func(llm.Chunk)) (llm.Response, error) {
	m.asked = append(m.asked, r)
	if ctx.Err() != nil {
		return llm.Response{}, context.Cause(ctx)
	}
	next := m.says[0]
	m.says = m.says[1:]
	return llm.Response{Message: next, Stop: llm.StopEnd, Usage: task.Usage{InputTokens: 7, OutputTokens: 1},
		First: time.Second, Took: 2 * time.Second}, nil
}

// stage offers one model, and keeps the orders.
type stage struct {
	model  *model
	orders []Order
	ended  int
}

func (s *stage) Offer(_ context.Context, o Order) (Offer, error) {
	s.orders = append(s.orders, o)
	return Offer{System: "be brief", Tools: offered, MaxTurns: 5, Name: "lab:new", Model: s.model,
		End: func() { s.ended++ }}, nil
}

func call(name, args string) llm.Message {
	return llm.Message{Calls: []tool.Call{{ID: "other", Name: name, Arguments: json.RawMessage(args)}}}
}

// recorded is a history of one prompt in a session, which begins after another one, and of one child.
func recorded(t *testing.T) history.History {
	home := t.TempDir()
	by := ledger.NewRecorder(home, ledger.Root{ID: "prompt-1", Dir: "/d", Command: "run"}, ledger.Options{})
	header := session.Header{Agent: "coder", Dir: "/there"}
	s, err := session.Of(home).Create(header)
	require.NoError(t, err)
	require.NoError(t, by.Claim(ledger.Execution{ID: "prompt-1", Root: "prompt-1", Agent: "coder", Model: "lab:old",
		Session: s.ID(), Task: "Look."}))
	require.NoError(t, by.Claim(ledger.Execution{ID: "child-1", Root: "prompt-1", Parent: "prompt-1", Agent: "scout",
		Model: "lab:old", Depth: 1, Task: "Go on."}))
	failed := task.Task{}.Ended(task.TurnLimit, "all turns")
	failed.Output, failed.Usage = "so far", task.Usage{InputTokens: 50}
	require.NoError(t, by.Finish("", "child-1", failed))
	failed.Structured = json.RawMessage(`{"a":1}`)
	require.NoError(t, by.Finish("", "prompt-1", failed))
	say := func(s *session.Session, run string, entries ...llm.Entry) {
		for _, e := range entries {
			e.Run = run
			require.NoError(t, s.Add(e))
		}
	}
	user := func(text string) llm.Entry { return llm.Entry{Message: llm.Message{Role: llm.User, Content: text}} }
	say(s, "earlier", user("hello"), llm.Entry{Message: llm.Message{Role: llm.Assistant, Content: "hi"}})
	first := user("Look.\n\nTargets: a")
	first.Images = []picture.Image{{Name: "/x/cat.png"}}
	say(s, "prompt-1", first)
	say(s, "prompt-1", called("1", "read_file", `{"path":"a"}`, "content", false)...)
	require.NoError(t, s.Close())
	below := session.Archive{Dir: ledger.Transcripts(home)}.Of("prompt-1")
	c, err := below.Begin(session.Header{ID: "child-1", Dir: "/c"})
	require.NoError(t, err)
	written := llm.Entry{Message: llm.Message{Role: llm.System, Content: "written for it"}}
	say(c, "", written, user("Go on."))
	say(c, "", called("1", "run_pty_cmd", `{"command":"make"}`, "ok", false)...)
	require.NoError(t, c.Close())
	require.NoError(t, by.Close())
	led, err := ledger.Open(home, ledger.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, led.Close()) })
	return history.New(led, home)
}

func TestPlay(t *testing.T) {
	h := recorded(t)
	whole, err := h.Run("prompt-1")
	require.NoError(t, err)
	s := &stage{model: &model{says: []llm.Message{call("read_file", `{ "path": "a" }`), {Content: "It is content."}}}}
	got, err := player{h, s, changes{}}.play(t.Context(), whole.Jobs[0])
	require.NoError(t, err)
	assert.Equal(t, []Order{{Agent: "coder", Model: "lab:old", Dir: "/there"}}, s.orders)
	require.Len(t, s.model.asked, 2)
	var texts []string
	for _, m := range s.model.asked[1].Messages {
		texts = append(texts, m.Content)
		assert.Empty(t, m.Images)
	}
	shown := "Look.\n\nTargets: a\n[the image /x/cat.png was here]"
	assert.Equal(t, []string{"hello", "hi", shown, "", "content"}, texts)
	assert.Equal(t, "be brief", s.model.asked[0].System)
	assert.Len(t, s.model.asked[0].Tools, len(offered))
	assert.Equal(t, task.TurnLimit, got.A.Status)
	assert.Equal(t, "so far", got.A.Answer)
	assert.Equal(t, task.Completed, got.B.Status)
	assert.Equal(t, "It is content.", got.B.Answer)
	assert.Equal(t, "lab:new", got.B.Model)
	assert.Equal(t, task.Usage{InputTokens: 14, OutputTokens: 2}, got.B.Usage)
	assert.Equal(t, &task.Did{Calls: map[string]int{"read_file": 1}, Model: task.ModelTime{Answers: 2, FirstMS: 2000,
		TookMS: 4000}}, got.B.Did)
	assert.Len(t, got.Transcript, 4)
	assert.Equal(t, []string{"1 image", "the schema of the answer"}, got.Left)
	assert.False(t, got.Same)
	assert.Equal(t, 1, s.ended)

	s.model.says = []llm.Message{{Content: "Nothing."}}
	with := changes{Model: "lab:new", System: "other", Prompt: "Look again."}
	_, err = player{h, s, with}.play(t.Context(), whole.Jobs[0])
	require.NoError(t, err)
	assert.Equal(t, Order{Agent: "coder", Model: "lab:new", System: "other", Dir: "/there"}, s.orders[1])
	assert.Equal(t, "Look again.", s.model.asked[2].Messages[2].Content)
}

// TestLeft: what is not replayed is known.
func TestLeft(t *testing.T) {
	user := func(text string) llm.Entry { return llm.Entry{Message: llm.Message{Role: llm.User, Content: text}} }
	entries := []llm.Entry{user("[message from nobody: it is the task"), user("[message from the user]\nstop"),
		user("[message from your parent]\ngo on"), user("Your answer does not fit the JSON Schema: x")}
	res := task.Result{Did: &task.Did{Commands: []task.Command{{Line: "make"}, {Line: "make test", Check: true}}}}
	want := []string{"2 messages to the agent", "the schema of the answer", "the check"}
	assert.Equal(t, want, left(res, entries, false))
	assert.Equal(t, []string{"the check"}, left(res, entries[:1], true))
	assert.Empty(t, left(task.Result{Structured: []byte("1")}, entries[3:], true))
	assert.Equal(t, []string{"the schema of the answer"}, left(task.Result{Structured: []byte("1")}, nil, false))
}

// TestPlayEnds: a call that is not in the record ends the replay, and the model is not asked again.
func TestPlayEnds(t *testing.T) {
	h := recorded(t)
	whole, err := h.Run("prompt-1")
	require.NoError(t, err)
	assert.Len(t, failed(whole), 2)
	child := whole.Jobs[0].Jobs[0]
	s := &stage{model: &model{says: []llm.Message{call("run_pty_cmd", `{"command":"rm -rf ."}`), {Content: "Gone."}}}}
	got, err := player{h, s, changes{}}.play(t.Context(), child)
	require.NoError(t, err)
	assert.Equal(t, Order{Agent: "scout", Model: "lab:old", Generated: "written for it", Dir: "/c", Depth: 1,
		Parent: "prompt-1"}, s.orders[0])
	assert.Equal(t, task.NotRecorded, got.B.Status)
	assert.Contains(t, got.B.Error, "the record does not have this call: run_pty_cmd rm -rf .")
	assert.Len(t, s.model.asked, 1)
	assert.Len(t, s.model.says, 1)
	_, err = player{h, s, changes{}}.play(t.Context(), &history.Job{Run: ledger.Run{ID: "child-1", Root: "elsewhere"}})
	assert.Equal(t, "it has no transcript", why(err))
}
