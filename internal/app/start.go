package app

import (
	"fmt"
	"io"
	"os"
	"time"

	"qq/internal/app/batch"
	"qq/internal/app/output"
	"qq/internal/approval"
	"qq/internal/config"
	"qq/internal/record/ledger"
	"qq/pkg/event"
	"qq/pkg/task"
)

// newWiring wires the house as cfg says, and begins to take signals, for there
// are children to end now. other writes to the terminal beside the narrator; it may
// be nil.
func (r *root) newWiring(cfg wiringConfig, other approval.Screen) (*wiring, error) {
	if d := cfg.Settings.Depth; d > 0 && d >= cfg.Settings.MaxDepth {
		// A shell that starts qq, which starts a shell, has to end somewhere.
		return nil, &task.Error{Status: task.Limit, Problem: fmt.Sprintf("Error: Maximum recursion depth (%d) exceeded", cfg.Settings.MaxDepth),
			Hint: "it was started by an agent's command; raise QQ_MAX_DEPTH, or let one agent do the work"}
	}
	cfg.Environ, cfg.Version = r.Env, Version()
	if cfg.Note = r.Note; other != nil {
		cfg.Note = func(format string, args ...any) {
			defer other.Hold()()
			r.Note(format, args...)
		}
	}
	if err := r.equip(&cfg, other); err != nil {
		return nil, err
	}
	r.traced(&cfg)
	e, err := newWiring(cfg)
	if err != nil {
		return nil, err
	}
	r.signals.killWith(e.Kill, func() {
		_ = e.Close() // there is nobody left to tell
		os.Exit(r.signals.code())
	})
	r.signals.listen()
	r.wiring = e
	return e, nil
}

// sinks are the readers of events: a script that reads them from to, and with verbose
// a person. Lines for the person keep other off the terminal. Both may be nil.
func (r *root) sinks(to io.Writer, verbose bool, other approval.Screen) []event.Sink {
	var sinks []event.Sink
	if to != nil {
		sinks = append(sinks, event.SinkFunc(func(e event.Event) {
			// When nobody reads it, the run ends.
			if err := output.WriteJSON(to, e); err != nil {
				r.signals.cancel(err)
			}
		}))
	}
	if verbose {
		var w io.Writer = r.Err
		if other != nil {
			w = sharedWriter{w, other}
		}
		r.narrator = output.NewNarrator(w, r.Coloured(r.Err))
		sinks = append(sinks, event.SinkFunc(r.narrator.Event))
	}
	return sinks
}

// sharedWriter writes to a terminal that other writes to as well.
type sharedWriter struct {
	io.Writer
	other approval.Screen
}

// Write implements io.Writer.
func (s sharedWriter) Write(p []byte) (int, error) {
	defer s.other.Hold()()
	return s.Writer.Write(p)
}

// openLedger is the ledger of this run, nil where none is wanted. Nothing is
// opened before something has to be recorded.
func (r *root) openLedger(cfg config.Config, dir, command string, without bool) *ledger.Recorder {
	if without {
		return nil
	}
	r.id = task.NewID()
	r.ledger = ledger.NewRecorder(cfg.Home,
		ledger.Root{ID: r.id, Started: time.Now(), Dir: dir, Command: command}, ledger.Options{Keep: time.Duration(cfg.KeepRuns) * 24 * time.Hour})
	return r.ledger
}

// Wire implements batch.Process.
func (r *root) Wire(n batch.Needs) (batch.Runner, error) {
	return r.newWiring(wiringConfig{
		Settings: n.Settings, Dir: n.Dir, Agents: r.Env.Agents(n.Dir), ReadOnly: n.ReadOnly,
		Ledger: r.openLedger(n.Settings, n.Dir, "batch", n.NoLedger), Sinks: r.sinks(n.Events, n.Verbose, n.Screen),
	}, n.Screen)
}

// Stop implements batch.Process.
func (r *root) Stop() <-chan struct{} { return r.signals.stopCh }

// Signalled implements batch.Process.
func (r *root) Signalled() int { return r.signals.code() }
