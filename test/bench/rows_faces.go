package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"qq/internal/control"
)

// measureFaces measures a batch that faces look at, against the same batch without: two that subscribe and never read
// a byte, as a stopped process does, one that reads all, and one that draws ten times a second. Subscribers to the text
// of models make each child send it: what that costs has no limit.
func measureFaces(ctx context.Context, b *bench) ([]line, error) {
	const jobs, model = 8, "echo20"
	n := b.pick(400, 40)
	run := batch{tasks: n, jobs: jobs, model: model}
	us, err := b.interleave(b.pick(20, 1),
		func() (used, error) { return b.lookedAt(ctx, run, control.Subscribe{Light: true}) },
		func() (used, error) { return b.lookedAt(ctx, run, control.Subscribe{}) },
		func() (used, error) { return b.batch(ctx, run) },
	)
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("%d tasks, -j %d, two faces that never read, two that do: wall time, against no face", n, jobs)
	return []line{ratio(what, column(us[0], wall), column(us[2], wall), 1.03, milliseconds),
		unjudged("the same, with the text of all models", column(us[1], wall), column(us[2], wall))}, nil
}

// lookedAt runs a batch with faces that come as soon as the run has a socket.
func (b *bench) lookedAt(ctx context.Context, run batch, all control.Subscribe) (used, error) {
	dir, env, done, err := b.home()
	if err != nil {
		return used{}, err
	}
	defer done()
	tasks, err := b.tasks(run.tasks)
	if err != nil {
		return used{}, err
	}
	p, err := b.batchCommand(run, dir, env, tasks).start(ctx)
	if err != nil {
		return used{}, err
	}
	var faces sync.WaitGroup
	ended := make(chan struct{})
	faces.Go(func() { err = lookAt(filepath.Join(dir, "qq"), all, ended) })
	u, waited := p.wait()
	close(ended)
	faces.Wait()
	switch {
	case waited != nil:
		return u, waited
	case err != nil:
		return u, err
	}
	return u, successes(filepath.Join(dir, "stdout"), run.tasks)
}

// lookAt looks at the only run of a home until ended is closed.
func lookAt(home string, all control.Subscribe, ended <-chan struct{}) error {
	for len(control.Look(home)) == 0 || control.Look(home)[0].Err != nil {
		select {
		case <-ended:
			return errors.New("the run ended before it had a socket")
		case <-time.After(5 * time.Millisecond):
		}
	}
	path := control.Look(home)[0].Path
	var clients []*control.Client
	for range 4 { // the first two are not read again
		c, err := control.Dial(path)
		if err != nil {
			return err
		}
		defer c.Close()
		if clients = append(clients, c); len(clients) == 4 {
			break
		}
		if _, err := c.Subscribe(all); err != nil {
			return err
		}
	}
	reads, draws := clients[2], clients[3]
	go func() { // until it is closed
		for err := error(nil); err == nil; {
			_, err = reads.Next()
		}
	}()
	for shown := 0; ; shown++ {
		if _, err := draws.Snapshot(); err != nil && shown > 0 {
			return nil // it has ended
		} else if err != nil {
			return err
		}
		select {
		case <-ended:
			return nil
		case <-time.After(100 * time.Millisecond):
		}
	}
}
