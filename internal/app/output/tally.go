package output

import (
	"fmt"
	"strings"
	"time"

	"qq/internal/app/figures"
	"qq/pkg/task"
)

// Tally counts the results of a batch by status.
type Tally struct {
	Failed     int
	NotStarted int
	Warned     int // tasks whose results have warnings
	Repeated   int // tasks that needed more than one attempt
	Cached     int // completed tasks whose answer came from the cache
	// Known is the number of results from an earlier run of the batch, and Usage is the
	// tokens of this run. The caller sets both.
	Known  int
	Usage  task.Usage
	counts map[task.Status]int
}

// Add counts one result.
func (t *Tally) Add(r task.Result) {
	if t.counts == nil {
		t.counts = map[task.Status]int{}
	}
	switch {
	case r.NotStarted():
		t.NotStarted++
		return
	case !r.Success:
		t.Failed++
	}
	if len(r.Warnings) > 0 {
		t.Warned++
	}
	if r.Attempts > 1 {
		t.Repeated++
	}
	if r.Cached {
		t.Cached++
	}
	t.counts[r.Status]++
}

// Complete reports whether every task succeeded.
func (t *Tally) Complete() bool { return t.Failed+t.NotStarted == 0 }

// Ended reports whether at least one task failed by itself, rather than being cancelled or
// interrupted.
func (t *Tally) Ended() bool {
	for s := range t.counts {
		if s != task.Completed && s.Conclusive() {
			return true
		}
	}
	return false
}

// Limited reports whether a limit, such as the budget of tokens, stopped at least one task.
func (t *Tally) Limited() bool { return t.counts[task.Limit] > 0 }

// Repeats says how many tasks needed more than one attempt; "" if none did.
func (t *Tally) Repeats() string {
	switch t.Repeated {
	case 0:
		return ""
	case 1:
		return "(1 task needed more than one attempt)"
	}
	return fmt.Sprintf("(%d tasks needed more than one attempt)", t.Repeated)
}

// Summary returns the last line of a batch: its counts by status, tokens and the elapsed time.
func (t *Tally) Summary(elapsed time.Duration) string {
	var parts []string
	ended := 0
	for _, s := range []task.Status{
		task.Completed, task.Failed, task.CheckFailed, task.Conflict,
		task.Timeout, task.Idle, task.TurnLimit, task.Empty, task.Broken, task.NoResult,
		task.Killed, task.OutOfMemory, task.UnknownOutcome, task.Unavailable, task.Limit, task.Refused, task.Misused,
		task.NotRecorded, task.Interrupted, task.Terminated, task.Cancelled, task.Skipped,
	} {
		if n := t.counts[s]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
			ended += n
		}
	}
	switch {
	case t.Known > 0 && len(parts) > 1: // of which status they are is not known
		parts = append(parts, fmt.Sprintf("%d of these %d from before", t.Known, ended))
	case t.Known > 0:
		parts = append(parts, fmt.Sprintf("%d of them from before", t.Known))
	}
	if t.Cached > 0 {
		parts = append(parts, fmt.Sprintf("%d of them from the cache", t.Cached))
	}
	if t.Warned > 0 {
		parts = append(parts, fmt.Sprintf("%d of them with warnings", t.Warned))
	}
	if t.NotStarted > 0 {
		parts = append(parts, fmt.Sprintf("%d not started", t.NotStarted))
	}
	text := fmt.Sprintf("%s in %s", strings.Join(parts, ", "), figures.Roundly(elapsed))
	if t.Usage != (task.Usage{}) {
		text += fmt.Sprintf(", %s tokens", figures.Tokens(t.Usage))
	}
	if t.Usage.PricedTokens > 0 {
		text += ", cost " + Cost(t.Usage)
	}
	return text
}
