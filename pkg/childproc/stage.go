package childproc

import (
	"context"

	"qq/pkg/childproc/room"
	"qq/pkg/supervisor"
	"qq/pkg/task"
)

// staged is a child that waits for its job to get a slot.
type staged struct {
	launcher *Launcher
	child    *child // nil when it waits no more
}

// Stage implements supervisor.Stager: it starts the process for job before the job has a slot. It
// returns nil if that fails; Launch then tries again and reports the error.
func (l *Launcher) Stage(job task.Job) supervisor.Staged {
	// Those that wait for a slot could hold the files that those with a slot wait for.
	if _, many := room.Files(l.children.Load()); !many {
		return nil
	}
	c, err := l.spawn(job)
	if err != nil {
		return nil
	}
	s := &staged{l, c}
	l.starting.Lock()
	defer l.starting.Unlock()
	l.waiting[s] = struct{}{}
	return s
}

// relieve ends all staged children: a job that has a slot could not be started, and they may have what
// it needs.
func (l *Launcher) relieve() {
	l.starting.Lock()
	all := l.waiting
	l.waiting = map[*staged]struct{}{}
	l.starting.Unlock()
	for s := range all {
		s.Discard()
	}
}

// take returns the child, which then waits no more, or nil.
func (s *staged) take() *child {
	s.launcher.starting.Lock()
	defer s.launcher.starting.Unlock()
	delete(s.launcher.waiting, s)
	c := s.child
	s.child = nil
	return c
}

// Launch implements supervisor.Staged. If the waiting process has ended, Launch starts a new one:
// the first one cannot have done anything yet.
func (s *staged) Launch(ctx context.Context, job task.Job, p supervisor.Parent) task.Result {
	if c := s.take(); c != nil {
		select {
		case <-c.proc.Done():
			c.close()
		default:
			return c.lead(ctx, job, p)
		}
	}
	return s.launcher.Launch(ctx, job, p)
}

// Discard implements supervisor.Staged.
func (s *staged) Discard() {
	if c := s.take(); c != nil {
		c.proc.Kill()
		c.proc.Wait()
		c.launcher.cfg.Program.Tidy(c.job)
		c.close()
	}
}
