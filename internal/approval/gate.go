package approval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"qq/pkg/tool"
)

// Withheld says why an existing tool is not offered to an agent.
type Withheld struct {
	Effect tool.Effect
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
// text of the error is the answer to the model: a [tool.RefusedError] if the agent may not make the call, any other
// error if the call cannot work.
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
			return nil, nil, refused(c.Name, fmt.Sprintf("%q is outside of the working directory", p))
		}
	}
	if err := g.approve(ctx, in); err != nil {
		return nil, nil, err
	}
	if in.Risk != tool.Low {
		ctx = tool.WithGrant(ctx, in)
	}
	return t, ctx, nil
}

// absent returns the error for a call of a tool that is not offered.
func (g *Gate) absent(name string) error {
	w, ok := g.cfg.Withheld[name]
	if !ok {
		names := cmp.Or(strings.Join(g.cfg.Offered.Names(), ", "), "none")
		return fmt.Errorf("no tool %q. The tools are: %s", name, names)
	}
	switch w.Effect {
	case tool.Reads, tool.Delegates:
		return errors.New(w.Reason)
	}
	return refused(name, w.Reason)
}

func (g *Gate) writes(name string, effect tool.Effect) error {
	if g.cfg.ReadOnly && effect == tool.Writes {
		return refused(name, "this agent is read-only")
	}
	return nil
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

// approve returns nil if the policy or a person allows the call. Otherwise the error is the answer to the model.
func (g *Gate) approve(ctx context.Context, in tool.Intent) error {
	verdict, reason := g.cfg.Policy.Judge(in)
	switch verdict {
	case Allowed:
		return nil
	case Refused:
		return refused(in.Tool, reason)
	}
	if g.cfg.Approver == nil {
		return refused(in.Tool, nobody(in))
	}
	d := g.cfg.Approver.Approve(ctx, in)
	switch {
	case d.Allowed:
		return nil
	case ctx.Err() != nil: // the agent has ended, nobody decided against the call
		return fmt.Errorf("not run: %w", context.Cause(ctx))
	}
	return refused(in.Tool, cmp.Or(d.Reason, "it was not approved"))
}

func refused(name, reason string) error { return &tool.RefusedError{Tool: name, Reason: reason} }
