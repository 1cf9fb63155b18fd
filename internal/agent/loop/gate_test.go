package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"qq/pkg/event"
	"qq/pkg/llm"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// gate is a Gate made of a function.
type gate func(ctx context.Context, c tool.Call) (tool.Tool, context.Context, error)

func (g gate) Admit(ctx context.Context, c tool.Call) (tool.Tool, context.Context, error) {
	return g(ctx, c)
}

// refusing is a gate for tools that refuses a call if no returns a reason.
func refusing(tools tool.Set, no func(c tool.Call) bool) gate {
	return func(ctx context.Context, c tool.Call) (tool.Tool, context.Context, error) {
		t, ok := tools.Lookup(c.Name)
		switch {
		case no(c):
			return nil, nil, fmt.Errorf(
				"ask: %w",
				&tool.RefusedError{Tool: c.Name, Reason: "of " + string(c.Arguments)},
			)
		case !ok:
			return nil, nil, errors.New("there is no " + c.Name)
		}
		return t, tool.WithGrant(ctx, tool.Intent{Summary: "run " + c.Name}), nil
	}
}

func never(tool.Call) bool { return false }

func working(names ...string) (tools tool.Set) {
	for _, name := range names {
		run := func(context.Context) tool.Result { return tool.Text("by " + name) }
		tools = append(tools, fn{name, tool.Writes, run})
	}
	return tools
}

// The gate chooses the tool and the context that it runs in, whatever the model was
// offered.
func TestGateAdmits(t *testing.T) {
	granted := reading("hidden", func(ctx context.Context) tool.Result {
		in, _ := tool.Granted(ctx)
		return tool.Text(in.Summary)
	})
	model := &script{steps: []step{says("", calling("hidden"), calling("offered")), says("done")}}
	out, rec := start(t, t.Context(), Config{
		Backend: model, MaxTurns: 2, Tools: working("offered"), Gate: refusing(tool.Set{granted}, never),
	}, nil)
	assert.Equal(t, task.Completed, out.Status, "an unknown tool is no refusal")
	assert.Equal(t, []string{"run hidden", "Error: there is no offered"}, answersOf(rec.messages))
}

func TestGateRefuses(t *testing.T) {
	tools := working("write", "run", "read")
	tools = append(tools, reading("fail", func(context.Context) tool.Result { return tool.Failure("Error: no") }))
	first := func() func(tool.Call) bool { // refuses the first call of each tool but read
		seen := map[string]bool{"read": true}
		return func(c tool.Call) bool {
			again := seen[c.Name]
			seen[c.Name] = true
			return !again
		}
	}
	for name, c := range map[string]struct {
		calls [][]string
		err   string // "" where the run is completed
	}{
		"never made up for":     {[][]string{{"write"}, {"read"}}, `write was refused: of {"of":"write"}`},
		"worked later":          {[][]string{{"write"}, {"write"}}, ""},
		"worked in same answer": {[][]string{{"write", "write"}}, ""},
		"failed later":          {[][]string{{"fail"}, {"fail"}}, `fail was refused: of {"of":"fail"}`},
		"two": {[][]string{{"write", "run"}, {"read"}},
			`write was refused: of {"of":"write"}; run was refused: of {"of":"run"}`},
		"one of two": {[][]string{{"write", "run"}, {"write"}}, `run was refused: of {"of":"run"}`},
	} {
		t.Run(name, func(t *testing.T) {
			var steps []step
			for _, names := range c.calls {
				var calls []tool.Call
				for _, n := range names {
					calls = append(calls, calling(n))
				}
				steps = append(steps, says("", calls...))
			}
			model := &script{steps: append(steps, says(`{"n":1}`))}
			out, rec := start(t, t.Context(), Config{
				Backend: model, MaxTurns: 9, Tools: tools, Gate: refusing(tools, first()),
				Schema: json.RawMessage(number),
			}, nil)
			assert.Equal(t, `{"n":1}`, out.Output)
			assert.JSONEq(t, `{"n":1}`, string(out.Structured))
			if c.err == "" {
				assert.Equal(t, task.Completed, out.Status)
				return
			}
			assert.Equal(t, task.Refused, out.Status)
			assert.Equal(t, c.err, out.Err())
			assert.Equal(
				t,
				`Error: ask: `+c.calls[0][0]+` was refused: of {"of":"`+c.calls[0][0]+`"}`,
				answersOf(rec.messages)[0],
			)
			assert.True(t, rec.events[1].Failed)
		})
	}
}

// The hints of refusals are for a person: they are in the result, below all reasons, and the model does not read them.
func TestRefusalHints(t *testing.T) {
	all := refusals{
		{"a", &tool.RefusedError{Tool: "a", Reason: "no", Hint: "say yes"}},
		{"b", &tool.RefusedError{Tool: "b", Reason: "no"}},
		{"c", &tool.RefusedError{Tool: "c", Reason: "never", Hint: "wait"}},
	}
	assert.Equal(t, "a was refused: no; b was refused: no; c was refused: never\nhint: say yes; wait", all.String())
	assert.Equal(t, "b was refused: no", all[1:2].String())
	assert.Equal(t, "a was refused: no", all[0].err.Error())
}

// The result names the last refusal of a tool.
func TestLastRefusalCounts(t *testing.T) {
	again := calling("write")
	again.Arguments = json.RawMessage(`{"path":"b"}`)
	model := &script{steps: []step{says("", calling("write"), again), says("done")}}
	out, _ := start(
		t,
		t.Context(),
		Config{Backend: model, MaxTurns: 2, Gate: refusing(nil, func(tool.Call) bool { return true })},
		nil,
	)
	assert.Equal(t, `write was refused: of {"path":"b"}`, out.Err())
}

// A refusal does not replace a worse status.
func TestRefusedAndTurnLimit(t *testing.T) {
	model := &script{steps: []step{says("", calling("write")), says("what I have")}}
	out, _ := start(
		t,
		t.Context(),
		Config{Backend: model, MaxTurns: 1, Gate: refusing(nil, func(tool.Call) bool { return true })},
		nil,
	)
	assert.Equal(t, task.TurnLimit, out.Status)
}

// A gate that panics fails one call only. Delegations call it from goroutines of their
// own.
func TestGatePanics(t *testing.T) {
	tools := tool.Set{
		fn{"d1", tool.Delegates, func(context.Context) tool.Result { return tool.Text("done") }},
		fn{"d2", tool.Delegates, func(context.Context) tool.Result { return tool.Text("done") }},
	}
	broken := gate(func(ctx context.Context, c tool.Call) (tool.Tool, context.Context, error) {
		if c.Name == "d2" {
			panic("no policy")
		}
		return tools[0], ctx, nil
	})
	model := &script{steps: []step{says("", calling("d1"), calling("d2"), calling("d1")), says("done")}}
	out, rec := start(t, t.Context(), Config{Backend: model, MaxTurns: 2, Tools: tools, Gate: broken}, nil)
	assert.Equal(t, task.Completed, out.Status)
	assert.Equal(t, []string{"done", "Error: d2 broke down: no policy", "done"}, answersOf(rec.messages))
	assert.Len(t, rec.events, 6)

	nothing := gate(func(ctx context.Context, _ tool.Call) (tool.Tool, context.Context, error) { return nil, ctx, nil })
	model = &script{steps: []step{says("", calling("d1")), says("done")}}
	_, rec = start(t, t.Context(), Config{Backend: model, MaxTurns: 2, Gate: nothing}, nil)
	assert.Contains(t, answersOf(rec.messages)[0], "Error: d1 broke down: ")
}

// A call that waits for the gate ends when the run does.
func TestCancelWhileGateWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errEnough) })
		waits := gate(func(ctx context.Context, c tool.Call) (tool.Tool, context.Context, error) {
			<-ctx.Done()
			return nil, nil, &tool.RefusedError{Tool: c.Name, Reason: "nobody answered"}
		})
		out, rec := start(
			t,
			ctx,
			Config{Backend: &script{steps: []step{says("", calling("write"), calling("write"))}}, Gate: waits},
			nil,
		)
		assert.Equal(t, task.Interrupted, out.Status)
		assert.Equal(
			t,
			[]string{"Error: write was refused: nobody answered", "Error: not run: enough"},
			answersOf(rec.messages),
		)
	})
}

// Changed files are reported at once and listed in the result, however the run ends, also
// those of a failed call.
func TestChangedFiles(t *testing.T) {
	changes := func(name string, r tool.Result) fn {
		return fn{name, tool.Writes, func(context.Context) tool.Result { return r }}
	}
	tools := tool.Set{
		changes("b", tool.Result{Content: "ok", Changed: []string{"b", "a"}}),
		changes("again", tool.Result{Content: "Error: half", Failed: true, Changed: []string{"c/d", "b"}}),
		changes("none", tool.Result{Content: "ok"}),
	}
	var told [][]string
	cfg := Config{Tools: tools, MaxTurns: 5, Host: hooks{changed: func(paths []string) { told = append(told, paths) }}}
	seenBefore := func(ctx context.Context, yield func(llm.Chunk)) (llm.Response, error) {
		assert.Equal(t, [][]string{{"b", "a"}, {"c/d", "b"}}, told, "before the next question")
		return says("done")(ctx, yield)
	}
	cfg.Backend = &script{steps: []step{says("", calling("b"), calling("none"), calling("again")), seenBefore}}
	out, _ := start(t, t.Context(), cfg, nil)
	assert.Equal(t, task.Completed, out.Status)
	assert.Equal(t, []string{"a", "b", "c/d"}, out.ChangedFiles)

	cfg.Host = nil
	cfg.Backend = &script{
		steps: []step{says("", calling("b")), breaks("", &llm.Error{Kind: llm.Busy, Problem: "busy"})},
	}
	out, _ = start(t, t.Context(), cfg, nil)
	assert.Equal(t, task.Unavailable, out.Status)
	assert.Equal(t, []string{"a", "b"}, out.ChangedFiles)
}

// A deadline ends parallel calls; the files that they had changed are listed.
func TestChangedFilesAfterCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errEnough) })
		tools := tool.Set{}
		var calls []tool.Call
		for i := range 8 {
			name := fmt.Sprint("d", i)
			calls = append(calls, calling(name))
			tools = append(tools, fn{name, tool.Delegates, func(ctx context.Context) tool.Result {
				<-ctx.Done()
				return tool.Result{Content: "Error: ended", Failed: true, Changed: []string{name}}
			}})
		}
		var told []string
		cfg := Config{
			Backend: &script{steps: []step{says("", calls...)}}, Tools: tools,
			Host: hooks{changed: func(p []string) { told = append(told, p...) }},
		}
		out, _ := start(t, ctx, cfg, nil)
		assert.Equal(t, task.Interrupted, out.Status)
		assert.Equal(t, tools.Names(), out.ChangedFiles)
		slices.Sort(told)
		assert.Equal(t, tools.Names(), told)
	})
}

// For any calls and refusals: a run that would be completed is refused exactly if a tool
// that was refused has not worked since.
func TestAnyRefusals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		calls := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 12).Draw(t, "calls")
		fates := rapid.SliceOfN(rapid.SampledFrom([]string{"works", "fails", "refused"}), len(calls), len(calls)).
			Draw(t, "fates")
		open := map[string]bool{}
		var steps []step
		for i, name := range calls {
			c := calling(name)
			c.Arguments = json.RawMessage(fmt.Sprint(i))
			steps = append(steps, says("", c))
			open[name] = fates[i] == "refused" || open[name] && fates[i] == "fails"
		}
		at := -1
		g := gate(func(ctx context.Context, c tool.Call) (tool.Tool, context.Context, error) {
			at++
			if fates[at] == "refused" {
				return nil, nil, &tool.RefusedError{Tool: c.Name, Reason: "no"}
			}
			return reading(
				c.Name,
				func(context.Context) tool.Result { return tool.Result{Failed: fates[at] == "fails"} },
			), ctx, nil
		})
		out, rec := start(
			t,
			context.Background(),
			Config{Backend: &script{steps: append(steps, says("done"))}, MaxTurns: 20, Gate: g},
			nil,
		)
		for _, name := range []string{"a", "b", "c"} {
			if open[name] {
				require.Equal(t, task.Refused, out.Status)
				assert.Contains(t, out.Err(), name+" was refused: no")
			} else {
				assert.NotContains(t, out.Err(), name+" was refused")
			}
		}
		var ends []event.Event
		for _, e := range rec.events {
			if e.Type == event.ToolEnd {
				ends = append(ends, e)
			}
		}
		require.Len(t, ends, len(calls))
		for i, e := range ends {
			assert.Equal(t, fates[i] != "works", e.Failed)
		}
	})
}
