//go:build cgo

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"strconv"
)

// threadsFound returns an error if not all threads of this process can be made to enter a domain.
// A program with cgo finds its threads by its process id in /proc. If /proc belongs to another
// PID namespace, that search would not end.
func threadsFound() error {
	self, err := os.Readlink("/proc/self")
	if err != nil || self != strconv.Itoa(os.Getpid()) {
		const problem = "restrict this process: built with cgo, and /proc is that of another PID namespace"
		return fmt.Errorf("%s: %w", problem, errors.ErrUnsupported)
	}
	return nil
}
