package app

import (
	"cmp"
	"fmt"
	"os"
	"time"

	"qq/internal/app/batch"
	"qq/internal/app/command"
	"qq/internal/app/narrator"
	"qq/internal/app/output"
	"qq/internal/app/permissions"
	"qq/internal/app/steering"
	"qq/internal/approval"
	"qq/internal/record/ledger"
	"qq/internal/sandbox"
	"qq/internal/tools/web"
	"qq/internal/trace"
	"qq/pkg/event"
	"qq/pkg/task"
)

// wire makes the wiring for the command with that name, "run" or "batch". It also starts to
// handle signals, because from now on there may be children to end.
func (r *root) wire(name string, n batch.Needs) (*wiring, error) {
	set := n.Settings
	if set.Depth > 0 && set.Depth >= set.MaxDepth {
		// Commands of agents may start qq, which may run agents, and so on.
		return nil, &task.Error{
			Status:  task.Limit,
			Problem: fmt.Sprintf("Error: Maximum recursion depth (%d) exceeded", set.MaxDepth),
			Hint:    "it was started by an agent's command; raise QQ_MAX_DEPTH, or let one agent do the work",
		}
	}
	if n.Strict && !sandbox.Probe().Enforced() {
		return nil, command.Usagef("leave --strict-targets out: what a task changes outside of its targets is reported",
			"the kernel has no sandbox (Landlock) that keeps commands to the targets of their task")
	}
	policy, err := permissions.Policy(r.Invocation, set)
	if err := cmp.Or(err, permissions.CheckWritable(set)); err != nil {
		return nil, err
	}
	search, err := web.NewSearch(set.Search, r.Env.Get)
	if err != nil {
		return nil, command.Usage(err)
	}
	cfg := wiringConfig{
		Settings: set, Policy: policy, Environ: r.Env, Dir: n.Dir, Version: Version(), Agents: r.Checkout.Agents,
		Trusted: r.Checkout.TrustedAgents(), Decided: r.Checkout.Store,
		Search: search, ReadOnly: n.ReadOnly, Repairs: n.Repairs, Strict: n.Strict,
		Person: r, Screen: r.Screen,
		Batch: name == "batch", Verbose: n.Verbose, Undo: n.Undo,
		ID: task.NewID(), Trace: event.StartTrace(r.Env.Get("TRACEPARENT")),
	}
	if !n.NoLedger { // it is opened when something has to be recorded
		r.ledger = ledger.NewRecorder(set.Home,
			ledger.Root{ID: cfg.ID, Started: time.Now(), Dir: n.Dir, Command: name, Slots: set.MaxParallel},
			ledger.Options{Keep: time.Duration(set.KeepRuns) * 24 * time.Hour})
		cfg.Ledger = r.ledger
	}
	cfg.Sinks = r.sinks(n)
	if r.exporter, err = trace.Begin(r.Env.Get, Version(), cfg.ID, cfg.Trace); err != nil {
		r.Say("no traces are exported: %v", err) // often set for the whole machine: the run continues
	}
	if r.exporter != nil {
		cfg.Sinks = append(cfg.Sinks, r.exporter)
	}
	if approval.Mode(set.Approve) == approval.Ask {
		cfg.Prompter, cfg.Lasting = r.prompter(), permissions.Lasting(r.Invocation, policy.Root)
	}
	w, err := newWiring(cfg)
	if err != nil {
		return nil, err
	}
	r.openSocket(w, name)
	r.signals.KillWith(w.Kill, func() {
		_ = w.Close() // there is nobody left to tell
		os.Exit(r.signals.Code())
	})
	r.signals.Listen()
	r.wiring = w
	return w, nil
}

// sinks returns the readers of events: a script if n.Events is set, and a person if
// n.Verbose is set.
func (r *root) sinks(n batch.Needs) []event.Sink {
	var sinks []event.Sink
	if n.Events != nil {
		sinks = append(sinks, event.SinkFunc(func(e event.Event) {
			// If nobody reads the events any more, the run ends.
			if err := output.WriteJSON(n.Events, e); err != nil {
				r.signals.Lose(err)
			}
		}))
	}
	if n.Verbose {
		narrator := narrator.New(r.Err.Raw(), r.Coloured(r.Err))
		sinks = append(sinks, event.SinkFunc(narrator.Event))
	}
	return sinks
}

// Wire implements batch.Process.
func (r *root) Wire(n batch.Needs) (batch.Runner, error) {
	return r.wire("batch", n)
}

// Show implements batch.Process.
func (r *root) Show(s output.Shown) {
	steering.NewFace(r.Invocation, r.wiring.socket.Local(), r.signals.Ends(), s)
}

// Stop implements batch.Process.
func (r *root) Stop() <-chan struct{} { return r.signals.Ends() }

// Signalled implements batch.Process.
func (r *root) Signalled() int { return r.signals.Code() }
