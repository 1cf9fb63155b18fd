package jobs

import (
	"context"

	"qq/pkg/task"
)

// Expected are jobs that are listed before they are accepted, because they wait for others. A nil Expected has none.
type Expected struct {
	table *Table
	ctx   []context.Context // done when the job is to end
	ids   []string
}

// Expect returns an Expected without jobs.
func (t *Table) Expect() *Expected { return &Expected{table: t} }

// Add lists the next job.
func (e *Expected) Add(ctx context.Context, job task.Job) {
	ctx, cancel := context.WithCancelCause(ctx)
	job.Index = len(e.ids)
	e.table.Add(job, nil, cancel)
	e.ctx, e.ids = append(e.ctx, ctx), append(e.ids, job.ExecutionID)
}

// Accept gives the job at its index the id under which it is listed, and returns its context: else ctx.
func (e *Expected) Accept(ctx context.Context, job *task.Job) context.Context {
	if e == nil {
		return ctx
	}
	job.ExecutionID = e.ids[job.Index]
	return e.ctx[job.Index]
}

// End says that the job at that index has ended, or is not run.
func (e *Expected) End(index int) {
	if e != nil {
		e.table.Remove(e.ids[index])
	}
}
