package planning

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"qq/internal/agent/loop"
	"qq/pkg/llm"
	"qq/pkg/supervisor"
	"qq/pkg/supervisor/ceiling"
	"qq/pkg/supervisor/needs"
	"qq/pkg/supervisor/plan"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// Instruction follows the prompt of an agent that plans.
const Instruction = "\n\nYou only plan: after your call of run_parallel_tasks your work ends. A person reads " +
	"the tasks and starts them later. Their agents may change files; you may not."

// reminder is what an agent is told that wants to answer without having handed out a task.
const reminder = "You have handed out no task. Answer with one call of run_parallel_tasks that has all tasks, each " +
	"with id, task, agent, targets and needs, and not with text."

// errPlanned is the cause with which a run ends that has its plan.
var errPlanned = errors.New("the plan is made")

// Catcher keeps the tasks that an agent hands out in its first such answer, and starts none of them. Set its exported
// fields before the run.
type Catcher struct {
	Ceiling ceiling.Ceiling  // of the agent: what it may hand out
	Known   ceiling.Registry // the agents that there are

	mu      sync.Mutex
	stop    context.CancelCauseFunc
	calls   []string // ids of the calls of the agent, in their order
	caught  []caught
	refused bool   // tasks of the last answer were
	problem string // why the last tasks that were refused were
	done    bool
}

// caught are the tasks of one call.
type caught struct {
	call  string
	tasks []task.Task
}

// Over returns the parent for the agent, in front of the real one, and the context of its run.
func (c *Catcher) Over(ctx context.Context, p supervisor.Parent) (context.Context, supervisor.Parent) {
	ctx, c.stop = context.WithCancelCause(ctx)
	return ctx, catching{p, c}
}

// Tasks returns the tasks that were caught, in the order of the calls.
func (c *Catcher) Tasks() (all []task.Task) {
	c.mu.Lock()
	defer c.mu.Unlock()
	slices.SortStableFunc(c.caught, func(a, b caught) int {
		return slices.Index(c.calls, a.call) - slices.Index(c.calls, b.call)
	})
	for _, g := range c.caught {
		all = append(all, g.tasks...)
	}
	return all
}

// Settle gives the result of the run the status of the plan: completed if there is one, even though the run was
// stopped. Its output is the plan.
func (c *Catcher) Settle(r *task.Result) {
	c.stop(nil)
	tasks := c.Tasks()
	r.Warnings = slices.DeleteFunc(r.Warnings, func(w string) bool { return strings.HasPrefix(w, "sub-agent ") })
	switch {
	case len(tasks) > 0 && (c.done || r.Success && !c.refused):
		r.Output = lines(tasks)
		r.End(task.Completed, "")
	case r.Success && c.problem != "":
		r.Fail(task.Hinted(hint, "%s made no plan that can be run: %s", r.Agent, c.problem))
	case r.Success:
		r.Fail(task.Hinted(hint, "%s handed out no task, and answered: %s", r.Agent,
			task.Shorten(strings.Join(strings.Fields(r.Output), " "), 200)))
	}
}

const hint = "say in the task which parts the work has, or name another model with --model; " +
	"qq models test says which models call tools"

// lines returns tasks as JSON Lines.
func lines(tasks []task.Task) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	for _, t := range tasks {
		_ = enc.Encode(t) // a task is always JSON
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// take keeps the tasks of a call, or returns why they cannot be run.
func (c *Catcher) take(ctx context.Context, tasks []task.Task) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer func() {
		if err != nil {
			c.refused = true
			c.problem, _ = task.Explain(err) // its hint is for the model
		}
	}()
	order := make([]plan.Task, len(tasks))
	for i, t := range tasks {
		order[i] = plan.Task{ID: t.ID, Needs: t.Needs}
	}
	if _, err := plan.New(order, plan.Options{Together: true}); err != nil {
		return err
	}
	if err := needs.Check(tasks...); err != nil {
		return err
	}
	if err := needs.CheckFields(c.withSchemas(tasks)...); err != nil {
		return err
	}
	ids := map[string]bool{}
	for _, g := range c.caught {
		for _, t := range g.tasks {
			ids[t.ID] = true
		}
	}
	for i, t := range tasks {
		t = ceiling.Relative(t, filepath.Join(c.Ceiling.Task.WorkingDir, t.WorkingDir))
		if t.ID != "" && ids[t.ID] {
			return fmt.Errorf("task %d: the id %q is given twice", i, task.Shorten(t.ID, 40))
		}
		if err := c.check(ctx, t); err != nil {
			return fmt.Errorf("task %d: %w", i, err)
		}
		tasks[i] = t.Normalized()
		tasks[i].CheckAsked = t.Check != "" // a model wrote it
	}
	c.caught = append(c.caught, caught{tool.CallOf(ctx).ID, tasks})
	return nil
}

// withSchemas returns tasks with the schemas of their agents, where they have none.
func (c *Catcher) withSchemas(tasks []task.Task) []task.Task {
	tasks = slices.Clone(tasks)
	for i, t := range tasks {
		if a, err := c.Known.Lookup(t.Normalized().Agent); err == nil && len(t.Schema) == 0 {
			tasks[i].Schema = a.Schema
		}
	}
	return tasks
}

// check returns why qq batch could not run t, or why the agent may not hand it out.
func (c *Catcher) check(ctx context.Context, t task.Task) error {
	if t.Temporary != nil {
		return errors.New("a plan has no temporary agents: name one that is registered")
	}
	if _, why := c.Ceiling.DenyReason(t, c.Known); why != "" {
		return errors.New(why)
	}
	if _, why := c.Ceiling.Settle(ctx, t); why != "" { // a model or a folder that is barred
		return errors.New(why)
	}
	return nil
}

// catching is the parent of an agent that plans.
type catching struct {
	supervisor.Parent
	c *Catcher
}

// Delegate implements [task.Delegator]. Only the parts of a document that is too long are summarized by children.
func (p catching) Delegate(ctx context.Context, tasks []task.Task) []task.Result {
	if slices.ContainsFunc(tasks, func(t task.Task) bool { return t.Part }) {
		return p.Parent.Delegate(ctx, tasks)
	}
	err := p.c.take(ctx, tasks)
	results := make([]task.Result, len(tasks))
	for i, t := range tasks {
		results[i] = t.Ended(task.Completed, "")
		results[i].Output = "It is in the plan."
		if err != nil {
			results[i] = t.Fail(task.Hinted("hand out all tasks again", "the plan is refused: %w", err))
		}
		results[i].Index = i
	}
	return results
}

// Spawn implements [task.Family].
func (p catching) Spawn(context.Context, task.Task) (task.Child, error) {
	return task.Child{}, errors.New("nothing is started while you plan: hand out all tasks with run_parallel_tasks")
}

// Enter implements [llm.Admission]. It ends the run instead of sending a request, once there is a plan.
func (p catching) Enter(ctx context.Context, model string, again bool) (llm.Permit, error) {
	if p.c.planned() {
		p.c.stop(errPlanned)
		return nil, errPlanned
	}
	return p.Parent.Enter(ctx, model, again)
}

// planned reports whether the last answer has handed out the plan.
func (c *Catcher) planned() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refused { // the model was told to hand out all tasks again
		c.caught, c.refused = nil, false
	}
	c.done = len(c.caught) > 0
	return c.done
}

// Reminder implements [agent.Reminder].
func (p catching) Reminder() string {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	if len(p.c.caught) > 0 {
		return ""
	}
	return reminder
}

// Calls is a transcript that also tells the catcher the order of the calls.
type Calls struct {
	loop.Transcript
	Catcher *Catcher
}

// Append implements [loop.Transcript].
func (t Calls) Append(e llm.Entry) {
	t.Catcher.mu.Lock()
	for _, call := range e.Message.Calls {
		t.Catcher.calls = append(t.Catcher.calls, call.ID)
	}
	t.Catcher.mu.Unlock()
	t.Transcript.Append(e)
}
