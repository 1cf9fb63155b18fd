package dispatch

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"qq/pkg/agents"
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
	if t.Part {
		t = task.Task{Text: t.Text, Context: t.Context, Agent: summarizer, Model: p.partModel(t.Model), ReadOnly: true, Part: true}
		if !p.countPart() {
			return refuse(task.Limit, fmt.Sprintf("%s has had %d parts of texts summarised, which is the most", p.agent.Name, MaxParts))
		}
	}
	if t.Temporary != nil {
		var err error
		if t, err = p.d.hire(p.agent, t); err != nil {
			return refuse(task.Refused, err.Error())
		}
	}
	t = p.d.resolved(t)
	t.File = ""
	t.WorkingDir = filepath.Join(p.own.WorkingDir, t.WorkingDir)
	// By the time at which it starts, a link may stand there.
	if dir, err := realDir(t.WorkingDir); err == nil {
		t.Dir = dir
	}
	t.ReadOnly = t.ReadOnly || p.readOnly()
	t.Denied = slices.Compact(slices.Sorted(slices.Values(slices.Concat(p.own.Denied, p.agent.DisallowedTools))))
	if limit := p.d.limit(t.Agent); limit > 0 {
		t.Timeout = min(t.Timeout, limit.Seconds()) // an agent may ask for less, not for more
	}
	return t, nil
}

// summarizer is the agent for the parts of a document that is too long.
const summarizer = "summarizer"

// MaxParts is how many parts of documents one child may have summarised. They
// count among no other limit, and whoever may not hand on work may ask for them.
const MaxParts = 5000

// countPart reports whether one more part may be summarised.
func (p *Place) countPart() bool {
	if p.isRoot() {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.parts == MaxParts {
		return false
	}
	p.parts++
	return true
}

// isRoot reports whether p is the place of this process, which nobody has talked
// into anything.
func (p *Place) isRoot() bool { return p.parent == nil && p.batch == "" && p.id == p.d.cfg.ID }

// partModel is the model for parts, of which the agent says that it is its own. It
// may not choose another: it gets that of its task, of its definition, or of the
// run. Only where the definition of the summarizer would have it otherwise, the
// agent is believed: the parts were cut for its model.
func (p *Place) partModel(asked string) string {
	if p.isRoot() {
		return asked
	}
	if p.own.Model != "" {
		return p.own.Model
	}
	if p.agent.Model != "" && bareModel(asked) == bareModel(p.agent.Model) {
		return p.agent.Model
	}
	if a, err := p.d.Agent(summarizer); err == nil && a.Model != "" {
		return asked
	}
	return ""
}

// bareModel is the name of a model without what may be left out of it.
func bareModel(name string) string {
	return strings.TrimSuffix(strings.TrimPrefix(name, "ollama:"), ":latest")
}

// readOnly reports whether the agent and all that it starts may only read.
func (p *Place) readOnly() bool { return p.d.cfg.ReadOnly || p.own.ReadOnly || p.agent.Gathers() }

// objection says why the agent may not have t done, or returns "".
func (p *Place) objection(t task.Task) (task.Status, string) {
	own := p.own
	if err := p.d.check(t); err != nil {
		return task.Misused, err.Error()
	}
	if t.Part {
		return "", "" // nothing can come of it but a summary
	}
	if t.WorkingDir != "" && !inside(own.WorkingDir, t.WorkingDir) {
		return task.Refused, fmt.Sprintf("working_dir %q is no folder inside of the working directory", t.WorkingDir)
	}
	if !slices.ContainsFunc([]string{"delegate_task", "run_parallel_tasks", "spawn_agent"}, p.agent.Allows) {
		return task.Refused, p.agent.Name + " may not hand on work"
	}
	if t.Temporary != nil {
		if p.agent.Agents != nil && len(p.agent.Agents) == 0 {
			return task.Refused, p.agent.Name + " may not delegate to anybody"
		}
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

// limit is the longest run time of an agent; 0 is none. What its definition says
// goes before the default of the run, not before a limit that a person has set.
func (d *Dispatcher) limit(agent string) time.Duration {
	limit := d.cfg.Limits.ChildTimeout
	a, err := d.Agent(agent)
	switch {
	case err != nil || a.Timeout == 0:
		return limit
	case limit == 0 || d.cfg.DefaultTimeout:
		return a.Timeout
	}
	return min(a.Timeout, limit)
}

// hire registers the agent that by has made up for t under a name of its own.
func (d *Dispatcher) hire(by agents.Agent, t task.Task) (task.Task, error) {
	d.hired.Lock()
	defer d.hired.Unlock()
	name := ""
	for i := len(d.hired.agents) + 1; ; i++ {
		name = fmt.Sprintf("temporary-%d", i)
		_, taken := d.hired.agents[name]
		if _, err := d.cfg.Agents.Lookup(name); !taken && err != nil { // one of a checkout may have that name
			break
		}
	}
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
	if a, ok := d.made(name); ok {
		return a, nil
	}
	return d.cfg.Agents.Lookup(name)
}

// made returns the agent of that name that was made up in this run.
func (d *Dispatcher) made(name string) (agents.Agent, bool) {
	d.hired.Lock()
	defer d.hired.Unlock()
	a, ok := d.hired.agents[name]
	return a, ok
}

// realDir is the folder dir, links followed; an empty one is that of this process.
func realDir(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}

// inside reports whether sub names a folder in dir, links followed; an empty dir
// is that of this process.
func inside(dir, sub string) bool {
	if !filepath.IsLocal(sub) {
		return false
	}
	root, err := realDir(dir)
	if err != nil {
		return false
	}
	real, err := filepath.EvalSymlinks(filepath.Join(root, sub))
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

// Approve decides about a call that the agent wants to make. While somebody is
// asked, its slot is lent.
func (p *Place) Approve(ctx context.Context, in tool.Intent) tool.Decision {
	desk := p.d.cfg.Desk
	if desk == nil {
		return tool.Decision{Allowed: true}
	}
	q := tool.Question{ExecutionID: p.id, BatchID: p.batch, Depth: p.depth, Chain: p.chain, Dir: p.own.WorkingDir, Intent: in}
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
