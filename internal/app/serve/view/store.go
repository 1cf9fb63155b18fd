package view

import (
	"cmp"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"qq/internal/record/history"
	"qq/internal/record/ledger"
	"qq/internal/record/plans"
	"qq/pkg/supervisor/plan"
)

// Store reads runs, and keeps those that were read last: to read one of 10,000 jobs takes a while.
type Store struct {
	history.History
	Hub  *Hub
	Home string // the folder of qq

	refreshing sync.Mutex
	refreshed  atomic.Int64 // when, in nanoseconds since 1970

	mu      sync.Mutex
	runs    map[string]kept
	reading map[string]chan struct{} // closed when a run was read
	warming bool
}

// kept is a run that was read.
type kept struct {
	history.Run
	at time.Time
}

const (
	refreshEvery = 250 * time.Millisecond
	liveFor      = 2 * time.Second // a run at work
	pastFor      = 20 * time.Second
	maxKept      = 8
)

// Fresh reads what roots have recorded since the last time. Pages of runs that are at hand do not wait for it.
func (s *Store) Fresh() error {
	s.refreshing.Lock()
	defer s.refreshing.Unlock()
	if time.Since(time.Unix(0, s.refreshed.Load())) < refreshEvery {
		return nil
	}
	err := s.History.Refresh()
	s.refreshed.Store(time.Now().UnixNano())
	return err
}

// Forget makes the next read of a run a fresh one.
func (s *Store) Forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refreshed.Store(0)
	delete(s.runs, id)
}

// Recorded returns the recorded part of the run that the job, the batch or the root with that id belongs to.
func (s *Store) Recorded(id string) (history.Run, error) {
	s.mu.Lock()
	k, ok := s.runs[id]
	s.mu.Unlock()
	if ok && s.fresh(k) {
		return k.Run, nil
	}
	defer s.alone(id)()
	s.mu.Lock()
	k, ok = s.runs[id]
	s.mu.Unlock()
	if ok && s.fresh(k) { // somebody else has read it meanwhile
		return k.Run, nil
	}
	if err := s.Fresh(); err != nil {
		return history.Run{}, err
	}
	r, err := s.History.Whole(id)
	if err != nil {
		return r, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.runs) >= maxKept {
		oldest := ""
		for id, k := range s.runs {
			if oldest == "" || k.at.Before(s.runs[oldest].at) {
				oldest = id
			}
		}
		delete(s.runs, oldest)
	}
	if s.runs == nil {
		s.runs = map[string]kept{}
	}
	s.runs[id] = kept{r, time.Now()}
	return r, nil
}

// alone waits until nobody else reads the run with that id, and keeps others from it until done is called.
func (s *Store) alone(id string) (done func()) {
	for {
		s.mu.Lock()
		other := s.reading[id]
		if other == nil {
			break
		}
		s.mu.Unlock()
		<-other
	}
	defer s.mu.Unlock()
	if s.reading == nil {
		s.reading = map[string]chan struct{}{}
	}
	mine := make(chan struct{})
	s.reading[id] = mine
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.reading, id)
		close(mine)
	}
}

// Warm reads a long batch in the background, if it is not at hand: whoever sees it in the list may open it next.
func (s *Store) Warm(b *ledger.BatchRow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.runs[b.ID]; ok || s.warming || b.Count < longBatch || b.Live {
		return
	}
	s.warming = true
	go func() { // it ends with the query
		_, _ = s.Recorded(b.ID) // whoever opens the page sees the error
		s.mu.Lock()
		defer s.mu.Unlock()
		s.warming = false
	}()
}

// fresh reports whether nothing has happened in a run since it was read. To look at a batch as a whole takes a moment.
func (s *Store) fresh(k kept) bool {
	age := time.Since(k.at)
	if age < liveFor || age < pastFor && !k.Live() {
		return true
	}
	if k.Batch == nil || k.Live() || s.Fresh() != nil {
		return false
	}
	list, err := s.List(ledger.Filter{Batch: k.ID, Limit: 1})
	return err == nil && len(list) == 1 && reflect.DeepEqual(list[0].Batch, k.Batch)
}

// longBatch is the number of tasks from which on the jobs of a batch take long to read.
const longBatch = 500

// Head returns a long batch without its jobs, and false if that is no such batch or if its jobs are at hand.
func (s *Store) Head(id string) (Run, bool) {
	s.mu.Lock()
	k, ok := s.runs[id]
	s.mu.Unlock()
	if ok && s.fresh(k) || s.Fresh() != nil {
		return Run{}, false
	}
	list, err := s.List(ledger.Filter{Batch: id, Limit: 1})
	if err != nil || len(list) == 0 || list[0].Batch == nil || list[0].Batch.Count < longBatch {
		return Run{}, false
	}
	r := Run{Run: history.Run{ID: id, Batch: list[0].Batch}}
	root, live := s.Hub.Of(id)
	if live {
		r.Root, r.AtWork = root, root.End == Running
	}
	return r, true
}

// Whole returns the run that the job, the batch or the root with that id belongs to.
func (s *Store) Whole(id string) (Run, error) {
	r, err := s.Recorded(id)
	root, live := s.Hub.Of(id)
	if errors.Is(err, ledger.ErrNone) && live { // nothing is recorded yet, or ever
		r, err = history.Run{ID: cmp.Or(root.Root.BatchID, root.Root.ExecutionID)}, nil
	}
	if err != nil {
		return Run{}, err
	}
	if !live {
		root, live = s.Hub.Of(r.ID)
	}
	if r.Batch != nil && !live {
		root, live = s.Hub.Of(r.Batch.Root)
	}
	w := Run{Run: r, Root: root, AtWork: live && root.End == Running, ByID: map[string]*Item{}}
	if !live {
		w.Root = State{}
	}
	if w.slots, err = s.Slots(r); err != nil {
		return Run{}, err
	}
	w.add(r.Jobs, nil)
	if w.AtWork {
		for i := range root.Jobs {
			w.attach(&root.Jobs[i])
		}
	}
	for _, t := range w.Items {
		count(t)
	}
	if r.Batch != nil || w.AtWork && root.Root.BatchID == r.ID {
		slices.SortStableFunc(w.Items, func(a, b *Item) int { return cmp.Compare(a.Index, b.Index) })
	}
	return w, nil
}

// plan returns the plan of a run; false if it had none.
func (s *Store) plan(r history.Run) (d plan.Description, ok bool) {
	text, ok := plans.Of(s.Home, r.ID)
	return d, ok && r.Batch != nil && json.Unmarshal(text, &d) == nil
}
