package supervisor

import (
	"context"
	"time"

	"qq/pkg/event"
	"qq/pkg/llm"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// Parent is what an agent may request from whoever started it. The supervisor implements it for
// agents in the root process, and the control pipe implements it in a child process. Several
// goroutines may call its methods at once.
type Parent interface {
	task.Delegator
	task.Family
	Admission
	Report
}

// Admission gives permits for requests to a model server, and is told about activity.
type Admission interface {
	llm.Admission
	// Active says that something happens in the agent, such as a call of a tool. It resets the idle
	// clock of the agent.
	Active()
}

// Report is what an agent reports about itself, and what it asks about its own calls.
type Report interface {
	// Approve decides whether the agent may make a call. It may wait for a person.
	Approve(ctx context.Context, in tool.Intent) tool.Decision
	// Changed reports files that the agent has changed, relative to its working directory.
	Changed(paths []string)
	// Effects is called before the first side effect of the agent; on error the agent
	// must not act.
	Effects() error
	// Emit reports an event. The receiver fills in which agent it is about.
	Emit(e event.Event)
	// Inbox returns the channel on which messages from other agents arrive.
	Inbox() <-chan string
}

// Approvals decides about calls that a person may have to approve.
type Approvals interface {
	// Needs reports whether Ask would ask somebody, and so may take long.
	Needs(q tool.Question) bool
	// Ask decides whether the call may run. If a person has to approve it, Ask waits for the
	// answer.
	Ask(ctx context.Context, q tool.Question) tool.Decision
}

// Gate limits the requests of the whole tree to model servers.
type Gate interface {
	// Enter waits for a permit, like [llm.Admission]. again says that a circuit breaker has refused
	// the request before. who is told how long the request waited at the server.
	Enter(ctx context.Context, model string, again bool, who Waiter) (llm.Permit, error)
	// First returns a permit for the first request of t if one is free now, and nil otherwise.
	First(t task.Task, who Waiter) llm.Permit
	// Ready returns how long t, if it has not started, should wait before this is asked again, because its server keeps
	// requests waiting and tasks that need another one can do without; 0 means that t may start.
	Ready(t task.Task) time.Duration
	// Refusal returns the reason why a request for t would be refused now and for some time, or nil
	// if it would not.
	Refusal(t task.Task) error
}

// Waiter is the agent for which a request to a model server is sent.
type Waiter interface {
	// Behind says that the request spent the last d in the queue of the server, behind requests of
	// others.
	Behind(d time.Duration)
}
