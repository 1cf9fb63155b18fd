// Package fifo opens files that may be named pipes. Who opens a named pipe waits in the kernel until
// somebody opens its other end.
package fifo

import (
	"context"
	"os"
)

// Is reports whether path is a named pipe.
func Is(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode()&os.ModeNamedPipe != 0
}

// OpenFile is [os.OpenFile]. While nobody opens the other end of a named pipe, it waits until ctx is
// done and then returns its cause.
func OpenFile(ctx context.Context, path string, flag int, perm os.FileMode) (*os.File, error) {
	if !Is(path) {
		return os.OpenFile(path, flag, perm)
	}
	type opened struct {
		f   *os.File
		err error
	}
	done := make(chan opened, 1)
	go func() { // it stays until the process ends, if nobody comes
		f, err := os.OpenFile(path, flag, perm)
		done <- opened{f, err}
	}()
	select {
	case o := <-done:
		return o.f, o.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
