package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"qq/internal/standin"
)

// childKilled: a child that has only read files is killed. Another child does its task.
func childKilled(s *stage) error {
	s.server.Strike(once(standin.Fault{Break: standin.Stall}))
	tasks, err := s.file("tasks.jsonl", `{"task":"Say something.","read_only":true}`+"\n")
	if err != nil {
		return err
	}
	p, err := s.killWaiting(batch{tasks: tasks, model: "fast", jobs: 1})
	if err != nil {
		return err
	}
	e, list, err := p.results()
	if err != nil {
		return err
	}
	s.survived(e, list, 1)
	s.attempts(list, 2)
	s.expect(s.row.requests == 2, "%d requests, expected 2", s.row.requests)
	return nil
}

// killWaiting starts b, and kills its child as soon as a request of the child hangs.
func (s *stage) killWaiting(b batch) (*process, error) {
	p, err := s.startBatch(b)
	if err != nil {
		return nil, err
	}
	child, err := p.hanging()
	if err != nil {
		return nil, err
	}
	return p, syscall.Kill(child, syscall.SIGKILL)
}

func (s *stage) attempts(list []result, want int) {
	for _, r := range list {
		s.expect(r.Attempts == want, "%d attempts, expected %d: %s", r.Attempts, want, r.err())
	}
}

// childKilledAfterWrite: a child that has written a file is killed. Its task is neither repeated
// nor a success, because nobody knows which side effects it had.
func childKilledAfterWrite(s *stage) error {
	p, err := s.killWriter("")
	if err != nil {
		return err
	}
	e, list, err := p.results()
	if err != nil {
		return err
	}
	s.expect(e.code == 4, "exit code %d, expected 4", e.code)
	s.expect(s.row.status == "1 unknown_outcome", "%s, expected 1 unknown_outcome", s.row.status)
	s.attempts(list, 1)
	for _, r := range list {
		s.expect(len(r.ChangedFiles) == 1, "changed files %q, expected one", r.ChangedFiles)
	}
	s.expect(s.row.requests == 2, "%d requests, expected 2", s.row.requests)
	return s.written()
}

// childKilledIdempotent: the same with a task that is marked as idempotent, which is repeated.
func childKilledIdempotent(s *stage) error {
	p, err := s.killWriter(`,"idempotent":true`)
	if err != nil {
		return err
	}
	e, list, err := p.results()
	if err != nil {
		return err
	}
	s.expect(e.code == 0 && s.row.status == "1 completed", "exit code %d, %s, expected 1 completed", e.code,
		s.row.status)
	s.attempts(list, 2)
	s.expect(s.row.requests == 4, "%d requests, expected 4", s.row.requests)
	return s.written()
}

// killWriter kills a child after it has written a file. more is added to its task.
func (s *stage) killWriter(more string) (*process, error) {
	s.server.Strike(standin.Rule{Role: "tool", Fault: standin.Fault{Times: 1, Break: standin.Stall}})
	const step = `{\"tool\":\"write_file\",\"times\":1,\"arguments\":{\"path\":\"file.txt\",\"content\":\"text\"}}`
	tasks, err := s.file("tasks.jsonl", fmt.Sprintf("{\"task\":\"%s\",\"agent\":\"coder\"%s}\n", step, more))
	if err != nil {
		return nil, err
	}
	return s.killWaiting(batch{tasks: tasks, model: "script", jobs: 1, flags: []string{"--auto-approve"}})
}

// written checks the file that the child wrote.
func (s *stage) written() error {
	b, err := os.ReadFile(filepath.Join(s.work, "file.txt"))
	s.expect(string(b) == "text", "the file holds %q", b)
	return err
}

// childStopped: a child is stopped (SIGSTOP) in the middle of its answer. It is ended when it has
// been inactive for too long; the other task is done.
func childStopped(s *stage) error {
	s.server.Strike(once(standin.Fault{Between: 500 * time.Millisecond}))
	tasks, err := s.tasks("tasks", 2, 0)
	if err != nil {
		return err
	}
	p, err := s.startBatch(batch{tasks: tasks, model: "fast", jobs: 1, env: []string{"QQ_IDLE_TIMEOUT=1"}})
	if err != nil {
		return err
	}
	child, err := p.hanging()
	if err != nil {
		return err
	}
	if err := syscall.Kill(child, syscall.SIGSTOP); err != nil {
		return err
	}
	_, err = s.oneFailed(p, "idle", 124)
	return err
}

// childOutOfMemory: a child gets less memory than it needs. The kernel kills it (in a memory
// cgroup, where one can be made) or refuses more memory (by a limit on its address space). The
// next attempt needs less. Other tasks are not affected.
func childOutOfMemory(s *stage) error {
	const limit = 40 << 20
	s.server.Strike(standin.Rule{Task: "Task 0 ", Fault: standin.Fault{Times: 1, BeforeFirst: time.Second,
		Say: 400 << 20}})
	tasks, err := s.tasks("tasks", 3, 0)
	if err != nil {
		return err
	}
	p, err := s.startBatch(batch{tasks: tasks, model: "vast", jobs: 1, flags: []string{"--read-only"}})
	if err != nil {
		return err
	}
	child, err := p.hanging()
	if err != nil {
		return err
	}
	how, err := s.limitMemory(child, limit)
	if err != nil {
		return err
	}
	e, list, err := p.results()
	if err != nil {
		return err
	}
	s.note("%s", how)
	s.survived(e, list, 3)
	if len(list) == 3 {
		s.attempts(list[:1], 2)
		s.attempts(list[1:], 1)
	}
	return nil
}

// limitMemory limits the memory of a process, and says by which means.
func (s *stage) limitMemory(pid, limit int) (how string, err error) {
	for _, c := range []struct{ dir, file string }{
		{"/sys/fs/cgroup", "memory.max"},
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
	} {
		group := filepath.Join(c.dir, filepath.Base(s.dir))
		if os.Mkdir(group, 0o700) != nil {
			continue
		}
		if put(filepath.Join(group, c.file), limit) != nil {
			_ = os.Remove(group) // the controller is not there
			continue
		}
		s.undo = append(s.undo, func() error { return os.Remove(group) })
		err := put(filepath.Join(group, "cgroup.procs"), pid)
		return fmt.Sprintf("a cgroup of %d MiB: the kernel kills it", limit>>20), err
	}
	out, err := exec.CommandContext(s.ctx, "prlimit", "--pid", fmt.Sprint(pid),
		fmt.Sprintf("--as=%d", 16*limit)).CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		return "", skip("neither a memory cgroup nor prlimit")
	}
	if err != nil {
		return "", fmt.Errorf("prlimit: %w: %s", err, out)
	}
	return fmt.Sprintf("an address space of %d MiB: the kernel refuses it more", 16*limit>>20), nil
}

// put writes a number into a file of the kernel, which must exist.
func put(path string, n int) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(f, n)
	return errors.Join(err, f.Close())
}
