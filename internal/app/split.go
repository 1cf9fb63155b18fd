package app

import (
	"context"
	"fmt"

	"qq/internal/app/batch"
	"qq/internal/app/bounds"
	"qq/internal/app/command"
	"qq/internal/app/definitions"
	"qq/internal/app/folders"
	"qq/internal/app/planning"
	"qq/pkg/supervisor/ceiling"
	"qq/pkg/task"
)

// Split implements planning.Process. Nothing that the run starts may change anything.
func (r *root) Split(ctx context.Context, o planning.Order) (task.Result, error) {
	r.failing = o.Task
	set := o.Settings
	if set.Depth+1 >= set.MaxDepth {
		return task.Result{}, &task.Error{
			Status: task.Limit, Problem: fmt.Sprintf("Error: Maximum recursion depth (%d) exceeded", set.MaxDepth),
			Hint: "the tasks of a plan run one level deeper: raise QQ_MAX_DEPTH",
		}
	}
	ctx, cancel := bounds.WithTimeout(ctx, set)
	defer cancel()
	w, err := r.wire("plan", batch.Needs{
		Settings: set, Dir: o.Dir, ReadOnly: true, NoLedger: o.NoLedger, Verbose: o.Verbose,
	})
	if err != nil {
		return task.Result{}, err
	}
	one := &oneRun{r: r, w: w, task: o.Task}
	one.options.Session.Ephemeral = o.NoLedger
	one.Agent, one.MaxTurns, one.Plan, one.Signals = o.Agent, o.MaxTurns, o.Catcher, r.signals
	one.System = o.Agent.Prompt + planning.Instruction
	definitions.Warn(r.Invocation, set.Home, o.Agent)
	one.wait()
	defer one.waiting.Stop()
	if one.Model, err = w.Resolve(ctx, o.Task); err != nil {
		return task.Result{}, err
	}
	if !one.Model.CallsTools() {
		return task.Result{}, command.Usagef("name another one with --model; qq models shows which call tools",
			"%s calls no tools, and a plan is made of a call", one.Model)
	}
	transcript, err := one.keep()
	if err != nil {
		return task.Result{}, err
	}
	defer transcript.Close()
	one.Transcript = planning.Calls{Transcript: transcript, Catcher: o.Catcher}
	o.Catcher.Known, o.Catcher.Ceiling = r.Checkout.Agents, ceiling.Ceiling{
		Agent: o.Agent, Folders: folders.Rule{Private: w.private()}, Models: w.Desk,
	}
	res, err := one.ask(ctx)
	r.signals.Name(&res)
	return res, err
}
