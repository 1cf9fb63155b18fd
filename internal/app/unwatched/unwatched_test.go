package unwatched

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
		u := New(l)
		call := func(e event.Type, name string) event.Event { return event.Event{Type: e, CallID: name, Tool: name} }
		for _, e := range []event.Event{
			call(event.ToolStart, "a"), {Type: event.SubAgentProgress}, call(event.ToolStart, "b"),
			call(event.ToolEnd, "a"), call(event.ToolStart, "c"), call(event.ToolEnd, "other"),
		} {
			u.Emit(e)
		}
		assert.Empty(t, l.got)
		time.Sleep(quiet)
		synctest.Wait()
		assert.Equal(t, []string{"tool_start b", "tool_start c"}, l.got)
		u.Emit(call(event.ToolEnd, "b"))
		assert.Equal(t, []string{"tool_start b", "tool_start c", "tool_end b"}, l.got)
	})
}
