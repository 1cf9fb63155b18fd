package terminal

import (
	"maps"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// stops stops this process when SIGTSTP comes, by Control-Z for example. Go never gives a signal that was once caught
// its default back. So from the first start of a terminal on it is handled here until the process ends, also
// while no terminal is started.
var stops stopper

type stopper struct {
	mu      sync.Mutex
	caught  chan os.Signal
	started map[*Terminal]bool // and not closed since
}

// add makes sure that the process stops when it is told to, with the mode of t put back.
func (s *stopper) add(t *Terminal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started == nil {
		s.started = map[*Terminal]bool{}
	}
	s.started[t] = true
	if s.caught == nil && !signal.Ignored(syscall.SIGTSTP) {
		s.caught = make(chan os.Signal, 1)
		signal.Notify(s.caught, syscall.SIGTSTP)
		go s.follow()
	}
}

func (s *stopper) remove(t *Terminal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.started, t)
}

// follow stops the process each time it is told to, unless no shell could make it go on. SIGCONT follows.
func (s *stopper) follow() {
	for range s.caught {
		if alone() {
			continue
		}
		s.mu.Lock()
		all := slices.Collect(maps.Keys(s.started))
		s.mu.Unlock()
		for _, t := range all {
			t.leave()
		}
		_ = unix.Kill(unix.Getpid(), unix.SIGSTOP)
	}
}

// leave puts the mode back and removes what is drawn, before this process stops.
func (t *Terminal) leave() {
	t.mu.Lock()
	on := t.on
	t.restore()
	t.mu.Unlock()
	if on && t.config.Guest != nil {
		t.config.Guest.Leave()
	}
}
