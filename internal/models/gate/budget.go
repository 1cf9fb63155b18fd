package gate

import (
	"fmt"
	"slices"
	"sync"

	"qq/pkg/llm"
	"qq/pkg/money"
	"qq/pkg/task"
)

// Budget is what a whole tree of processes may use, at all servers together. Several goroutines may use it.
type Budget struct {
	tokens int          // 0 is no limit
	cost   money.Amount // 0 is no limit

	mu    sync.Mutex
	used  task.Usage
	gates []*Gate // that refuse requests when it is spent
}

// NewBudget returns a budget of so many tokens that cost so much; 0 is no limit.
func NewBudget(tokens int, cost money.Amount) *Budget { return &Budget{tokens: tokens, cost: cost} }

// Used returns what all requests together have used.
func (b *Budget) Used() task.Usage {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// Spent reports whether the budget is used up.
func (b *Budget) Spent() bool { return b.refusal() != nil }

// refusal returns why no request may be sent any more, or nil.
func (b *Budget) refusal() *llm.Error {
	if b.tokens <= 0 && b.cost <= 0 { // the common case, without the lock
		return nil
	}
	used := b.Used()
	switch {
	case b.tokens > 0 && used.Tokens() >= b.tokens:
		return &llm.Error{Kind: llm.Spent, Hint: "raise QQ_MAX_TOKENS or --max-tokens",
			Problem: fmt.Sprintf("Token budget exhausted: %d of %d tokens used", used.Tokens(), b.tokens)}
	case b.cost > 0 && used.Cost >= b.cost:
		return &llm.Error{Kind: llm.Spent, Hint: "raise QQ_MAX_COST or --max-cost",
			Problem: fmt.Sprintf("Cost budget exhausted: %v of %v used", used.Cost, b.cost)}
	}
	return nil
}

// use counts what a request used that has left g. It returns the other gates if the budget is spent: they must
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
