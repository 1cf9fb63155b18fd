package app

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"qq/internal/app/command"
	"qq/internal/app/output"
	"qq/pkg/task"
)

// errSignal is the cause of a cancellation by a signal.
var errSignal = &task.Error{Status: task.Interrupted, Problem: "stopped by a signal"}

// signals handles the signals of a root. The first one ends the run: no more children
// start, and running ones are asked to stop. The second one kills them.
type signals struct {
	ch      chan os.Signal
	done    chan struct{} // closed by stop
	wg      sync.WaitGroup
	stopCh  chan struct{} // closed by the first signal
	cancel  context.CancelCauseFunc
	mu      sync.Mutex
	first   os.Signal
	orderly bool  // listen was called
	lost    error // of the output, which ended the run
	onKill  func()
	quit    *time.Timer // handles SIGQUIT when it fires; nil if that is not wanted
	exit    *time.Timer // set by the second signal
	leave   func()      // ends the process

	continued chan os.Signal // told when the process goes on after a stop
}

// exitGrace is how long a run may print its results after a second signal.
const exitGrace = 500 * time.Millisecond

// quitAfter is how long a command may run before SIGQUIT is handled.
const quitAfter = 50 * time.Millisecond

// newSignals returns the context of the whole run. The first signal after listen cancels
// that context. SIGQUIT is a signal like the others, unless GOTRACEBACK asks for what a Go
// program does by default: it prints its goroutines.
func newSignals(env command.Environment) (context.Context, *signals) {
	ctx, cancel := context.WithCancelCause(context.Background())
	s := &signals{
		ch: make(chan os.Signal, 4), done: make(chan struct{}), stopCh: make(chan struct{}), cancel: cancel,
	}
	if env.Get("GOTRACEBACK") == "" { // not at once: it costs a thread, and most commands end before
		s.quit = time.AfterFunc(quitAfter, func() { signal.Notify(s.ch, syscall.SIGQUIT) })
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
	return ctx, s
}

// listen starts to handle signals. Commands without children and temporary files do not
// call it: a signal may simply kill them. SIGPIPE is ignored, so that a closed stdout is a
// write error, after which the run can still end its children and remove its files.
func (s *signals) listen() {
	signal.Ignore(syscall.SIGPIPE)
	signal.Notify(s.ch, syscall.SIGINT, syscall.SIGTERM)
	signal.Notify(s.continued, syscall.SIGCONT)
	if s.quit != nil {
		signal.Notify(s.ch, syscall.SIGQUIT)
	}
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it, so that the run continues
		signal.Notify(s.ch, syscall.SIGHUP)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.orderly = true
}

// send does what that signal does. It is dropped if many signals wait already.
func (s *signals) send(sig os.Signal) {
	select {
	case s.ch <- sig:
	default:
	}
}

// note handles the nth signal, counted from 1.
func (s *signals) note(sig os.Signal, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n == 1 {
		s.first = sig
		if !s.orderly {
			os.Exit(s.exitCode())
		}
		close(s.stopCh)
		s.cancel(errSignal)
		return
	}
	if s.onKill != nil {
		s.onKill()
	}
	// The process may hang nevertheless, in a write that nobody reads.
	if s.exit == nil {
		s.exit = time.AfterFunc(exitGrace, s.leave)
	}
}

// killWith sets what the second signal does: it calls kill at once, and leave after
// exitGrace.
func (s *signals) killWith(kill, leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onKill, s.leave = kill, leave
}

// stop ends the handling of signals.
func (s *signals) stop() {
	signal.Stop(s.ch)
	signal.Stop(s.continued)
	close(s.done)
	s.wg.Wait()
	for _, t := range []*time.Timer{s.quit, s.exit} {
		if t != nil {
			t.Stop()
		}
	}
	s.cancel(nil)
}

// code returns the exit code of a run that a signal ended; 0 means that there was no
// signal.
func (s *signals) code() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.exitCode()
}

// exitCode is code for a caller that holds s.mu.
func (s *signals) exitCode() int {
	if sig, ok := s.first.(syscall.Signal); ok {
		return 128 + int(sig)
	}
	return 0
}

// lose ends the run because of err: its output cannot be written.
func (s *signals) lose(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost == nil {
		s.lost = err
		s.cancel(err)
	}
}

// name gives r, the result of a run that failed, the exit code of the signal that ended the run.
// Without a signal, a run whose output cannot be written has failed, however far it came meanwhile; it
// was cancelled if its reader went away.
func (s *signals) name(r *task.Result) {
	sig := s.code()
	s.mu.Lock()
	lost := s.lost
	s.mu.Unlock()
	switch {
	case sig != 0 || lost == nil:
	case errors.Is(lost, output.ErrClosed):
		r.End(task.Cancelled, lost.Error())
	default:
		r.End(task.Failed, lost.Error())
	}
	if sig == 0 || r.Success {
		return
	}
	if r.Status == task.Interrupted {
		r.End(r.Status, "interrupted")
	}
	r.ExitCode = sig
}

// keeperSignals returns the signals of the keeper of a command, which none of them ends.
func keeperSignals() <-chan os.Signal {
	ch := make(chan os.Signal, 4)
	signal.Notify(ch, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT)
	return ch
}
