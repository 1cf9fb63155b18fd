package agent

import (
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
	got []string
}

func (l *listener) Emit(e event.Event) { l.got = append(l.got, string(e.Type)+" "+e.Tool) }

// TestUnwatched: a child that nobody watches sends nothing for a second, and then also the calls that run still.
func TestUnwatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &listener{}
		u := NewUnwatched(l)
		for _, e := range []event.Event{
			{Type: event.ToolStart, Tool: "a"}, {Type: event.SubAgentProgress}, {Type: event.ToolStart, Tool: "b"},
			{Type: event.ToolStart, Tool: "a"}, {Type: event.ToolEnd, Tool: "a"}, {Type: event.ToolEnd, Tool: "other"},
		} {
			u.Emit(e)
		}
		assert.Empty(t, l.got)
		time.Sleep(unwatchedFor)
		synctest.Wait()
		assert.Equal(t, []string{"tool_start b", "tool_start a"}, l.got)
		u.Emit(event.Event{Type: event.ToolEnd, Tool: "b"})
		assert.Equal(t, []string{"tool_start b", "tool_start a", "tool_end b"}, l.got)
	})
}
