package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// memoryLimit is how much memory the root may use at most, in KiB.
const memoryLimit = 64 << 10

// muchOutput: a child prints 1,000 MB. The root does not hold it in memory: the result that it
// passes on is cut and says so, and the output file has all of it.
func muchOutput(s *stage) error {
	bytes := s.pick(1000, 20) * 1_000_000
	available, err := kilobytes("/proc/meminfo", "MemAvailable")
	if err != nil {
		return err
	}
	if available<<10 < int64(8*bytes) {
		return skip(fmt.Sprintf("%d MB of memory are free: child and server may keep the answer some times over",
			available>>10))
	}
	tasks, err := s.tasks("tasks", 1, 0)
	if err != nil {
		return err
	}
	e, list, err := s.batch(batch{tasks: tasks, model: fmt.Sprintf("say%d", bytes), jobs: 1})
	if err != nil {
		return err
	}
	s.survived(e, list, 1)
	s.expect(e.peak <= memoryLimit, "the root used %d KiB, expected at most %d", e.peak, memoryLimit)
	s.note("%d MB of output, %.1f MiB in the root", bytes/1_000_000, float64(e.peak)/1024)
	for _, r := range list {
		s.expect(r.Truncated && strings.Contains(r.output(), "[Output truncated at 50000 chars]"),
			"truncated is %v, the output is %.100q", r.Truncated, r.output())
		info, err := os.Stat(r.OutputFile)
		if err != nil {
			return err
		}
		s.expect(info.Size() == int64(bytes), "the output file has %d bytes, expected %d", info.Size(), bytes)
	}
	return nil
}

// manyTasks: a batch of 100,000 tasks with the ledger. The memory of the root does not grow with
// their number.
func manyTasks(s *stage) error {
	n := s.pick(100_000, 2_000)
	tasks, err := s.tasks("tasks", n, 0)
	if err != nil {
		return err
	}
	out := filepath.Join(s.work, "out.jsonl")
	p, err := s.startBatch(batch{tasks: tasks, model: "echo", jobs: 4, flags: []string{"-o", out}})
	if err != nil {
		return err
	}
	e, err := p.wait()
	if err != nil {
		return err
	}
	s.row.played, s.row.exit, s.row.took, s.row.requests = true, e.code, e.took, s.server.Asked()
	s.expect(e.code == 0, "exit code %d: %.500q", e.code, e.stderr)
	f, err := os.Open(out)
	if err != nil {
		return err
	}
	defer f.Close()
	counts, i := map[string]int{}, 0
	for dec := json.NewDecoder(f); ; i++ {
		var r result
		if err := dec.Decode(&r); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
		if !s.check(r) {
			break
		}
		counts[r.Status]++
		if r.Status != "completed" || r.Index != i || r.output() != "You said: "+taskText("tasks", i, 0) {
			s.row.lost++
		}
	}
	s.row.lost += n - i
	s.row.status = tally(counts)
	for _, times := range s.server.Times() {
		s.row.doubled += times - 1
	}
	s.expect(e.peak <= memoryLimit, "the root used %d KiB, expected at most %d", e.peak, memoryLimit)
	s.note("%.1f MiB in the root, %.0f tasks a second", float64(e.peak)/1024, float64(n)/e.took.Seconds())
	return nil
}
