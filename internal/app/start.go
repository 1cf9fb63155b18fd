package app

import (
	"fmt"
	"io"
	"os"

	"qq/internal/app/output"
	"qq/internal/approval"
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
	if cfg.Note == nil {
		cfg.Note = r.Note
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
// a person. Lines for the person keep other off the terminal; it may be nil.
func (r *root) sinks(format string, to func() io.Writer, verbose bool, other approval.Screen) []event.Sink {
	var sinks []event.Sink
	if format == output.StreamJSON {
		sinks = append(sinks, event.SinkFunc(func(e event.Event) {
			// When nobody reads it, the run ends.
			if err := output.WriteJSON(to(), e); err != nil {
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
