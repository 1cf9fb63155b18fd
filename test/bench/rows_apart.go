package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// measureApart measures what a copy of the folder costs a task that writes one file: an overlay, against a task that
// works in the folder itself. The tasks run one after another in a folder of 2000 files.
func measureApart(ctx context.Context, b *bench) ([]line, error) {
	n := b.pick(40, 10)
	us, err := b.interleave(b.pick(5, 1),
		func() (used, error) { return b.writers(ctx, n, "overlay") },
		func() (used, error) { return b.writers(ctx, n, "off") },
	)
	if err != nil {
		return nil, err
	}
	apart, there := median(column(us[0], perTask(n, wall))), median(column(us[1], perTask(n, wall)))
	what := fmt.Sprintf("%d tasks that write, -j 1: wall time a task, in an overlay over in place", n)
	return []line{within(what, apart-there, there, 20*time.Millisecond)}, nil
}

// writers runs a batch of n tasks that write a file each.
func (b *bench) writers(ctx context.Context, n int, isolate string) (used, error) {
	dir, env, done, err := b.home()
	if err != nil {
		return used{}, err
	}
	defer done()
	tree, tasks := filepath.Join(dir, "tree"), filepath.Join(dir, "tasks.jsonl")
	for i := range 20 {
		folder := filepath.Join(tree, fmt.Sprint(i))
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return used{}, err
		}
		for j := range 100 {
			if err := os.WriteFile(filepath.Join(folder, fmt.Sprint(j)), []byte("a file\n"), 0o600); err != nil {
				return used{}, err
			}
		}
	}
	var text []byte
	for i := range n {
		s := step{"write_file", 1, map[string]string{"path": fmt.Sprintf("%d/new%d", i%20, i), "content": "written\n"}}
		line, err := json.Marshal(map[string]string{"task": s.String()})
		if err != nil {
			return used{}, err
		}
		text = append(append(text, line...), '\n')
	}
	if err := os.WriteFile(tasks, text, 0o600); err != nil {
		return used{}, err
	}
	run := batch{tasks: n, jobs: 1, model: "script", flags: []string{"--agent", "coder", "--allow", "write_file",
		"--isolate", isolate, "-o", filepath.Join(dir, "stdout")}}
	u, err := b.batchCommand(run, tree, env, tasks).run(ctx)
	if err != nil {
		return u, err
	}
	if _, err := os.Stat(filepath.Join(tree, "0/new0")); err != nil {
		return u, err
	}
	return u, successes(filepath.Join(dir, "stdout"), n)
}
