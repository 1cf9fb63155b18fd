package approval

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"qq/internal/approval/rules"
	"qq/pkg/tool"
)

// fake is a tool that tells beforehand what plan says.
type fake struct {
	name   string
	effect tool.Effect
	plan   func(args json.RawMessage) (tool.Intent, error)
}

func (f fake) Spec() tool.Spec { return tool.Spec{Name: f.name, Effect: f.effect} }

func (f fake) Run(context.Context, json.RawMessage) tool.Result { return tool.Text(f.name) }

func (f fake) Plan(_ context.Context, args json.RawMessage) (tool.Intent, error) {
	if f.plan == nil {
		return tool.Intent{}, nil
	}
	return f.plan(args)
}

// approverFunc is an Approver.
type approverFunc func(ctx context.Context, in tool.Intent) tool.Decision

func (f approverFunc) Approve(ctx context.Context, in tool.Intent) tool.Decision { return f(ctx, in) }

// intends is a plan that says in.
func intends(in tool.Intent) func(json.RawMessage) (tool.Intent, error) {
	return func(json.RawMessage) (tool.Intent, error) { return in, nil }
}

func admit(g *Gate, name string) (tool.Tool, context.Context, error) {
	return g.Admit(context.Background(), tool.Call{Name: name, Arguments: json.RawMessage(`{"a":1}`)})
}

// whole returns rules for all calls of tools.
func whole(tools ...string) (list []rules.Rule) {
	for _, t := range tools {
		list = append(list, rules.Rule{Tool: t})
	}
	return list
}

func TestJudge(t *testing.T) {
	shell := tool.Intent{Tool: "run_pty_cmd", Risk: tool.High}
	edit := tool.Intent{Tool: "edit_file", Risk: tool.Medium}
	read := tool.Intent{Tool: "read_file", Risk: tool.Low}
	special := tool.Intent{Tool: "run_pty_cmd", Risk: tool.High, Special: true}
	lists := Policy{Allow: whole("run_pty_cmd", "both"), Deny: whole("both", "read_file")}
	with := func(m Mode) Policy { p := lists; p.Mode = m; return p }
	for name, c := range map[string]struct {
		policy Policy
		in     tool.Intent
		want   Verdict
	}{
		"ask, low":           {Policy{Mode: Ask}, read, Allowed},
		"ask, medium":        {Policy{Mode: Ask}, edit, Asked},
		"ask, high":          {Policy{Mode: Ask}, shell, Asked},
		"zero policy":        {Policy{}, edit, Asked},
		"unknown mode":       {Policy{Mode: "AUTO"}, edit, Asked},
		"unknown risk":       {Policy{}, tool.Intent{Tool: "x"}, Asked},
		"auto":               {Policy{Mode: Auto}, shell, Allowed},
		"deny, low":          {Policy{Mode: Deny}, read, Allowed},
		"deny, medium":       {Policy{Mode: Deny}, edit, Refused},
		"on the allow list":  {with(Ask), shell, Allowed},
		"allowed, mode deny": {with(Deny), shell, Allowed},
		"on the deny list":   {with(Ask), read, Refused},
		"denied, mode auto":  {with(Auto), read, Refused},
		"on both lists":      {with(Auto), tool.Intent{Tool: "both", Risk: tool.Low}, Refused},
		"on none":            {with(Ask), edit, Asked},

		"special, allowed":            {with(Ask), special, Asked},
		"special, allowed, mode deny": {with(Deny), special, Refused},
		"special, mode auto":          {with(Auto), special, Allowed},
		"special, denied":             {Policy{Mode: Auto, Deny: whole("run_pty_cmd")}, special, Refused},
	} {
		got, reason := c.policy.Judge(c.in, "")
		assert.Equal(t, c.want, got, name)
		assert.Equal(t, c.want == Refused, reason != "", name)
	}
}

// The Policy travels to children.
func TestPolicyJSON(t *testing.T) {
	data, err := json.Marshal(Policy{Mode: Ask, Deny: whole("x")})
	require.NoError(t, err)
	assert.Equal(t, `{"mode":"ask","deny":["x"]}`, string(data))
}

// What is not offered is not admitted, whatever the policy.
func TestAdmitAbsent(t *testing.T) {
	g := NewGate(GateConfig{
		Offered: tool.Set{fake{name: "read_file", effect: tool.Reads}, fake{name: "grep_file", effect: tool.Reads}},
		Policy:  Policy{Mode: Auto, Allow: whole("edit_file", "nothing")},
		Withheld: map[string]Withheld{
			"edit_file":     {true, "this agent only reads"},
			"run_pty_cmd":   {true, "no sandbox here"},
			"web_fetch":     {true, "no network"},
			"delegate_task": {false, "an agent at this depth cannot delegate"},
			"delete_file":   {false, "the definition of coder does not give it this tool"},
		},
	})
	for name, reason := range map[string]string{"edit_file": "this agent only reads", "run_pty_cmd": "no sandbox here",
		"web_fetch": "no network"} {
		_, _, err := admit(g, name)
		assert.Equal(t, &tool.RefusedError{Tool: name, Reason: reason}, err)
	}
	for name, text := range map[string]string{
		"delegate_task": "an agent at this depth cannot delegate",
		"delete_file":   "the definition of coder does not give it this tool",
		"nothing":       `no tool "nothing". The tools are: read_file, grep_file`,
		"Read_file":     `no tool "Read_file". The tools are: read_file, grep_file`,
	} {
		_, _, err := admit(g, name)
		assert.EqualError(t, err, text)
		assert.NotErrorAs(t, err, new(*tool.RefusedError))
	}
	_, _, err := admit(NewGate(GateConfig{}), "x")
	assert.EqualError(t, err, `no tool "x". The tools are: none`)
}

func TestAdmitReadOnly(t *testing.T) {
	g := NewGate(GateConfig{ReadOnly: true, Policy: Policy{Mode: Auto}, Offered: tool.Set{
		fake{name: "write", effect: tool.Writes, plan: func(json.RawMessage) (tool.Intent, error) {
			panic("not asked")
		}},
		fake{name: "claims", effect: tool.Writes, plan: intends(tool.Intent{Effect: tool.Reads})},
		fake{name: "turns", effect: tool.Reads, plan: intends(tool.Intent{Effect: tool.Writes})},
		fake{name: "shell", effect: tool.Executes},
		fake{name: "read", effect: tool.Reads},
	}})
	for _, name := range []string{"write", "claims", "turns"} {
		_, _, err := admit(g, name)
		assert.Equal(t, &tool.RefusedError{Tool: name, Reason: "this agent is read-only"}, err)
	}
	for _, name := range []string{"shell", "read"} {
		got, _, err := admit(g, name)
		require.NoError(t, err)
		assert.Equal(t, name, got.Spec().Name)
	}
}

// A call that cannot work is answered, and nobody is asked about it.
func TestAdmitBrokenPlan(t *testing.T) {
	wrong := errors.New("the text is not there")
	g := NewGate(GateConfig{
		Approver: approverFunc(func(context.Context, tool.Intent) tool.Decision { panic("nobody is to be asked") }),
		Offered: tool.Set{
			fake{name: "wrong", effect: tool.Writes, plan: func(json.RawMessage) (tool.Intent, error) {
				return tool.Intent{}, wrong
			}},
			fake{name: "panics", effect: tool.Writes, plan: func(json.RawMessage) (tool.Intent, error) {
				panic("index out of range")
			}},
		},
	})
	_, _, err := admit(g, "wrong")
	assert.Equal(t, wrong, err, "as the tool itself would answer")
	_, _, err = admit(g, "panics")
	assert.EqualError(t, err, "panics broke down: index out of range")
}

func TestAdmitPaths(t *testing.T) {
	asks := 0
	for path, ok := range map[string]bool{
		"a.go": true, ".": true, "a/../b": true, "..a": true,
		"..": false, "../a": false, "a/../../b": false, "/etc/passwd": false, "": false,
	} {
		g := NewGate(GateConfig{
			Offered: tool.Set{fake{name: "edit", effect: tool.Writes,
				plan: intends(tool.Intent{Paths: []string{"fine", path}})}},
			Approver: approverFunc(func(context.Context, tool.Intent) tool.Decision {
				asks++
				return tool.Decision{Allowed: true}
			}),
		})
		_, _, err := admit(g, "edit")
		if ok {
			assert.NoError(t, err, path)
			continue
		}
		assert.NotErrorAs(t, err, new(*tool.RefusedError), path)
		assert.ErrorContains(t, err, "outside of the working directory", path)
	}
	assert.Equal(t, 4, asks, "nobody is asked about what is not possible")
}

func TestAdmitAsks(t *testing.T) {
	var asked []tool.Intent
	answer := tool.Decision{Allowed: true}
	cfg := GateConfig{
		Policy: Policy{Allow: whole("allowed"), Deny: whole("denied")},
		Offered: tool.Set{
			fake{name: "read", effect: tool.Reads}, fake{name: "allowed", effect: tool.Executes},
			fake{name: "denied", effect: tool.Reads},
			fake{name: "edit", effect: tool.Writes,
				plan: intends(tool.Intent{Summary: "edit a.go", Paths: []string{"a.go"}, Preview: "+a"})},
		},
		Approver: approverFunc(func(_ context.Context, in tool.Intent) tool.Decision {
			asked = append(asked, in)
			return answer
		}),
	}
	g := NewGate(cfg)
	edit := tool.Intent{Tool: "edit", Effect: tool.Writes, Risk: tool.Medium, Summary: "edit a.go",
		Paths: []string{"a.go"}, Preview: "+a"}

	_, ctx, err := admit(g, "read")
	require.NoError(t, err)
	_, ok := tool.Granted(ctx)
	assert.False(t, ok, "what needs no approval has none")

	_, ctx, err = admit(g, "allowed")
	require.NoError(t, err)
	in, ok := tool.Granted(ctx)
	assert.True(t, ok, "the person who wrote the list allowed it")
	assert.Equal(t, "allowed", in.Tool)

	_, _, err = admit(g, "denied")
	assert.EqualError(t, err, "denied was refused: it is denied in this run")
	assert.Empty(t, asked)

	got, ctx, err := admit(g, "edit")
	require.NoError(t, err)
	assert.Equal(t, "edit", got.Spec().Name)
	in, _ = tool.Granted(ctx)
	assert.Equal(t, edit, in)
	assert.Equal(t, []tool.Intent{edit}, asked)

	for _, answer = range []tool.Decision{{Allowed: true, Shown: true}, {Allowed: true}} {
		_, ctx, err = admit(NewGate(GateConfig{
			Offered: tool.Set{fake{name: "edit", effect: tool.Writes,
				plan: intends(tool.Intent{Paths: []string{"a.go"}, Sums: map[string]string{"a.go": "x"}})}},
			Approver: cfg.Approver,
		}), "edit")
		require.NoError(t, err)
		in, _ = tool.Granted(ctx)
		assert.Equal(t, answer.Shown, in.Sums != nil, "a call is bound to what a person was shown")
	}

	answer = tool.Decision{Reason: "the user said no"}
	_, _, err = admit(g, "edit")
	assert.Equal(t, &tool.RefusedError{Tool: "edit", Reason: "the user said no"}, err)
	answer = tool.Decision{}
	_, _, err = admit(g, "edit")
	assert.EqualError(t, err, "edit was refused: it was not approved")

	cfg.Approver = nil
	_, _, err = admit(NewGate(cfg), "edit")
	assert.EqualError(t, err, "edit was refused: it needs an approval and nobody can be asked here: "+
		"allow it with --allow edit, or everything with --auto-approve")

	special := fake{name: "edit", effect: tool.Writes, plan: intends(tool.Intent{Special: true})}
	_, _, err = admit(NewGate(GateConfig{Policy: Policy{Allow: whole("edit")}, Offered: tool.Set{special}}), "edit")
	assert.EqualError(t, err, "edit was refused: it needs an approval of its own (edit), "+
		"and nobody can be asked here: only --auto-approve or a person on the terminal can allow it")
}

// Who stopped while waiting was not refused anything.
func TestAdmitStopped(t *testing.T) {
	ctx, stop := context.WithCancelCause(context.Background())
	g := NewGate(GateConfig{
		Offered: tool.Set{fake{name: "edit", effect: tool.Writes}},
		Approver: approverFunc(func(context.Context, tool.Intent) tool.Decision {
			stop(errors.New("Ctrl-C"))
			return tool.Decision{Reason: "no longer needed"}
		}),
	})
	_, _, err := g.Admit(ctx, tool.Call{Name: "edit"})
	assert.EqualError(t, err, "not run: Ctrl-C")
	assert.NotErrorAs(t, err, new(*tool.RefusedError))
}

// Whatever is called under whatever configuration: what is admitted was offered,
// does not write for an agent that only reads, is not denied, stays inside, and
// is low, or allowed beforehand, or was allowed by somebody who was asked.
func TestAnyCall(t *testing.T) {
	names := []string{"a", "b", "c", "d"}
	effects := []tool.Effect{tool.Reads, tool.Delegates, tool.Writes, tool.Network, tool.Executes, ""}
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.SampledFrom(names), 0, 3)
		yes, asked := rapid.Bool().Draw(t, "yes"), 0
		cfg := GateConfig{
			ReadOnly: rapid.Bool().Draw(t, "read-only"),
			Policy: Policy{
				Mode:  rapid.SampledFrom([]Mode{Ask, Auto, Deny, ""}).Draw(t, "mode"),
				Allow: whole(list.Draw(t, "allow")...), Deny: whole(list.Draw(t, "deny")...),
			},
			Withheld: map[string]Withheld{"d": {Denied: rapid.Bool().Draw(t, "denied"), Reason: "why"}},
		}
		if rapid.Bool().Draw(t, "asks") {
			cfg.Approver = approverFunc(func(context.Context, tool.Intent) tool.Decision {
				asked++
				return tool.Decision{Allowed: yes}
			})
		}
		intents := map[string]tool.Intent{}
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 3, rapid.ID).Draw(t, "offered") {
			f := fake{name: name, effect: rapid.SampledFrom(effects).Draw(t, "effect")}
			in := tool.Intent{
				Effect:  rapid.SampledFrom(effects).Draw(t, "this time"),
				Risk:    rapid.SampledFrom([]tool.Risk{"", tool.Low, tool.Medium, tool.High}).Draw(t, "risk"),
				Special: rapid.Bool().Draw(t, "special"),
				Paths:   rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b/c", "../d", "/e"}), 0, 2).Draw(t, "paths"),
			}
			f.plan = intends(in)
			intents[name], _ = tool.Plan(context.Background(), f, nil)
			cfg.Offered = append(cfg.Offered, f)
		}
		name := rapid.SampledFrom(names).Draw(t, "called")
		got, ctx, err := admit(NewGate(cfg), name)
		if err != nil {
			assert.Nil(t, got)
			assert.NotEmpty(t, err.Error())
			return
		}
		in, ok := intents[name]
		require.True(t, ok, "%s was not offered", name)
		_, granted := tool.Granted(ctx)
		assert.False(t, cfg.ReadOnly && (got.Spec().Effect == tool.Writes || in.Effect == tool.Writes))
		assert.NotContains(t, cfg.Policy.Deny, rules.Rule{Tool: name})
		assert.False(t, slices.ContainsFunc(in.Paths, func(p string) bool { return p[0] == '/' || p[0] == '.' }))
		assert.Equal(t, in.Risk != tool.Low, granted)
		beforehand := in.Risk == tool.Low || cfg.Policy.Mode == Auto ||
			slices.Contains(cfg.Policy.Allow, rules.Rule{Tool: name}) && !in.Special
		assert.Equal(t, beforehand, asked == 0)
		assert.True(t, beforehand || yes)
	})
}
