// Package halt decides when a batch ends before all its tasks were started: after so many of them have failed.
//
// A [Policy] is what a person asks for. A [Halt] counts the tasks of one batch by it.
package halt

import (
	"sync"

	"qq/pkg/task"
)

// minEnded is how many tasks must have ended before a share of them counts.
const minEnded = 10

// Policy says when a batch halts. The zero Policy never halts it.
type Policy struct {
	Now     bool    // end the running tasks too; otherwise they continue
	Fail    int     // number of failed tasks that halts the batch; 0 means never
	Percent float64 // percentage of failures among the ended tasks that halts it; 0 means never
}

// failures is the cause with which tasks are cancelled if too many others have failed.
var failures = &task.Error{Status: task.Cancelled, Problem: "halted: too many tasks failed"}

// Halt counts the ended tasks of one batch. A nil Halt never halts it. Several goroutines may use a Halt at once.
type Halt struct {
	policy Policy

	mu            sync.Mutex
	ended, failed int
	reason        error
}

// New returns the Halt of a batch.
func New(p Policy) *Halt { return &Halt{policy: p} }

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

// Count counts the result of a task that ran. It returns why the batch halts if it does so because of this task.
func (h *Halt) Count(r task.Result) error {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended++
	if !r.Success && r.Status != task.Cancelled { // a person means the others to go on
		h.failed++
	}
	if h.reason != nil || !h.reached() {
		return nil
	}
	h.reason = failures
	return h.reason
}

// reached reports whether the batch must halt. The caller holds the lock.
func (h *Halt) reached() bool {
	if h.policy.Fail > 0 && h.failed >= h.policy.Fail {
		return true
	}
	return h.policy.Percent > 0 && h.ended >= minEnded &&
		float64(h.failed)*100 >= h.policy.Percent*float64(h.ended)
}
