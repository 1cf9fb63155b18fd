package app

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"qq/internal/app/output"
	"qq/internal/approval"
	"qq/internal/config"
	"qq/internal/engine"
	"qq/pkg/agents"
	"qq/pkg/event"
)

// configure reads the flags of c and the settings, after going to the working
// directory.
func (r *root) configure(c *cli.Context) (config.Config, string, error) {
	if dir := c.String("cwd"); dir != "" {
		if err := os.Chdir(dir); err != nil {
			return config.Config{}, "", usagef("-C takes a directory that exists", "go to the working directory: %v", err)
		}
	}
	dir, err := os.Getwd()
	if err == nil {
		_, err = os.Stat(dir)
	}
	if err != nil {
		return config.Config{}, "", usagef("the directory is gone: go to another one, or name one with -C", "find the working directory: %v", err)
	}
	flags := map[string]string{}
	for _, s := range config.Settings() {
		if s.Flag != "" && c.IsSet(s.Flag) && s.Kind != config.List {
			flags[s.Flag] = fmt.Sprint(c.Value(s.Flag))
		}
	}
	if err := permissions(c, flags); err != nil {
		return config.Config{}, "", err
	}
	cfg, err := config.Load(config.Input{Flags: flags, Environ: r.env, Dir: dir})
	if err != nil {
		return config.Config{}, "", err
	}
	r.quiet, r.plain = c.Bool("quiet"), c.Bool("no-color")
	for _, w := range cfg.Warnings {
		r.note("%s", w)
	}
	return cfg, dir, nil
}

// errTooDeep ends a qq that was started by hand too deep in a tree of tasks: a
// shell that starts qq, which starts a shell, has to end somewhere.
var errTooDeep = errors.New("\nhint: it was started by an agent's command; raise QQ_MAX_DEPTH, or let one agent do the work")

// newEngine wires the house as cfg says, and begins to take signals, for there
// are children to end now. other writes to the terminal beside the narrator; it may
// be nil.
func (r *root) newEngine(cfg engine.Config, other approval.Screen) (*engine.Engine, error) {
	if d := cfg.Settings.Depth; d > 0 && d >= cfg.Settings.MaxDepth {
		return nil, fmt.Errorf("Error: Maximum recursion depth (%d) exceeded%w", cfg.Settings.MaxDepth, errTooDeep)
	}
	cfg.Environ, cfg.Version = r.env, Version()
	if cfg.Note == nil {
		cfg.Note = r.note
	}
	if err := r.equip(&cfg, other); err != nil {
		return nil, err
	}
	r.traced(&cfg)
	e, err := engine.New(cfg)
	if err != nil {
		return nil, err
	}
	r.signals.killWith(e.Kill, func() {
		_ = e.Close() // there is nobody left to tell
		os.Exit(r.signals.code())
	})
	r.signals.listen()
	r.engine = e
	return e, nil
}

// sinks are the readers of events: a script that gets them on to, and a person
// who wants to know what is at work. That is written within aside, which takes what
// stands on the terminal out of the way; nil is nothing that does.
func (r *root) sinks(format string, to func() io.Writer, verbose bool, aside func(func() error) error) []event.Sink {
	var sinks []event.Sink
	if format == output.StreamJSON {
		sinks = append(sinks, func(e event.Event) {
			// When nobody takes it, the run ends: who went away does not want the rest.
			if err := output.WriteJSON(to(), e); err != nil {
				r.signals.cancel(err)
			}
		})
	}
	if verbose {
		var w io.Writer = r.Err
		if aside != nil {
			w = asideWriter{w, aside}
		}
		r.narrator = output.NewNarrator(w, r.coloured(r.Err))
		sinks = append(sinks, r.narrator.Event)
	}
	return sinks
}

// asideWriter writes to w within aside.
type asideWriter struct {
	w     io.Writer
	aside func(func() error) error
}

// Write implements io.Writer.
func (a asideWriter) Write(p []byte) (n int, err error) {
	err = a.aside(func() error { n, err = a.w.Write(p); return err })
	return n, err
}

// coloured reports whether f may show colour and animation.
func (r *root) coloured(f *os.File) bool { return !r.plain && output.Coloured(f, r.env.get) }

// configHome is the user's folder of settings.
func configHome(env environment) string {
	if dir := env.get("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return dir
	}
	if home := env.get("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".config")
	}
	return ""
}

// loadAgents finds the agents for work in dir.
func loadAgents(dir string, env environment) *agents.Registry {
	return agents.Load(agents.Dirs(dir, configHome(env)))
}
