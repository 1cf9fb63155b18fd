package supervisor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"qq/pkg/supervisor/limits"
	"qq/pkg/task"
)

// The first limit that was reached is remembered for who asks in the end.
func TestLimitReached(t *testing.T) {
	s := &Supervisor{budget: limits.NewBudget(task.Limits{MaxChildren: 2, SpawnRate: 1})}
	now := time.Now()
	assert.Empty(t, s.budget.Take(now))
	assert.Empty(t, s.LimitReached())
	assert.Equal(t, "Maximum 1 sub-agents a minute exceeded", s.budget.Take(now))
	assert.Empty(t, s.budget.Take(now.Add(time.Minute)))
	assert.Equal(t, "Maximum 2 sub-agents exceeded", s.budget.Take(now.Add(time.Hour)))
	assert.Equal(t, "Maximum 1 sub-agents a minute exceeded", s.LimitReached())
}
