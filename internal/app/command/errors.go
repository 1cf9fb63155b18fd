package command

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"qq/pkg/task"
)

// ExitError is an error with the exit code of the program. It must not have a method
// ExitCode: urfave/cli would then end the process itself, before files are removed.
type ExitError struct {
	Code int
	Err  error // nil if nothing remains to be printed
}

// Error implements error.
func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit %d", e.Code)
	}
	return e.Err.Error()
}

// TaskStatus implements task.Ender. It returns [task.Misused] for a usage error, and
// otherwise the status of the error in e.
func (e *ExitError) TaskStatus() task.Status {
	if e.Code == task.Misused.ExitCode() {
		return task.Misused
	}
	return task.StatusOf(e.Err)
}

// Unwrap returns the error without its exit code.
func (e *ExitError) Unwrap() error { return e.Err }

// Usage returns err as a usage error: a mistake in the command line or the configuration,
// with the exit code for that. It returns nil if err is nil.
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

// Advised returns err with a hint, or unchanged if it already has one.
func Advised(err error, hint string) error {
	if _, has := task.Explain(err); has != "" {
		return err
	}
	return fmt.Errorf("%w\nhint: %s", err, hint)
}

// Said returns an error that ends the program with an exit code. Nothing is printed for it,
// because the command has printed everything before.
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
