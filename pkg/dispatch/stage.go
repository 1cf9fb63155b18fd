package dispatch

import (
	"context"

	"qq/pkg/supervisor"
	"qq/pkg/task"
)

var _ supervisor.Stager = vetting{}

// staged is a job that is ready, under the same rules.
type staged struct {
	supervisor.Staged
	d *Dispatcher
}

// Launch implements supervisor.Launcher.
func (s staged) Launch(ctx context.Context, job task.Job) task.Result {
	return s.d.launch(ctx, s.Staged, job)
}

// Stage implements supervisor.Stager, as far as the launcher below does.
func (v vetting) Stage(job task.Job) supervisor.Staged {
	stager, ok := v.next.(supervisor.Stager)
	if !ok {
		return nil
	}
	if _, err := v.d.Agent(job.Agent); err != nil {
		return nil // Launch will say so
	}
	ready := stager.Stage(job)
	if ready == nil {
		return nil
	}
	return staged{ready, v.d}
}
