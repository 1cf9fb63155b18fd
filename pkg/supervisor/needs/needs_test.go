package needs

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/task"
)

// fill fills a task that needs the results.
func fill(t *testing.T, text string, limit int, results ...task.Result) (task.Task, error) {
	t.Helper()
	needy := task.Task{Text: text}
	for _, r := range results {
		needy.Needs = append(needy.Needs, r.ID)
	}
	return Fill(needy, results, limit)
}

// TestFill: a result is a part of the context, and the text has a short reference to it.
func TestFill(t *testing.T) {
	a := task.Result{ID: "a", Status: task.Completed, Output: "one {{b.output}} {{a.output}}",
		Structured: json.RawMessage(`{"name":"x","n":12345678901234567890,"list":["p",{"q":[true,null]}],"o":{"k":"v"}}`)}
	b := task.Result{ID: "b", Status: task.Completed, Output: "two"}
	for _, c := range []struct{ text, want, context string }{
		{"do", "do", ""},
		{"{{a.output}}, {{b.output}}.", "[output of a], [output of b].",
			"[output of a]:\none {{b.output}} {{a.output}}\n\n[output of b]:\ntwo"},
		{"{{b.output}}{{ b.output }}", "[output of b][output of b]", "[output of b]:\ntwo"},
		{"{{a.structured.name}}", "[name of a]", "[name of a]:\nx"},
		{"{{a.structured.n}}", "[n of a]", "[n of a]:\n12345678901234567890"},
		{"{{a.structured.list.0}}", "[list.0 of a]", "[list.0 of a]:\np"},
		{"{{a.structured.list.1.q}}", "[list.1.q of a]", "[list.1.q of a]:\n[true,null]"},
		{"{{a.structured.list.1.q.1}}", "[list.1.q.1 of a]", "[list.1.q.1 of a]:\nnull"},
		{"{{a.structured.o}}", "[o of a]", "[o of a]:\n{\"k\":\"v\"}"},
		{"{{c.output}} {{a}} {{", "{{c.output}} {{a}} {{", ""}, // no task of its needs
	} {
		got, err := fill(t, c.text, 0, a, b)
		require.NoError(t, err, c.text)
		assert.Equal(t, []string{c.want, c.context}, []string{got.Text, got.Context}, c.text)
	}
	with, err := Fill(task.Task{Text: "{{b.output}}", Context: "notes", Needs: []string{"b"}}, []task.Result{b}, 0)
	require.NoError(t, err)
	assert.Equal(t, "notes\n\n[output of b]:\ntwo", with.Context)

	with, err = Fill(task.Task{Text: "{{b.output}}", Context: "see {{a.output}} {{b.output}} {{c.output}}",
		Needs: []string{"a", "b"}}, []task.Result{a, b}, 0)
	require.NoError(t, err)
	assert.Equal(t, "see [output of a] [output of b] {{c.output}}\n\n[output of b]:\ntwo\n\n[output of a]:\n"+a.Output,
		with.Context, "a result is put in as it is")

	for _, field := range []string{"gone", "list.2", "list.-1", "list.x", "name.x", "list.1.q.1.z", "o.k.v"} {
		_, err := fill(t, "{{a.structured."+field+"}}", 0, a, b)
		var e *task.Error
		require.ErrorAs(t, err, &e, field)
		assert.Equal(t, task.Misused, e.Status)
		assert.Equal(t, fmt.Sprintf("the structured result of \"a\" has no field %q", field), e.Problem)
		assert.Contains(t, e.Hint, "{{a.output}}")
	}
	_, err = fill(t, "{{b.structured.x}}", 0, a, b)
	assert.ErrorContains(t, err, `"b" has no field "x"`, "it has no structured result")
	_, err = Fill(task.Task{Text: "x", Needs: []string{"a", "b"}}, []task.Result{a}, 0)
	assert.ErrorContains(t, err, "started without them")
}

// TestCut: a field that is too long loses its middle, between characters, and says so. The output has been cut before.
func TestCut(t *testing.T) {
	long := strings.Repeat("é", 50) + "MIDDLE" + strings.Repeat("ü", 49)
	text, err := json.Marshal(map[string]any{"f": long, "l": []string{long}})
	require.NoError(t, err)
	r := task.Result{ID: "a", Structured: text, Output: long}
	of := func(text string, limit int) string {
		got, err := fill(t, text, limit, r)
		require.NoError(t, err)
		return got.Context
	}
	const note = "\n[Output truncated at 11 chars]\n[94 characters left out]\n"
	assert.Equal(t, "[f of a]:\néééééé"+note+"üüüüü", of("{{a.structured.f}}", 11))
	assert.Contains(t, of("{{a.structured.l}}", 11), `["éééé`)
	assert.Contains(t, of("{{a.structured.l}}", 11), `üüü"]`)
	assert.Contains(t, of("{{a.structured.l}}", 11), "[98 characters left out]")
	for _, limit := range []int{0, 105, 1000} {
		assert.Equal(t, "[f of a]:\n"+long, of("{{a.structured.f}}", limit))
	}
	assert.Equal(t, "[output of a]:\n"+long, of("{{a.output}}", 11))
}

// TestNeeded: other results make it another task, for --resume and --cache.
func TestNeeded(t *testing.T) {
	needed := func(results ...task.Result) string {
		got, err := fill(t, "do", 0, results...)
		require.NoError(t, err)
		return got.Needed
	}
	a := task.Result{ID: "a", Status: task.Completed, Output: "x"}
	b := task.Result{ID: "b", Status: task.Completed, Output: "xy"}
	seen := map[string]bool{}
	for _, results := range [][]task.Result{
		{a}, {b}, {a, b}, {b, a}, {{Status: task.Completed, Output: "y"}}, {{Status: task.Failed, Output: "x"}},
		{{Status: task.Completed, Output: "x", Structured: json.RawMessage(`1`)}},
		{{Status: task.Completed, Structured: json.RawMessage(`x`)}},
	} {
		seen[needed(results...)] = true
	}
	assert.Len(t, seen, 8)
	later := a
	later.ID, later.DurationMS, later.Attempts = "other", 5, 2
	assert.Equal(t, needed(a), needed(later), "only what it says counts")
	assert.Empty(t, needed())
}

// TestCheck: what a text names has to be in its needs.
func TestCheck(t *testing.T) {
	a := task.Task{ID: "a", Text: "x"}
	for text, want := range map[string]string{
		"{{a.output}}": `task 2 uses the result of "a", which is not in its needs`,
		"{{z.output}}": "", // nobody has that id: it is text
		"{{z":          "",
	} {
		err := Check(a, task.Task{Text: text})
		assert.Equal(t, want != "", err != nil, text)
		if err != nil {
			assert.ErrorContains(t, err, want)
		}
	}
	assert.ErrorContains(t, Check(a, task.Task{Context: "{{a.output}}"}), `"a", which is not in its needs`)
	assert.NoError(t, Check(a, task.Task{Context: "{{z.output}}"}))
	assert.NoError(t, Check(a, task.Task{Context: "{{z.output}} {{a.output}}", Needs: []string{"a"}}))
	assert.ErrorContains(t, CheckFields(a, task.Task{Context: "{{a.structured.x}}", Needs: []string{"a"}}), "no schema")
	needy := task.Task{Text: "{{a.output}}{{a.structured.x.y}}", Needs: []string{"b", "a"}}
	assert.NoError(t, Check(a, task.Task{ID: "b", Text: "x"}, needy))
	needy.Text += "{{z.output}}"
	assert.ErrorContains(t, Check(a, needy), `"z"`, "a task with needs may not name others")
}

// TestCheckGrowsLinear: neither many tasks nor many needs are looked at for each reference: many tasks take as long as
// the same number of tasks in small batches.
func TestCheckGrowsLinear(t *testing.T) {
	const n, batches = 2000, 25
	small, large := entangled(n), entangled(n*batches)
	began := time.Now()
	for range batches {
		assert.NoError(t, Check(small...))
	}
	yardstick := time.Since(began)
	began = time.Now()
	assert.NoError(t, Check(large...))
	assert.Less(t, time.Since(began), 6*yardstick)
}

// entangled returns n tasks of which each needs the one before it, and one that needs all.
func entangled(n int) []task.Task {
	tasks := make([]task.Task, n+1)
	var all strings.Builder
	for i := range n {
		tasks[i] = task.Task{ID: fmt.Sprint("task-", i), Text: "see {{other.output}}"}
		if i > 0 {
			tasks[i].Needs = []string{tasks[i-1].ID}
			tasks[i].Text = "use {{" + tasks[i-1].ID + ".output}}"
		}
		tasks[n].Needs = append(tasks[n].Needs, tasks[i].ID)
		all.WriteString("{{" + tasks[i].ID + ".output}}")
	}
	tasks[n].Text = all.String()
	return tasks
}

// TestDeprive: what needs a task that is not run is not run.
func TestDeprive(t *testing.T) {
	tasks := []task.Task{
		{ID: "c", Needs: []string{"b"}}, {ID: "b", Needs: []string{"x", "a"}}, {ID: "a"}, {ID: "d"}, {},
	}
	results := make([]task.Result, len(tasks))
	results[2] = task.Task{}.Ended(task.Refused, "no")
	Deprive(tasks, results)
	assert.Equal(t, []string{"needs b, which is not run", "needs a, which is not run", "no", "", ""}, []string{
		results[0].Err(), results[1].Err(), results[2].Err(), results[3].Err(), results[4].Err()})
	assert.Equal(t, task.Skipped, results[0].Status)
	assert.Empty(t, results[3].Status)
}
