package loop

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"

	"qq/pkg/llm"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// mailbox brings its texts once, and says how often it was read.
type mailbox struct {
	texts []string
	read  int
}

func (m *mailbox) take() []string {
	m.read++
	texts := m.texts
	m.texts = nil
	return texts
}

// during puts texts into m while the model does s.
func (m *mailbox) during(s step, texts ...string) step {
	return func(ctx context.Context, yield func(llm.Chunk)) (llm.Response, error) {
		m.texts = append(m.texts, texts...)
		return s(ctx, yield)
	}
}

func contents(messages []llm.Message) (s []string) {
	for _, m := range messages {
		s = append(s, m.Content)
	}
	return s
}

// Messages are read before each model call and added unchanged.
func TestInbox(t *testing.T) {
	m := &mailbox{texts: []string{"early", " as it is "}}
	model := &script{steps: []step{m.during(says("", calling("look")), "later"), says("done")}}
	out, rec := start(t, t.Context(), Config{
		Backend: model, Tools: working("look"), MaxTurns: 2, Host: hooks{messages: m.take},
	}, nil)
	assert.Equal(t, task.Completed, out.Status)
	assert.Equal(t, []string{"the task", "early", " as it is ", "", "by look", "later", "done"}, contents(rec.messages))
	assert.Equal(t, llm.User, rec.messages[5].Role)
}

// A message that arrives while the answer is written is answered too, as long as there
// are turns. Otherwise it stays in the inbox.
func TestInboxDuringTheAnswer(t *testing.T) {
	m := &mailbox{}
	model := &script{
		steps: []step{m.during(says("one"), "a"), m.during(says("two"), "b", "c"), m.during(says("three"), "late")},
	}
	out, rec := start(t, t.Context(), Config{Backend: model, MaxTurns: 3, Host: hooks{messages: m.take}}, nil)
	assert.Equal(t, task.Completed, out.Status)
	assert.Equal(t, "three", out.Output)
	assert.Equal(t, []string{"the task", "one", "a", "two", "b", "c", "three"}, contents(rec.messages))
	assert.Equal(t, []bool{false, false, true}, rec.ends)
	assert.Equal(t, []string{"late"}, m.texts)
}

func TestInboxBeforeTheLastWord(t *testing.T) {
	m := &mailbox{}
	model := &script{steps: []step{m.during(says("", calling("look")), "hurry"), says("what I have")}}
	out, rec := start(t, t.Context(), Config{
		Backend: model, Tools: working("look"), MaxTurns: 1, Host: hooks{messages: m.take},
	}, nil)
	assert.Equal(t, task.TurnLimit, out.Status)
	texts := contents(rec.messages)
	assert.Equal(t, "hurry", texts[3])
	assert.Contains(t, texts[4], "You have used all your turns.")
}

// Messages do not continue a run whose answer hit the token limit, or that is cancelled.
func TestInboxOfARunThatEnds(t *testing.T) {
	m := &mailbox{}
	out, _ := start(t, t.Context(), Config{
		Backend: &script{steps: []step{m.during(cut("half"), "a")}}, MaxTurns: 3, Host: hooks{messages: m.take},
	}, nil)
	assert.Equal(t, task.Limit, out.Status)
	assert.Equal(t, []string{"a"}, m.texts)

	ctx, cancel := context.WithCancel(t.Context())
	late := func(ctx context.Context, yield func(llm.Chunk)) (llm.Response, error) {
		cancel()
		return says("done")(ctx, yield)
	}
	out, _ = start(t, ctx, Config{
		Backend: &script{
			steps: []step{m.during(late, "b")},
		}, MaxTurns: 3, Host: hooks{pending: func() string { return "wait" }},
	}, nil)
	assert.Equal(t, task.Completed, out.Status)
}

// The reminder is sent once, and only to an agent that wants to end.
func TestPending(t *testing.T) {
	asked := 0
	pending := func() string { asked++; return "two children are at work" }
	model := &script{steps: []step{says("", calling("look")), says("done"), says("", calling("look")), says("really")}}
	out, rec := start(t, t.Context(), Config{
		Backend: model, Tools: working("look"), MaxTurns: 9, Host: hooks{pending: pending},
	}, nil)
	assert.Equal(t, task.Completed, out.Status)
	assert.Equal(t, "really", out.Output)
	assert.Equal(t, 1, asked)
	assert.Equal(
		t,
		[]string{"the task", "", "by look", "done", "two children are at work", "", "by look", "really"},
		contents(rec.messages),
	)
	assert.Equal(t, []bool{false, false, false, true}, rec.ends)
}

// Without a reminder the answer ends the run. After a message the host is asked again;
// without turns left it is not asked.
func TestNothingPending(t *testing.T) {
	m := &mailbox{}
	texts := []string{"", "a child is at work", "never told"}
	pending := func() string {
		text := texts[0]
		texts = texts[1:]
		return text
	}
	model := &script{steps: []step{says("done")}}
	out, _ := start(t, t.Context(), Config{Backend: model, MaxTurns: 5, Host: hooks{pending: pending}}, nil)
	assert.Equal(t, "done", out.Output)
	assert.Len(t, texts, 2)

	model = &script{steps: []step{m.during(says("one"), "more"), says("two"), says("three")}}
	out, _ = start(t, t.Context(), Config{
		Backend: model, MaxTurns: 5, Host: hooks{messages: m.take, pending: pending},
	}, nil)
	assert.Equal(t, "three", out.Output)
	assert.Equal(t, []string{"never told"}, texts)

	model = &script{steps: []step{says("one")}}
	out, _ = start(t, t.Context(), Config{Backend: model, MaxTurns: 1, Host: hooks{pending: pending}}, nil)
	assert.Equal(t, "one", out.Output)
	assert.Equal(t, []string{"never told"}, texts)
}

// A message gives an agent its tools back after an answer that did not fit the schema.
func TestNewWorkReleasesFromTheSchema(t *testing.T) {
	m := &mailbox{}
	model := &script{
		steps: []step{says("no"), m.during(says("{}"), "look again"), says("", calling("look")), says(`{"n":1}`)},
	}
	out, _ := start(t, t.Context(), Config{
		Backend: model, Tools: working("look"), MaxTurns: 9, Host: hooks{messages: m.take},
		Schema: json.RawMessage(number),
	}, nil)
	assert.Equal(t, task.Completed, out.Status)
	assert.Equal(t, []string{"free, tools", "bound", "free, tools", "free, tools"}, bound(model.asked))
}

// A refusal still counts after a message has continued the run.
func TestRefusedAfterMessages(t *testing.T) {
	m := &mailbox{}
	model := &script{steps: []step{says("", calling("write")), m.during(says("one"), "and now?"), says("two")}}
	no := refusing(nil, func(tool.Call) bool { return true })
	out, _ := start(t, t.Context(), Config{Backend: model, MaxTurns: 9, Host: hooks{messages: m.take}, Gate: no}, nil)
	assert.Equal(t, task.Refused, out.Status)
	assert.Equal(t, "two", out.Output)
}
