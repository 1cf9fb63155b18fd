package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"qq/internal/app/apart"
	"qq/internal/app/batch/launcher"
	"qq/internal/app/bounds"
	"qq/internal/app/command"
	"qq/internal/app/folders"
	"qq/internal/app/gates"
	"qq/internal/app/guides"
	"qq/internal/app/keyring"
	"qq/internal/app/reread"
	"qq/internal/app/scope"
	"qq/internal/app/scratch"
	"qq/internal/app/staffing"
	"qq/internal/app/strict"
	"qq/internal/app/worker"
	"qq/internal/approval"
	"qq/internal/box/remote"
	"qq/internal/config"
	"qq/internal/config/trust"
	"qq/internal/control"
	"qq/internal/models"
	"qq/internal/models/gate"
	"qq/internal/record"
	"qq/internal/record/ledger"
	"qq/internal/tools/astgrep"
	"qq/internal/tools/web"
	"qq/internal/undo"
	"qq/pkg/agents"
	"qq/pkg/childproc"
	"qq/pkg/event"
	"qq/pkg/proc"
	"qq/pkg/supervisor"
	"qq/pkg/supervisor/access"
	"qq/pkg/task"
)

// stopGrace is how long a child may take to end after each step of stopping it. The steps
// are a message, SIGTERM and SIGKILL. wiring.Kill takes only the last step.
const stopGrace = time.Second

// settleTime is how long the end of a run waits for files that are put back.
const settleTime = 30 * time.Second

// handBack is how long a child may work on its final answer after its time is up.
const handBack = 5 * time.Second

// wiringConfig is what the wiring of a run is made from. root.wire fills it.
type wiringConfig struct {
	Settings config.Config
	Policy   approval.Policy
	Environ  command.Environment // of the process, for children to inherit from
	Dir      string              // the working directory
	Version  string              // of the program: children must have the same
	Agents   *agents.Registry
	Trusted  trust.Sums        // files of Dir that may replace agents of the user
	Decided  trust.Store       // what a person has decided about folders
	Prompter approval.Prompter // asks a person; nil if nobody can be asked
	Lasting  approval.Lasting  // answers for that person; nil if no rules are kept
	Search   web.Search        // the web search of agents; zero means none
	Sinks    []event.Sink      // get every event; without sinks no events are made
	ReadOnly bool              // no agent may change anything
	Repairs  int               // how often work that fails its check goes back to the agent
	Strict   bool              // a task with targets may change nothing else
	Person   person            // is told notes and warnings
	Screen   *command.Screen   // the terminal of that person
	Batch    bool              // the run is a batch
	Verbose  bool              // a person wants to know what is chosen
	ID       string            // execution id of this process, see [task.NewID]
	Trace    event.Trace       // the trace that this run belongs to
	Ledger   *ledger.Recorder  // nil means that no record is kept
	Undo     *undo.Book        // keeps what file tools change; nil means that nothing is kept
}

// wiring holds the connected parts of a run: supervisor, gate, record, models and the
// launcher of children. It is cheap to make: parts that a prompt without children does
// not need are made at first use.
type wiring struct {
	*supervisor.Supervisor
	*staffing.Desk
	cfg       wiringConfig
	gates     *gates.Gates
	several   atomic.Bool // more than one agent uses the gate
	record    *record.Record
	models    *models.Resolver
	keys      *keyring.Ring
	guides    guides.Teller
	stream    *event.Stream
	socket    *control.Server // nil if the run has none
	questions *approval.Queue // that wait for a person
	log       *record.ChildLog
	launcher  *childproc.Launcher
	scratch   *scratch.Folder
	apart     *apart.Trees // copies of the tree; nil if no task gets one
	strict    strict.Tasks
	host      *proc.Host             // starts every process
	exe       string                 // path of this program
	astGrep   func() string          // path of ast-grep; empty if it is not installed
	session   atomic.Pointer[string] // id of the transcript of the root's own agent
	warning   atomic.Pointer[string] // that the run has no control socket; nil means none
	children  remote.Children        // which ask for their commands to be started

	*scope.Paths // real ones, of what tasks touch

	oneProcessor bool // children start with GOMAXPROCS=1
}

// newWiring makes and connects the parts of a run.
func newWiring(cfg wiringConfig) (*wiring, error) {
	set := cfg.Settings
	w := &wiring{
		cfg: cfg,
		models: &models.Resolver{Servers: set.AllServers(), Aliases: set.Aliases, Run: set.Model, Retries: set.Retries,
			Notes: cfg.Person, Warnings: notes(cfg.Person.Say), Strict: cfg.Batch, Verbose: cfg.Verbose},
		log:     record.NewChildLog(set.LogDir),
		scratch: &scratch.Folder{Dir: filepath.Join(set.Home, "run")},
		host:    proc.NewHost(),
		stream:  event.NewStream(cfg.Trace.TraceID(), cfg.Sinks...),
	}
	w.guides = guides.Teller{Decided: cfg.Decided, Off: set.AgentsMD == "off", Person: cfg.Person}
	w.keys = &keyring.Ring{Environ: cfg.Environ, Settings: set, Host: w.host, Screen: cfg.Screen}
	w.models.Keys = w.keys
	w.Desk = &staffing.Desk{Settings: set, Models: w.models, Registry: cfg.Agents, Agents: w, Person: cfg.Person,
		Programs: w}
	w.Paths = scope.New(cfg.Dir)
	w.gates = gates.New(gate.Config{
		MaxInFlight: set.MaxParallel, Budget: gate.NewBudget(set.MaxTokens, set.MaxCost), Retries: set.Retries,
		OnQuota: bounds.OnQuota(set), Notes: notes(w.remark), Waits: notes(w.announce),
	}, w.Desk)
	w.Desk.Gates = w.gates
	w.record = record.New(record.Config{Ledger: cfg.Ledger, ID: cfg.ID, Dir: cfg.Dir,
		Tasks: &past{wiring: w, Reader: reread.Reader{Private: w.private()}}})
	var err error
	if w.exe, err = executable(); err != nil {
		return nil, err
	}
	w.astGrep = sync.OnceValue(func() string {
		path, err := astgrep.Find(cfg.Environ.Get)
		if err != nil {
			return "" // doctor says why
		}
		return path
	})
	w.apart = apart.New(apart.Config{
		Mode: set.Isolate, Dir: cfg.Dir, Home: set.Home, Outputs: string(w.outputs()), Host: w.host, Exe: w.exe,
		Env: cfg.Environ, Agents: w, ReadOnly: cfg.ReadOnly, Writable: set.Writable, Person: cfg.Person,
		Slots: set.MaxParallel, Undo: cfg.Undo,
	})
	w.launcher = childproc.NewLauncher(childproc.Config{
		Host: w.host, Path: w.exe, Dir: cfg.Dir, Version: cfg.Version, Env: w.childEnv(), Program: w,
		Keep:      string(w.outputs()),
		MaxOutput: set.MaxOutput, Grace: stopGrace, HandBack: handBack,
	})
	w.questions = approval.NewQueue(approval.QueueConfig{
		Policy: cfg.Policy, Prompter: cfg.Prompter, Lasting: cfg.Lasting, Timeout: set.ApprovalTimeout,
		Faces: control.Faces(set.Home), Events: w.stream})
	s := supervisor.Config{
		Limits: bounds.Of(set), ID: cfg.ID, Depth: set.Depth, ReadOnly: cfg.ReadOnly,
		Agents: cfg.Agents, Folders: folders.Rule{Private: w.private()}, Models: w.Desk,
		Gate: admission{w.gates, &w.several}, Events: w.stream, Log: w.log, NewID: task.NewID,
		Launcher: launcher.New(w.apart.Launcher(staffing.Telling{Stager: w.launcher, Desk: w.Desk})),
		Plan:     access.Mode(set.Plan), Paths: w.Paths, Copies: w.apart != nil, Denied: cfg.Policy.Denied(),
		Notes: notes(w.remark), FaultWait: cmp.Or(set.FaultWait, math.MaxInt64),
		Approve: w.questions,
	}
	if cfg.Ledger != nil {
		s.Record = w.record
	}
	w.Supervisor = supervisor.New(s)
	return w, nil
}

// childEnv returns the environment of children. They start with one processor, because most
// of them only wait for their model and the Go scheduler then needs a tenth less CPU. With
// its first tool call a child takes all processors.
func (w *wiring) childEnv() []string {
	env := append(config.ChildEnv(w.cfg.Settings.Keyless(w.cfg.Environ)), w.cfg.Settings.Environ()...)
	given := func(v string) bool { return strings.HasPrefix(v, "GOMAXPROCS=") }
	if w.oneProcessor = !slices.ContainsFunc(env, given); w.oneProcessor {
		env = append(env, worker.OneProcessor)
	}
	return env
}

// Batch implements batch.Runner. Results that wait for slower ones are kept in a spill file
// in the scratch folder. Tasks with a known result, from an earlier run or the cache, are
// not run again: see [record.Record.Known].
func (w *wiring) Batch(ctx context.Context, b supervisor.Batch) error {
	spill := &scratch.Spill{In: w.scratch}
	defer spill.Close()
	b.Spill, b.Past, b.Tasks = spill, w.record, w.record.Tasks(ctx, b.Tasks)
	b.Results = recorded{b.Results, w.record}
	w.several.Store(true)
	return errors.Join(w.Supervisor.Batch(ctx, w.apart.Batch(b)), w.record.Close())
}

// recorded is the receiver of the results of a batch. It passes each finished result to the
// record, and then to the Results that it wraps.
type recorded struct {
	supervisor.Results
	record *record.Record
}

// Done implements supervisor.Results.
func (r recorded) Done(res task.Result) {
	r.record.Done(res)
	r.Results.Done(res)
}

// Known implements output.Batch.
func (w *wiring) Known() int { return w.record.Resumed() }

// History returns the record of this run and of earlier runs.
func (w *wiring) History() *record.Record { return w.record }

// ID returns the execution id of this process.
func (w *wiring) ID() string { return w.cfg.ID }

// Lookup implements batch.Runner.
func (w *wiring) Lookup(ctx context.Context, tasks []task.Task) error {
	for _, t := range tasks {
		if _, err := w.Agent(t.Agent); err != nil {
			return err
		}
	}
	if err := w.Isolable(ctx, tasks); err != nil {
		return err
	}
	return w.gates.Lookup(ctx, notes(w.cfg.Person.Note), tasks)
}

// Isolable implements batch.Runner.
func (w *wiring) Isolable(ctx context.Context, tasks []task.Task) error {
	return w.apart.Try(ctx, tasks)
}

// outputs returns the folder that keeps long outputs of commands and children.
func (w *wiring) outputs() scratch.Outputs { return scratch.KeptIn(w.cfg.Settings.Home) }

// Kill kills every child at once.
func (w *wiring) Kill() { w.launcher.Close() }

// Close kills the remaining children, waits until what commands changed is put back, and removes the temporary files of
// this run.
func (w *wiring) Close() error {
	w.gates.Close()
	w.Kill()
	if !w.host.Settle(time.Second) {
		w.cfg.Person.Say("wait: files that a command must not change are being put back")
		if !w.host.Settle(settleTime) {
			w.cfg.Person.Say("not all files that a command must not change are put back\n" +
				"hint: look at .git, .env and the like before a program obeys them")
		}
	}
	if w.socket != nil {
		w.socket.Close()
	}
	if err := w.apart.Close(); err != nil {
		w.cfg.Person.Say("warning: copies of the folder are left, the next run removes them: %v", err)
	}
	if err := w.scratch.Remove(); err != nil {
		w.cfg.Person.Say("warning: temporary files of commands stay in %s: %v", w.scratch.Dir, err)
	}
	return w.log.Close()
}

// executable returns the path of this program, which children run too. Where the system has
// /proc, the path stays valid if the file is replaced meanwhile.
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
