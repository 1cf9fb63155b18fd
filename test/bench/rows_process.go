package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"qq/test/qqbin"
)

const (
	startLimit = time.Minute
	goneLimit  = 10 * time.Second
)

// measureOutput checks that the root does not keep in memory what a child prints.
func measureOutput(ctx context.Context, b *bench) ([]line, error) {
	const little = 5_000
	much := b.pick(500_000_000, 5_000_000)
	// The child and the server may keep the whole answer, some times over.
	available, err := available()
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("memory of the root, a child prints %d MB against 5 KB", much/1_000_000)
	if available < size(8*much) {
		return []line{{what: what, note: "not enough memory"}}, nil
	}
	run := func(n int) func() (used, error) {
		return func() (used, error) {
			return b.batch(ctx, batch{tasks: 1, jobs: 1, model: fmt.Sprintf("say%d", n), sample: true})
		}
	}
	us, err := b.interleave(b.pick(3, 1), run(little), run(much))
	if err != nil {
		return nil, err
	}
	return []line{ratio(what, column(us[1], rootPeak), column(us[0], rootPeak), 1.1, mib)}, nil
}

// measureWaiting measures the memory of children that wait for their model.
func measureWaiting(ctx context.Context, b *bench) ([]line, error) {
	var private []size
	err := b.hanging(ctx, b.pick(5, 2), func(_ *process, children []int) error {
		for _, pid := range children {
			clean, err := procField(pid, "smaps_rollup", "Private_Clean")
			if err != nil {
				return err
			}
			dirty, err := procField(pid, "smaps_rollup", "Private_Dirty")
			if err != nil {
				return err
			}
			private = append(private, clean+dirty)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return []line{absolute("private memory of a child that waits for its model", median(private), 4)}, nil
}

// measureKill measures how soon all children are gone after a SIGKILL of the root, which cannot
// help with that.
func measureKill(ctx context.Context, b *bench) ([]line, error) {
	children := b.pick(20, 5)
	var times []time.Duration
	for range b.pick(5, 1) {
		err := b.hanging(ctx, children, func(p *process, _ []int) error {
			start := time.Now()
			if err := p.cmd.Process.Kill(); err != nil {
				return err
			}
			err := b.gone(ctx)
			times = append(times, time.Since(start))
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	what := fmt.Sprintf("from SIGKILL of the root to no process left, %d children at work", children)
	return []line{within(what, median(times), 0, 100*time.Millisecond)}, nil
}

// hanging starts a batch of so many simultaneous tasks that wait for their model, calls measure
// with the processes of the children, and ends all of them.
func (b *bench) hanging(ctx context.Context, children int, measure func(p *process, children []int) error) (err error) {
	p, done, err := b.startBatch(ctx, batch{tasks: children, jobs: children, model: "hang"})
	if err != nil {
		return err
	}
	defer done()
	defer func() {
		_ = p.cmd.Cancel() // the whole group; it may be gone already
		_, waited := p.wait()
		left, found := qqbin.Processes(b.bin["qq"])
		err = errors.Join(err, found, killAll(left))
		if err != nil {
			err = errors.Join(err, waited) // with what qq said on stderr
		}
	}()
	what := fmt.Sprintf("%d children wait for their model", children)
	err = until(ctx, 5*time.Millisecond, startLimit, what, func() (bool, error) {
		n, err := b.waiting(ctx)
		return n == children, err
	})
	if err != nil {
		return err
	}
	pids, err := qqbin.Processes(b.bin["qq"])
	if err != nil {
		return err
	}
	pids = slices.DeleteFunc(pids, func(pid int) bool { return pid == p.cmd.Process.Pid })
	if len(pids) < children {
		return fmt.Errorf("%d processes for %d children", len(pids), children)
	}
	return measure(p, pids)
}

// gone waits until no qq of this bench is left.
func (b *bench) gone(ctx context.Context) error {
	return until(ctx, time.Millisecond, goneLimit, "no process left", func() (bool, error) {
		pids, err := qqbin.Processes(b.bin["qq"])
		return len(pids) == 0, err
	})
}
