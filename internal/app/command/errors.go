package command

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"qq/pkg/task"
)

// ExitError is an error with the exit code of the program. It has no method ExitCode,
// because urfave/cli would then exit by itself.
type ExitError struct {
	Code int
	Err  error // nil when nothing is left to say
}

// Error implements error.
func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit %d", e.Code)
	}
	return e.Err.Error()
}

// TaskStatus implements task.Ender: a usage error is [task.Misused], and any other one has the
// status of the error in it.
func (e *ExitError) TaskStatus() task.Status {
	if e.Code == task.Misused.ExitCode() {
		return task.Misused
	}
	return task.StatusOf(e.Err)
}

// Unwrap returns the error without its exit code.
func (e *ExitError) Unwrap() error { return e.Err }

// Usage returns err as an error in the command line or the configuration, with that exit
// code.
func Usage(err error) error {
	if err == nil {
		return nil
	}
	return &ExitError{task.Misused.ExitCode(), err}
}

// Usagef returns a usage error with a problem and a hint.
func Usagef(hint, format string, args ...any) error {
	return Usage(&task.Error{Problem: fmt.Sprintf(format, args...), Hint: hint})
}

// Advised adds a hint to err, unless it has one.
func Advised(err error, hint string) error {
	if _, has := task.Explain(err); has != "" {
		return err
	}
	return fmt.Errorf("%w\nhint: %s", err, hint)
}

// Said returns an error that ends the program with code and prints nothing, because
// everything was printed before.
func Said(code int) error { return &ExitError{code, nil} }

// Silent reports whether there is nothing to print for err: it is nil or comes from
// [Said].
func Silent(err error) bool {
	e, ok := errors.AsType[*ExitError](err)
	return err == nil || ok && e.Err == nil
}

// Report prints err on w: the problem on one line, the hint below it.
func Report(w io.Writer, err error) {
	if Silent(err) {
		return
	}
	problem, rest, _ := strings.Cut(strings.TrimSpace(err.Error()), "\n")
	fmt.Fprintln(w, "qq:", Printable(problem))
	for line := range strings.Lines(rest) {
		fmt.Fprintln(w, "  "+Printable(strings.TrimSpace(line)))
	}
}
