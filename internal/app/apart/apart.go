// Package apart runs each task that can write in a copy of the tree, and joins what it changed when it is gone.
//
// Vocabulary: the tree, a copy and a patch are those of package isolate. A task is isolated if it works in a copy. The
// tree of a task is the working directory of the run, or that of the task if it is elsewhere.
//
// Flow: the Launcher of [Trees.Launcher] makes a copy for a task that can write, and has it launched there: see
// [Trees.Place] for its process and [Trees.Box] for its commands. When the task and all that it started have ended, it
// makes the patch. That of a completed task is joined; that of another one is kept in a file. A task that can only read
// works in the tree itself. What an isolated task starts works in its copy, so it sees what the task wrote, and its
// changes are part of the patch; leases keep it apart from others in that copy. The agent that a person started, job
// zero, works in the tree: only what it delegates is isolated. The tree is copied as it is, with what is not committed.
//
// Order: the tasks of a batch are joined in input order: a patch waits until the tasks before it have ended. Meanwhile
// its task lends its slot, but no task starts while four times as many wait as run at once. A patch that the targets of
// its task cover does not wait, because the plan runs no two tasks at once whose targets overlap. In a batch with a
// plan, a patch waits only for tasks that have started, because others may wait for this one. A delegated task is
// joined as soon as it ends.
//
// Files that git ignores are not joined, nor are files that programs obey and a command wrote, see package box: the
// result has a warning about them.
//
// A task is recorded as completed after its patch was joined. What it writes in its copy is no side effect before that,
// so it runs again if the process is killed. What a command does is one, because it may reach the network: such a task
// does not run again. So its patch is kept in a file while it waits to be joined, and [Left] finds it.
package apart

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"qq/internal/isolate"
	"qq/internal/isolate/worktree"
	"qq/internal/sandbox"
	"qq/internal/undo"
	"qq/pkg/agents"
	"qq/pkg/proc"
	"qq/pkg/supervisor/changes"
	"qq/pkg/task"
)

// Off is the mode in which no task is isolated.
const Off = "off"

// Agents knows the agents of a run.
type Agents interface {
	Agent(name string) (agents.Agent, error)
}

// Person is told what happened to copies of killed runs.
type Person interface {
	Say(format string, args ...any)
}

// Config says where and how tasks are isolated.
type Config struct {
	Mode     string // of the setting
	Dir      string // the working directory of the run
	Home     string // the folder of qq
	Outputs  string // the folder in which patches are kept
	Host     *proc.Host
	Exe      string   // the path of this program
	Env      []string // for git
	Agents   Agents
	ReadOnly bool     // no agent may change anything
	Slots    int      // how many tasks run at once
	Writable []string // folders and files of QQ_WRITABLE
	Person   Person
	Undo     *undo.Book // keeps the files that joins change; nil means that nothing is kept
}

// Trees are the trees of a run. A nil *Trees isolates nothing.
type Trees struct {
	Config
	isolate isolate.Config

	mu       sync.Mutex
	trees    map[string]*isolate.Tree
	places   map[string]*place // by execution id
	removing sync.WaitGroup
	made     atomic.Int64 // copies, for their names
	batch    *order       // nil if the run is no batch
}

// place is where a job works.
type place struct {
	*isolate.Copy
	tree *isolate.Tree
	dir  string   // the real path of the working directory of the isolated task, in the tree
	ids  []string // of the jobs in the copy, first that of the isolated task
	jobs map[string]*contained
	// joined says that what the task changed may be in the tree.
	joined bool
	// bounds are what targets let that task change, see [Trees.Bind].
	bounds changes.Bounds
}

// New returns the trees of a run, or nil if no task is isolated. It removes what killed runs left of theirs.
func New(cfg Config) *Trees {
	t := open(cfg)
	t.sweep()
	if cfg.Mode == Off {
		return nil
	}
	return t
}

// sweep removes what killed runs left.
func (t *Trees) sweep() {
	kept, err := isolate.Sweep(t.isolate.State, t.Outputs)
	if err != nil {
		t.Person.Say("warning: clear up after a run that was killed: %v", err)
	}
	if len(kept) > 0 {
		t.Person.Say("warning: a run was killed while it wrote files that were changed since: its versions are %s",
			strings.Join(kept, ", "))
	}
}

func open(cfg Config) *Trees {
	t := &Trees{Config: cfg, trees: map[string]*isolate.Tree{}, places: map[string]*place{}}
	t.isolate = isolate.Config{Dir: cfg.Dir, State: filepath.Join(cfg.Home, copies), Patches: cfg.Outputs,
		Host: cfg.Host, Exe: cfg.Exe, Env: cfg.Env}
	return t
}

// Left says what the execution of a task in a copy has left that was killed or interrupted. dir is the working
// directory of the run, and workingDir that of the task. home and outputs are folders of [Config].
func Left(home, outputs, dir, workingDir, executionID string) (all []string) {
	if executionID == "" {
		return nil
	}
	if filepath.IsAbs(workingDir) && !sandbox.Within(workingDir, dir) {
		dir = workingDir
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	patches, _ := filepath.Glob(filepath.Join(outputs, executionID+"-*.patch"))
	for _, file := range patches {
		all = append(all, "what it had changed, if it is not in the folder: "+worktree.Apply(dir, file))
	}
	folders, _ := filepath.Glob(filepath.Join(home, copies, executionID+"-*"))
	for _, folder := range folders {
		all = append(all, "what it had changed is kept in the folder "+folder)
	}
	return all
}

// copies is the folder for copies in that of qq.
const copies = "copies"

// Isolates reports whether job works in a copy, because its agent can change files.
func (t *Trees) Isolates(job task.Job) bool {
	if t == nil || t.ReadOnly || job.ReadOnly {
		return false
	}
	def, err := t.Agents.Agent(job.Agent)
	return err == nil && (def.Changes() || job.HasGivenCheck())
}

// tree returns the tree in which the folder dir, a real path, is.
func (t *Trees) tree(dir string) (*isolate.Tree, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	cfg := t.isolate
	real, err := filepath.EvalSymlinks(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("find the folder of the agents: %w", err)
	}
	if cfg.Dir = real; !sandbox.Within(dir, real) {
		cfg.Dir = dir
	}
	if tree := t.trees[cfg.Dir]; tree != nil {
		return tree, nil
	}
	tree, err := isolate.Open(cfg)
	if err == nil {
		t.trees[cfg.Dir] = tree
	}
	return tree, err
}

const hint = "leave --isolate out (QQ_ISOLATE) to let tasks write in the folder itself"

// copy makes a copy for a task that works in the folder dir.
func (t *Trees) copy(ctx context.Context, id, dir string) (*place, error) {
	if !sandbox.Probe().Enforced() {
		return nil, &task.Error{Status: task.Refused, Hint: hint,
			Problem: "the kernel has no sandbox (Landlock) that would keep a task in its copy"}
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, fmt.Errorf("find the working directory: %w", err)
	}
	tree, err := t.tree(real)
	if err != nil {
		return nil, refused(err)
	}
	c, err := tree.Make(ctx, id, isolate.Mode(t.Mode))
	if err != nil && ctx.Err() != nil {
		return nil, err
	}
	if err != nil {
		return nil, refused(err)
	}
	if why := t.unfit(c, real); why != nil {
		return nil, refused(errors.Join(why, c.Remove()))
	}
	return &place{Copy: c, tree: tree, dir: real, jobs: map[string]*contained{}}, nil
}

// unfit returns why a task whose working directory is dir may not work in a worktree. That has another path than the
// tree.
func (t *Trees) unfit(c *isolate.Copy, dir string) error {
	if c.Mode != isolate.Worktree {
		return nil
	}
	if _, err := os.Stat(c.Path(dir)); err != nil { // such as an ignored folder
		return fmt.Errorf("the worktree has no %s", dir)
	}
	for _, path := range t.Writable {
		if real, err := filepath.EvalSymlinks(path); err == nil && sandbox.Within(c.Tree(), real) {
			return fmt.Errorf("no worktree: tasks could write %s itself, because QQ_WRITABLE has %s", c.Tree(), path)
		}
	}
	return nil
}

// refused makes err, about a copy that cannot be had, one that refuses the task. A full disk is a fault of the machine.
func refused(err error) error {
	problem, more := task.Explain(err)
	if task.MachineFault(err) {
		return task.Machine("free some space on the disk of QQ_HOME; "+hint, "%s", problem)
	}
	if more == "" {
		more = hint
	}
	return &task.Error{Status: task.Refused, Problem: problem, Hint: more, Err: err}
}

// Try makes a copy and removes it, if one of tasks needs one. The error says why no task can be isolated.
func (t *Trees) Try(ctx context.Context, tasks []task.Task) error {
	if !slices.ContainsFunc(tasks, func(one task.Task) bool { return t.Isolates(task.Job{Task: one}) }) {
		return nil
	}
	p, err := t.copy(ctx, "try-"+task.NewID(), t.Dir)
	if e, ok := errors.AsType[*task.Error](err); ok && e.Status == task.Refused {
		e.Status = task.Misused // nothing was started
	}
	if err != nil {
		return err
	}
	return p.Remove()
}

// Lead says that the agent of a prompt works in the folder itself, if it can change files; "" means that it cannot, or
// that no copies were asked for.
func (t *Trees) Lead(agent string) string {
	if !t.Isolates(task.Job{Task: task.Task{Agent: agent}}) {
		return ""
	}
	return fmt.Sprintf("--isolate %s: %s works in the folder itself; only tasks that it hands out get copies", t.Mode,
		agent)
}

// Place implements childproc.Placer: c starts in the copy of job, if it has one.
func (t *Trees) Place(job task.Job, c *proc.Command) error {
	p := t.at(job.ExecutionID)
	if p == nil {
		return nil
	}
	real, err := filepath.EvalSymlinks(c.Dir)
	if err != nil {
		return fmt.Errorf("find the working directory: %w", err)
	}
	c.Dir = real
	return p.Enter(c)
}

// at returns where the job with an execution id works; nil means in the tree.
func (t *Trees) at(executionID string) *place {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.places[executionID]
}

// Copied reports whether the job with an execution id works in a copy.
func (t *Trees) Copied(executionID string) bool { return t.at(executionID) != nil }

// enter notes that a job works in a copy, and returns its parent there.
func (t *Trees) enter(job task.Job, p *place, w worker) *contained {
	c := &contained{worker: w, place: p}
	if dir, err := filepath.EvalSymlinks(t.dir(job)); err == nil {
		c.dir, _ = filepath.Rel(p.Tree(), p.Copy.Live(dir))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.places[job.ExecutionID] = p
	p.ids = append(p.ids, job.ExecutionID)
	p.jobs[job.ExecutionID] = c
	return c
}

// remove removes a copy. All jobs in it have ended. Nobody waits for that but Close, which removes what is left.
func (t *Trees) remove(p *place) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range p.ids {
		delete(t.places, id)
	}
	t.removing.Go(func() { _ = p.Remove() })
}

// Close removes all copies. No task runs any more. It also removes those of a killed run that could not go at the
// start, because a process that it was starting had their lock.
func (t *Trees) Close() error {
	if t == nil {
		return nil
	}
	t.removing.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	var err error
	for _, tree := range t.trees {
		err = errors.Join(err, tree.Close())
	}
	clear(t.trees)
	t.sweep()
	return err
}

// names lists some of paths.
func names(paths []string) string {
	const most = 5
	if len(paths) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(paths[:most], ", "), len(paths)-most)
	}
	return strings.Join(paths, ", ")
}
