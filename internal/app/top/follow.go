package top

import (
	"cmp"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"qq/internal/app/output"
	"qq/internal/control"
	"qq/pkg/task"
)

// How often roots are asked.
const (
	lookEvery = time.Second            // for new ones
	askEvery  = 500 * time.Millisecond // one in which jobs end
	idleEvery = time.Second            // one in which no job ends
	slowEvery = 5 * time.Second        // one whose replies take long, at most
	askShare  = 100                    // times as long as a reply takes
	keepEnded = 20 * time.Second       // how long one that has ended is shown
)

// run is a root as it was when it last replied.
type run struct {
	control.Standing
	known bool      // it has replied
	ended time.Time // zero while it is at work
	end   *ending   // how it has ended; nil if that is not known
}

// called returns the id under which a person finds the run: qq runs knows a batch by the id of the batch.
func (r *run) called() string { return cmp.Or(r.Root.BatchID, r.ID) }

// how says how the run has ended.
func (r *run) how() string {
	if r.end == nil {
		return "ended"
	}
	return r.end.String()
}

// farewell is the last line about the run.
func (r *run) farewell() string {
	return "run " + task.ShortID(r.called()) + " " + output.OneLine(r.how())
}

// follower follows all roots of this user, each in goroutines of its own: one that is stopped does not hinder the
// others.
type follower struct {
	home string
	only string // id of the only root that is followed; empty means all

	mu      sync.Mutex
	runs    map[string]*run
	changed chan struct{} // holds one when runs have changed
	done    chan struct{}
}

func follow(home, only string) *follower {
	f := &follower{home: home, only: only, runs: map[string]*run{}, changed: make(chan struct{}, 1),
		done: make(chan struct{})}
	f.look()
	go func() {
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		for f.wait(tick.C, nil) {
			f.look()
		}
	}()
	return f
}

// close ends the following. It does not wait for a run that does not reply.
func (f *follower) close() { close(f.done) }

// wait waits for one of two channels. It returns false when the following ends.
func (f *follower) wait(tick <-chan time.Time, news <-chan struct{}) bool {
	select {
	case <-f.done:
		return false
	case <-tick:
	case <-news:
	}
	return true
}

// look begins to follow new roots, and forgets those that ended some time ago.
func (f *follower) look() {
	found := control.Sockets(f.home)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range found {
		if f.runs[s.ID] != nil || f.only != "" && s.ID != f.only {
			continue
		}
		r := &run{Standing: s}
		f.runs[s.ID] = r
		go f.follow(r)
	}
	for id, r := range f.runs {
		gone := !slices.ContainsFunc(found, func(s control.Standing) bool { return s.ID == id })
		if gone && !r.ended.IsZero() && (!r.known || time.Since(r.ended) > keepEnded) {
			delete(f.runs, id)
			f.tell()
		}
	}
}

// tell says that something has changed.
func (f *follower) tell() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// update changes r.
func (f *follower) update(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	f.tell()
}

// follow asks a root again and again until it has ended.
func (f *follower) follow(r *run) {
	for {
		c, err := control.Dial(r.Path)
		if err == nil {
			err = f.ask(c, r)
			c.Close()
		}
		if errors.Is(err, control.ErrNoRoot) || err == nil {
			f.update(func() { r.ended = time.Now() })
			return
		}
		f.update(func() { r.Err = err })
		if !f.wait(time.After(lookEvery), nil) {
			return
		}
	}
}

// ask asks a root for its jobs when something has happened, until it ends or does not reply.
func (f *follower) ask(c *control.Client, r *run) error {
	news := make(chan struct{}, 1)
	news <- struct{}{}
	var listening sync.WaitGroup
	l, err := control.Dial(r.Path)
	if err != nil {
		return err
	}
	listening.Go(func() { f.listen(l, r, news) })
	err = f.askAgain(c, r, news)
	if !errors.Is(err, control.ErrNoRoot) { // else what it has said last is still to be read
		l.Close()
	}
	listening.Wait()
	l.Close()
	return err
}

func (f *follower) askAgain(c *control.Client, r *run, news <-chan struct{}) error {
	for f.wait(time.After(idleEvery), news) {
		asked := time.Now()
		snap, err := c.Snapshot()
		if err != nil {
			return err
		}
		f.update(func() {
			if r.end == nil { // else its events have told more
				r.Snapshot = snap
			}
			r.Err, r.known = nil, true
		})
		pause := min(max(askEvery, askShare*time.Since(asked)), slowEvery)
		if !f.wait(time.After(pause), nil) {
			break
		}
	}
	return nil
}

// listen reads the events of a root until there are no more. They say when to ask, and how the run ends.
func (f *follower) listen(c *control.Client, r *run, news chan<- struct{}) {
	snap, err := c.Subscribe(control.Subscribe{Ends: true})
	if err != nil {
		return
	}
	end := newEnding(snap)
	for {
		e, err := c.Next()
		if err != nil {
			end.lost = !errors.Is(err, io.EOF)
			f.update(func() { r.end, r.Used = end, end.used })
			return
		}
		end.add(e)
		select {
		case news <- struct{}{}:
		default:
		}
	}
}

// quiet reports whether no root was found.
func (f *follower) quiet() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.runs {
		if r.ended.IsZero() {
			return false
		}
	}
	return true
}

// all returns all runs, the oldest first.
func (f *follower) all() []run {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []run
	for _, r := range f.runs {
		if r.known || r.Err != nil {
			all = append(all, *r)
		}
	}
	slices.SortFunc(all, func(a, b run) int {
		if n := a.Root.Started.Compare(b.Root.Started); n != 0 {
			return n
		}
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return all
}
