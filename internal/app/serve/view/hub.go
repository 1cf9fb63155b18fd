package view

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"qq/internal/app/serve/page"
	"qq/internal/app/serve/words"
	"qq/internal/control"
	"qq/pkg/task"
)

const (
	lookEvery = 500 * time.Millisecond // for new sockets
	least     = 250 * time.Millisecond // between two snapshots of a root
	calm      = time.Second            // after which a snapshot is taken anyway
	known     = 30 * time.Second       // a root that has ended
)

// End is how a root has ended.
type End int

// How roots end.
const (
	Running End = iota
	Ended       // it has said so
	Lost        // the connection ended without a word: it was killed, or broke down
)

// State is what a root has said last.
type State struct {
	ID   string // of the root
	Path string // of its socket
	control.Snapshot
	End   End
	When  time.Time            // of the snapshot, or of the end
	Asked map[string]time.Time // when its open questions were seen first, by their ids
	Err   error                // why it cannot be followed; that is tried again
}

// Run is the id of the run that the root works on.
func (s State) Run() string { return cmp.Or(s.Root.BatchID, s.Root.ExecutionID) }

// Silent reports whether the root does not reply, because it is stopped for example.
func (s State) Silent() bool { return errors.Is(s.Err, control.ErrSilent) }

// Shown is the state of the run of a root at work.
func (s State) Shown() page.State {
	switch {
	case s.Silent():
		return page.State{Class: page.Wait, Word: "does not reply"}
	case len(s.Questions) > 0:
		return page.State{Class: page.Ask, Word: "asks you"}
	case s.Paused:
		return page.State{Class: page.Wait, Word: "paused"}
	}
	return words.Status(task.Running)
}

// heard takes the reply to a request for a snapshot, or that there was none. It reports whether that is to be shown.
func (s *State) heard(snap control.Snapshot, err error) bool {
	switch {
	case err == nil:
		s.Snapshot, s.When, s.Err = snap, time.Now(), nil
	case errors.Is(err, control.ErrSilent):
		s.Err = err
	default:
		return false // the end of the events tells, or the next reply
	}
	return true
}

// Hub follows all roots. Several goroutines may call its methods at once.
type Hub struct {
	home    string
	mu      sync.Mutex
	roots   map[string]*State // by id; a State is never changed
	viewers map[chan struct{}]bool
	seen    time.Time     // when the last page was loaded or left
	lingers time.Duration // a page that was loaded, or left, counts as open so long
	work    sync.WaitGroup
}

// New returns a hub for home, the folder of qq.
func New(home string) *Hub {
	return &Hub{home: home, roots: map[string]*State{}, viewers: map[chan struct{}]bool{},
		lingers: 10 * time.Second}
}

// Run follows roots until ctx has ended.
func (h *Hub) Run(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	defer h.work.Wait()
	var over func() // of what tells roots that questions will be answered
	defer func() {
		if over != nil {
			over()
		}
	}()
	for {
		switch attended := h.attended(); {
		case attended && over == nil:
			over, _ = control.Announce(h.home) // without it, a question in the first second is refused
		case !attended && over != nil:
			over()
			over = nil
		}
		h.look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// look begins to follow new roots, and forgets those that have ended.
func (h *Hub) look(ctx context.Context) {
	paths, _ := filepath.Glob(filepath.Join(h.home, "run", "*", "*.sock")) // the pattern is right
	h.mu.Lock()
	defer h.mu.Unlock()
	there := map[string]bool{}
	for _, path := range paths {
		id := strings.TrimSuffix(filepath.Base(path), ".sock")
		there[id] = true
		if h.roots[id] == nil {
			s := &State{ID: id, Path: path}
			h.roots[id] = s
			h.work.Go(func() { h.follow(ctx, *s) })
		}
	}
	maps.DeleteFunc(h.roots, func(id string, s *State) bool {
		return s.End != Running && !there[id] && time.Since(s.When) > known
	})
}

// follow follows one root until it ends.
func (h *Hub) follow(ctx context.Context, s State) {
	for ctx.Err() == nil {
		end, err := h.session(ctx, &s)
		if ctx.Err() != nil {
			return
		}
		if err == nil && end == Lost { // it may only have dropped us
			continue
		}
		if isBusy(err) {
			pause(ctx, calm)
			continue
		}
		if err != nil && !errors.Is(err, control.ErrNoRoot) { // it works, but does not take us
			s.Err = err
			h.Publish(s)
			pause(ctx, calm)
			continue
		}
		s.Err = nil
		if s.End = end; end == Running {
			s.End = Lost
		}
		s.When = time.Now()
		h.Publish(s)
		return
	}
}

func isBusy(err error) bool {
	fault, ok := errors.AsType[*control.Fault](err)
	return ok && fault.Code == control.CodeBusy
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// session follows the root over one connection. It returns how that ended: Running with an error if there was none.
func (h *Hub) session(ctx context.Context, s *State) (End, error) {
	events, err := control.Dial(s.Path)
	if err != nil {
		return Running, err
	}
	defer events.Close()
	snap, err := events.Subscribe(control.Subscribe{Light: true})
	if err != nil {
		return Running, err
	}
	s.Snapshot, s.When, s.Err = snap, time.Now(), nil
	h.Publish(*s)

	news := make(chan struct{}, 1)
	end := Lost
	read := make(chan struct{})
	go func() {
		defer close(read)
		for {
			_, err := events.Next()
			if errors.Is(err, io.EOF) {
				end = Ended
			}
			if err != nil {
				return
			}
			signal(news)
		}
	}()
	var attending sync.WaitGroup
	attending.Go(func() { h.attend(ctx, s.Path, read) })
	asked, err := h.ask(ctx, s, news, read)
	if asked != nil {
		asked.Close()
	}
	events.Close()
	<-read
	attending.Wait()
	if end == Ended {
		err = nil
	}
	return end, err
}

// attend says to a root that its questions are shown, while a page is open: a root without a terminal then waits for
// the answers. While nobody looks, such a root refuses at once, as it does without this server. It ends with read.
func (h *Hub) attend(ctx context.Context, path string, read <-chan struct{}) {
	var face *control.Client
	var lost chan struct{} // closed when the connection of face has ended
	leave := func() {
		if face != nil {
			face.Close()
			<-lost
			face, lost = nil, nil
		}
	}
	defer leave()
	for {
		switch open := h.attended(); {
		case !open:
			leave()
		case face == nil:
			face, lost = beFace(path)
		}
		select {
		case <-ctx.Done():
			return
		case <-read:
			return
		case <-lost:
			leave()
			select { // the root may have ended, which read tells
			case <-read:
			case <-time.After(least):
			}
		case <-time.After(least):
		}
	}
}

// beFace subscribes as one that can answer. Both results are nil if the root does not take that. What it tells is read
// and dropped: another connection shows it.
func beFace(path string) (*control.Client, chan struct{}) {
	c, err := control.Dial(path)
	if err != nil {
		return nil, nil
	}
	if _, err := c.Subscribe(control.Subscribe{Light: true, Answers: true}); err != nil {
		c.Close()
		return nil, nil
	}
	lost := make(chan struct{})
	go func() {
		defer close(lost)
		for {
			if _, err := c.Next(); err != nil {
				return
			}
		}
	}()
	return c, lost
}

// ask takes a snapshot each time that there is news, until the subscription has ended.
func (h *Hub) ask(ctx context.Context, s *State, news, read <-chan struct{}) (c *control.Client, err error) {
	for {
		select {
		case <-ctx.Done():
			return c, nil
		case <-read:
			return c, nil
		case <-news:
		case <-time.After(calm):
		}
		if !h.watched() {
			continue
		}
		if c == nil {
			if c, err = control.Dial(s.Path); err != nil {
				c = nil
			}
		}
		var snap control.Snapshot
		if c != nil {
			if snap, err = c.Snapshot(); err != nil { // the next one is asked over another connection
				c.Close()
				c = nil
			}
		}
		if s.heard(snap, err) {
			h.Publish(*s)
		}
		select {
		case <-ctx.Done():
		case <-read:
		case <-time.After(least):
		}
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Publish keeps the state of a root, and tells all viewers.
func (h *Hub) Publish(s State) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.keep(s)
	for c := range h.viewers {
		signal(c)
	}
}

// keep keeps the state of a root, and since when it asks what. h.mu is held.
func (h *Hub) keep(s State) {
	s.Asked = map[string]time.Time{}
	before := h.roots[s.ID]
	for _, q := range s.Questions {
		s.Asked[q.QuestionID] = time.Now()
		if before != nil && !before.Asked[q.QuestionID].IsZero() {
			s.Asked[q.QuestionID] = before.Asked[q.QuestionID]
			continue
		}
		for _, j := range s.Jobs { // it asks because of a call that began
			if j.ExecutionID == q.ExecutionID && j.Call != nil && j.Call.Running {
				s.Asked[q.QuestionID] = j.Call.Started
			}
		}
	}
	h.roots[s.ID] = &s
}

func (h *Hub) watched() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.viewers) > 0
}

// attended reports whether a page is open, or was some seconds ago. A browser without the script only loads pages.
func (h *Hub) attended() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.viewers) > 0 || time.Since(h.seen) < h.lingers
}

// View returns a channel that gets a value after a root has said something new. stop ends that.
func (h *Hub) View() (news <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.viewers[c] = true
	return c, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.viewers, c)
		h.seen = time.Now()
	}
}

// refreshFor is how long a page waits for roots. One that is stopped is shown as it was.
const refreshFor = 300 * time.Millisecond

// Refresh takes a snapshot of each root of which there is no fresh one.
func (h *Hub) Refresh() {
	h.mu.Lock()
	h.seen = time.Now()
	h.mu.Unlock()
	var asking sync.WaitGroup
	for _, s := range h.Roots() {
		if s.End != Running || time.Since(s.When) < least {
			continue
		}
		asking.Go(func() {
			var snap control.Snapshot
			err := h.Steer(s.ID, func(c *control.Client) (err error) {
				snap, err = c.Snapshot()
				return err
			})
			h.mu.Lock()
			defer h.mu.Unlock()
			if now := h.roots[s.ID]; now != nil && now.End == Running && s.heard(snap, err) {
				h.keep(s)
			}
		})
	}
	asked := make(chan struct{})
	go func() { // it ends with the last reply, or when a root has not replied in time
		defer close(asked)
		asking.Wait()
	}()
	select {
	case <-asked:
	case <-time.After(refreshFor):
	}
}

// Roots returns all roots, those that began last first.
func (h *Hub) Roots() []State {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []State
	for _, s := range h.roots {
		if s.Root.ExecutionID != "" {
			all = append(all, *s)
		}
	}
	slices.SortFunc(all, func(a, b State) int { return b.Root.Started.Compare(a.Root.Started) })
	return all
}

// Closed returns the roots that do not let themselves be followed, in the order of their ids.
func (h *Hub) Closed() []State {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []State
	for _, s := range h.roots {
		if s.Err != nil {
			all = append(all, *s)
		}
	}
	slices.SortFunc(all, func(a, b State) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// Of returns the root with that id, or the one that works on the batch or the job with that id.
func (h *Hub) Of(id string) (State, bool) {
	for _, s := range h.Roots() {
		if s.ID == id || s.Root.BatchID == id {
			return s, true
		}
		for _, j := range s.Jobs {
			if j.ExecutionID == id {
				return s, true
			}
		}
	}
	return State{}, false
}

// Steer calls do with a connection to the root with that id. The error is [control.ErrNoRoot] if it is gone.
func (h *Hub) Steer(root string, do func(*control.Client) error) error {
	h.mu.Lock()
	s := h.roots[root]
	h.mu.Unlock()
	if s == nil {
		return control.ErrNoRoot
	}
	c, err := control.Dial(s.Path)
	if err != nil {
		return err
	}
	defer c.Close()
	return do(c)
}
