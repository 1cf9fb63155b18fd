// Package signals handles the signals of a root, of a child and of the keeper of a command.
package signals

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

// Causes of a cancellation by a signal.
var (
	interrupted = &task.Error{Status: task.Interrupted, Problem: "stopped by a signal"}
	terminated  = &task.Error{Status: task.Terminated, Problem: "terminated"}
)

// Cause returns the cause of a cancellation by that signal.
func Cause(sig os.Signal) error {
	if sig == syscall.SIGTERM {
		return terminated
	}
	return interrupted
}

// Signals handles the signals of a root. The first one ends the run: no more children
// start, and running ones are asked to stop. The second one kills them.
type Signals struct {
	ch      chan os.Signal
	done    chan struct{} // closed by Stop
	wg      sync.WaitGroup
	stopCh  chan struct{} // closed by the first signal
	cancel  context.CancelCauseFunc
	mu      sync.Mutex
	first   os.Signal
	orderly bool  // Listen was called
	lost    error // of the output, which ended the run
	onKill  func()
	quit    *time.Timer      // handles SIGQUIT when it fires; nil if that is not wanted
	exit    *time.Timer      // set by the second signal
	leave   func()           // ends the process
	divert  chan<- os.Signal // gets each SIGINT; nil if that ends the run

	continued, resized chan<- os.Signal
}

// exitGrace is how long a run may print its results after a second signal.
const exitGrace = 500 * time.Millisecond

// quitAfter is how long a command may run before SIGQUIT is handled.
const quitAfter = 50 * time.Millisecond

// New returns the context of the whole run. The first signal after Listen cancels
// that context. SIGQUIT is a signal like the others, unless GOTRACEBACK asks for what a Go
// program does by default: it prints its goroutines. After Listen, continued is told when the
// process goes on after a stop, and resized when the terminal has another size.
func New(env command.Environment, continued, resized chan<- os.Signal) (context.Context, *Signals) {
	ctx, cancel := context.WithCancelCause(context.Background())
	s := &Signals{
		ch: make(chan os.Signal, 4), done: make(chan struct{}), stopCh: make(chan struct{}), cancel: cancel,
		continued: continued, resized: resized,
	}
	if env.Get("GOTRACEBACK") == "" { // not at once: it costs a thread, and most commands end before
		s.quit = time.AfterFunc(quitAfter, func() { signal.Notify(s.ch, syscall.SIGQUIT) })
	}
	s.wg.Go(func() {
		for n := 1; ; n++ {
			select {
			case sig := <-s.ch:
				if s.diverted(sig) {
					n--
				} else {
					s.note(sig, n)
				}
			case <-s.done:
				return
			}
		}
	})
	return ctx, s
}

// Listen starts to handle signals. Commands without children and temporary files do not
// call it: a signal may simply kill them. SIGPIPE is ignored, so that a closed stdout is a
// write error, after which the run can still end its children and remove its files.
func (s *Signals) Listen() {
	signal.Ignore(syscall.SIGPIPE)
	signal.Notify(s.ch, syscall.SIGINT, syscall.SIGTERM)
	signal.Notify(s.continued, syscall.SIGCONT)
	signal.Notify(s.resized, syscall.SIGWINCH)
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

// Ends returns a channel that is closed by the first signal.
func (s *Signals) Ends() <-chan struct{} { return s.stopCh }

// Divert sends each SIGINT to ch, where a person does not mean the whole program; nil ends that. It is dropped if
// nobody takes it.
func (s *Signals) Divert(ch chan<- os.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.divert = ch
}

func (s *Signals) diverted(sig os.Signal) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.divert == nil || sig != syscall.SIGINT {
		return false
	}
	select {
	case s.divert <- sig:
	default:
	}
	return true
}

// Send does what that signal does. It is dropped if many signals wait already.
func (s *Signals) Send(sig os.Signal) {
	select {
	case s.ch <- sig:
	default:
	}
}

// note handles the nth signal, counted from 1.
func (s *Signals) note(sig os.Signal, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n == 1 {
		s.first = sig
		if !s.orderly {
			os.Exit(s.exitCode())
		}
		close(s.stopCh)
		s.cancel(Cause(sig))
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

// KillWith sets what the second signal does: it calls kill at once, and leave after
// exitGrace.
func (s *Signals) KillWith(kill, leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onKill, s.leave = kill, leave
}

// Stop ends the handling of signals.
func (s *Signals) Stop() {
	signal.Stop(s.ch)
	signal.Stop(s.continued)
	signal.Stop(s.resized)
	close(s.done)
	s.wg.Wait()
	for _, t := range []*time.Timer{s.quit, s.exit} {
		if t != nil {
			t.Stop()
		}
	}
	s.cancel(nil)
}

// Code returns the exit code of a run that a signal ended; 0 means that there was no
// signal.
func (s *Signals) Code() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.exitCode()
}

// exitCode is Code for a caller that holds s.mu.
func (s *Signals) exitCode() int {
	if sig, ok := s.first.(syscall.Signal); ok {
		return 128 + int(sig)
	}
	return 0
}

// Lose ends the run because of err: its output cannot be written.
func (s *Signals) Lose(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost == nil {
		s.lost = err
		s.cancel(err)
	}
}

// Name gives r, the result of a run that failed, the exit code of the signal that ended the run.
// Without a signal, a run whose output cannot be written has failed, however far it came meanwhile; it
// was cancelled if its reader went away.
func (s *Signals) Name(r *task.Result) {
	sig := s.Code()
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
	switch r.Status {
	case task.Interrupted, task.Terminated:
		status := task.Signalled(sig)
		r.End(status, string(status))
	}
	r.ExitCode = sig
}

// Caught returns a channel that gets the signals of that kind, which then end this process no more.
func Caught(kinds ...os.Signal) <-chan os.Signal {
	ch := make(chan os.Signal, 4)
	signal.Notify(ch, kinds...)
	return ch
}
