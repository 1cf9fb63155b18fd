package limits

import (
	"time"

	"qq/pkg/task"
)

// Limits are the limits of a run.
type Limits struct {
	task.Limits
	// TimeoutBy and IdleBy say who set ChildTimeout and IdleTimeout. [Source.Limit] has the
	// rule that decides between these and the definition of an agent.
	TimeoutBy, IdleBy Source
}

// Agent is what the definition of an agent says of its time. 0 means nothing.
type Agent struct {
	Name          string
	Timeout, Idle time.Duration
}

// Of returns the limits of the run clock and of the idle clock of a job of the agent a. own is the timeout of its task;
// 0 means none. That of a task that a person wrote replaces the limit of its agent; that of a task from an agent only
// lowers it. zero says that it is job zero.
func (l Limits) Of(a Agent, own time.Duration, zero, byPerson bool) (run, idle Time) {
	most := l.ChildTimeout
	if zero && l.TimeoutBy.By == "" {
		most = 0 // the default is for children
	}
	run = l.TimeoutBy.Limit(most, a.Timeout, a.Name)
	if its := run.Task(own); its.For > 0 && byPerson {
		run = its
	} else {
		run = run.Lower(its)
	}
	return run, l.IdleBy.Limit(l.IdleTimeout, a.Idle, a.Name)
}
