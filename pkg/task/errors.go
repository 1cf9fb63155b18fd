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

// Error is an error that the user can correct. Its text is the problem and, on the next line, the
// hint.
type Error struct {
	Status  Status // status of a task that ends with this error; empty means [Failed]
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

// Hinted returns an [Error] with that hint. The problem is formatted as by [fmt.Errorf], with %w
// for a cause.
func Hinted(hint, format string, args ...any) error {
	problem := fmt.Errorf(format, args...)
	return &Error{Problem: problem.Error(), Hint: hint, Err: problem}
}

// TaskStatus implements [Ender].
func (e *Error) TaskStatus() Status {
	if e.Status == "" {
		return Failed
	}
	return e.Status
}

// Ender is an error that decides the status of the task that ends with it.
type Ender interface {
	error
	TaskStatus() Status
}

// ClockError is the error of a task that has used up its run time ([Timeout]) or was inactive for
// too long ([Idle]). After is the limit. Users and scripts rely on the first line of its texts.
type ClockError struct {
	Status Status
	After  time.Duration
	Hint   string // one line: whose limit it is, and how to set another; may be empty
}

func (e *ClockError) Error() string {
	limit := e.After
	if round := limit.Round(10 * time.Millisecond); round > 0 {
		limit = round
	}
	after := strconv.FormatFloat(limit.Seconds(), 'f', -1, 64)
	problem := fmt.Sprintf("Child process timed out after %ss", after)
	if e.Status == Idle {
		problem = fmt.Sprintf("Sub-agent inactive for %s seconds", after)
	}
	return (&Error{Problem: problem, Hint: e.Hint}).Error()
}

// TaskStatus implements [Ender].
func (e *ClockError) TaskStatus() Status { return e.Status }

// StatusOf returns the status of a task that ends with err. Each job and the program itself use it
// to turn an error into a status. nil gives [Completed], an [Ender] decides itself, a passed
// deadline gives [Timeout], a cancelled context gives [Interrupted], and any other error gives
// [Failed].
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

// Fail ends r with err: it sets the status that follows from err, and the text of err.
func (r *Result) Fail(err error) { r.End(StatusOf(err), err.Error()) }

// Stop ends r with the cause with which its context was cancelled. The status is that of the cause,
// or [Interrupted] if the cause would give [Failed].
func (r *Result) Stop(cause error) {
	status := StatusOf(cause)
	if status == Failed {
		status = Interrupted // a cause without a status of its own
	}
	r.End(status, cause.Error())
}

// CutHint shortens the error of r to its first line and returns the other lines, which have the
// hint. A success stays as it is.
func (r *Result) CutHint() (hint string) {
	problem, hint, _ := strings.Cut(r.Err(), "\n")
	if !r.Success {
		r.Error = &problem
	}
	return hint
}

// Fail returns a result of t that ended with err.
func (t Task) Fail(err error) Result {
	r := t.Ended(Failed, "")
	r.Fail(err)
	return r
}

// Line returns the text of an error with its hint on the same line, after a semicolon.
func Line(text string) string { return strings.Replace(text, hintMark, "; ", 1) }

// Explain splits the text of err into the problem and the hint. The hint is empty if there is none.
func Explain(err error) (problem, hint string) {
	if e, ok := errors.AsType[*Error](err); ok && err.Error() == e.Error() {
		return e.Problem, e.Hint
	}
	problem, hint, _ = strings.Cut(err.Error(), hintMark)
	return problem, hint
}

// Mistake is an error of the person or the model that wrote the tasks of a batch.
type Mistake struct {
	Index int // of the task
	Err   error
}

// Error implements error.
func (m *Mistake) Error() string { return m.Err.Error() }

// Unwrap returns what is wrong.
func (m *Mistake) Unwrap() error { return m.Err }

// Wrong returns the Mistake that is in the task at index i.
func Wrong(i int, hint, format string, args ...any) error {
	return &Mistake{i, &Error{Status: Misused, Problem: fmt.Sprintf(format, args...), Hint: hint}}
}
