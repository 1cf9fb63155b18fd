package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

func cpu(u used) time.Duration  { return u.cpu }
func wall(u used) time.Duration { return u.wall }
func maxRSS(u used) size        { return u.maxRSS }
func rootPeak(u used) size      { return u.rootPeak }

// perTask divides a figure of a run by its number of tasks, n.
func perTask(n int, figure func(used) time.Duration) func(used) time.Duration {
	return func(u used) time.Duration { return figure(u) / time.Duration(n) }
}

// measurePrompt measures one question to a model that answers at once.
func measurePrompt(ctx context.Context, b *bench) ([]line, error) {
	dir, env, done, err := b.home()
	if err != nil {
		return nil, err
	}
	defer done()
	us, err := b.interleave(b.pick(50, 10),
		func() (used, error) {
			return command{program: b.bin["qq"], args: []string{"say", "something"}, dir: dir, env: env}.run(ctx)
		},
		func() (used, error) {
			return command{program: b.bin["client"], args: []string{b.url, "fast", "say something"}, dir: dir,
				env: env}.run(ctx)
		},
	)
	if err != nil {
		return nil, err
	}
	most := median(column(us[0], maxRSS))
	return []line{
		ratio("one prompt: CPU, against a bare Go client", column(us[0], cpu), column(us[1], cpu), 2.1, milliseconds),
		{
			what: "one prompt: max RSS", qq: mib(most), yard: mib(median(column(us[1], maxRSS))),
			value: float64(most) / 1e6, limit: 16, unit: "MB",
		},
	}, nil
}

// measureBatch measures many small tasks, two at a time. All processes count: the CPU time of a
// child is added to that of the parent that waited for it, also through PID namespaces.
func measureBatch(ctx context.Context, b *bench) ([]line, error) {
	n := b.pick(2000, 60)
	tasks, err := b.tasks(n)
	if err != nil {
		return nil, err
	}
	commands := []func() (used, error){
		func() (used, error) { return b.batch(ctx, batch{tasks: n, jobs: 2, model: "fast"}) },
		func() (used, error) {
			return b.yardstick(ctx, "pool", "2", tasks, b.bin["client"], b.url, "fast")
		},
	}
	_, err = exec.LookPath("parallel")
	installed := err == nil
	if installed {
		commands = append(commands, func() (used, error) {
			return b.yardstick(ctx, "parallel", "--will-cite", "-k", "-j2", b.bin["hello"], "{}", "::::", tasks)
		})
	}
	us, err := b.interleave(b.pick(3, 1), commands...)
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("qq batch of %d tasks, -j 2: ", n)
	lines := []line{ratio(what+"CPU a task, against a bare Go pool of bare clients",
		column(us[0], perTask(n, cpu)), column(us[1], perTask(n, cpu)), 2.3, milliseconds)}
	what += "wall time a task, against GNU parallel of hello worlds"
	if !installed {
		return append(lines, line{what: what, note: "not installed"}), nil
	}
	return append(lines, ratio(what,
		column(us[0], perTask(n, wall)), column(us[2], perTask(n, wall)), 0.9, milliseconds)), nil
}

// measureModel measures what qq adds to the time that a model takes.
func measureModel(ctx context.Context, b *bench) ([]line, error) {
	const n, jobs, model = 24, 4, "slow200"
	tasks, err := b.tasks(n)
	if err != nil {
		return nil, err
	}
	us, err := b.interleave(b.pick(9, 1),
		func() (used, error) { return b.batch(ctx, batch{tasks: n, jobs: jobs, model: model}) },
		func() (used, error) {
			return b.yardstick(ctx, "pool", fmt.Sprint(jobs), tasks, b.bin["client"], b.url, model)
		},
	)
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("%d tasks, -j %d, a model of 200 ms: wall time, against a bare Go pool", n, jobs)
	return []line{ratio(what, column(us[0], wall), column(us[1], wall), 1.03, milliseconds)}, nil
}

// measureScale measures whether a hundred times as many tasks cost the root more memory, or more
// time for each.
func measureScale(ctx context.Context, b *bench) ([]line, error) {
	few, many := b.pick(200, 50), b.pick(20_000, 400)
	run := func(n int) func() (used, error) {
		return func() (used, error) { return b.batch(ctx, batch{tasks: n, jobs: 2, model: "fast", sample: true}) }
	}
	// The long run stands between the short ones.
	us, err := b.interleave(1, run(few), run(many), run(few))
	if err != nil {
		return nil, err
	}
	short, long := append(us[0], us[2]...), us[1]
	return []line{
		ratio(fmt.Sprintf("memory of the root, %d tasks against %d", many, few),
			column(long, rootPeak), column(short, rootPeak), 1.1, mib),
		absolute(fmt.Sprintf("memory of the root, %d tasks", many), median(column(long, rootPeak)), 64),
		ratio(fmt.Sprintf("wall time a task, %d tasks against %d", many, few),
			column(long, perTask(many, wall)), column(short, perTask(few, wall)), 1.1, milliseconds),
	}, nil
}

// absolute returns a line about an amount of memory, with its limit in MiB.
func absolute(what string, n size, limit float64) line {
	return line{what: what, qq: mib(n), value: float64(n) / mebibyte, limit: limit, unit: "MiB"}
}

// within returns a line about a time, with its limit. A yard of 0 means that there is no
// yardstick.
func within(what string, qq, yard, limit time.Duration) line {
	l := line{what: what, qq: milliseconds(qq), value: float64(qq) / 1e6, limit: float64(limit) / 1e6, unit: "ms"}
	if yard > 0 {
		l.yard = milliseconds(yard)
	}
	return l
}

// yardstick runs one of the programs that qq is compared with: one of the bench, or one of the
// machine.
func (b *bench) yardstick(ctx context.Context, name string, args ...string) (used, error) {
	dir, env, done, err := b.home()
	if err != nil {
		return used{}, err
	}
	defer done()
	program := b.bin[name]
	if program == "" {
		program = name
	}
	return command{program: program, args: args, dir: dir, env: env}.run(ctx)
}

// batch describes a run of qq batch.
type batch struct {
	tasks, jobs int
	model       string
	flags       []string // beyond those that every run has
	sample      bool
}

// batch runs qq batch and checks that every task succeeded: a failure could look like a fast
// answer.
func (b *bench) batch(ctx context.Context, run batch) (used, error) {
	dir, env, done, err := b.home()
	if err != nil {
		return used{}, err
	}
	defer done()
	return b.batchIn(ctx, run, dir, env)
}

// batchIn is batch with a home folder that is kept.
func (b *bench) batchIn(ctx context.Context, run batch, dir string, env []string) (used, error) {
	tasks, err := b.tasks(run.tasks)
	if err != nil {
		return used{}, err
	}
	u, err := b.batchCommand(run, dir, env, tasks).run(ctx)
	if err != nil {
		return u, err
	}
	return u, successes(filepath.Join(dir, "stdout"), run.tasks)
}

// startBatch starts qq batch; done removes what it wrote.
func (b *bench) startBatch(ctx context.Context, run batch) (p *process, done func(), err error) {
	tasks, err := b.tasks(run.tasks)
	if err != nil {
		return nil, nil, err
	}
	dir, env, done, err := b.home()
	if err != nil {
		return nil, nil, err
	}
	p, err = b.batchCommand(run, dir, env, tasks).start(ctx)
	if err != nil {
		done()
		return nil, nil, errors.Join(errors.New("start qq batch"), err)
	}
	return p, done, nil
}

// batchCommand returns the command qq batch with those files as its arguments.
func (b *bench) batchCommand(run batch, dir string, env []string, files ...string) command {
	args := slices.Concat([]string{
		"batch", "--model", "ollama:" + run.model, "-j", fmt.Sprint(run.jobs), "--no-bar", "--output-format", "jsonl",
	}, run.flags, files)
	return command{program: b.bin["qq"], args: args, dir: dir, env: env, sample: run.sample}
}
