// Package pipe writes to files whose reader may be slow or stuck, such as pipes and terminals.
package pipe

import (
	"bytes"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// ErrStuck is the error of a write to a reader that takes nothing, when the run is to end.
var ErrStuck = errors.New("nobody reads it")

const (
	// stuckAfter is how long a reader may take nothing when the run is to end.
	stuckAfter = 2 * time.Second
	// portion is how many bytes are written at once, so that a slow reader is told from one that is stuck.
	portion = 4 << 10
)

// Writer writes to a file whose reader may be slow or stuck. Several goroutines may use it.
type Writer struct {
	File  *os.File
	sent  atomic.Int64
	stuck atomic.Bool // a write was given up
	mu    sync.Mutex  // held during a write, by its goroutine
}

// MayBlock reports whether a write to f may wait for a reader.
func MayBlock(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && !info.Mode().IsRegular()
}

// Write writes p and returns how much of it was written. When end is closed, it gives up as soon as the reader takes
// nothing for some time. The goroutine of the write stays until the process ends.
func (w *Writer) Write(p []byte, end <-chan struct{}) (int, error) {
	if w.stuck.Load() {
		return 0, ErrStuck
	}
	type written struct {
		n   int
		err error
	}
	done := make(chan written, 1)
	go func(p []byte) {
		w.mu.Lock()
		defer w.mu.Unlock()
		n, err := w.portions(p)
		done <- written{n, err}
	}(bytes.Clone(p)) // the caller may change p when the write was given up
	select {
	case d := <-done:
		return d.n, d.err
	case <-end:
	}
	for tick := time.NewTicker(stuckAfter); ; {
		before := w.sent.Load()
		select {
		case d := <-done:
			tick.Stop()
			return d.n, d.err
		case <-tick.C:
			if w.sent.Load() == before {
				w.stuck.Store(true)
				tick.Stop()
				return 0, ErrStuck
			}
		}
	}
}

// portions writes p. The caller holds the lock, so that nothing comes in between.
func (w *Writer) portions(p []byte) (n int, err error) {
	for err == nil && n < len(p) {
		var m int
		m, err = w.File.Write(p[n:min(n+portion, len(p))])
		n += m
		w.sent.Add(int64(m))
	}
	return n, err
}
