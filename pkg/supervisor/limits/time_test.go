package limits

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"qq/pkg/task"
)

// What a person has set replaces what a definition says, and a definition replaces a default. A source
// that only lowers never gives an agent more than its definition.
func TestSourceLimit(t *testing.T) {
	const s, own = time.Second, "that of agent coder"
	for name, c := range map[string]struct {
		by              string
		lowers          bool
		run, own, limit time.Duration
		whose           string
	}{
		"default":             {run: 5 * s, limit: 5 * s, whose: "the default"},
		"no default":          {limit: 0, whose: "the default"},
		"definition, more":    {run: 5 * s, own: 9 * s, limit: 9 * s, whose: own},
		"definition, less":    {run: 5 * s, own: 3 * s, limit: 3 * s, whose: own},
		"definition alone":    {own: 3 * s, limit: 3 * s, whose: own},
		"person, no other":    {by: "me", run: 5 * s, limit: 5 * s, whose: "me"},
		"person, less":        {by: "me", run: 5 * s, own: 9 * s, limit: 5 * s, whose: "me"},
		"person, more":        {by: "me", run: 9 * s, own: 5 * s, limit: 9 * s, whose: "me"},
		"person, none":        {by: "me", own: 5 * s, limit: 0, whose: "me"},
		"stranger, less":      {by: "it", lowers: true, run: 5 * s, own: 9 * s, limit: 5 * s, whose: "it"},
		"stranger, more":      {by: "it", lowers: true, run: 9 * s, own: 5 * s, limit: 5 * s, whose: own},
		"stranger, none":      {by: "it", lowers: true, own: 5 * s, limit: 5 * s, whose: own},
		"stranger, no other":  {by: "it", lowers: true, run: 5 * s, limit: 5 * s, whose: "it"},
		"nobody is no person": {lowers: true, run: 5 * s, own: 9 * s, limit: 9 * s, whose: own},
	} {
		got := Source{By: c.by, Lowers: c.lowers, How: "how"}.Limit(c.run, c.own, "coder")
		assert.Equal(t, Time{For: c.limit, whose: c.whose, how: "how"}, got, name)
	}
}

func TestTimeLower(t *testing.T) {
	none, short, long := Time{}, Time{For: time.Second}, Time{For: time.Minute}
	for _, c := range []struct{ a, b, want Time }{
		{none, none, none}, {none, long, long}, {long, none, long}, {short, long, short}, {long, short, short},
	} {
		assert.Equal(t, c.want, c.a.Lower(c.b))
	}
}

// The first line is the one that users and scripts rely on; the second says whose limit it was.
func TestErrorsSayWhoseLimit(t *testing.T) {
	by := Source{By: "--timeout", How: "with --timeout or QQ_CHILD_TIMEOUT"}
	set := by.Limit(300*time.Second, 9*time.Second, "")
	by.By = ""
	own := by.Limit(0, 1500*time.Millisecond, "coder (built-in)")
	for _, c := range []struct {
		err  error
		want string
	}{
		{set.Over(task.Timeout), "Child process timed out after 300s\n" +
			"hint: the limit is --timeout: set another with --timeout or QQ_CHILD_TIMEOUT"},
		{own.Over(task.Idle), "Sub-agent inactive for 1.5 seconds\n" +
			"hint: the limit is that of agent coder (built-in): set another with --timeout or QQ_CHILD_TIMEOUT"},
		{own.Rest(time.Second).Over(task.Timeout), "Child process timed out after 1s\n" +
			"hint: its parent had no more time left; the limit of the parent is that of agent coder (built-in): " +
			"set another with --timeout or QQ_CHILD_TIMEOUT"},
		{set.Task(7 * time.Second).Over(task.Timeout), "Child process timed out after 7s\n" +
			"hint: the limit is the timeout of the task: set another in the task"},
		{set.RunOver(), "timed out after 5m0s\nhint: the limit is --timeout: set another with --timeout or " +
			"QQ_CHILD_TIMEOUT"},
		{Source{}.Limit(time.Second, 0, "").Over(task.Timeout), "Child process timed out after 1s"},
		{Time{}.Task(time.Second).Over(task.Timeout), "Child process timed out after 1s"},
	} {
		assert.EqualError(t, c.err, c.want)
	}
	assert.Equal(t, task.Timeout, task.StatusOf(set.RunOver()))
}
