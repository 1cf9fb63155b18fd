package agent

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"qq/pkg/event"
	"qq/pkg/supervisor"
)

// listener is a parent that keeps the events it gets.
type listener struct {
	supervisor.Parent
	mu  sync.Mutex
	got []string
}

func (l *listener) Emit(e event.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.got = append(l.got, string(e.Type)+" "+e.Tool+string(e.Phase))
}

// take returns the events it has got since the last call.
func (l *listener) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	got := l.got
	l.got = nil
	return got
}

// TestUnwatched: a child that nobody watches sends nothing for a second, and then also its phase and
// the calls that run still. That several tasks are about to run is told at once.
func TestUnwatched(t *testing.T) {
	for last, want := range map[event.Phase][]string{
		"": nil, event.PhaseTools: {"sub_agent_progress tools"}, // one that was sent is not sent again
		event.PhaseDelegating: {"sub_agent_progress delegating"},
	} {
		synctest.Test(t, func(t *testing.T) { testUnwatched(t, last, want) })
	}
}

// testUnwatched has last as the last phase of the agent in the first second, and want as what is told of phases then.
func testUnwatched(t *testing.T, last event.Phase, want []string) {
	l := &listener{}
	u := NewUnwatched(l)
	for _, e := range []event.Event{
		{Type: event.ToolStart, Tool: "a"}, {Type: event.SubAgentProgress}, {Type: event.ToolStart, Tool: "b"},
		{Type: event.ToolStart, Tool: "a"}, {Type: event.ToolEnd, Tool: "a"}, {Type: event.ToolEnd, Tool: "other"},
	} {
		u.Emit(e)
	}
	assert.Empty(t, l.take())
	for _, e := range []event.Event{
		{Type: event.SubAgentProgress, Phase: event.PhaseModel}, {Type: event.SubAgentProgress, Text: "again"},
		{Type: event.SubAgentProgress, Phase: event.PhaseParts, Total: 2},
		{Type: event.SubAgentProgress, Phase: event.PhaseDelegating, Total: 2},
	} {
		u.Emit(e)
	}
	assert.Equal(t, []string{"sub_agent_progress parts", "sub_agent_progress delegating"}, l.take())
	if last != "" {
		u.Emit(event.Event{Type: event.SubAgentProgress, Phase: last})
	}
	time.Sleep(unwatchedFor)
	synctest.Wait()
	assert.Equal(t, append(want, "tool_start b", "tool_start a"), l.take())
	u.Emit(event.Event{Type: event.ToolEnd, Tool: "b"})
	assert.Equal(t, []string{"tool_end b"}, l.take())
}
