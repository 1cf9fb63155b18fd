package attempts

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"qq/pkg/task"
)

// TestSumOfDeeds: the result of a task that was repeated has what all its attempts did.
func TestSumOfDeeds(t *testing.T) {
	did := func(tool string) *task.Did { return &task.Did{Calls: map[string]int{tool: 1}} }
	sum := Sum(task.Result{Did: did("read_file")}, task.Result{Did: did("grep_file")})
	assert.Equal(t, map[string]int{"read_file": 1, "grep_file": 1}, sum.Did.Calls)
	assert.Equal(t, did("read_file"), Sum(task.Result{Did: did("read_file")}, task.Result{}).Did, "the last one died")
}

func TestPause(t *testing.T) {
	for n, want := range map[int]time.Duration{1: 500 * time.Millisecond, 2: time.Second, 5: 8 * time.Second,
		8: time.Minute, 1000: time.Minute} {
		different := map[time.Duration]bool{}
		for range 20 {
			d := Pause(n)
			different[d] = true
			assert.InDelta(t, want, d, float64(want)/4)
		}
		assert.Greater(t, len(different), 1)
	}
}
