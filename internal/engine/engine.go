// Package engine is the wired house: one value that runs agents, here and in
// child processes.
//
// Flow: the root makes an [Engine] from its settings with [New]. [Engine.Run]
// runs the root's own agent in this process; [Engine.Batch] runs tasks in
// children, and so does an agent that delegates. A child is the same program
// again: it hands its control pipes to [Serve], which does one task by the same
// agent loop as the root. [Engine.Resolve] finds out, once for the whole tree,
// what there is to know about a [Model]; children get it in their start frame.
//
// Nothing here reads flags, prints lines or takes signals: the program that
// holds an engine hands in what is needed of that as small functions. That a
// mistake is a person's is said with a [config.Error].
package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"qq/internal/approval"
	"qq/internal/config"
	"qq/internal/models/gate"
	"qq/internal/record"
	"qq/internal/record/ledger"
	"qq/internal/tools/web"
	"qq/pkg/agents"
	"qq/pkg/childproc"
	"qq/pkg/dispatch"
	"qq/pkg/event"
	"qq/pkg/proc"
	"qq/pkg/supervisor"
	"qq/pkg/task"
	"qq/pkg/tool"
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
	Face     approval.Face // where a person can be asked; nil: nowhere
	Search   web.Search    // where agents search the web; zero: nowhere
	Sinks    []event.Sink  // get every event; none of them costs nothing
	ReadOnly bool          // takes away what can change something, here and in children
	Deadline time.Time     // of the whole run; zero is none
	Note     func(format string, args ...any)
	ID       string      // execution id of this process, see [NewID]
	Trace    event.Trace // that this run is a part of
	// Ledger keeps what is done; nil keeps nothing.
	Ledger *ledger.Recorder
}

// Engine is the wired house. Making one costs next to nothing: what a prompt
// that needs no child does not use is made when it is first needed.
type Engine struct {
	*dispatch.Dispatcher
	cfg      Config
	id       string // execution id of this process
	gate     *gate.Gate
	several  atomic.Bool // agents share the gate
	record   *record.Record
	models   *models
	stream   *event.Stream // nil when nobody wants events
	log      *record.ChildLog
	launcher *childproc.Launcher
	scratch  *scratch
	host     *proc.Host    // starts every process
	exe      string        // this program
	astGrep  func() string // the program for structural search; empty is none

	oneProcessor bool // children start with one
}

// New wires the house.
func New(cfg Config) (*Engine, error) {
	set := cfg.Settings
	e := &Engine{
		cfg:     cfg,
		id:      cmp.Or(cfg.ID, newID()),
		models:  &models{host: set.OllamaHost, run: set.Model, note: cfg.Note, retries: set.Retries},
		log:     record.NewChildLog(set.LogDir),
		scratch: &scratch{dir: filepath.Join(set.Home, "run")},
	}
	if len(cfg.Sinks) > 0 {
		e.stream = event.NewStream(cfg.Trace.TraceID(), cfg.Sinks...)
	}
	e.gate = e.newGate()
	e.record = record.New(record.Config{Ledger: cfg.Ledger, ID: e.id, Dir: cfg.Dir, Wiring: &past{Engine: e}})
	var err error
	if e.exe, err = executable(); err != nil {
		return nil, err
	}
	e.host = proc.NewHost()
	e.astGrep = sync.OnceValue(func() string {
		return findAstGrep(func(name string) string { return config.Getenv(cfg.Environ, name) })
	})
	desk := approval.NewDesk(approval.DeskConfig{
		Policy: policy(set), Face: cfg.Face, Timeout: approvalTimeout, Emit: e.stream.Emit, NewID: newID,
	})
	e.launcher = childproc.NewLauncher(childproc.Config{
		Host: e.host, Path: e.exe, Version: cfg.Version, Args: childArgs(os.Args[0]),
		Env:     e.childEnv(),
		Scratch: e.scratch.folder, Keep: outputs(set.Home),
		MaxOutput: set.MaxOutput, Grace: StopGrace,
		Prepare: e.prepare,
		Approve: func(ctx context.Context, job task.Job, in tool.Intent) tool.Decision {
			return e.Approve(ctx, job, in)
		},
		Event:   e.stream.Emit,
		Effects: e.record.Effects, Admit: e.admit, First: e.first, HandBack: HandBack,
	})
	e.Dispatcher = dispatch.New(dispatch.Config{
		Limits: limits(set), DefaultTimeout: set.Source("QQ_CHILD_TIMEOUT") == "default",
		DefaultIdle: set.Source("QQ_IDLE_TIMEOUT") == "default", ID: e.id, Recorder: e.recorder(), Depth: set.Depth, Deadline: cfg.Deadline, ReadOnly: cfg.ReadOnly,
		Agents: cfg.Agents, Desk: desk, Launcher: children{e.launcher, e},
		Events: e.stream, Log: e.log, NewID: newID,
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

// rootEnv is the environment of the commands of the root's own agent: a qq among
// them is one level deeper, as a child would be.
func (e *Engine) rootEnv() []string {
	return append(slices.Clone(e.cfg.Environ), fmt.Sprintf("%s=%d", childproc.DepthVar, e.cfg.Settings.Depth+1),
		"TRACEPARENT="+e.cfg.Trace.Traceparent(e.id))
}

func limits(set config.Config) task.Limits {
	return task.Limits{
		ChildTimeout: set.ChildTimeout, IdleTimeout: set.IdleTimeout, Retries: set.Retries, SpawnRate: set.SpawnRate, MaxParallel: set.MaxParallel, MaxDepth: set.MaxDepth,
		MaxChildren: set.MaxChildren, MaxOutput: set.MaxOutput,
	}
}

// Batch runs a stream of tasks that Check has passed, and keeps results that wait
// for slower ones in the scratch folder. What [Engine.History] was opened for is
// heeded.
func (e *Engine) Batch(ctx context.Context, b supervisor.Batch) error {
	shelf := &shelf{folder: e.scratch.folder}
	defer shelf.close()
	b.Shelf, b.Refuse, b.Tasks = shelf, e.refuse, e.record.Tasks(ctx, b.Tasks)
	b.Known = func(index int, t task.Task) (task.Result, bool) { return e.record.Known(ctx, index, t) }
	done := b.Done
	b.Done = func(res task.Result) {
		e.record.Done(res)
		if done != nil {
			done(res)
		}
	}
	e.several.Store(true)
	return errors.Join(e.Dispatcher.Batch(ctx, b), e.record.Close())
}

// History is what this process has to do with those before it.
func (e *Engine) History() *record.Record { return e.record }

// ID is the execution id of this process.
func (e *Engine) ID() string { return e.id }

// NewID makes the id of a batch, or of a process.
func NewID() string { return newID() }

// recorder is the record, or no interface at all.
func (e *Engine) recorder() supervisor.Recorder {
	if e.cfg.Ledger == nil {
		return nil
	}
	return e.record
}

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
func (e *Engine) Staff(ctx context.Context, t task.Task) (agents.Agent, Model, error) {
	agent, err := e.Agent(t.Agent)
	if err != nil {
		return agents.Agent{}, Model{}, err
	}
	m, err := e.Resolve(ctx, e.modelName(t))
	return agent, m, err
}

// Resolve finds out about the model of that name, once: "" for that of the run,
// [Auto], [Extract], "ollama:NAME", or the NAME alone.
func (e *Engine) Resolve(ctx context.Context, name string) (Model, error) {
	return e.models.resolve(ctx, name)
}

// Scratch returns the private folder of this process, made when it is first
// asked for. Close removes it.
func (e *Engine) Scratch() (string, error) { return e.scratch.folder() }

// Kill ends every child at once.
func (e *Engine) Kill() { e.launcher.Close() }

// Close ends what is still at work and removes what was only for this run.
func (e *Engine) Close() error {
	e.Kill()
	e.scratch.remove()
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

// childArgs is the command line of a child: one that a person could type.
func childArgs(self string) func(string) []string {
	return func(agent string) []string { return []string{self, "--agent", agent, "--new-session", "-m", "-"} }
}

// newID makes an id: ordered by time, unique without asking anybody.
func newID() string {
	id, err := uuid.NewV7()
	if err != nil {
		return uuid.NewString()
	}
	return id.String()
}

// hinted says what was being done, and what to do about it.
func hinted(err error, hint, act string) error {
	if pe, ok := errors.AsType[*os.PathError](err); ok {
		err = fmt.Errorf("%s: %w", pe.Path, pe.Err)
	}
	return fmt.Errorf("%s: %w\nhint: %s", act, err, hint)
}
