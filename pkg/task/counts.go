package task

import (
	"fmt"
	"slices"
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

// Words are the counts that are not zero, with what they count.
func (c Counts) Words() []Count {
	all := []Count{{c.Completed, "completed"}, {c.Failed, "failed"}, {c.Skipped, "skipped"}, {c.Cancelled, "cancelled"}}
	return slices.DeleteFunc(all, func(one Count) bool { return one.N == 0 })
}

// Count is how many tasks ended in the way that What says.
type Count struct {
	N    int
	What string
}

// String is such as "4 tasks: 2 completed, 1 failed, 1 skipped".
func (c Counts) String() string { return c.Text(func(string) string { return "" }) }

// Text is String with a text after each of the counts.
func (c Counts) Text(after func(what string) string) string {
	var parts []string
	for _, one := range c.Words() {
		parts = append(parts, fmt.Sprintf("%d %s%s", one.N, one.What, after(one.What)))
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
