package box

import (
	"strings"
	"sync"
)

// baseline is the state of a working directory before the first of the commands that run there at the same time, of
// all Boxes of this process. What is put back is put back to it: the state when a later command began can have in it
// what an earlier one wrote.
type baseline struct {
	mu      sync.Mutex // held while the folder is looked at and things are put back
	running int        // commands
	first   snapshot   // valid while commands run
}

// baselines has a baseline for each working directory and what commands may write there.
var baselines sync.Map

func baselineOf(dir string, exempted []string) *baseline {
	b, _ := baselines.LoadOrStore(dir+"\x00"+strings.Join(exempted, "\x00"), &baseline{})
	return b.(*baseline)
}

// enter begins a command, and returns the state before it.
func (b *baseline) enter(w *watch) snapshot {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := w.snapshot(b.first.kinds)
	if b.running == 0 {
		b.first = now
	}
	b.running++
	return now
}

// review is that of w for a command for which before is what enter returned.
func (b *baseline) review(w *watch, before snapshot, held func(abs string) bool) (paths, notes []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return w.review(b.first, before, held)
}

// leave ends a command.
func (b *baseline) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.running--; b.running == 0 {
		b.first = snapshot{}
	}
}
