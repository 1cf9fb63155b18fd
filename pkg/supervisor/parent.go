package supervisor

import (
	"context"
	"time"

	"qq/pkg/event"
	"qq/pkg/llm"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// Parent is what an agent may ask of whoever started it. Its implementations are
// the root, for the agent that runs in the root's process, and the control pipe of
// a child. Its methods may be called by several goroutines at once.
type Parent interface {
	task.Delegator
	task.Family
	Admission
	Report
}

// Admission gives permits for requests to a model server.
type Admission interface {
	llm.Admission
	// Active says that something happens in the agent, such as a call of a tool: its
	// idle time starts again from zero.
	Active()
}

// Report is what an agent tells, and what it asks about its own calls.
type Report interface {
	// Approve decides about a call that the agent wants to make. It may wait for a
	// person.
	Approve(ctx context.Context, in tool.Intent) tool.Decision
	// Changed reports files that the agent has changed, relative to its folder.
	Changed(paths []string)
	// Effects is called before the first side effect of the agent; on error the agent
	// must not act.
	Effects() error
	// Emit reports an event. Who it is about is filled in.
	Emit(e event.Event)
	// Inbox delivers messages of other agents.
	Inbox() <-chan string
}

// Approvals decide about calls that a person may have to be asked about.
type Approvals interface {
	// Needs reports whether somebody would be asked.
	Needs(in tool.Intent) bool
	// Ask decides, and waits for a person where one has to be asked.
	Ask(ctx context.Context, q tool.Question) tool.Decision
}

// Gate lets requests to model servers pass, for the whole tree.
type Gate interface {
	// Enter waits for a permit on behalf of who, as [llm.Admission]; again is for a
	// request that a circuit breaker has refused before.
	Enter(ctx context.Context, model string, again bool, who Waiter) (llm.Permit, error)
	// First is a permit for the first request of t if one is free now, else nil.
	First(t task.Task, who Waiter) llm.Permit
	// Refusal is why a request for t would be refused now and for some time, else nil.
	Refusal(t task.Task) error
}

// Waiter is the one for whom a request to a model server is sent.
type Waiter interface {
	// Behind says that the request has waited at the server for those of others during
	// the last d.
	Behind(d time.Duration)
}
