package task

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// hintMark separates the problem from the hint in the text of an [Error].
const hintMark = "\nhint: "

// Error is an error that a person can do something about: what is wrong, and what to
// do. Its text has the problem on the first line and the hint on the second.
type Error struct {
	Status  Status // of a task that ends by it; empty is [Failed]
	Problem string // one line: what is wrong
	Hint    string // one line: what to do; may be empty
	Err     error  // the cause, or nil
}

func (e *Error) Error() string {
	if e.Hint == "" {
		return e.Problem
	}
	return e.Problem + hintMark + e.Hint
}

func (e *Error) Unwrap() error { return e.Err }

// TaskStatus implements [Ender].
func (e *Error) TaskStatus() Status {
	if e.Status == "" {
		return Failed
	}
	return e.Status
}

// Ender is an error that says how a task ends by it.
type Ender interface {
	error
	TaskStatus() Status
}

// ClockError is why a task was ended whose time ran out: its run time ([Timeout]) or
// its time without any activity ([Idle]). It has the texts that users and scripts
// rely on.
type ClockError struct {
	Status Status
	After  time.Duration
}

func (e *ClockError) Error() string {
	after := strconv.FormatFloat(e.After.Round(10*time.Millisecond).Seconds(), 'f', -1, 64)
	if e.Status == Idle {
		return fmt.Sprintf("Sub-agent inactive for %s seconds", after)
	}
	return fmt.Sprintf("Child process timed out after %ss", after)
}

// TaskStatus implements [Ender].
func (e *ClockError) TaskStatus() Status { return e.Status }

// StatusOf is how a task ends by err. It is the only place that decides so: errors
// that know better than [Failed] are an [Ender].
func StatusOf(err error) Status {
	if err == nil {
		return Completed
	}
	if e, ok := errors.AsType[Ender](err); ok {
		return e.TaskStatus()
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return Timeout
	case errors.Is(err, context.Canceled):
		return Interrupted
	}
	return Failed
}

// Fail ends r by err.
func (r *Result) Fail(err error) { r.End(StatusOf(err), err.Error()) }

// Stop ends r because its context was cancelled with that cause: as the cause says, or
// as [Interrupted].
func (r *Result) Stop(cause error) {
	status := StatusOf(cause)
	if status == Failed {
		status = Interrupted // the status says the rest
	}
	r.End(status, cause.Error())
}

// Fail is the result of t that ended by err.
func (t Task) Fail(err error) Result {
	r := t.Ended(Failed, "")
	r.Fail(err)
	return r
}

// Explain splits the text of an error into the problem and the hint, which may be
// empty.
func Explain(err error) (problem, hint string) {
	if e, ok := errors.AsType[*Error](err); ok && err.Error() == e.Error() {
		return e.Problem, e.Hint
	}
	problem, hint, _ = strings.Cut(err.Error(), hintMark)
	return problem, hint
}
