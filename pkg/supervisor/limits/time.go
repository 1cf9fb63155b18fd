package limits

import (
	"fmt"
	"time"

	"qq/pkg/task"
)

// Source says who set a limit of time that holds for a whole run. The zero Source is that of a default.
type Source struct {
	// By is who set the limit, such as "--timeout". Empty means that nobody did: it is the default.
	By string
	// Lowers says that who set the limit may lower that of an agent, but neither raise nor remove it.
	Lowers bool
	// How says how a person sets another limit, such as "with --timeout". It is for the hint of an
	// error; empty means that there is no hint.
	How string
}

// Limit returns the limit of time of a job. run is the limit of the run and s its source, own is
// that of the definition of the agent; 0 means none. What a person has set replaces the definition,
// upward and downward, and the definition replaces a default.
func (s Source) Limit(run, own time.Duration, agent string) Time {
	raises := own > 0 && (run == 0 || run > own)
	switch {
	case s.By != "" && !(s.Lowers && raises):
		return Time{For: run, whose: s.By, how: s.How}
	case own > 0:
		return Time{For: own, whose: "that of agent " + agent, how: s.How}
	}
	return Time{For: run, whose: "the default", how: s.How}
}

// Time is a limit on the time of one job, and whose limit it is.
type Time struct {
	For   time.Duration // 0 means no limit
	whose string
	how   string // see Source.How
	rest  bool   // a parent has the limit, and this is what it had left
}

// Task returns the limit that the task itself has: d.
func (t Time) Task(d time.Duration) Time {
	if t.how != "" {
		t.how = "in the task"
	}
	return Time{For: d, whose: "the timeout of the task", how: t.how}
}

// Rest returns the limit of a child of the job that has t and that much time left.
func (t Time) Rest(left time.Duration) Time {
	t.For, t.rest = left, true
	return t
}

// Share is Rest, less the time that the parent reserves to use the results of its children: a tenth, at most 5 seconds.
func (t Time) Share(left time.Duration) Time {
	return t.Rest(max(left-min(left/10, 5*time.Second), time.Nanosecond))
}

// Lower returns the lower limit of t and other.
func (t Time) Lower(other Time) Time {
	if other.For > 0 && (t.For == 0 || other.For < t.For) {
		return other
	}
	return t
}

// Over returns the error of a child that used up its time. status is [task.Timeout] or [task.Idle].
func (t Time) Over(status task.Status) *task.ClockError {
	return &task.ClockError{Status: status, After: t.For, Hint: t.hint()}
}

// RunOver returns the error of a run whose own agent used up its time.
func (t Time) RunOver() error {
	return &task.Error{Status: task.Timeout, Problem: fmt.Sprintf("timed out after %v", t.For), Hint: t.hint()}
}

// hint says whose limit t is and how to set another.
func (t Time) hint() string {
	switch {
	case t.how == "":
		return ""
	case t.rest:
		return "its parent had no more time left; the limit of the parent is " + t.whose + ": set another " + t.how
	}
	return "the limit is " + t.whose + ": set another " + t.how
}
