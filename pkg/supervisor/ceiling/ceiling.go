// Package ceiling decides which tasks an agent may delegate: to which agents, in which folder, with
// which tools. The limit of what an agent may delegate is its ceiling. The ceiling of a child is
// that of its parent, minus what the definition of the parent takes away. It never becomes wider.
//
// A [Ceiling] refuses a task ([Ceiling.DenyReason]) or restricts it ([Ceiling.Restrict]). [Agents]
// finds the agents of a run: the registered ones, and temporary ones that other agents define.
// [Agents.Intent] describes what delegating some tasks would do, for the person or the policy that
// has to approve it.
//
// Not promised: that a process stays within its ceiling. The root checks the ceiling before it
// starts anything; in a child, the tools and the kernel enforce the restrictions of its task.
package ceiling

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"qq/pkg/agents"
	"qq/pkg/supervisor/targets"
	"qq/pkg/task"
)

// Ceiling is the limit of what one running agent may delegate. It follows from the definition of
// the agent, from its own task and from the run.
type Ceiling struct {
	Agent    agents.Agent
	Task     task.Task // the task that the agent works on
	ReadOnly bool      // every agent of the run may only read
	Folders  Folders   // nil bars none
	Models   Models    // nil bars none
}

// Folders decides in which folders agents may have other agents work.
type Folders interface {
	// Bars returns why an agent that works in the folder own may not have another one work in dir, or "". Both are
	// real paths.
	Bars(own, dir string) string
}

// Models decides which models the tasks of agents may use.
type Models interface {
	// Bars returns why t, which an agent asks for, may not use its model, or "".
	Bars(ctx context.Context, t task.Task) string
}

// MayOnlyRead reports whether the agent and all that it starts may only read.
func (c Ceiling) MayOnlyRead() bool { return c.ReadOnly || c.Task.ReadOnly || c.Agent.Gathers() }

// MayAsk reports whether the agent may delegate to the agent to, as it is. An agent that may only read
// can ask one that changes things for a task with read_only, which does not count here.
func (c Ceiling) MayAsk(to agents.Agent) bool {
	return c.Agent.AllowsAgent(to.Name) && (!c.MayOnlyRead() || !to.Changes())
}

// Restrict returns t limited to the rights of the agent: t works in a folder relative to that of
// the agent, is read-only if the agent is, and may not use the tools that the agent may not use.
// Restrict also stores the real path of the folder in Dir, so that a symbolic link that somebody
// changes later cannot lead the task elsewhere.
func (c Ceiling) Restrict(t task.Task) task.Task {
	t.File, t.OtherFiles, t.Images, t.Slots, t.Broken = "", nil, nil, nil, "" // of a task of a batch
	t.WorkingDir = filepath.Join(c.Task.WorkingDir, t.WorkingDir)
	// By the time at which it starts, a link may stand there.
	if dir, err := realDir(t.WorkingDir); err == nil {
		t.Dir = dir
	}
	t.ReadOnly = t.ReadOnly || c.MayOnlyRead()
	t.CheckAsked, t.RequireChange = t.Check != "", false
	t.ModelBy = c.Agent.Name
	switch t.Model {
	case "":
		t.ModelBy = ""
	case c.Task.Model: // the text is there already
		t.ModelBy = c.Task.ModelBy
	}
	if t.Part { // Part chose it
		t.ModelBy = ""
	}
	t.Denied = slices.Compact(slices.Sorted(slices.Values(slices.Concat(c.Task.Denied, c.Agent.DisallowedTools))))
	return t
}

// DenyReason returns why the agent may not delegate t, and the status with which t ends in that
// case: [task.Refused] if the agent was told only to read, and [task.Misused] if it asks for what its
// definition does not give it. An empty reason means that the agent may delegate t. known is used to
// look up the agent that t names.
func (c Ceiling) DenyReason(t task.Task, known Registry) (task.Status, string) {
	if err := Check(t); err != nil {
		return task.Misused, err.Error()
	}
	if t.Part {
		return "", "" // nothing can come of it but a summary
	}
	if t.WorkingDir != "" && !inside(c.Task.WorkingDir, t.WorkingDir) {
		return task.Misused, fmt.Sprintf("working_dir %q is no folder inside of the working directory: name one that "+
			"exists, relative to it, such as src, or leave working_dir out", t.WorkingDir)
	}
	if !c.Agent.Delegates() {
		return task.Misused, c.Agent.Name + " may not hand on work"
	}
	if why := c.barsCheck(t, known); why != "" {
		return task.Misused, why
	}
	if t.Temporary != nil {
		if c.Agent.Agents != nil && len(c.Agent.Agents) == 0 {
			return task.Misused, c.Agent.Name + " may not delegate to anybody"
		}
		return "", "" // it gets what this agent has, and no more
	}
	to, err := known.Lookup(t.Normalized().Agent)
	if err != nil {
		return task.Misused, err.Error()
	}
	allowed := c.Agent.AllowsAgent(to.Name)
	switch {
	case !allowed && to.Name == c.Agent.Name:
		return task.Misused, "Cannot delegate to self"
	case !allowed:
		return task.Misused, fmt.Sprintf("%s may not delegate to %s (allowed: %s)", c.Agent.Name, to.Name,
			cmp.Or(strings.Join(c.Agent.Agents, ", "), "none"))
	case c.MayAsk(to) || t.ReadOnly:
		return "", ""
	}
	status := task.Misused
	if c.ReadOnly || c.Task.ReadOnly {
		status = task.Refused
	}
	return status, fmt.Sprintf("%s may only read and may not delegate to %s, which can change things "+
		"(with read_only it can be asked to look)", c.Agent.Name, to.Name)
}

// barsCheck returns why t may not have its check, or "": the agent that does t must be one that runs commands, and may
// change something here.
func (c Ceiling) barsCheck(t task.Task, known Registry) string {
	if t.Check == "" {
		return ""
	}
	to := c.Agent // a temporary agent has what this one has, and no more
	if t.Temporary == nil {
		var err error
		if to, err = known.Lookup(t.Normalized().Agent); err != nil {
			return err.Error()
		}
	}
	switch {
	case c.MayOnlyRead() || t.ReadOnly || to.Gathers():
		return "check is given for a task that may only read: leave it out"
	case !to.Allows(commandTool) || t.Temporary != nil && t.Temporary.Tools != nil &&
		!slices.Contains(t.Temporary.Tools, commandTool), slices.Contains(c.Agent.DisallowedTools, commandTool),
		slices.Contains(c.Task.Denied, commandTool):
		return "check is given for an agent without " + commandTool + ": leave it out, or ask one that runs commands"
	}
	return ""
}

// commandTool is the tool that runs commands. A check that an agent gives is a call of it.
const commandTool = "run_pty_cmd"

// Check returns what is wrong with t, or nil. It does not look up the agent of t.
func Check(t task.Task) error {
	if err := t.Validate(); err != nil {
		return err
	}
	if t.Check != "" && t.ReadOnly {
		return errors.New("check is given for a task that may only read: leave check or read_only out")
	}
	for _, target := range t.Targets {
		name := task.Shorten(target, 100)
		switch {
		case strings.HasPrefix(target, "~/"):
			return task.Hinted("write it relative to the folder of the task; a folder that is called ~ is ./~",
				"target %q begins with ~, which is not the home directory here", name)
		case filepath.IsLocal(filepath.FromSlash(target)) && !doublestar.ValidatePattern(target):
			return task.Hinted(`close each [ and {, or write a \ before one that belongs to the name of a file`,
				"target %q is a malformed glob", name)
		case !filepath.IsLocal(filepath.FromSlash(target)):
			return fmt.Errorf("target %q is no path or glob inside of the working directory", name)
		case targets.Alternatives(target) > targets.MaxAlternatives:
			return task.Hinted("write several targets in place of this one", "target %q has more than %d alternatives",
				name, targets.MaxAlternatives)
		}
	}
	return nil
}

// Relative returns t with targets that are relative to dir, the folder of the task.
// Absolute ones that are not inside of it stay.
func Relative(t task.Task, dir string) task.Task {
	if !slices.ContainsFunc(t.Targets, filepath.IsAbs) {
		return t
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return t
	}
	real, _ := realDir(dir)
	t.Targets = slices.Clone(t.Targets)
	for i, target := range t.Targets {
		for _, base := range []string{dir, real} {
			below, err := filepath.Rel(base, target)
			if err == nil && filepath.IsAbs(target) && filepath.IsLocal(below) {
				t.Targets[i] = below
			}
		}
	}
	return t
}

// Settle returns t limited to the rights of the agent ([Ceiling.Restrict]). The reason is empty unless
// the model that t would use or the folder that it would work in is barred. It looks at the real path
// that t keeps, so that a link that changes meanwhile does not help.
func (c Ceiling) Settle(ctx context.Context, t task.Task) (task.Task, string) {
	asked := t.WorkingDir
	t = c.Restrict(t)
	if c.Models != nil && !t.Part {
		if why := c.Models.Bars(ctx, t); why != "" {
			return t, why
		}
	}
	if c.Folders == nil || t.Part {
		return t, ""
	}
	own, err := c.Task.Dir, error(nil)
	if own == "" {
		own, err = realDir(c.Task.WorkingDir)
	}
	switch {
	case err != nil || t.Dir == "":
		return t, fmt.Sprintf("working_dir %q is gone", t.WorkingDir)
	case t.Dir == own:
		return t, ""
	}
	if why := c.Folders.Bars(own, t.Dir); why != "" {
		return t, fmt.Sprintf("working_dir %q %s: no agent is sent there\nhint: name another folder, or "+
			"leave working_dir out and let the task name the files", cmp.Or(asked, t.WorkingDir), why)
	}
	return t, ""
}

// realDir returns the absolute path of dir, with symbolic links followed. An empty dir means the
// working directory of this process.
func realDir(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}

// inside reports whether sub, a path relative to dir, is an existing folder that lies inside dir
// when symbolic links are followed. An empty dir means the working directory of this process.
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
