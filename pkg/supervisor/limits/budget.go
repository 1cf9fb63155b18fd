// Package limits has the limits of a tree of jobs: the one cap on jobs that run at once
// ([Slots]), a slot that is lent while its holder waits ([Loan]), the time of a job
// ([Clock]) and whose limit that is ([Source], [Time]), and the number and rate of children
// that agents start ([Budget]).
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

// Budget limits how many children agents may start in one run, and how many of them in a minute.
// Several goroutines may use it at once.
type Budget struct {
	most int // children
	rate int // children in a minute; 0 is no limit

	mu      sync.Mutex
	spawned int
	recent  []time.Time // times of the last starts: a ring of at most rate entries
	oldest  int         // index of the oldest time in recent, once recent is full
	reached string      // the first refusal, or empty
}

// NewBudget returns the budget of a run.
func NewBudget(l task.Limits) *Budget { return &Budget{most: l.MaxChildren, rate: l.SpawnRate} }

// Take counts one child that starts now and returns "". If a limit is reached, it counts nothing
// and returns the reason. In any 60 seconds, at most as many children start as the rate says.
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

// refuse returns why, and stores it if it is the first refusal. The caller holds b.mu.
func (b *Budget) refuse(why string) string {
	if b.reached == "" {
		b.reached = why
	}
	return why
}

// Reached returns the first refusal of Take, or "" if there was none.
func (b *Budget) Reached() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reached
}
