package loop

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"qq/pkg/task"
	"qq/pkg/tool"
)

const repeatedSixth = "Error: refused: the same call 6 times in a row: " +
	"change the arguments, use another tool, or answer"

func warned(nth string) string {
	return "\n[warning: this is the " + nth +
		" identical call in a row; change the arguments, use another tool, or answer]"
}

// with is a call of the tool look with those arguments.
func with(args string) tool.Call { return tool.Call{Name: "look", Arguments: json.RawMessage(args)} }

func oneByOne(calls ...tool.Call) (steps []step) {
	for _, c := range calls {
		steps = append(steps, says("a remark", c))
	}
	return steps
}

func TestRepeatedCalls(t *testing.T) {
	ran := 0
	look := reading("look", func(context.Context) tool.Result { ran++; return tool.Text("seen") })
	var calls []tool.Call
	for i := range 10 {
		calls = append(calls, with(`{"a":`+strings.Repeat(" ", i)+`1}`))
	}
	model := &script{steps: append(oneByOne(calls...), says("what I have"))}
	out, rec := start(t, t.Context(), Config{Backend: model, Tools: tool.Set{look}, MaxTurns: 30}, nil)
	assert.Equal(t, 5, ran)
	answers := answersOf(rec.messages)
	assert.Equal(
		t,
		[]string{"seen", "seen", "seen" + warned("3rd"), "seen" + warned("4th"), "seen" + warned("5th"), repeatedSixth},
		answers[:6],
	)
	assert.Contains(t, answers[9], "the same call 10 times in a row")
	assert.Equal(t, task.Failed, out.Status)
	assert.Equal(t, "the agent repeated the same call 10 times in a row (look)", out.Err())
	assert.Equal(t, "what I have", out.Output)
	assert.Len(t, model.asked, 11)
	assert.Empty(t, model.asked[10].Tools)
	assert.Equal(
		t,
		"You have repeated the same call 10 times in a row. Answer now, without tools, with what you have. "+
			"Say what is missing.",
		model.asked[10].Messages[len(model.asked[10].Messages)-1].Content,
	)
}

// A call with another name or other arguments resets the guard, also after a warning or a
// refusal.
func TestDifferentCallResets(t *testing.T) {
	for name, between := range map[string]tool.Call{
		"arguments": with(`{"a":2}`), "name": {Name: "other", Arguments: json.RawMessage(`{"a":1}`)},
	} {
		t.Run(name, func(t *testing.T) {
			same := with(`{"a":1}`)
			model := &script{
				steps: append(oneByOne(same, same, same, same, same, same, between, same, same), says("done")),
			}
			out, rec := start(
				t,
				t.Context(),
				Config{Backend: model, Tools: working("look", "other"), MaxTurns: 30},
				nil,
			)
			assert.Equal(t, task.Completed, out.Status)
			answers := answersOf(rec.messages)
			assert.Equal(t, repeatedSixth, answers[5])
			assert.Equal(t, []string{"by look", "by look"}, answers[7:], "counted from one")
		})
	}
}

// Identical calls with new results get warnings but are never refused: waiting for
// children is such a call.
func TestPolling(t *testing.T) {
	n := 0
	look := reading("look", func(context.Context) tool.Result { n++; return tool.Text(fmt.Sprint("state ", n/3)) })
	calls := make([]tool.Call, 24)
	for i := range calls {
		calls[i] = with(`{}`)
	}
	model := &script{steps: append(oneByOne(calls...), says("done"))}
	out, rec := start(t, t.Context(), Config{Backend: model, Tools: tool.Set{look}, MaxTurns: 30}, nil)
	assert.Equal(t, task.Completed, out.Status)
	assert.Equal(t, 24, n)
	assert.Equal(
		t,
		[]string{
			"state 7" + warned("21st"),
			"state 7" + warned("22nd"),
			"state 7" + warned("23rd"),
			"state 8" + warned("24th"),
		},
		answersOf(rec.messages)[20:],
	)
}

// Five identical results in a row lead to a refusal, whatever the results before were.
func TestPollingThatGetsStuck(t *testing.T) {
	n := 0
	look := reading(
		"look",
		func(context.Context) tool.Result { n++; return tool.Text(fmt.Sprint("state ", min(n, 4))) },
	)
	calls := make([]tool.Call, 10)
	for i := range calls {
		calls[i] = with(`{}`)
	}
	model := &script{steps: append(oneByOne(calls...), says("done"))}
	out, rec := start(t, t.Context(), Config{Backend: model, Tools: tool.Set{look}, MaxTurns: 30}, nil)
	assert.Equal(t, task.Completed, out.Status)
	assert.Equal(t, 8, n)
	assert.Equal(t, []string{"state 4" + warned("8th"), repeatedSixth}, answersOf(rec.messages)[7:9])
}

// Failed results count like others, and the gate is not asked about the sixth identical
// call.
func TestRepeatedRefusals(t *testing.T) {
	asked := 0
	calls := make([]tool.Call, 6)
	for i := range calls {
		calls[i] = with(`{}`)
	}
	model := &script{steps: append(oneByOne(calls...), says("done"))}
	no := refusing(nil, func(tool.Call) bool { asked++; return true })
	out, rec := start(t, t.Context(), Config{Backend: model, MaxTurns: 30, Gate: no}, nil)
	assert.Equal(t, task.Refused, out.Status)
	assert.Equal(t, 5, asked)
	assert.Equal(t, "Error: ask: look was refused: of {}"+warned("3rd"), answersOf(rec.messages)[2])
}

// Parallel delegations count in the order of the calls, even if their results differ;
// calls after the tenth are not run.
func TestRepeatedDelegations(t *testing.T) {
	var n atomic.Int32
	tools := tool.Set{
		fn{"look", tool.Delegates, func(context.Context) tool.Result { return tool.Text(fmt.Sprint(n.Add(1))) }},
		fn{"other", tool.Delegates, func(context.Context) tool.Result { panic("it must not run") }},
	}
	var calls []tool.Call
	for range 10 {
		calls = append(calls, with(`{}`))
	}
	model := &script{steps: []step{says("", append(calls, calling("other"))...), says("what I have")}}
	out, rec := start(t, t.Context(), Config{Backend: model, Tools: tools, MaxTurns: 1}, nil)
	assert.EqualValues(t, 5, n.Load())
	assert.Equal(t, task.Failed, out.Status, "not the turn limit")
	answers := answersOf(rec.messages)
	assert.NotContains(t, answers[1], "warning")
	assert.Contains(t, answers[2], warned("3rd"))
	assert.Equal(t, repeatedSixth, answers[5])
	assert.Equal(t, "Error: not run: the run ends because of repeated calls", answers[10])

	// In answers of their own they brought something new.
	n.Store(0)
	model = &script{steps: append(oneByOne(calls...), says("done"))}
	out, _ = start(t, t.Context(), Config{Backend: model, Tools: tools, MaxTurns: 30}, nil)
	assert.Equal(t, task.Completed, out.Status)
	assert.EqualValues(t, 10, n.Load())
}

// A delegation between identical reads of one answer begins a new row, though all of them run at once.
func TestRepeatedReadsBesideDelegations(t *testing.T) {
	tools := tool.Set{
		reading("look", func(context.Context) tool.Result { return tool.Text("seen") }),
		fn{"other", tool.Delegates, func(context.Context) tool.Result { return tool.Text("done") }},
	}
	look := with(`{}`)
	calls := []tool.Call{look, look, calling("other"), look, look, look, look, look, look, calling("other"), look}
	model := &script{steps: []step{says("", calls...), says("what I have")}}
	out, rec := start(t, t.Context(), Config{Backend: model, Tools: tools, MaxTurns: 2}, nil)
	assert.Equal(t, task.Completed, out.Status)
	assert.Equal(t, []string{"seen", "seen", "done", "seen", "seen", "seen" + warned("3rd"), "seen" + warned("4th"),
		"seen" + warned("5th"), repeatedSixth, "done", "seen"}, answersOf(rec.messages))
}

// A result that differs only in its last line is the same result.
func TestFooters(t *testing.T) {
	n := 0
	ask := fn{"look", tool.Delegates, func(context.Context) tool.Result {
		n++
		return tool.Result{Content: "done", Footer: fmt.Sprintf("[in %d s]", n)}
	}}
	steps := append(oneByOne(slices.Repeat([]tool.Call{with(`{}`)}, 6)...), says("what I have"))
	_, rec := start(t, t.Context(), Config{Backend: &script{steps: steps}, Tools: tool.Set{ask}, MaxTurns: 9}, nil)
	assert.Equal(t, []string{"done\n[in 1 s]", "done\n[in 2 s]", "done" + warned("3rd") + "\n[in 3 s]",
		"done" + warned("4th") + "\n[in 4 s]", "done" + warned("5th") + "\n[in 5 s]", repeatedSixth},
		answersOf(rec.messages))
}

// Interleaved calls in one group are counted in their own streaks.
func TestStreaksInOneGroup(t *testing.T) {
	var g guard
	a1, b, a2 := g.enter(with(`1`)), g.enter(with(`2`)), g.enter(with(`1`))
	for _, p := range []*pass{a1, b, a2} {
		p.leave("x")
		assert.Empty(t, p.warning())
		assert.Equal(t, 1, p.nth)
	}
	assert.Equal(t, 2, g.enter(with(` 1 `)).nth)
	// Of a group counts what came behind the last change, and that is two here.
	var group []*pass
	for range 4 {
		group = append(group, g.enter(with(`3`)))
	}
	for i, result := range []string{"x", "y", "z", "z"} {
		group[i].leave(result)
	}
	for range 3 {
		p := g.enter(with(`3`))
		assert.Empty(t, p.refusal)
		p.leave("z")
	}
	assert.Equal(t, repeatedSixth, g.enter(with(`3`)).refusal)

	assert.Equal(t, 1, g.enter(with(`{broken`)).nth, "what is no JSON is compared as it is")
	assert.Equal(t, 2, g.enter(with(`{broken`)).nth)
	assert.Equal(t, 1, g.enter(with(`{ broken`)).nth)
}

func TestOrdinal(t *testing.T) {
	for n, want := range map[int]string{
		3: "3rd", 4: "4th", 10: "10th", 11: "11th", 12: "12th", 13: "13th",
		21: "21st", 22: "22nd", 103: "103rd", 111: "111th",
	} {
		assert.Equal(t, want, ordinal(n))
	}
}

// For single calls: a call is refused exactly if at least the five calls before it were
// identical with identical results.
func TestAnyCalls(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var g guard
		same, nth, lastArgs, lastResult := 0, 0, "", ""
		for g.stuck == "" && rapid.IntRange(0, 40).Draw(t, "more") > 0 {
			args := rapid.SampledFrom([]string{"1", "1", "1", "1", "1", "1", "1", "2"}).Draw(t, "args")
			result := rapid.SampledFrom([]string{"x", "x", "x", "x", "x", "x", "y"}).Draw(t, "result")
			if args != lastArgs {
				same, nth, lastResult = 0, 0, ""
			}
			p := g.enter(with(args))
			nth++
			require.Equal(t, same >= refusedFrom-1, p.refusal != "")
			require.Equal(t, same+1 >= endsAt, g.stuck != "")
			p.leave(result)
			more := p.warning()
			if p.refusal != "" {
				same++
				require.Empty(t, more)
			} else {
				require.Equal(t, nth >= warnedFrom, more != "")
				if result != lastResult {
					same = 0
				}
				same++
				lastResult = result
			}
			lastArgs = args
		}
	})
}
