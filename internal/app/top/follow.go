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

// follow follows a root until it has ended. A connection that ends is no proof of that: a root ends those of a client
// that was stopped for some time.
func (f *follower) follow(r *run) {
	for {
		end, err := f.ask(r)
		switch {
		case errors.Is(err, control.ErrNoRoot):
			f.update(func() {
				r.Err, r.ended = nil, time.Now()
				if end != nil {
					r.end, r.Used = end, end.used
				}
			})
			return
		case !errors.Is(err, control.ErrDropped):
			f.update(func() { r.Err = err })
		}
		if !f.wait(time.After(lookEvery), nil) {
			return
		}
	}
}

// gone reports whether nobody listens at path any more.
func gone(path string) bool {
	c, err := control.Dial(path)
	if err == nil {
		c.Close()
	}
	return errors.Is(err, control.ErrNoRoot)
}

// ask asks a root for its jobs when something has happened, until it does not reply or a connection ends. The error is
// [control.ErrNoRoot] if the root is gone: end is how it has ended, as far as its events have told. It is
// [control.ErrDropped] if it is at work.
func (f *follower) ask(r *run) (end *ending, err error) {
	c, err := control.Dial(r.Path)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	l, err := control.Dial(r.Path)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	news, heard := make(chan struct{}, 1), make(chan struct{})
	news <- struct{}{}
	go func() {
		end = listen(l, news)
		close(heard)
		close(news) // wakes who waits for it
	}()
	err = f.askAgain(c, r, news, heard)
	if errors.Is(err, control.ErrNoRoot) && !gone(r.Path) {
		err = control.ErrDropped
	}
	if !errors.Is(err, control.ErrNoRoot) { // else what it has said last is still to be read
		l.Close()
	}
	<-heard
	return end, err
}

func (f *follower) askAgain(c *control.Client, r *run, news, heard <-chan struct{}) error {
	for f.wait(time.After(idleEvery), news) {
		select {
		case <-heard:
			return control.ErrNoRoot
		default:
		}
		asked := time.Now()
		snap, err := c.Snapshot()
		if err != nil {
			return err
		}
		f.update(func() { r.Snapshot, r.Err, r.known = snap, nil, true })
		pause := min(max(askEvery, askShare*time.Since(asked)), slowEvery)
		if !f.wait(time.After(pause), heard) {
			break
		}
	}
	return nil
}

// listen reads the events of a root until there are no more. They say when to ask, and how the run ends.
func listen(c *control.Client, news chan<- struct{}) *ending {
	snap, err := c.Subscribe(control.Subscribe{Ends: true})
	if err != nil {
		return nil
	}
	end := newEnding(snap)
	for {
		e, err := c.Next()
		if err != nil {
			end.lost = !errors.Is(err, io.EOF)
			return end
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
