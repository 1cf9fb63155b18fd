// Package engine wires the run of one process: supervisor, gate, record, models and
// the launchers of agents, here and in child processes.
//
// Flow: the root makes an [Engine] from its settings with [New]. [Engine.Run] runs the
// agent of this process; [Engine.Batch] runs tasks in children, and so does an agent
// that delegates. A child is the same program again: [Child] is what it does with its
// task. [Engine.Resolve] finds out, once for the whole tree, what there is to know
// about a [models.Model]; children get it in their start frame.
//
// Nothing here reads flags, prints lines or takes signals.
package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"qq/internal/app/scratch"
	"qq/internal/approval"
	"qq/internal/config"
	"qq/internal/models"
	"qq/internal/models/gate"
	"qq/internal/record"
	"qq/internal/record/ledger"
	"qq/internal/tools/astgrep"
	"qq/internal/tools/web"
	"qq/pkg/agents"
	"qq/pkg/childproc"
	"qq/pkg/event"
	"qq/pkg/proc"
	"qq/pkg/supervisor"
	"qq/pkg/task"
)

// StopGrace is what a child gets at each step of the stop ladder, which [Engine.Kill]
// does without.
const StopGrace = time.Second

// HandBack is what a child gets whose time is up to hand back what it has.
const HandBack = 5 * time.Second

// approvalTimeout is what a person gets to answer a question.
const approvalTimeout = 300 * time.Second

// Config is what an engine is made of.
type Config struct {
	Settings config.Config
	Environ  []string // of the process, for children to inherit from
	Dir      string   // the working directory
	Version  string   // of the program: children have to be of the same
	Agents   *agents.Registry
	Prompter approval.Prompter // asks a person; nil: nobody can be asked
	Search   web.Search        // where agents search the web; zero: nowhere
	Sinks    []event.Sink      // get every event; none of them costs nothing
	ReadOnly bool              // takes away what can change something, here and in children
	Deadline time.Time         // of the whole run; zero is none
	Note     func(format string, args ...any)
	ID       string           // execution id of this process, see [task.NewID]
	Trace    event.Trace      // that this run is a part of
	Ledger   *ledger.Recorder // keeps what is done; nil keeps nothing
}

// Engine is the wired run. Making one costs next to nothing: what a prompt that needs
// no child does not use is made when it is first needed.
type Engine struct {
	*supervisor.Supervisor
	cfg      Config
	id       string // execution id of this process
	gate     *gate.Gate
	several  atomic.Bool // agents share the gate
	record   *record.Record
	models   *models.Resolver
	stream   *event.Stream // nil when nobody wants events
	log      *record.ChildLog
	launcher *childproc.Launcher
	scratch  *scratch.Folder
	outputs  scratch.Outputs
	host     *proc.Host    // starts every process
	exe      string        // this program
	astGrep  func() string // the program for structural search; empty is none

	oneProcessor bool // children start with one
}

// New wires the run.
func New(cfg Config) (*Engine, error) {
	set := cfg.Settings
	e := &Engine{
		cfg:     cfg,
		id:      cmp.Or(cfg.ID, task.NewID()),
		models:  &models.Resolver{Host: set.OllamaHost, Run: set.Model, Notes: notes(cfg.Note), Retries: set.Retries},
		log:     record.NewChildLog(set.LogDir),
		scratch: &scratch.Folder{Dir: filepath.Join(set.Home, "run")},
		outputs: scratch.KeptIn(set.Home),
		host:    proc.NewHost(),
	}
	if len(cfg.Sinks) > 0 {
		e.stream = event.NewStream(cfg.Trace.TraceID(), cfg.Sinks...)
	}
	e.gate = gate.NewGate(gate.Config{
		MaxInFlight: set.MaxParallel, MaxTokens: set.MaxTokens, Retries: set.Retries, Notes: notes(e.remark),
	})
	e.record = record.New(record.Config{Ledger: cfg.Ledger, ID: e.id, Dir: cfg.Dir, Tasks: &past{Engine: e}})
	var err error
	if e.exe, err = executable(); err != nil {
		return nil, err
	}
	e.astGrep = sync.OnceValue(func() string {
		path, err := astgrep.Find(func(name string) string { return config.Getenv(cfg.Environ, name) })
		if err != nil {
			return "" // doctor says why
		}
		return path
	})
	e.launcher = childproc.NewLauncher(childproc.Config{
		Host: e.host, Path: e.exe, Version: cfg.Version, Env: e.childEnv(), Program: e, Keep: string(e.outputs),
		MaxOutput: set.MaxOutput, Grace: StopGrace, HandBack: HandBack,
	})
	e.Supervisor = supervisor.New(supervisor.Config{
		Limits: limits(set), ID: e.id, Depth: set.Depth, Deadline: cfg.Deadline, ReadOnly: cfg.ReadOnly,
		Agents: cfg.Agents, Launcher: e.launcher, Gate: admission{e}, Record: e.recorder(), Events: e.stream, Log: e.log, NewID: task.NewID,
		Approve: approval.NewQueue(approval.QueueConfig{
			Policy: policy(set), Prompter: cfg.Prompter, Timeout: approvalTimeout, Events: e.stream,
		}),
	})
	return e, nil
}

// oneProcessor starts a child with one processor.
const oneProcessor = "GOMAXPROCS=1"

// childEnv is the environment of children. Most of them do nothing but wait for
// their model: with one processor the scheduler of Go spends a tenth less on
// looking for work that is not there. Child takes more when it needs them.
func (e *Engine) childEnv() []string {
	env := append(config.ChildEnv(e.cfg.Environ), e.cfg.Settings.Environ()...)
	if e.oneProcessor = !slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, "GOMAXPROCS=") }); e.oneProcessor {
		env = append(env, oneProcessor)
	}
	return env
}

func limits(set config.Config) supervisor.Limits {
	return supervisor.Limits{
		Limits: task.Limits{
			ChildTimeout: set.ChildTimeout, IdleTimeout: set.IdleTimeout, Retries: set.Retries, SpawnRate: set.SpawnRate,
			MaxParallel: set.MaxParallel, MaxDepth: set.MaxDepth, MaxChildren: set.MaxChildren, MaxOutput: set.MaxOutput,
		},
		DefaultTimeout: set.Source("QQ_CHILD_TIMEOUT") == "default", DefaultIdle: set.Source("QQ_IDLE_TIMEOUT") == "default",
	}
}

// policy is what the settings say about calls.
func policy(set config.Config) approval.Policy {
	return approval.Policy{Mode: approval.Mode(set.Approve), Allow: set.Allow, Deny: set.Deny}
}

// Batch runs a stream of tasks that Check has passed, and keeps results that wait for
// slower ones in the scratch folder. What [Engine.History] was opened for is heeded.
func (e *Engine) Batch(ctx context.Context, b supervisor.Batch) error {
	spill := &scratch.Spill{In: e.scratch}
	defer spill.Close()
	b.Spill, b.Past, b.Tasks = spill, e.record, e.named(ctx, b.Tasks)
	b.Results = recorded{b.Results, e.record}
	e.several.Store(true)
	return errors.Join(e.Supervisor.Batch(ctx, b), e.record.Close())
}

// named hands on the tasks of a batch, each named as it was asked.
func (e *Engine) named(ctx context.Context, tasks iter.Seq2[task.Task, error]) iter.Seq2[task.Task, error] {
	return e.record.Tasks(ctx, tasks)
}

// recorded are results whose ends the record hears of.
type recorded struct {
	supervisor.Results
	record *record.Record
}

// Done implements supervisor.Results.
func (r recorded) Done(res task.Result) {
	r.record.Done(res)
	r.Results.Done(res)
}

// History is what this process has to do with those before it.
func (e *Engine) History() *record.Record { return e.record }

// ID is the execution id of this process.
func (e *Engine) ID() string { return e.id }

// modelName is the model that t is to be done with, as it is named: that of the
// task, of the flag, of the agent, or that of the run.
func (e *Engine) modelName(t task.Task) string {
	agent, err := e.Agent(t.Agent)
	if err != nil || t.Model != "" {
		return t.Model
	}
	if strings.HasPrefix(e.cfg.Settings.Source("QQ_MODEL"), "flag ") {
		return "" // who gives the flag means every agent
	}
	return agent.Model
}

// Staff finds the agent for a task, and the model: that of the task, of the flag,
// of the agent, or of the run.
func (e *Engine) Staff(ctx context.Context, t task.Task) (agents.Agent, models.Model, error) {
	agent, err := e.Agent(t.Agent)
	if err != nil {
		return agents.Agent{}, models.Model{}, err
	}
	m, err := e.Resolve(ctx, e.modelName(t))
	return agent, m, err
}

// Resolve finds out about the model of that name, once: "" for that of the run,
// [models.Auto], [models.Extract], "ollama:NAME", or the NAME alone.
func (e *Engine) Resolve(ctx context.Context, name string) (models.Model, error) {
	return e.models.Resolve(ctx, name)
}

// Kill ends every child at once.
func (e *Engine) Kill() { e.launcher.Close() }

// Close ends what is still at work and removes what was only for this run.
func (e *Engine) Close() error {
	e.Kill()
	e.scratch.Remove()
	return e.log.Close()
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
