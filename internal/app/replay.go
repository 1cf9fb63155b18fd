package app

import (
	"context"

	"github.com/urfave/cli/v2"

	"qq/internal/app/batch"
	"qq/internal/app/gates"
	"qq/internal/app/replay"
	"qq/internal/app/staffing"
	"qq/pkg/llm"
	"qq/pkg/task"
)

// Rehearse implements replay.Process.
func (r *root) Rehearse(c *cli.Context) (replay.Stage, error) {
	set, dir, err := r.Trust(c)
	if err != nil {
		return nil, err
	}
	return r.wire("replay", batch.Needs{Settings: set, Dir: dir, NoLedger: true})
}

// Offer implements replay.Stage.
func (w *wiring) Offer(ctx context.Context, o replay.Order) (offer replay.Offer, err error) {
	job := task.Job{Task: task.Task{Agent: o.Agent, Model: o.Model}, Depth: o.Depth, Parent: o.Parent, BatchID: o.Batch}
	def, m, err := w.Staff(ctx, job.Task)
	if err != nil {
		return offer, err
	}
	seats, err := w.Seats(ctx, def, m, job.Task)
	if err != nil {
		return offer, err
	}
	a := w.agent(zeroRun{Agent: def, System: o.System})
	a.Setup, a.Process.Dir = w.plannedSetup(def, job), o.Dir
	begins, model, end, err := staffing.Offer(seats[0], a, job, o.Generated, entrance{w.gates})
	return replay.Offer{System: begins.System, Tools: begins.Tools, Schema: begins.Schema, MaxTurns: begins.MaxTurns,
		Name: m.String(), Model: model, End: end}, err
}

// entrance is the gates for requests that no job makes.
type entrance struct{ *gates.Gates }

// Enter implements llm.Admission.
func (e entrance) Enter(ctx context.Context, model string, again bool) (llm.Permit, error) {
	return e.Gates.Enter(ctx, model, again, nil)
}
