// Package halt decides when a batch ends before all its tasks were started: after so many of them have failed, have
// succeeded or are done.
//
// A [Policy] is what a person asks for. A [Halt] counts the tasks of one batch by it. Tasks whose result is known from
// an earlier run are not counted, but they are part of all tasks of the batch.
package halt

import (
	"sync"

	"qq/pkg/task"
)

// minEnded is how many tasks must have ended before a percentage of failures counts.
const minEnded = 10

// Policy says when a batch halts. The zero Policy never halts it.
type Policy struct {
	Now     bool    // end the running tasks too; otherwise they continue
	Fail    int     // number of failed tasks that halts the batch; 0 means never
	Percent float64 // percentage of failures among the ended tasks that halts it; 0 means never
	Success Amount  // successful tasks that halt it
	Done    Amount  // ended tasks that halt it
}

// Amount is a number of tasks, or a percentage of all tasks of the batch. The zero Amount is never reached.
type Amount struct {
	Tasks   int
	Percent float64
}

// reached reports whether n of total tasks are enough.
func (a Amount) reached(n, total int) bool {
	return a.Tasks > 0 && n >= a.Tasks || a.Percent > 0 && total > 0 && float64(n)*100 >= a.Percent*float64(total)
}

// Reasons why a batch halts. They are the causes with which its tasks are cancelled.
var (
	Failure   error = &task.Error{Status: task.Cancelled, Problem: "a task failed"}
	Failures  error = &task.Error{Status: task.Cancelled, Problem: "too many tasks failed"}
	Successes error = &task.Error{Status: task.Cancelled, Problem: "enough tasks succeeded"}
	Ended     error = &task.Error{Status: task.Cancelled, Problem: "enough tasks are done"}
)

// Halt counts the ended tasks of one batch. A nil Halt never halts it. Several goroutines may use a Halt at once.
type Halt struct {
	policy Policy
	total  int // tasks of the batch; 0 means not known

	mu                       sync.Mutex
	ended, failed, succeeded int
	reason                   error
}

// New returns the Halt of a batch of total tasks; 0 means that their number is not known.
func New(p Policy, total int) *Halt { return &Halt{policy: p, total: total} }

// Now reports whether the running tasks end too when the batch halts.
func (h *Halt) Now() bool { return h.policy.Now }

// Reason returns why the batch halts, or nil if it does not.
func (h *Halt) Reason() error {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.reason
}

// Reached reports whether the batch has halted because it did what it was to do: enough tasks succeeded, or enough are
// done and none of them failed.
func (h *Halt) Reached() bool {
	if h == nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.reason == Successes || h.reason == Ended && h.failed == 0
}

// Count counts the result of a task that ran. It returns why the batch halts if it does so because of this task.
func (h *Halt) Count(r task.Result) error {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended++
	switch {
	case r.Success:
		h.succeeded++
	case r.Status != task.Cancelled: // a person means the others to go on
		h.failed++
	}
	if h.reason != nil {
		return nil
	}
	h.reason = h.due()
	return h.reason
}

// due returns why the batch must halt, or nil. The caller holds the lock.
func (h *Halt) due() error {
	p := h.policy
	switch {
	case p.Fail == 1 && h.failed == 1:
		return Failure
	case p.Fail > 0 && h.failed >= p.Fail:
		return Failures
	case p.Percent > 0 && h.ended >= minEnded && float64(h.failed)*100 >= p.Percent*float64(h.ended):
		return Failures
	case p.Success.reached(h.succeeded, h.total):
		return Successes
	case p.Done.reached(h.ended, h.total):
		return Ended
	}
	return nil
}

// NotStarted says why a task was not started: the first of the reasons that is not nil, or that the batch was stopped.
func NotStarted(reasons ...error) string {
	for _, why := range reasons {
		if why != nil {
			return "not started: " + why.Error()
		}
	}
	return "not started: stopped"
}
