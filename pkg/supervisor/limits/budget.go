// Package limits has the limits of a tree of jobs: the one cap on jobs that run at once
// ([Slots]), a slot that is lent while its holder waits ([Loan]), the time of a job
// ([Clock]), and the number and rate of children that agents start ([Budget]).
//
// Vocabulary: to pause a clock is to stop its time until it is resumed; to give time back
// is to treat the last seconds as if it had been paused in them.
//
// Nothing here knows what a job is, and nothing starts a goroutine. Not promised: that
// slots are shared fairly between the parts of a tree; who is deeper comes first.
package limits

import (
	"fmt"
	"sync"
	"time"

	"qq/pkg/task"
)

// Budget is what agents may start in one run.
type Budget struct {
	most int // children
	rate int // children in a minute; 0 is no limit

	mu      sync.Mutex
	spawned int
	recent  []time.Time // the last starts, at most rate of them, as a ring
	oldest  int         // in recent, once that is full
	reached string      // what was said when there could be no more, the first time
}

// NewBudget returns the budget of a run.
func NewBudget(l task.Limits) *Budget { return &Budget{most: l.MaxChildren, rate: l.SpawnRate} }

// Take counts one child that starts now, or says why it may not. No 60 seconds have more
// children than the rate.
func (b *Budget) Take(now time.Time) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.spawned >= b.most {
		return b.refuse(fmt.Sprintf("Maximum %d sub-agents exceeded", b.most))
	}
	switch {
	case b.rate <= 0:
	case len(b.recent) < b.rate:
		b.recent = append(b.recent, now)
	case now.Sub(b.recent[b.oldest]) < time.Minute:
		return b.refuse(fmt.Sprintf("Maximum %d sub-agents a minute exceeded", b.rate))
	default:
		b.recent[b.oldest] = now
		b.oldest = (b.oldest + 1) % b.rate
	}
	b.spawned++
	return ""
}

// refuse notes that the budget was reached. b.mu is held.
func (b *Budget) refuse(why string) string {
	if b.reached == "" {
		b.reached = why
	}
	return why
}

// Reached says which limit was the first to keep an agent from starting a child; empty
// means none did.
func (b *Budget) Reached() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reached
}
