package app

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"time"

	"qq/internal/app/batch"
	"qq/internal/app/command"
	"qq/internal/app/output"
	"qq/internal/approval"
	"qq/internal/record/ledger"
	"qq/internal/tools/web"
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
	if err := cmp.Or(checkTools(set), checkWritable(set)); err != nil {
		return nil, err
	}
	search, err := web.NewSearch(set.Search, r.Env.Get)
	if err != nil {
		return nil, command.Usage(err)
	}
	cfg := wiringConfig{
		Settings: set, Environ: r.Env, Dir: n.Dir, Version: Version(), Agents: r.Env.Agents(n.Dir),
		Search: search, ReadOnly: n.ReadOnly, Note: r.Note,
		ID: task.NewID(), Trace: event.StartTrace(r.Env.Get("TRACEPARENT")),
	}
	if n.Screen != nil {
		cfg.Note = func(format string, args ...any) {
			defer n.Screen.Hold()()
			r.Note(format, args...)
		}
	}
	if !n.NoLedger { // it is opened when something has to be recorded
		r.ledger = ledger.NewRecorder(set.Home,
			ledger.Root{ID: cfg.ID, Started: time.Now(), Dir: n.Dir, Command: name},
			ledger.Options{Keep: time.Duration(set.KeepRuns) * 24 * time.Hour})
		cfg.Ledger = r.ledger
	}
	cfg.Sinks = r.sinks(n)
	if r.startExporter(cfg.ID, cfg.Trace); r.exporter != nil {
		cfg.Sinks = append(cfg.Sinks, r.exporter)
	}
	if approval.Mode(set.Approve) == approval.Ask {
		cfg.Prompter = r.prompter(n.Screen)
	}
	w, err := newWiring(cfg)
	if err != nil {
		return nil, err
	}
	r.signals.killWith(w.Kill, func() {
		_ = w.Close() // there is nobody left to tell
		os.Exit(r.signals.code())
	})
	r.signals.listen()
	r.wiring = w
	return w, nil
}

// sinks returns the readers of events: a script if n.Events is set, and a person if
// n.Verbose is set. The progress line of n.Screen is removed while a line is printed for
// the person.
func (r *root) sinks(n batch.Needs) []event.Sink {
	var sinks []event.Sink
	if n.Events != nil {
		sinks = append(sinks, event.SinkFunc(func(e event.Event) {
			// If nobody reads the events any more, the run ends.
			if err := output.WriteJSON(n.Events, e); err != nil {
				r.signals.cancel(err)
			}
		}))
	}
	if n.Verbose {
		var w io.Writer = r.Err
		if n.Screen != nil {
			w = sharedWriter{w, n.Screen}
		}
		r.narrator = output.NewNarrator(w, r.Coloured(r.Err))
		sinks = append(sinks, event.SinkFunc(r.narrator.Event))
	}
	return sinks
}

// sharedWriter writes to a terminal that also shows the progress line of other. The
// progress line is removed during each write.
type sharedWriter struct {
	io.Writer
	other approval.Screen
}

// Write implements io.Writer.
func (s sharedWriter) Write(p []byte) (int, error) {
	defer s.other.Hold()()
	return s.Writer.Write(p)
}

// Wire implements batch.Process.
func (r *root) Wire(n batch.Needs) (batch.Runner, error) {
	return r.wire("batch", n)
}

// Stop implements batch.Process.
func (r *root) Stop() <-chan struct{} { return r.signals.stopCh }

// Signalled implements batch.Process.
func (r *root) Signalled() int { return r.signals.code() }
