package app

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"qq/pkg/task"
)

// errSignal is the cause of a cancellation by a signal.
var errSignal = &task.Error{Status: task.Interrupted, Problem: "stopped by a signal"}

// signals turns signals into intent: the first one stops starting and ends
// children by the ladder, the second one kills.
type signals struct {
	ch     chan os.Signal
	done   chan struct{}
	wg     sync.WaitGroup
	stopCh chan struct{} // closed by the first signal
	cancel context.CancelCauseFunc
	mu     sync.Mutex
	first  os.Signal
	onKill func()
	exit   *time.Timer // set by the second signal
	leave  func()      // ends the process
}

// exitGrace is what a run gets to print its results after a second signal.
const exitGrace = 500 * time.Millisecond

// newSignals returns the context of the whole run, which listen makes end with a
// signal.
func newSignals() (context.Context, *signals) {
	ctx, cancel := context.WithCancelCause(context.Background())
	return ctx, &signals{
		ch: make(chan os.Signal, 4), done: make(chan struct{}), stopCh: make(chan struct{}), cancel: cancel,
	}
}

// listen takes signals over from the system. A command that starts nothing and
// leaves nothing behind does without: it simply dies. A closed stdout becomes an
// error of a write instead of a signal, for children must be ended and files
// removed.
func (s *signals) listen() {
	signal.Ignore(syscall.SIGPIPE)
	signal.Notify(s.ch, syscall.SIGINT, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // under nohup, it is meant to go on
		signal.Notify(s.ch, syscall.SIGHUP)
	}
	s.wg.Go(func() {
		for n := 1; ; n++ {
			select {
			case sig := <-s.ch:
				s.note(sig, n)
			case <-s.done:
				return
			}
		}
	})
}

func (s *signals) note(sig os.Signal, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n == 1 {
		s.first = sig
		close(s.stopCh)
		s.cancel(errSignal)
		return
	}
	if s.onKill != nil {
		s.onKill()
	}
	// What is left may hang all the same, in a write that nobody takes.
	if s.exit == nil {
		s.exit = time.AfterFunc(exitGrace, s.leave)
	}
}

// killWith sets what a second signal does: kill at once, and leave soon after.
func (s *signals) killWith(kill, leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onKill, s.leave = kill, leave
}

func (s *signals) stop() {
	signal.Stop(s.ch)
	close(s.done)
	s.wg.Wait()
	if s.exit != nil {
		s.exit.Stop()
	}
	s.cancel(nil)
}

// code is the exit code of a run that a signal stopped, 0 when none came.
func (s *signals) code() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sig, ok := s.first.(syscall.Signal); ok {
		return 128 + int(sig)
	}
	return 0
}
