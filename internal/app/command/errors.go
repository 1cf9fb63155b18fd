package command

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"qq/pkg/task"
)

// ExitError carries an exit code to app.Main. It deliberately lacks the method by
// which urfave/cli would exit on its own.
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

// Unwrap gives errors.Is what the error is about.
func (e *ExitError) Unwrap() error { return e.Err }

// Usage marks err as a mistake in the command line or the configuration.
func Usage(err error) error {
	if err == nil {
		return nil
	}
	return &ExitError{task.Misused.ExitCode(), err}
}

// Usagef is Usage with a hint and a problem.
func Usagef(hint, format string, args ...any) error {
	return Usage(fmt.Errorf("%s\nhint: %s", fmt.Sprintf(format, args...), hint))
}

// Advised adds a hint to an error that has none.
func Advised(err error, hint string) error {
	if _, has := Parts(err); has != "" {
		return err
	}
	return fmt.Errorf("%w\nhint: %s", err, hint)
}

// Parts splits err into the problem and its hint, empty if it has none.
func Parts(err error) (problem, hint string) {
	problem, hint, _ = strings.Cut(err.Error(), "\nhint: ")
	return problem, hint
}

// Said ends the program with code and prints no more.
func Said(code int) error { return &ExitError{code, nil} }

// Silent reports whether err is nil or has nothing left to say.
func Silent(err error) bool {
	e, ok := errors.AsType[*ExitError](err)
	return err == nil || ok && e.Err == nil
}

// Report prints err for a person: the problem, and below it the hint.
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
