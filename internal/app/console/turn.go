package console

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"qq/internal/agent/loop"
	"qq/internal/approval"
	"qq/internal/control/board"
	"qq/pkg/event"
	"qq/pkg/llm"
	"qq/pkg/session"
	"qq/pkg/supervisor/jobs"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// Process runs the turns of a conversation.
type Process interface {
	// Turn runs the agent on the task of t, or the command of a person, and sets the session of t. It ends soon after ctx
	// ends. An error says that nothing began.
	Turn(ctx context.Context, t *Turn) (task.Result, error)
}

// Running is a turn that runs.
type Running interface {
	ID() string
	Jobs() []jobs.Job
	Used() task.Usage
	Message(executionID, text string) error
	Cancel(executionID string) bool
	Kill()
}

// Questions are those that wait for a person; *approval.Queue implements it.
type Questions interface{ Open() []tool.Question }

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

	started   time.Time
	board     *board.Board
	mu        sync.Mutex
	run       Running // nil unless it runs
	questions Questions
	used      task.Usage // when it has ended
	allowed   []string   // tools that a person has allowed meanwhile
	entries   []llm.Entry
}

// newTurn returns a turn.
func newTurn() *Turn { return &Turn{started: time.Now(), board: board.New()} }

// Begin says that the turn runs.
func (t *Turn) Begin(r Running, q Questions) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.run, t.questions = r, q
}

// End says that the turn runs no more.
func (t *Turn) End() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.used, t.run = t.run.Used(), nil
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

// usage returns what the turn has used so far.
func (t *Turn) usage() task.Usage {
	if r := t.live(); r != nil {
		return r.Used()
	}
	return t.used
}

// Handle implements event.Sink.
func (t *Turn) Handle(e event.Event) {
	t.board.Handle(e)
	if e.Type == event.ValidationResolved && e.Decision == string(approval.Session) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.allowed = append(t.allowed, e.Operation)
	}
}

// jobs returns the jobs that the agent of the turn has started.
func (t *Turn) jobs() (list []board.Job, ended []board.Ended) {
	r := t.live()
	if r == nil {
		return nil, nil
	}
	asking := map[string]bool{}
	for _, q := range t.questions.Open() {
		asking[q.ExecutionID] = true
	}
	return t.board.Jobs(r.Jobs(), asking), t.board.Ended()
}

// find returns the job whose id is id, or begins or ends with it.
func (t *Turn) find(id string) (found []board.Job) {
	list, _ := t.jobs()
	return slices.DeleteFunc(list, func(j board.Job) bool {
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
