// Package attempts has the rules for a job that is run more than once: whether a failed attempt may
// be followed by another one, after which pause, and what all attempts together came to.
package attempts

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"qq/pkg/task"
)

// Died reports whether an attempt that ended with s ended because its process died.
func Died(s task.Status) bool {
	return s == task.Killed || s == task.NoResult || s == task.OutOfMemory
}

// Uncertain ends r, the result of a job that died after it may have had side effects, with
// [task.UnknownOutcome]. last says that no more attempt would have been left.
func Uncertain(r *task.Result, last bool) {
	what, _, _ := strings.Cut(r.Err(), "\nhint: ")
	what += "; it may have had side effects"
	if last {
		what += "\nhint: look what it has done before you do it again"
	} else {
		what += ", so it was not repeated\nhint: mark the task idempotent if doing it twice does no harm"
	}
	r.End(task.UnknownOutcome, what)
}

// Sum returns r, the result of the last attempt, with the attempts, tokens, side effects, changed files
// and deeds of the earlier attempts added. before is the sum of the earlier ones.
func Sum(before, r task.Result) task.Result {
	r.Attempts += before.Attempts
	r.Did = before.Did.Add(r.Did)
	r.Usage = r.Usage.Add(before.Usage)
	r.Effects = r.Effects || before.Effects
	if len(before.ChangedFiles) > 0 {
		files := slices.Concat(before.ChangedFiles, r.ChangedFiles)
		slices.Sort(files)
		r.ChangedFiles = slices.Compact(files)
	}
	return r
}

// Pause returns how long to wait after attempt n: 500 ms, doubled with each attempt up to a
// minute, and varied at random by up to a quarter.
func Pause(n int) time.Duration {
	d := min(500*time.Millisecond<<min(n-1, 10), time.Minute)
	return d*3/4 + rand.N(d/2)
}

// Settle sets the status and the error of r to the reason why ctx was cancelled. It leaves r as it is if ctx is not
// done or if the job completed in time. idle is the error with which the job ends when it is idle itself: one that was
// cancelled because its parent was idle counts as cancelled, not as idle.
func Settle(ctx context.Context, r *task.Result, idle error) {
	if ctx.Err() == nil || r.Status == task.Completed {
		return
	}
	cause := context.Cause(ctx)
	if task.StatusOf(cause) == task.Idle && cause != idle {
		r.End(task.Cancelled, "ended with its parent: "+cause.Error())
		return
	}
	r.Stop(cause)
}
