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
	l.got = append(l.got, string(e.Type)+" "+e.Tool)
}

// take returns the events it has got since the last call.
func (l *listener) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	got := l.got
	l.got = nil
	return got
}

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
		assert.Empty(t, l.take())
		time.Sleep(unwatchedFor)
		synctest.Wait()
		assert.Equal(t, []string{"tool_start b", "tool_start a"}, l.take())
		u.Emit(event.Event{Type: event.ToolEnd, Tool: "b"})
		assert.Equal(t, []string{"tool_end b"}, l.take())
	})
}
