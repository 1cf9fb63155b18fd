package foreign

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"

	"qq/internal/approval"
	"qq/internal/foreign/wire"
	"qq/internal/tools/tree"
	"qq/pkg/tool"
)

// auto reports whether nothing is asked.
func (b *backend) auto() bool {
	p := b.agent.Setup.Policy
	return p.Mode == approval.Auto && len(p.Deny) == 0
}

// doubt keeps rules from allowing a command of another program: they speak of commands that qq starts without a shell.
const doubt = "another program starts it, and no rule says what that does"

// Ask implements wire.Reporter: it decides about a call of the program as about one of the agent's own.
func (t *teller) Ask(ctx context.Context, q wire.Question) tool.Decision {
	d := t.decide(ctx, q)
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case d.Allowed:
		delete(t.denied, q.Tool)
	case ctx.Err() == nil && len(t.denied) < maxWarnings:
		t.denied[q.Tool] = d
	}
	return d
}

func (t *teller) decide(ctx context.Context, q wire.Question) tool.Decision {
	in := t.intent(q)
	names := []string{in.Tool}
	if in.Effect == tool.Writes { // rules may speak of any of them
		names = []string{"edit_file", "write_file", "create_file", "delete_file"}
	}
	p := t.agent.Setup.Policy
	dir := t.agent.Process.Dir
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	for _, name := range names {
		in.Tool = name
		if v, why := p.Judge(in, dir); v == approval.Refused {
			return tool.Decision{Reason: why}
		}
	}
	in.Tool = names[0]
	call := tool.Call{ID: callID(q.CallID), Name: in.Tool, Arguments: json.RawMessage("{}")}
	gate := approval.NewGate(approval.GateConfig{
		Offered:  tool.Set{planned(in)},
		ReadOnly: t.agent.Setup.ReadOnly, Policy: p, Approver: t.parent, Bounds: t.agent.Setup.Bounds, Dir: dir,
	})
	_, _, err := gate.Admit(tool.WithCall(ctx, call), call)
	if err == nil {
		return tool.Decision{Allowed: true}
	}
	d := tool.Decision{Reason: err.Error()}
	if refused, ok := errors.AsType[*tool.RefusedError](err); ok {
		d.Reason, d.Hint = refused.Reason, refused.Hint
	}
	return d
}

// planned is the tool whose calls do what in says.
func planned(in tool.Intent) tool.Tool {
	return tool.Function{
		About:  tool.Spec{Name: in.Tool, Effect: in.Effect, Parameters: json.RawMessage(`{"type":"object"}`)},
		Intent: func(context.Context, json.RawMessage) (tool.Intent, error) { return in, nil },
	}
}

// intent returns what a call would do. Its tool is the one of qq's that does the like, so that the same rules count.
func (t *teller) intent(q wire.Question) tool.Intent {
	if q.Effect == "" {
		q.Effect = tool.Executes
	}
	in := tool.Intent{Effect: q.Effect, Risk: q.Effect.Risk(), Host: q.Host, Cut: q.Cut, Command: q.Command}
	switch q.Effect {
	case tool.Reads:
		in.Tool = "read_file"
	case tool.Writes:
		in.Tool = "edit_file"
	case tool.Network:
		in.Tool = "web_fetch"
	default:
		in.Effect, in.Risk, in.Tool, in.Doubt = tool.Executes, tool.High, "run_pty_cmd", doubt
	}
	private := tree.Places(t.agent.Setup.Private)
	for _, path := range q.Paths {
		full := path
		if !filepath.IsAbs(full) {
			full = filepath.Join(t.agent.Process.Dir, path)
		}
		if private.Concern(full) != "" {
			in.Special = true
		}
		rel, err := filepath.Rel(t.agent.Process.Dir, full)
		if err != nil || !filepath.IsLocal(rel) {
			in.Special = true // a person sees it in the summary
			continue
		}
		in.Paths = append(in.Paths, filepath.ToSlash(rel))
	}
	if in.Special && in.Risk == tool.Low {
		in.Risk = tool.Medium
	}
	what := q.Summary
	if what == "" {
		what = strings.TrimSpace(q.Tool + " " + cmp.Or(q.Command, strings.Join(q.Paths, " "), q.Host))
	}
	in.Summary = t.Server + ": " + clean(what, maxShownAt)
	in.Preview = tool.Visible(cmp.Or(q.Preview, q.Command, strings.Join(q.Paths, "\n")))
	if len(in.Preview) > maxPreview {
		in.Preview, in.Cut = tool.First(in.Preview, maxPreview/4, "\n[cut]"), true
	}
	return in
}

// maxPreview is the longest preview of a question, in bytes.
const maxPreview = 64 << 10
