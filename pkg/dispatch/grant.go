package dispatch

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"qq/pkg/agents"
	"qq/pkg/approval"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// grant is t as the agent may have it done: within its folder, its time and its
// ceiling. A child's ceiling is that of its parent and what the definition of the
// parent takes away, never more. What may not be done is a result that says so.
func (p *Place) grant(t task.Task) (task.Task, *task.Result) {
	refuse := func(status task.Status, why string) (task.Task, *task.Result) {
		r := p.d.resolved(t).Ended(status, why)
		return t, &r
	}
	if status, why := p.objection(t); why != "" {
		return refuse(status, why)
	}
	if t.Temporary != nil {
		var err error
		if t, err = p.d.hire(p.agent, t); err != nil {
			return refuse(task.Refused, err.Error())
		}
	}
	t = p.d.resolved(t)
	t.WorkingDir = filepath.Join(p.own.WorkingDir, t.WorkingDir)
	t.ReadOnly = t.ReadOnly || p.readOnly()
	t.Denied = slices.Compact(slices.Sorted(slices.Values(slices.Concat(p.own.Denied, p.agent.DisallowedTools))))
	if limit := p.d.cfg.Limits.ChildTimeout; limit > 0 {
		t.Timeout = min(t.Timeout, limit.Seconds()) // an agent may ask for less, not for more
	}
	return t, nil
}

// readOnly reports whether the agent and all that it starts may only read.
func (p *Place) readOnly() bool { return p.d.cfg.ReadOnly || p.own.ReadOnly || p.agent.Gathers() }

// objection says why the agent may not have t done, or returns "".
func (p *Place) objection(t task.Task) (task.Status, string) {
	own := p.own
	if err := p.d.check(t); err != nil {
		return task.Misused, err.Error()
	}
	if t.WorkingDir != "" && !inside(own.WorkingDir, t.WorkingDir) {
		return task.Refused, fmt.Sprintf("working_dir %q is no folder inside of the working directory", t.WorkingDir)
	}
	if t.Temporary != nil {
		return "", "" // it gets what this agent has, and no more
	}
	to, err := p.d.cfg.Agents.Lookup(t.Normalized().Agent)
	if err != nil {
		return task.Misused, err.Error()
	}
	named := strings.TrimSpace(t.Agent) != "" // who names nobody wants a hand for general work
	switch {
	case named && to.Name == p.agent.Name:
		return task.Refused, "Cannot delegate to self"
	case !p.agent.AllowsAgent(to.Name):
		return task.Refused, fmt.Sprintf("%s may not delegate to %s (allowed: %s)", p.agent.Name, to.Name,
			cmp.Or(strings.Join(p.agent.Agents, ", "), "none"))
	case p.readOnly() && !t.ReadOnly && to.Changes():
		return task.Refused, fmt.Sprintf("%s may only read and may not delegate to %s, which can change things (with read_only it can be asked to look)",
			p.agent.Name, to.Name)
	}
	return "", ""
}

// hire registers the agent that by has made up for t under a name of its own.
func (d *Dispatcher) hire(by agents.Agent, t task.Task) (task.Task, error) {
	d.hired.Lock()
	defer d.hired.Unlock()
	name := fmt.Sprintf("temporary-%d", len(d.hired.agents)+1)
	a, err := agents.Temporary(by, name, t.Temporary.Prompt, t.Temporary.Tools, t.ReadOnly)
	if err != nil {
		return t, err
	}
	if d.hired.agents == nil {
		d.hired.agents = map[string]agents.Agent{}
	}
	d.hired.agents[name] = a
	t.Agent, t.Temporary = name, nil
	return t, nil
}

// Agent returns the definition of that name: a registered one, or one that was
// made up in this run.
func (d *Dispatcher) Agent(name string) (agents.Agent, error) {
	d.hired.Lock()
	a, ok := d.hired.agents[name]
	d.hired.Unlock()
	if ok {
		return a, nil
	}
	return d.cfg.Agents.Lookup(name)
}

// inside reports whether sub names a folder in dir, links followed; an empty dir
// is that of this process.
func inside(dir, sub string) bool {
	if !filepath.IsLocal(sub) {
		return false
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return false
	}
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false
	}
	real, err := filepath.EvalSymlinks(filepath.Join(dir, sub))
	if err != nil {
		return false
	}
	rel, err := filepath.Rel(root, real)
	if err != nil || !filepath.IsLocal(rel) {
		return false
	}
	info, err := os.Stat(real)
	return err == nil && info.IsDir()
}

// intent is what handing on tasks would do. It is made here and not where the
// model called, so that nobody can call a batch of writers harmless.
func (p *Place) intent(tasks []task.Task) tool.Intent {
	in := tool.Intent{Tool: "delegate_task", Effect: tool.Delegates, Risk: tool.Low}
	writers := 0
	var preview strings.Builder
	for _, t := range tasks {
		a, err := p.d.Agent(t.Agent)
		if err != nil || !t.ReadOnly && a.Changes() {
			writers++
		}
		if strings.HasPrefix(t.Agent, "temporary-") {
			in.Tool = "spawn_agent"
		}
		fmt.Fprintf(&preview, "%s: %s\n", t.Agent, task.Shorten(t.Text, 300))
	}
	switch {
	case writers > 1:
		in.Risk = tool.High
	case writers == 1:
		in.Risk = tool.Medium
	}
	in.Summary = "delegate to " + tasks[0].Agent + ": " + task.Shorten(tasks[0].Text, 80)
	if len(tasks) > 1 {
		in.Tool, in.Summary = "run_parallel_tasks", fmt.Sprintf("delegate %d tasks at once, %d of them to agents that can change things", len(tasks), writers)
	}
	in.Preview = strings.TrimSuffix(preview.String(), "\n")
	return in
}

// approve asks, where the policy wants that, whether a call may run.
func (p *Place) approve(ctx context.Context, in tool.Intent) tool.Decision {
	desk := p.d.cfg.Desk
	if desk == nil {
		return tool.Decision{Allowed: true}
	}
	q := approval.Question{ExecutionID: p.id, BatchID: p.batch, Depth: p.depth, Chain: p.chain, Intent: in}
	if p.parent != nil {
		q.ParentExecutionID = p.parent.id
	}
	if !desk.Needs(in) {
		return desk.Ask(ctx, q)
	}
	var d tool.Decision
	p.pause(ctx, func() { d = desk.Ask(ctx, q) })
	return d
}
