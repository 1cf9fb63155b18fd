package loop

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/event"
	"qq/pkg/llm"
	"qq/pkg/tool"
)

// A call has an id that no other call of the conversation has, whatever the model sends: in the
// message, in its result, in its events and for the tool that runs.
func TestEveryCallHasAnID(t *testing.T) {
	var mu sync.Mutex
	var ran []string
	tools := tool.Set{reading("look", func(ctx context.Context) tool.Result {
		mu.Lock()
		defer mu.Unlock()
		ran = append(ran, tool.CallOf(ctx).ID)
		return tool.Text("ok")
	})}
	look := func(id string) tool.Call { return tool.Call{ID: id, Name: "look"} }
	long := strings.Repeat("x", 129)
	model := &script{steps: []step{
		says("", look(""), look("mine"), look("mine"), look("call_4"), look("old")),
		says("", look(long), look("a b"), look("\x1b[2J"), look("ü"), look("call_4"), look(long[1:])),
		says("done"),
	}}
	history := []llm.Message{
		{Role: llm.User, Content: "before"},
		{Role: llm.Assistant, Calls: []tool.Call{look("old"), look("call_1")}},
		{Role: llm.ToolRole, CallID: "old"}, {Role: llm.ToolRole, CallID: "call_1"},
	}
	_, rec := start(t, t.Context(), Config{Backend: model, Tools: tools, MaxTurns: 3}, history)

	var called, answered, began, ended []string
	for _, m := range rec.messages {
		for _, c := range m.Calls {
			called = append(called, c.ID)
		}
		if m.Role == llm.ToolRole {
			answered = append(answered, m.CallID)
		}
	}
	for _, e := range rec.events {
		switch e.Type {
		case event.ToolStart:
			began = append(began, e.CallID)
		case event.ToolEnd:
			ended = append(ended, e.CallID)
		}
	}
	require.Len(t, called, 11)
	assert.Equal(t, called, answered)
	assert.ElementsMatch(t, called, began, "reads run at once")
	assert.ElementsMatch(t, called, ended)
	assert.Subset(t, called, ran, "what the guard refused did not run")
	all := append([]string{"old", "call_1"}, called...)
	slices.Sort(all)
	assert.Len(t, slices.Compact(all), 13, "ids of two calls are equal: %q", called)
	for _, id := range called {
		assert.True(t, tool.ValidID(id), "%q", id)
	}
	for _, id := range []string{"mine", "call_4", long[1:]} {
		assert.Contains(t, called, id, "an id of the model is kept")
	}
}
