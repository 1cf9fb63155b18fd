package dispatch

import (
	"context"

	"qq/pkg/supervisor"
	"qq/pkg/task"
)

var _ supervisor.Stager = vetting{}

// staged is a job that is ready, under the same rules.
type staged struct {
	vetting
	supervisor.Staged
}

// Launch implements supervisor.Launcher.
func (s staged) Launch(ctx context.Context, job task.Job) task.Result {
	return s.vetting.Launch(ctx, job)
}

// Stage implements supervisor.Stager, as far as the launcher below does.
func (v vetting) Stage(job task.Job) supervisor.Staged {
	stager, ok := v.next.(supervisor.Stager)
	if !ok {
		return nil
	}
	ready := stager.Stage(job)
	if ready == nil {
		return nil
	}
	return staged{vetting{v.d, ready}, ready}
}
