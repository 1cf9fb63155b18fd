package supervisor

import (
	"fmt"
	"sync"
	"time"

	"qq/pkg/task"
)

// budget is what agents may start in one run.
type budget struct {
	most int // children
	rate int // children in a minute; 0 is no limit

	mu      sync.Mutex
	spawned int
	recent  []time.Time // the last starts, at most rate of them, as a ring
	oldest  int         // in recent, once that is full
	reached string      // what was said when there could be no more, the first time
}

func newBudget(l task.Limits) *budget { return &budget{most: l.MaxChildren, rate: l.SpawnRate} }

// take counts one child, or says why there may be no more. In no minute there
// are more than the rate.
func (b *budget) take(now time.Time) string {
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
func (b *budget) refuse(why string) string {
	if b.reached == "" {
		b.reached = why
	}
	return why
}

// LimitReached says which limit kept agents from starting a child, at any depth;
// empty is none.
func (s *Supervisor) LimitReached() string {
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	return s.budget.reached
}
