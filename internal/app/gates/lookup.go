package gates

import (
	"cmp"
	"context"
	"time"

	"qq/internal/models/gate"
	"qq/pkg/task"
)

// patience is how long a run waits for further servers once one has answered.
const patience = 3 * time.Second

// search is the search for the model of one task.
type search struct {
	task  task.Task
	index int
	err   error     // of the first try; readable once it is sent to ended
	on    chan bool // gets whether the search is to go on
	ended chan<- *search
}

// Lookup finds the models of the tasks, one of each kind. The error is that of the first that is not available. A
// server that is away is an error only if all are: else the search goes on, and Ready holds back the tasks that need
// it.
func (g *Gates) Lookup(ctx context.Context, notes gate.Notes, tasks []task.Task) error {
	g.watch(tasks)
	ended := make(chan *search, len(tasks))
	searches := make([]*search, len(tasks))
	for i, t := range tasks {
		searches[i] = &search{task: t, index: i, on: make(chan bool, 1), ended: ended}
		g.seek(t, true)
		g.wg.Go(func() { g.search(searches[i]) })
	}
	found, err := false, error(nil)
	first := gathered(ctx, ended, len(tasks))
	for _, s := range first {
		switch {
		case s == nil:
		case s.err == nil:
			found = true
		case err == nil && task.StatusOf(s.err) != task.Unavailable:
			err = s.err
		}
	}
	on := err == nil && found && ctx.Err() == nil
	for i, s := range searches {
		s.on <- on
		switch {
		case !on:
		case first[i] == nil:
			name, _, _ := g.models.Named(s.task)
			notes.Note("no answer about %s within %v: its tasks wait, those of other servers do not", name, patience)
		case s.err != nil:
			problem, _ := task.Explain(s.err)
			notes.Note("%s: its tasks wait, those of other servers do not", problem)
		}
	}
	if on {
		return nil
	}
	return g.again(ctx, err, tasks)
}

// again looks the models up one by one, with retries, unless err says already why the run cannot be. A run that can use
// no server waits for the first that it needs.
func (g *Gates) again(ctx context.Context, err error, tasks []task.Task) error {
	for _, t := range tasks {
		if err != nil {
			return err
		}
		err = g.models.Find(ctx, t, true)
	}
	return err
}

// gathered waits for the outcomes of n searches, and returns them by index. Once one has found its model, it does not
// wait long for the others.
func gathered(ctx context.Context, ended <-chan *search, n int) []*search {
	list := make([]*search, n)
	var over <-chan time.Time
	for range n {
		select {
		case s := <-ended:
			if list[s.index] = s; s.err == nil && over == nil {
				over = time.After(patience)
			}
		case <-over:
			return list
		case <-ctx.Done():
			return list
		}
	}
	return list
}

// watch notes whether the tasks use several servers. The built-in model counts as one.
func (g *Gates) watch(tasks []task.Task) {
	names := map[string]bool{}
	for _, t := range tasks {
		name, _, _ := g.models.Named(t)
		names[serverOf(name)] = true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.several = g.several || len(names) > 1
}

// seek notes whether the model of t is being looked for.
func (g *Gates) seek(t task.Task, on bool) {
	name, _, _ := g.models.Named(t)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.sought[name] = on; !on {
		delete(g.sought, name)
	}
}

// search looks for the model of s.task and, if it is told to go on, does so until the server answers or its breaker is
// hopeless.
func (g *Gates) search(s *search) {
	defer g.seek(s.task, false)
	ctx := g.ctx
	err := g.models.Find(ctx, s.task, false)
	s.err = err
	s.ended <- s
	if err == nil || !<-s.on {
		return
	}
	name, _, _ := g.models.Named(s.task)
	g.mu.Lock()
	one := g.of(serverOf(name), "")
	g.mu.Unlock()
	for ; ; err = g.models.Find(ctx, s.task, false) {
		one.Found(err)
		if err == nil || task.StatusOf(err) != task.Unavailable || one.Refusal(name) != nil {
			return
		}
		select {
		case <-time.After(cmp.Or(one.Ready(name), time.Minute)):
		case <-ctx.Done():
			return
		}
	}
}
