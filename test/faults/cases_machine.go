package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// faultWait makes qq give up soon.
const faultWait = "QQ_FAULT_WAIT=3"

// undisturbed plays a batch during which disturb makes something go wrong and right again. The batch
// ends as if nothing had happened.
func (s *stage) undisturbed(n, jobs int, disturb func(p *process) error) error {
	tasks, err := s.tasks("tasks", n, 0)
	if err != nil {
		return err
	}
	elsewhere := filepath.Join(s.dir, "tasks") // the working directory may go away
	if err := errors.Join(os.Rename(tasks, elsewhere), os.Chmod(elsewhere, 0o644)); err != nil {
		return err
	}
	p, err := s.startBatch(batch{tasks: elsewhere, model: "echo20", jobs: jobs})
	if err != nil {
		return err
	}
	if err := disturb(p); err != nil {
		return err
	}
	e, list, err := p.results()
	if err != nil {
		return err
	}
	s.survived(e, list, n)
	s.attempts(list, 1)
	s.expect(s.row.requests == n, "%d requests, expected %d", s.row.requests, n)
	return nil
}

// limited has qq started with a limit on what it may use.
func (s *stage) limited(flag string) error {
	path, err := exec.LookPath("prlimit")
	if err != nil {
		return skip("no prlimit")
	}
	s.under = append(s.under, path, flag)
	return nil
}

// nothing disturbs nothing.
func nothing(*process) error { return nil }

// fewDescriptors: 16 tasks are to run at once, and qq may open 64 files. Fewer run at once.
func fewDescriptors(s *stage) error {
	if err := s.limited("--nofile=64:64"); err != nil {
		return err
	}
	return s.undisturbed(s.pick(300, 100), 16, nothing)
}

// fewProcesses: the user of qq may have only some processes and threads. What cannot start waits.
func fewProcesses(s *stage) error {
	const user = 64018
	path, err := exec.LookPath("setpriv")
	if os.Geteuid() != 0 || err != nil {
		return skip("needs root and setpriv, to become a user without any process")
	}
	s.under = []string{path, fmt.Sprintf("--reuid=%d", user), fmt.Sprintf("--regid=%d", user), "--clear-groups"}
	if err := s.limited("--nproc=90"); err != nil {
		return err
	}
	if err := os.Chmod(s.house.dir, 0o755); err != nil {
		return err
	}
	if above, err := os.Stat(filepath.Dir(s.house.dir)); err != nil || above.Mode()&0o001 == 0 {
		return skip("another user cannot get to the temporary folder")
	}
	err = filepath.WalkDir(s.dir, func(path string, _ os.DirEntry, err error) error {
		if err == nil {
			err = os.Chown(path, user, user)
		}
		return err
	})
	if err != nil {
		return err
	}
	return s.undisturbed(s.pick(100, 40), 16, nothing)
}

// awayFor moves a folder away when 20 tasks have been asked, and back after that time.
func (s *stage) awayFor(path string, d time.Duration) func(*process) error {
	return func(p *process) error {
		if err := p.asked(20); err != nil {
			return err
		}
		if err := os.Rename(path, path+".away"); err != nil {
			return err
		}
		<-time.After(d)
		return os.Rename(path+".away", path)
	}
}

// homeAway: QQ_HOME is away for two seconds, as a network folder may be.
func homeAway(s *stage) error { return s.undisturbed(100, 8, s.awayFor(s.home, 2*time.Second)) }

// workAway: the same with the working directory.
func workAway(s *stage) error { return s.undisturbed(100, 8, s.awayFor(s.work, 2*time.Second)) }

// homeAwayForGood: QQ_HOME comes back only when qq has given up. Plain --resume does what is left.
func homeAwayForGood(s *stage) error {
	s.env = append(s.env, faultWait)
	g, err := s.newSaga("batch", 100, 0)
	if err != nil {
		return err
	}
	p, err := g.start()
	if err != nil {
		return err
	}
	if err := p.asked(20); err != nil {
		return err
	}
	if err := os.Rename(s.home, s.home+".away"); err != nil {
		return err
	}
	e, err := p.wait()
	if err != nil {
		return err
	}
	if err := os.Rename(s.home+".away", s.home); err != nil {
		return err
	}
	s.expect(e.code == 3, "exit code %d, expected 3: %.500q", e.code, e.stderr)
	s.inTime(e.took, 3*time.Second, 30*time.Second)
	if err := g.look(); err != nil {
		return err
	}
	g.unrecorded(e)
	return g.finish()
}

// diskFullForAWhile: the disk with all of qq's files becomes full in the middle of a batch, and has
// space again after two seconds.
func diskFullForAWhile(s *stage) error {
	if err := s.smallDisk(s.home, "24m"); err != nil {
		return err
	}
	tasks, err := s.tasks("tasks", 100, 0)
	if err != nil {
		return err
	}
	p, err := s.startBatch(batch{tasks: tasks, model: "echo20", jobs: 8})
	if err != nil {
		return err
	}
	if err := p.asked(20); err != nil {
		return err
	}
	filler := filepath.Join(s.home, "filler")
	if err := fill(filler); err != nil {
		return err
	}
	<-time.After(2 * time.Second)
	if err := os.Remove(filler); err != nil {
		return err
	}
	e, list, err := p.results()
	if err != nil {
		return err
	}
	s.row.lost += len(list)
	for _, r := range list {
		if r.Status == "completed" {
			s.row.lost--
		}
	}
	s.expect(e.code == 0 && len(list) == 100, "exit code %d with %d results: %.500q", e.code, len(list), e.stderr)
	return nil
}
