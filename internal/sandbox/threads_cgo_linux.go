//go:build cgo

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"strconv"
)

// threadsFound returns an error if Apply cannot find all threads of this process. A program with cgo finds them in
// /proc, by its process id. If /proc belongs to another PID namespace, that search would not end.
func threadsFound() error {
	self, err := os.Readlink("/proc/self")
	if err != nil || self != strconv.Itoa(os.Getpid()) {
		const problem = "restrict this process: built with cgo, and /proc is that of another PID namespace"
		return fmt.Errorf("%s: %w", problem, errors.ErrUnsupported)
	}
	return nil
}
