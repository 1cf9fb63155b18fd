package halt

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"qq/pkg/task"
)

// TestHalt: after which of the tasks each policy halts a batch, why, and whether the batch has then done what it was
// to do. Of the letters, s is a success, f a failure and c a task that a person has cancelled.
func TestHalt(t *testing.T) {
	for name, c := range map[string]struct {
		policy  Policy
		total   int
		ends    string
		after   int // ended tasks; 0 is never
		why     error
		reached bool
	}{
		"never":                      {Policy{}, 3, "fff", 0, nil, false},
		"one failure":                {Policy{Fail: 1}, 9, "cf", 2, Failure, false},
		"failures":                   {Policy{Fail: 2}, 9, "fcsfs", 4, Failures, false},
		"failures of ten":            {Policy{Percent: 20}, 99, "fffffffffs", 10, Failures, false},
		"few of them":                {Policy{Percent: 20}, 99, "fsssssssssss", 0, nil, false},
		"successes":                  {Policy{Success: Amount{Tasks: 2}}, 9, "sffs", 4, Successes, true},
		"not enough of them":         {Policy{Success: Amount{Tasks: 2}}, 3, "sff", 0, nil, false},
		"a percentage of all":        {Policy{Success: Amount{Percent: 30}}, 10, "sfss", 4, Successes, true},
		"nobody knows how many":      {Policy{Success: Amount{Percent: 30}}, 0, "ssss", 0, nil, false},
		"done":                       {Policy{Done: Amount{Tasks: 2}}, 9, "sss", 2, Ended, true},
		"done, and one fails later":  {Policy{Done: Amount{Tasks: 2}}, 9, "ssf", 2, Ended, false},
		"done, with a failure":       {Policy{Done: Amount{Tasks: 2}}, 9, "fs", 2, Ended, false},
		"done, a percentage":         {Policy{Done: Amount{Percent: 50}}, 5, "css", 3, Ended, true},
		"what was first is the why":  {Policy{Done: Amount{Tasks: 1}}, 5, "sff", 1, Ended, false},
		"a small share of few tasks": {Policy{Done: Amount{Percent: 1}}, 5, "s", 1, Ended, true},
	} {
		t.Run(name, func(t *testing.T) {
			h := New(c.policy, c.total)
			after := 0
			for i, end := range c.ends {
				status := map[rune]task.Status{'s': task.Completed, 'f': task.Failed, 'c': task.Cancelled}[end]
				if why := h.Count(task.Task{}.Ended(status, "")); why != nil {
					assert.Zero(t, after, "only once")
					after = i + 1
					assert.Equal(t, c.why, why)
				}
			}
			assert.Equal(t, c.after, after)
			assert.Equal(t, c.why, h.Reason())
			assert.Equal(t, c.reached, h.Reached())
		})
	}
	var none *Halt
	assert.NoError(t, none.Count(task.Result{}))
	assert.NoError(t, none.Reason())
	assert.False(t, none.Reached())
}
