//go:build cgo

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"strconv"
)

// threadsFound reports whether all threads of this process can be made to enter
// a domain. A program with cgo finds them by its process id in /proc; behind a
// /proc of another PID namespace that would go on for ever.
func threadsFound() error {
	self, err := os.Readlink("/proc/self")
	if err != nil || self != strconv.Itoa(os.Getpid()) {
		const problem = "restrict this process: built with cgo, and /proc is that of another PID namespace"
		return fmt.Errorf("%s: %w", problem, errors.ErrUnsupported)
	}
	return nil
}
