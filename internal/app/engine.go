package app

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/urfave/cli/v2"

	"qq/internal/childlog"
	"qq/internal/config"
	"qq/internal/proc"
	"qq/internal/toolbox"
	"qq/pkg/agents"
	"qq/pkg/childproc"
	"qq/pkg/dispatch"
	"qq/pkg/event"
	"qq/pkg/supervisor"
	"qq/pkg/task"
)

// stopGrace is what a child gets at each step of the stop ladder.
const stopGrace = time.Second

// engine is the wired house. Making one costs next to nothing: what a prompt
// that needs no child does not use is made when it is first needed.
type engine struct {
	root    *root
	cfg     config.Config
	dir     string
	env     environment
	agents  *agents.Registry
	models  *models
	stream  *event.Stream // nil when nobody wants events
	log     *childlog.Log
	host    *proc.Host
	scratch *scratch
	*dispatch.Dispatcher
}

// engineOptions are what a command says about the engine that it needs.
type engineOptions struct {
	sinks    []event.Sink
	readOnly bool
	deadline time.Time
}

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
		if s.Flag != "" && c.IsSet(s.Flag) {
			flags[s.Flag] = fmt.Sprint(c.Value(s.Flag))
		}
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

// newEngine wires the house.
func (r *root) newEngine(cfg config.Config, dir string, o engineOptions) (*engine, error) {
	e := &engine{
		root: r, cfg: cfg, dir: dir, env: r.env, host: proc.NewHost(),
		agents:  loadAgents(dir, r.env),
		models:  &models{host: cfg.OllamaHost, run: cfg.Model, say: r.note},
		log:     childlog.New(cfg.LogDir),
		scratch: &scratch{dir: filepath.Join(cfg.Home, "run")},
	}
	if len(o.sinks) > 0 {
		e.stream = event.NewStream(uuid.NewString(), o.sinks...)
	}
	exe, err := executable()
	if err != nil {
		return nil, err
	}
	launcher := childproc.NewLauncher(childproc.Config{
		Host: e.host, Path: exe, Version: Version(), Args: childArgs(os.Args[0]),
		Env:     append(config.ChildEnv(r.env), cfg.Environ()...),
		Scratch: e.scratch.folder, Keep: filepath.Join(cfg.Home, "outputs"),
		MaxOutput: cfg.MaxOutput, Grace: stopGrace,
		Prepare: func(j task.Job) (childproc.Start, error) { return e.prepare(j, o.readOnly) },
		Event:   e.stream.Emit,
	})
	e.Dispatcher = dispatch.New(dispatch.Config{
		Limits: e.limits(), Depth: cfg.Depth, Deadline: o.deadline, Agents: e.agents, Launcher: children{launcher},
		Events: e.stream, Log: e.log, NewID: newID,
	})
	r.signals.killWith(e.host.Close)
	r.signals.listen()
	r.engine = e
	return e, nil
}

// children fits the launcher of child processes to the supervisor.
type children struct{ *childproc.Launcher }

// Stage implements supervisor.Stager.
func (c children) Stage(job task.Job) supervisor.Staged {
	if s := c.Launcher.Stage(job); s != nil {
		return s
	}
	return nil // and not a nil pointer in an interface
}

func (e *engine) limits() task.Limits {
	return task.Limits{
		ChildTimeout: e.cfg.ChildTimeout, MaxParallel: e.cfg.MaxParallel, MaxDepth: e.cfg.MaxDepth,
		MaxChildren: e.cfg.MaxChildren, MaxOutput: e.cfg.MaxOutput,
	}
}

// staff finds the agent for a task, and the model: that of the task, of the
// agent, or of the run.
func (e *engine) staff(t task.Task) (agents.Agent, model, error) {
	agent, err := e.agents.Lookup(t.Agent)
	if err != nil {
		return agents.Agent{}, model{}, err
	}
	m, err := e.models.resolve(e.root.ctx, cmp.Or(t.Model, agent.Model))
	return agent, m, err
}

// prepare says what the child for job needs to know.
func (e *engine) prepare(job task.Job, readOnly bool) (childproc.Start, error) {
	agent, m, err := e.staff(job.Task)
	if err != nil {
		return childproc.Start{}, err
	}
	backend, err := json.Marshal(m)
	if err != nil {
		return childproc.Start{}, err
	}
	return childproc.Start{
		Agent: agent, ReadOnly: readOnly || job.ReadOnly, Schema: job.Schema, Backend: backend,
		CanDelegate: job.Depth+1 < e.cfg.MaxDepth, Events: e.stream.Wanted(),
	}, nil
}

func (e *engine) close() {
	e.host.Close()
	e.scratch.remove()
	if err := e.log.Close(); err != nil {
		e.root.say("%v", err)
	}
}

// executable is the program that children run: this one, even when the file was
// replaced meanwhile.
func executable() (string, error) {
	const self = "/proc/self/exe"
	if _, err := os.Lstat(self); err == nil {
		return self, nil
	}
	exe, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the program of qq: %w", err)
	}
	return exe, nil
}

// childArgs is the command line of a child: one that a person could type.
func childArgs(self string) func(string) []string {
	return func(agent string) []string { return []string{self, "--agent", agent, "--new-session", "-m", "-"} }
}

// newID makes an execution id: ordered by time, unique without asking anybody.
func newID() string {
	id, err := uuid.NewV7()
	if err != nil {
		return uuid.NewString()
	}
	return id.String()
}

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

// roster lists the agents that can be asked.
func roster(reg *agents.Registry) []toolbox.AgentInfo {
	var infos []toolbox.AgentInfo
	for _, entry := range reg.List() {
		if entry.Err == nil {
			infos = append(infos, toolbox.AgentInfo{Name: entry.Agent.Name, Description: entry.Agent.Description, Role: entry.Agent.Role})
		}
	}
	return slices.Clip(infos)
}

// errStdoutClosed ends a run whose reader went away.
var errStdoutClosed = errors.New("stdout was closed")

// loadAgents finds the agents for work in dir.
func loadAgents(dir string, env environment) *agents.Registry {
	return agents.Load(agents.Dirs(dir, configHome(env)))
}
