package console

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"qq/internal/agent/loop"
	"qq/internal/approval"
	"qq/internal/control"
	"qq/internal/control/board"
	"qq/internal/undo"
	"qq/pkg/event"
	"qq/pkg/llm"
	"qq/pkg/session"
	"qq/pkg/task"
)

// Process runs the turns of a conversation.
type Process interface {
	// Turn runs the agent on the task of t, or the command of a person, and sets the session of t. It ends soon after
	// ctx ends. An error says that nothing began.
	Turn(ctx context.Context, t *Turn) (task.Result, error)
	// Kill kills all that the turn has started.
	Kill()
}

// Running is the run of a turn, as any other face sees it; [control.Local] implements it.
type Running interface {
	Snapshot() (control.Snapshot, error)
	Message(executionID, text string) error
	Cancel(executionID string) error
}

// Screen shows an answer while it is written.
type Screen interface {
	loop.Screen
	// Begin is called before the agent begins.
	Begin(agent, model string)
}

// Turn is one turn of a conversation. It is an event.Sink for the events of its run.
type Turn struct {
	Task    task.Task
	Session session.Choice // which the turn continues, and then that of the conversation
	Past    []llm.Message  // the conversation, if it has no transcript
	Allow   []string       // tools that a person has allowed for the session
	Typed   *Typed         // a command that a person has typed; nil if the agent answers
	Screen  Screen
	Book    *undo.Book // keeps what file tools change

	started time.Time
	mu      sync.Mutex
	run     Running          // nil unless it runs
	id      string           // of the execution of the agent
	last    control.Snapshot // when it ended
	allowed []string         // tools that a person has allowed meanwhile
	entries []llm.Entry
}

// newTurn returns a turn.
func newTurn() *Turn { return &Turn{started: time.Now()} }

// Begin says that the turn runs.
func (t *Turn) Begin(id string, r Running) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.id, t.run = id, r
}

// End says that the turn runs no more.
func (t *Turn) End() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last, _ = t.run.Snapshot()
	t.run = nil
}

// live returns the run of the turn; nil if it has none now.
func (t *Turn) live() Running {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.run
}

// tell sends a message to the agent of the turn.
func (t *Turn) tell(text string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.run == nil {
		return task.Hinted("send it again in a moment", "the agent cannot be told anything now")
	}
	return t.run.Message(t.id, text)
}

// snapshot returns what the run does now, or did last.
func (t *Turn) snapshot() control.Snapshot {
	if r := t.live(); r != nil {
		if snap, err := r.Snapshot(); err == nil {
			return snap
		}
	}
	return t.last
}

// Handle implements event.Sink.
func (t *Turn) Handle(e event.Event) {
	if e.Type == event.ValidationResolved && e.Decision == string(approval.Session) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.allowed = append(t.allowed, e.Operation)
	}
}

// find returns the jobs whose id is id, or begins or ends with it.
func (t *Turn) find(id string) (found []board.Job) {
	return slices.DeleteFunc(t.snapshot().Jobs, func(j board.Job) bool {
		return !strings.HasPrefix(j.ExecutionID, id) && !strings.HasSuffix(j.ExecutionID, id)
	})
}

// Over returns a transcript that writes to next, and that keeps what is said for the next turn.
func (t *Turn) Over(next loop.Transcript) loop.Transcript { return kept{next, t} }

type kept struct {
	loop.Transcript
	turn *Turn
}

// Append implements loop.Transcript.
func (k kept) Append(e llm.Entry) {
	k.Transcript.Append(e)
	k.turn.mu.Lock()
	defer k.turn.mu.Unlock()
	k.turn.entries = append(k.turn.entries, e)
}
