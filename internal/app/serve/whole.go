package serve

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"time"

	"qq/internal/app/serve/watch"
	"qq/internal/control/board"
	"qq/internal/record/history"
	"qq/internal/record/ledger"
	"qq/pkg/supervisor/plan"
	"qq/pkg/task"
)

// item is one job of a run: what is recorded of it, and what its root says now.
type item struct {
	*history.Job            // with what is recorded; of a job that is only queued, what its root says
	now          *board.Job // nil if it is not live
	below        []*item
	all          int // jobs below it, at any depth
}

// whole is a run with all its jobs: what is recorded, and what its root says now.
type whole struct {
	history.Run
	root  watch.State // zero if no root works on it
	live  bool
	items []*item // of the top
	byID  map[string]*item
}

// store reads runs, and keeps those that were read last: to read one of 10,000 jobs takes a while.
type store struct {
	history.History
	hub *watch.Hub

	mu        sync.Mutex
	refreshed time.Time
	runs      map[string]kept
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

// refresh reads what roots have recorded since the last time.
func (s *store) refresh() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.refreshed) < refreshEvery {
		return nil
	}
	err := s.Refresh()
	s.refreshed = time.Now()
	return err
}

// forget makes the next read of a run a fresh one.
func (s *store) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.runs, id)
}

// recorded returns the recorded part of the run that the job, the batch or the root with that id belongs to.
func (s *store) recorded(id string) (history.Run, error) {
	s.mu.Lock()
	k, ok := s.runs[id]
	s.mu.Unlock()
	if age := time.Since(k.at); ok && (age < liveFor || age < pastFor && !k.Live()) {
		return k.Run, nil
	}
	if err := s.refresh(); err != nil {
		return history.Run{}, err
	}
	r, err := s.Whole(id)
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

// whole returns the run that the job, the batch or the root with that id belongs to.
func (s *store) whole(id string) (whole, error) {
	r, err := s.recorded(id)
	root, live := s.hub.Of(id)
	if errors.Is(err, ledger.ErrNone) && live { // nothing is recorded yet, or ever
		r, err = history.Run{ID: cmp.Or(root.Root.BatchID, root.Root.ExecutionID)}, nil
	}
	if err != nil {
		return whole{}, err
	}
	if !live {
		root, live = s.hub.Of(r.ID)
	}
	if r.Batch != nil && !live {
		root, live = s.hub.Of(r.Batch.Root)
	}
	w := whole{Run: r, root: root, live: live && root.End == watch.AtWork, byID: map[string]*item{}}
	if !live {
		w.root = watch.State{}
	}
	w.add(r.Jobs, nil)
	if w.live {
		for i := range root.Jobs {
			w.attach(&root.Jobs[i])
		}
	}
	for _, t := range w.items {
		count(t)
	}
	if r.Batch != nil || w.live && root.Root.BatchID == r.ID {
		slices.SortStableFunc(w.items, func(a, b *item) int { return cmp.Compare(a.Index, b.Index) })
	}
	return w, nil
}

func count(i *item) int {
	for _, b := range i.below {
		i.all += 1 + count(b)
	}
	return i.all
}

// add adds recorded jobs below one of them.
func (w *whole) add(list []*history.Job, above *item) {
	for _, j := range list {
		it := &item{Job: j}
		w.byID[j.ID] = it
		if above == nil {
			w.items = append(w.items, it)
		} else {
			above.below = append(above.below, it)
		}
		w.add(j.Jobs, it)
	}
}

// attach adds what the root says about a live job.
func (w *whole) attach(j *board.Job) {
	it := w.byID[j.ExecutionID]
	if it == nil {
		it = &item{Job: recordOf(j, w.root)}
		w.byID[j.ExecutionID] = it
		if above := w.byID[j.ParentExecutionID]; above != nil {
			above.below = append(above.below, it)
		} else {
			w.items = append(w.items, it)
		}
	}
	if it.Ended.IsZero() {
		it.now = j
	}
}

// recordOf is a live job that is not in the ledger yet, as if it were.
func recordOf(j *board.Job, root watch.State) *history.Job {
	return &history.Job{Run: ledger.Run{
		ID: j.ExecutionID, Parent: j.ParentExecutionID, Batch: j.BatchID, Root: root.ID, Agent: j.Agent, Task: j.Task,
		Status: j.State, Attempts: j.Attempt, Queued: j.Queued, Started: j.Started, Depth: j.Depth, Index: j.Index,
		Live: true, Usage: j.Usage, TotalUsage: j.Subtree,
	}}
}

// status is that of the run.
func (w whole) status() task.Status {
	switch {
	case w.live:
		return task.Running
	case w.Batch != nil:
		return w.Batch.Status
	case len(w.items) > 0:
		return w.items[0].Status
	}
	return task.Interrupted
}

// killed reports whether the root was killed while it worked on the run.
func (w whole) killed() bool {
	return w.root.End == watch.Lost && !w.Run.Live()
}

// plan returns the plan of a run; false if it had none.
func (s *store) plan(history.Run) (plan.Description, bool) { return plan.Description{}, false }
