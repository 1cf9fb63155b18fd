package task

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
)

// errMachine marks errors that [Machine] has made.
var errMachine = errors.New("fault of the machine")

// Machine returns an error that [MachineFault] recognizes, whatever its cause is. Its status is
// [Unavailable]. The problem is formatted as by [fmt.Errorf], with %w for the cause.
func Machine(hint, format string, args ...any) error {
	problem := fmt.Errorf(format, args...)
	return &Error{Status: Unavailable, Problem: problem.Error(), Hint: hint, Err: errors.Join(errMachine, problem)}
}

// MachineFault reports whether err is a fault of the machine, and not of a task or a setting: too
// many open files or processes, no memory, a full disk, or an error from [Machine]. Such a fault may
// pass, so it is worth another try.
func MachineFault(err error) bool {
	return errors.Is(err, errMachine) || slices.ContainsFunc([]syscall.Errno{
		syscall.EMFILE, syscall.ENFILE, syscall.EAGAIN, syscall.ENOMEM, syscall.ENOSPC, syscall.EDQUOT,
		syscall.ETXTBSY, syscall.EIO, syscall.ESTALE,
	}, func(e syscall.Errno) bool { return errors.Is(err, e) })
}
