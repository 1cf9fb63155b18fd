package batch

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"qq/internal/app/batch/planned"
	"qq/internal/app/batch/report"
	"qq/internal/app/checks"
	"qq/internal/app/command"
	"qq/internal/app/output"
	"qq/internal/taskfile"
	"qq/pkg/supervisor"
	"qq/pkg/task"
)

// batchRun is the state of one batch.
type batchRun struct {
	*command.Invocation
	process  Process
	runner   Runner
	o        batchOptions
	start    time.Time
	id       string          // of the batch
	spool    *taskfile.Spool // the tasks
	inputs   []string        // files that the tasks come from
	staffing []staff         // of the tasks
	planned  planned.Batch
	readOnly bool         // no task may change anything
	given    checks.Vouch // who stands for the checks of the tasks
	// folders are the real paths of the working directories of tasks when these were read, by their names in the input.
	folders map[string]string
	to      target
	results resultFolder
	report  *report.Report
}

// dryRun prints the tasks and how long texts would be cut, and runs nothing.
func (b *batchRun) dryRun(ctx context.Context) error {
	past := b.runner.History()
	switch {
	case b.o.format == planned.Mermaid:
		_, err := b.Out.WriteString(planned.Chart(b.planned.Describe(past)))
		return output.WriteError(err)
	case b.o.format == output.JSON && b.planned.Plan != nil:
		return output.WriteJSON(b.Out, b.planned.Describe(past))
	case b.planned.Plan != nil && (b.o.format == output.Markdown || b.o.format == output.StreamJSON):
		return command.Usagef("text, json, jsonl and mermaid show the plan",
			"--output-format %s is for results, and --dry-run has none", b.o.format)
	}
	lines := b.planned.Lines(past)
	n := 0
	p := planner{Runner: b.runner, unknown: map[staff]string{}}
	for t, err := range b.tasks() {
		if err != nil {
			return err
		}
		n++
		plan, err := p.plan(ctx, t)
		if err != nil {
			return err
		}
		if b.o.format == output.Text {
			text := fmt.Sprintf("%s\t%s\t%s\n", lines.Name(n-1), t.Agent, task.Shorten(t.Text, 200))
			for _, line := range append(lines.Waits(n-1), plan...) {
				text += "\t" + line + "\n"
			}
			_, err = b.Out.WriteString(command.Printable(planned.Fit(text, b.Out.Width())))
			err = output.WriteError(err)
		} else {
			err = output.WriteJSON(b.Out, struct {
				task.Task
				Plan []string `json:"plan,omitempty"`
			}{t, plan})
		}
		if err != nil {
			return err
		}
	}
	if b.o.format != output.Text {
		return nil
	}
	_, err := b.Out.WriteString(command.Printable(planned.Fit(lines.Summary, b.Out.Width())))
	return output.WriteError(err)
}

// minDocument is the smallest text, in bytes, that a dry run measures. A shorter one fits
// every model, so the model server need not be asked.
const minDocument = 4 << 10

// planner plans the tasks of a dry run. It asks a model server that is away once only.
type planner struct {
	Runner
	unknown map[staff]string // why there is no plan
}

// staff is an agent and its model.
type staff struct{ agent, model string }

// plan lists how the text of t would be cut, or says that this is not known. The list is empty if the text fits the
// model.
func (p planner) plan(ctx context.Context, t task.Task) ([]string, error) {
	if t.Broken != "" {
		return []string{"it will fail: " + task.Line(t.Broken)}, nil
	}
	if len(t.Text)+len(t.Context) < minDocument {
		return nil, nil
	}
	who := staff{t.Agent, t.Model}
	if p.unknown[who] == "" {
		plan, err := p.Plan(ctx, t)
		if task.StatusOf(err) != task.Unavailable {
			return plan, err
		}
		problem, _ := task.Explain(err)
		p.unknown[who] = "how it would be cut is not known: " + problem
	}
	return []string{p.unknown[who]}, nil
}

// do runs the tasks and prints their results in input order. It records the status of the
// batch at the end, even after an error.
func (b *batchRun) do(ctx context.Context) error {
	outcome := task.Failed
	defer func() {
		if err := b.runner.History().Settle(outcome, b.runner.Used()); err != nil {
			command.Report(b.Err, err) // errors of single results were reported before
		}
	}()
	if err := cmp.Or(b.to.clear(), b.clearFolder()); err != nil {
		return err
	}
	next, stop := iter.Pull2(b.spool.Tasks())
	defer stop()
	p := b.newPrinter(next)
	var hint sync.WaitGroup
	ended := make(chan struct{})
	if b.o.bar {
		hint.Go(func() { b.hintUnfinished(ctx, ended) })
	}
	b.planned.Announce(b.id, b.runner.History())
	b.JSON = b.JSON && b.o.output != "" // from now on stdout gets results only, no JSON error
	runErr := b.runner.Batch(ctx, supervisor.Batch{
		ID: b.id, Tasks: b.tasks(), Count: b.spool.Len(), Results: p, Plan: b.planned.Plan,
		Halt: p.halt, Pace: b.o.start.pace(b), Stop: b.process.Stop(),
	})
	close(ended)
	hint.Wait()
	outcome, runErr = p.end(runErr)
	return runErr
}
