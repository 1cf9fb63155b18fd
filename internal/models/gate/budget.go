package gate

import (
	"fmt"
	"slices"
	"sync"

	"qq/pkg/llm"
	"qq/pkg/task"
)

// Budget is the number of tokens that a whole tree of processes may use, at all servers together. Several goroutines
// may use it.
type Budget struct {
	most int // 0 is no limit

	mu    sync.Mutex
	used  task.Usage
	gates []*Gate // that refuse requests when it is spent
}

// NewBudget returns a budget of so many tokens; 0 is no limit.
func NewBudget(tokens int) *Budget { return &Budget{most: tokens} }

// Used returns how many tokens all requests together have used.
func (b *Budget) Used() task.Usage {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// Spent reports whether the budget is used up.
func (b *Budget) Spent() bool { return b.refusal() != nil }

// refusal returns why no request may be sent any more, or nil.
func (b *Budget) refusal() *llm.Error {
	if b.most <= 0 { // the common case, without the lock
		return nil
	}
	used := b.Used()
	sum := used.InputTokens + used.OutputTokens
	if sum < b.most {
		return nil
	}
	return &llm.Error{Kind: llm.Spent, Hint: "raise QQ_MAX_TOKENS or --max-tokens",
		Problem: fmt.Sprintf("Token budget exhausted: %d of %d tokens used", sum, b.most)}
}

// use counts the tokens of a request that has left g. It returns the other gates if the budget is spent: they must
// serve their queues, to refuse the requests in them.
func (b *Budget) use(u task.Usage, g *Gate) []*Gate {
	b.mu.Lock()
	b.used = b.used.Add(u)
	b.mu.Unlock()
	if b.refusal() == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(b.gates), func(o *Gate) bool { return o == g })
}

func (b *Budget) join(g *Gate) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gates = append(b.gates, g)
}
