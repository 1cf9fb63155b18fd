package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"qq/internal/record/ledger"
	"qq/internal/standin"
	"qq/pkg/task"
)

// measureLedger measures what it costs to record a long batch, and to resume one that is done.
func measureLedger(ctx context.Context, b *bench) ([]line, error) {
	n := b.pick(20_000, 300)
	dir, env, done, err := b.home()
	if err != nil {
		return nil, err
	}
	defer done()
	run := func(flags ...string) batch { return batch{tasks: n, jobs: 2, model: "fast", flags: flags} }
	without := func() (used, error) { return b.batch(ctx, run("--no-ledger")) }
	// The run that is recorded stands between those that are not.
	us, err := b.interleave(1, without, func() (used, error) { return b.batchIn(ctx, run(), dir, env) }, without)
	if err != nil {
		return nil, err
	}
	plain, recorded := append(us[0], us[2]...), us[1]
	resumed, err := resumed(b.pick(5, 2), filepath.Join(dir, "stdout"), func() (used, error) {
		return b.batchIn(ctx, run("--resume"), dir, env)
	})
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("%d tasks, -j 2, with the ledger against --no-ledger: ", n)
	return []line{
		ratio(what+"wall time a task",
			column(recorded, perTask(n, wall)), column(plain, perTask(n, wall)), 1.15, milliseconds),
		unjudged(what+"CPU a task", column(recorded, perTask(n, cpu)), column(plain, perTask(n, cpu))),
		within(fmt.Sprintf("--resume of a finished batch of %d tasks", n), median(column(resumed, wall)), 0,
			2*time.Second),
	}, nil
}

// resumed runs a finished batch again, and checks that it prints the same results as the first
// run in the file out: results with other ids would be new ones.
func resumed(rounds int, out string, run func() (used, error)) ([]used, error) {
	first, err := os.ReadFile(out)
	if err != nil {
		return nil, err
	}
	us := make([]used, rounds)
	for i := range us {
		if us[i], err = run(); err != nil {
			return nil, err
		}
		text, err := os.ReadFile(out)
		if err != nil {
			return nil, err
		}
		if !bytes.Equal(text, first) {
			return nil, errors.New("what is printed by --resume differs from what was printed first")
		}
	}
	return us, nil
}

// unjudged returns a line about times that has no limit.
func unjudged(what string, qq, yard []time.Duration) line {
	a, b := median(qq), median(yard)
	note := fmt.Sprintf("%+.2f ms, no limit", float64(a-b)/1e6)
	return line{what: what, qq: milliseconds(a), yard: milliseconds(b), note: note}
}

// measureRecord measures what the record of one prompt costs. The record is durable before qq
// ends, so the wall time depends on the disk too.
func measureRecord(ctx context.Context, b *bench) ([]line, error) {
	dir, env, done, err := b.home()
	if err != nil {
		return nil, err
	}
	defer done()
	prompt := func(flags ...string) func() (used, error) {
		c := command{program: b.bin["qq"], args: append(flags, "-m", "say something"), dir: dir, env: env}
		return func() (used, error) { return c.run(ctx) }
	}
	us, err := b.interleave(b.pick(50, 5), prompt(), prompt("--no-ledger"))
	if err != nil {
		return nil, err
	}
	const what = "one prompt with the ledger against --no-ledger: "
	return []line{
		unjudged(what+"CPU", column(us[0], cpu), column(us[1], cpu)),
		unjudged(what+"wall", column(us[0], wall), column(us[1], wall)),
	}, nil
}

// measureCache measures a batch over files that were all read before and have not changed.
func measureCache(ctx context.Context, b *bench) ([]line, error) {
	n := b.pick(10_000, 100)
	dir, env, done, err := b.home()
	if err != nil {
		return nil, err
	}
	defer done()
	files := make([]string, n)
	for i := range files {
		files[i] = fmt.Sprintf("file-%d", i)
		if err := os.WriteFile(filepath.Join(dir, files[i]), fmt.Appendf(nil, "This is file %d.\n", i),
			0o600); err != nil {
			return nil, err
		}
	}
	read := step{"read_file", 1, map[string]string{"path": "{}"}}
	run := batch{jobs: 2, model: "script", flags: []string{"--cache", "-m", read.String()}}
	c := b.batchCommand(run, dir, env, files...)
	var again []used
	for round := range 1 + b.pick(3, 2) {
		u, out, err := c.output(ctx)
		if err == nil {
			err = successes(filepath.Join(dir, "stdout"), n)
		}
		if err != nil {
			return nil, err
		}
		cached := bytes.Count(out, []byte(`"cached":true`))
		if round == 0 && cached > 0 || round > 0 && cached < n {
			return nil, fmt.Errorf("run %d: %d of %d answers come from the cache", round+1, cached, n)
		}
		if round > 0 {
			again = append(again, u)
		}
	}
	what := fmt.Sprintf("--cache, the second run over %d files", n)
	return []line{within(what, median(column(again, wall)), 0, 5*time.Second)}, nil
}

// measureQueue measures more children than the server answers at once. Each child's timeouts are
// shorter than the time that it must wait for the others.
func measureQueue(ctx context.Context, b *bench) ([]line, error) {
	const jobs, model = 5, "one300"
	n := b.pick(40, 10)
	tasks, err := b.tasks(n)
	if err != nil {
		return nil, err
	}
	short := []string{"--timeout", "1", "--idle-timeout", "1"}
	us, err := b.interleave(b.pick(3, 1),
		func() (used, error) { return b.batch(ctx, batch{tasks: n, jobs: jobs, model: model, flags: short}) },
		func() (used, error) {
			return b.yardstick(ctx, "pool", fmt.Sprint(jobs), tasks, b.bin["client"], b.url, model)
		},
	)
	if err != nil {
		return nil, err
	}
	const format = "%d tasks, -j %d, a server of 300 ms for one at a time: wall time, against a bare Go pool"
	what := fmt.Sprintf(format, n, jobs)
	return []line{ratio(what, column(us[0], wall), column(us[1], wall), 1/0.95, milliseconds)}, nil
}

// measureBreaker measures how soon tasks are refused when the server fails. The time begins when
// the server has sent the last failure and ends when qq prints the first result that names the
// circuit breaker. In between, the third task reads its failure and ends.
func measureBreaker(ctx context.Context, b *bench) ([]line, error) {
	const failures = 3 // open the breaker
	server := standin.New(standin.ByName())
	if err := server.Start(); err != nil {
		return nil, err
	}
	defer server.Stop()
	tasks, err := b.tasks(10)
	if err != nil {
		return nil, err
	}
	var times []time.Duration
	for range b.pick(20, 3) {
		server.Forget()
		told, err := b.refusal(ctx, server.Host(), tasks)
		if err != nil {
			return nil, err
		}
		chats := server.Chats()
		if len(chats) != failures {
			return nil, fmt.Errorf("%d requests to a server that fails, want %d", len(chats), failures)
		}
		times = append(times, told.Sub(chats[failures-1].Ended))
	}
	const what = "from the failure that opens the breaker to the result of the first task refused"
	return []line{within(what, median(times), 0, 5*time.Millisecond)}, nil
}

// failedTasks is the exit code of a batch with failed tasks.
const failedTasks = 4

// refusal runs tasks, one after the other, against a server that fails. It returns the time at
// which qq printed that one was refused.
func (b *bench) refusal(ctx context.Context, host, tasks string) (time.Time, error) {
	dir, env, done, err := b.home()
	if err != nil {
		return time.Time{}, err
	}
	defer done()
	w := &watch{text: "Circuit breaker open"}
	run := batch{jobs: 1, model: "busy", flags: []string{"--retries", "0"}}
	c := b.batchCommand(run, dir, append(env, "OLLAMA_HOST="+host), tasks)
	c.stdout = w
	_, err = c.run(ctx)
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != failedTasks {
		return time.Time{}, fmt.Errorf("a batch at a server that fails: %w", err)
	}
	if w.seen.IsZero() {
		return time.Time{}, fmt.Errorf("no task was refused:\n%s", w.all.String())
	}
	return w.seen, nil
}

// watch is a writer that notes when a text was first written to it.
type watch struct {
	text string
	all  strings.Builder
	seen time.Time // zero until then
}

// Write implements [io.Writer].
func (w *watch) Write(p []byte) (int, error) {
	now := time.Now()
	w.all.Write(p)
	if w.seen.IsZero() && strings.Contains(w.all.String(), w.text) {
		w.seen = now
	}
	return len(p), nil
}

// measureTranscripts measures what the transcripts of its tasks cost a batch. They cannot be switched off alone,
// so the yardstick is a batch that cannot write them: a file is in the place of their folder.
// That flatters the cost a little: each task of the yardstick tries to make the folder, and its result and its record
// carry a warning that it could not.
func measureTranscripts(ctx context.Context, b *bench) ([]line, error) {
	n := b.pick(2000, 60)
	run := func(blocked bool) func() (used, error) {
		return func() (used, error) {
			dir, env, done, err := b.home()
			if err != nil {
				return used{}, err
			}
			defer done()
			folder := ledger.Transcripts(filepath.Join(dir, "qq"))
			if blocked {
				if err := os.MkdirAll(filepath.Dir(folder), 0o700); err != nil {
					return used{}, err
				}
				if err := os.WriteFile(folder, nil, 0o600); err != nil {
					return used{}, err
				}
			}
			u, err := b.batchIn(ctx, batch{tasks: n, jobs: 2, model: "fast"}, dir, env)
			if err != nil || blocked {
				return u, err
			}
			written, err := filepath.Glob(filepath.Join(folder, "*", "*.jsonl"))
			if err == nil && len(written) != n {
				err = fmt.Errorf("%d transcripts of %d tasks", len(written), n)
			}
			return u, err
		}
	}
	us, err := b.interleave(b.pick(5, 1), run(false), run(true))
	if err != nil {
		return nil, err
	}
	with, without := median(column(us[0], perTask(n, cpu))), median(column(us[1], perTask(n, cpu)))
	l := within(fmt.Sprintf("transcripts of %d tasks: CPU a task", n), with-without, 0, 300*time.Microsecond)
	l.qq, l.yard = milliseconds(with), milliseconds(without)
	return []line{l}, nil
}

// measureRuns measures how long qq runs takes when the ledger is large: after a batch, while it is at work, and the
// first time, when the journal must be indexed.
func measureRuns(ctx context.Context, b *bench) ([]line, error) {
	few, many := b.pick(1_000, 100), b.pick(100_000, 1_000)
	var lists [3]func() (used, error)
	var first []used
	for i, of := range []struct {
		n    int
		live bool
	}{{few, false}, {many, false}, {many, true}} {
		dir, env, done, err := b.home()
		if err != nil {
			return nil, err
		}
		defer done()
		stop, err := fillLedger(filepath.Join(dir, "qq"), of.n, of.live)
		if err != nil {
			return nil, err
		}
		defer stop()
		c := command{program: b.bin["qq"], args: []string{"runs"}, dir: dir, env: env}
		lists[i] = func() (used, error) { return c.run(ctx) }
		u, err := lists[i]()
		if err != nil {
			return nil, err
		}
		first = append(first, u)
	}
	us, err := b.interleave(b.pick(20, 2), lists[:]...)
	if err != nil {
		return nil, err
	}
	a, z, live := median(column(us[0], wall)), median(column(us[1], wall)), median(column(us[2], wall))
	more := within(fmt.Sprintf("qq runs, %d executions more than %d", many, few), z-a, 0, 20*time.Millisecond)
	more.qq, more.yard = milliseconds(z), milliseconds(a)
	return []line{
		within(fmt.Sprintf("qq runs at %d executions", many), z, 0, 50*time.Millisecond), more,
		within(fmt.Sprintf("qq runs at %d executions of a batch at work", many), live, 0, 50*time.Millisecond),
		unjudged(fmt.Sprintf("first qq runs: indexes %d executions against %d", many, few),
			column(first[1:2], wall), column(first[:1], wall)),
	}, nil
}

// fillLedger records n executions in home: half of them in one batch, a quarter in batches of 100, the others as
// prompts. If live is set, all are in one batch, whose root is at work until stop is called.
func fillLedger(home string, n int, live bool) (stop func() error, err error) {
	root := ledger.Root{ID: task.NewID(), Started: time.Now(), Dir: home, Command: "batch"}
	r := ledger.NewRecorder(home, root, ledger.Options{})
	var batches []string
	for len(batches) <= n/400 && (!live || len(batches) == 0) {
		batches = append(batches, task.NewID())
	}
	for _, id := range batches {
		if err := r.Begin(ledger.Batch{ID: id, Root: root.ID, Dir: home, Count: n, Started: time.Now()}); err != nil {
			return nil, errors.Join(err, r.Close())
		}
	}
	const writers = 64 // whose results are made durable together
	var wg sync.WaitGroup
	errs := make([]error, writers)
	for w := range writers {
		wg.Go(func() {
			for i := w; i < n && errs[w] == nil; i += writers {
				batch := ""
				switch {
				case live || i < n/2:
					batch = batches[len(batches)-1] // the newest, which is listed
				case i < n*3/4:
					batch = batches[i%len(batches)]
				}
				errs[w] = recordOne(r, ledger.Execution{ID: task.NewID(), Root: root.ID, Batch: batch, Agent: "default",
					Model: "extract", Task: "Summarize a file", Key: fmt.Sprint(i), Index: i, Dir: home, Queued: time.Now()})
			}
		})
	}
	wg.Wait()
	if live {
		return r.Close, errors.Join(errs...)
	}
	for _, id := range batches {
		errs = append(errs, r.End(id, task.Completed, task.Usage{}))
	}
	return func() error { return nil }, errors.Join(append(errs, r.Close())...)
}

// recordOne records an execution that has succeeded.
func recordOne(r *ledger.Recorder, e ledger.Execution) error {
	if err := r.Claim(e); err != nil {
		return err
	}
	res := task.Task{Text: e.Task}.Ended(task.Completed, "")
	res.Output = strings.Repeat("A sentence of an answer. ", 10)
	return r.Finish("", e.ID, res)
}
