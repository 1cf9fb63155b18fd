package task

import (
	"fmt"
	"strings"
)

// Counts are how many tasks of a group ended how. Each task counts once.
type Counts struct {
	Completed int `json:"completed"`
	Failed    int `json:"failed"`
	Skipped   int `json:"skipped"`   // because a task that they need was not completed
	Cancelled int `json:"cancelled"` // or interrupted, or never started
}

// Add counts a task that ended with the status s.
func (c *Counts) Add(s Status) {
	switch s {
	case Completed:
		c.Completed++
	case Skipped:
		c.Skipped++
	case Cancelled, Interrupted, Terminated:
		c.Cancelled++
	default:
		c.Failed++
	}
}

// Total is the number of tasks.
func (c Counts) Total() int { return c.Completed + c.Failed + c.Skipped + c.Cancelled }

// String is such as "4 tasks: 2 completed, 1 failed, 1 skipped".
func (c Counts) String() string {
	var parts []string
	for _, p := range []struct {
		n    int
		what string
	}{{c.Completed, "completed"}, {c.Failed, "failed"}, {c.Skipped, "skipped"}, {c.Cancelled, "cancelled"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	what := "tasks"
	if c.Total() == 1 {
		what = "task"
	}
	if len(parts) == 0 {
		return "0 tasks"
	}
	return fmt.Sprintf("%d %s: %s", c.Total(), what, strings.Join(parts, ", "))
}
