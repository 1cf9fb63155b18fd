package approval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"qq/internal/approval/rules"
	"qq/pkg/supervisor/changes"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// Withheld says why an existing tool is not offered to an agent.
type Withheld struct {
	// Denied says that a person or a policy took the tool away. Otherwise the agent never had it.
	Denied bool
	Reason string // for the model
}

// GateConfig says which tools one agent may use, and how.
type GateConfig struct {
	Offered tool.Set
	// Withheld holds the tools that exist but are not offered, by name.
	Withheld map[string]Withheld
	// ReadOnly refuses every call that writes. A tool that executes programs is offered to such
	// an agent only if the kernel's sandbox keeps it from writing.
	ReadOnly bool
	Policy   Policy
	// Within and Without are the rules of the agent's definition. It may not make calls of the tools
	// of Within that none of those rules covers, and none that a rule of Without touches.
	Within, Without []rules.Rule
	// Bounds bar the changes of files that the targets of the task do not cover, or of tasks above it.
	Bounds   changes.Bounds
	Dir      string   // the real path of the agent's folder; empty means that of the run
	Approver Approver // nil means that nobody can be asked
}

// Approver asks a person whether a call may run. It returns early when its context ends.
type Approver interface {
	Approve(ctx context.Context, in tool.Intent) tool.Decision
}

// Gate decides about every call of an agent, in the process that executes the call. Several
// goroutines may use it.
type Gate struct{ cfg GateConfig }

// NewGate returns the gate of one agent.
func NewGate(cfg GateConfig) *Gate { return &Gate{cfg: cfg} }

// Admit returns the tool for call c and the context to run it in. After an error the call must not run, and the
// text of the error is the answer to the model: a [tool.RefusedError] if a person or a policy does not allow the
// call, any other error if the call cannot work.
func (g *Gate) Admit(ctx context.Context, c tool.Call) (tool.Tool, context.Context, error) {
	t, ok := g.cfg.Offered.Lookup(c.Name)
	if !ok {
		return nil, nil, g.absent(c.Name)
	}
	if err := g.writes(c.Name, t.Spec().Effect); err != nil {
		return nil, nil, err
	}
	in, err := plan(ctx, t, c)
	if err != nil {
		return nil, nil, err
	}
	// A call may do more than its tool usually does.
	if err := g.writes(c.Name, in.Effect); err != nil {
		return nil, nil, err
	}
	for _, p := range in.Paths {
		if !filepath.IsLocal(filepath.FromSlash(p)) {
			return nil, nil, fmt.Errorf("%q is outside of the working directory", p)
		}
	}
	if err := g.bound(in); err != nil {
		return nil, nil, err
	}
	d, err := g.approve(ctx, in)
	if err != nil {
		return nil, nil, err
	}
	in.Rule = d.Rule
	if !d.Shown {
		in.Sums = nil
	}
	if in.Risk != tool.Low {
		ctx = tool.WithGrant(ctx, in)
	}
	return t, ctx, nil
}

// absent returns the error for a call of a tool that is not offered.
func (g *Gate) absent(name string) error {
	w, ok := g.cfg.Withheld[name]
	switch {
	case w.Denied:
		return refused(name, w.Reason)
	case ok:
		return errors.New(w.Reason)
	}
	names := cmp.Or(strings.Join(g.cfg.Offered.Names(), ", "), "none")
	return fmt.Errorf("no tool %q. The tools are: %s", name, names)
}

func (g *Gate) writes(name string, effect tool.Effect) error {
	if g.cfg.ReadOnly && effect == tool.Writes {
		return refused(name, "this agent is read-only")
	}
	return nil
}

// bound returns an error for a call that changes a file which the targets do not cover. The sandbox keeps commands from
// that.
func (g *Gate) bound(in tool.Intent) error {
	if in.Effect != tool.Writes {
		return nil
	}
	for _, p := range in.Paths {
		if targets := g.cfg.Bounds.Bar(p); targets != nil {
			return &BarredError{Path: p, Targets: targets}
		}
	}
	return nil
}

// BarredError is the error about a change of a file that the targets of a task do not cover.
type BarredError struct {
	Path    string
	Targets []string
}

// Error implements error.
func (e *BarredError) Error() string {
	return fmt.Sprintf("%s is not among the targets of the task (%s), and --strict-targets lets it change nothing "+
		"else: who gives the task can add it to its targets", e.Path, task.Shorten(strings.Join(e.Targets, ", "), 200))
}

// plan is [tool.Plan], but returns an error if the tool panics.
func plan(ctx context.Context, t tool.Tool, c tool.Call) (in tool.Intent, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s broke down: %v", c.Name, p)
		}
	}()
	return tool.Plan(ctx, t, c.Arguments)
}

// approve returns the decision of the policy or of a person that allows the call. Otherwise the error is the answer to
// the model.
func (g *Gate) approve(ctx context.Context, in tool.Intent) (d tool.Decision, err error) {
	rule, err := g.limit(in)
	if err != nil {
		return d, err
	}
	in = suspected(in, slices.Concat(g.cfg.Policy.Deny, g.cfg.Without))
	verdict, why := g.cfg.Policy.Judge(in, g.cfg.Dir)
	switch verdict {
	case Allowed:
		return tool.Decision{Allowed: true, Rule: cmp.Or(why, rule)}, nil
	case Refused:
		return d, refused(in.Tool, why)
	}
	if g.cfg.Approver == nil {
		return d, refused(in.Tool, g.cfg.Policy.unasked(in, g.cfg.Dir, g.cfg.Policy.Allow))
	}
	if wide := g.cfg.Policy.wide(in, g.cfg.Dir); wide != "" {
		in.Summary += " (the working directory is " + wide + ")"
	}
	d = g.cfg.Approver.Approve(ctx, in)
	switch {
	case d.Allowed:
		d.Rule = cmp.Or(d.Rule, rule)
		return d, nil
	case ctx.Err() != nil: // the agent has ended, nobody decided against the call
		return d, fmt.Errorf("not run: %w", context.Cause(ctx))
	}
	return d, &tool.RefusedError{Tool: in.Tool, Reason: cmp.Or(d.Reason, "it was not approved"), Hint: d.Hint}
}

// limit returns the rule that binds a call of the tool, whoever allows it. The error says that the definition of
// the agent does not give it such a call.
func (g *Gate) limit(in tool.Intent) (rule string, err error) {
	mine := func(r rules.Rule) bool { return r.Tool == in.Tool && r.Pattern != "" }
	if i := slices.IndexFunc(g.cfg.Policy.Deny, mine); i >= 0 && in.Host != "" {
		rule = g.cfg.Policy.Deny[i].String() // a page could send it on to a host that is denied
	}
	folder := g.cfg.Policy.folder(g.cfg.Dir)
	for _, r := range g.cfg.Without {
		if r.Touches(in, folder) {
			return "", fmt.Errorf("the definition of this agent takes %s from it", r)
		}
	}
	var all []string
	for _, r := range g.cfg.Within {
		switch {
		case r.Tool != in.Tool:
		case r.Covers(in, folder):
			return r.String(), nil
		default:
			all = append(all, r.String())
		}
	}
	if len(all) == 0 {
		return rule, nil
	}
	why := "the definition of this agent gives it only " + strings.Join(all, ", ")
	if in.Doubt != "" {
		why += " (" + in.Doubt + ")"
	}
	return "", errors.New(why)
}

func refused(name, reason string) error { return &tool.RefusedError{Tool: name, Reason: reason} }
