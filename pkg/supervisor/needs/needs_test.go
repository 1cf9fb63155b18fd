package needs

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/task"
)

func TestFill(t *testing.T) {
	given := []task.Result{
		{ID: "a", Output: "says {{b.output}}"},
		{ID: "b", Output: "B", Structured: []byte(`{"list":[1,"two",{"x":1.50}],"long":"0123456789abcdef"}`)},
	}
	for text, want := range map[string]string{
		"{{a.output}}":                                "[output of a]:\nsays {{b.output}}",
		"{{b.structured.list}}":                       "[list of b]:\n[1,\"two\",{\"x\":1.50}]",
		"{{b.structured.list.1}} {{b.output}}":        "[list.1 of b]:\ntwo\n\n[output of b]:\nB",
		"{{b.structured.list.2.x}} {{nobody.output}}": "[list.2.x of b]:\n1.50",
		"none": "",
	} {
		filled, err := Fill(task.Task{Text: text, Needs: []string{"a", "b"}}, given, 0)
		require.NoError(t, err, text)
		assert.Equal(t, want, filled.Context, text)
		assert.NotEmpty(t, filled.Needed)
	}
	for _, path := range []string{"none", "list.3", "list.-1", "list.x", "long.x"} {
		_, err := Fill(task.Task{Text: "{{b.structured." + path + "}}", Needs: []string{"a", "b"}}, given, 0)
		assert.ErrorContains(t, err, fmt.Sprintf("has no field %q", path))
	}
	_, err := Fill(task.Task{Text: "{{a.structured.x}}", Needs: []string{"a", "b"}}, given, 0)
	require.ErrorContains(t, err, "has no field", "it has no structured result")
	_, err = Fill(task.Task{Text: "x", Needs: []string{"a", "b"}}, given[:1], 0)
	require.ErrorContains(t, err, "started without them")
}

// A part of a structured result is cut in its middle.
func TestCut(t *testing.T) {
	given := []task.Result{{ID: "b", Structured: []byte(`{"long":"0123456789äbcdeü"}`)}}
	filled, err := Fill(task.Task{Text: "{{b.structured.long}}", Needs: []string{"b"}}, given, 5)
	require.NoError(t, err)
	assert.True(t, strings.HasPrefix(filled.Context, "[long of b]:\n012\n[Output truncated"), filled.Context)
	assert.True(t, strings.HasSuffix(filled.Context, "[11 characters left out]\neü"), filled.Context)
	filled, err = Fill(task.Task{Text: "{{b.structured.long}}", Needs: []string{"b"}}, given, 16)
	require.NoError(t, err)
	assert.Equal(t, "[long of b]:\n0123456789äbcdeü", filled.Context)
}

// Other results make it another task, also for a record or a cache of results.
func TestDigest(t *testing.T) {
	one := task.Task{Text: "x", Needs: []string{"a"}}
	seen := map[string]bool{}
	for _, r := range []task.Result{
		{Output: "1"}, {Output: "2"}, {Output: "1", Status: task.Failed}, {Output: "1", Structured: []byte("1")},
	} {
		filled, err := Fill(one, []task.Result{r}, 0)
		require.NoError(t, err)
		seen[filled.Needed] = true
	}
	assert.Len(t, seen, 4)
	same, err := Fill(task.Task{Text: "x"}, nil, 0)
	require.NoError(t, err)
	assert.Empty(t, same.Needed)
}

func TestCheck(t *testing.T) {
	a := task.Task{ID: "a", Text: "a"}
	assert.NoError(t, Check(a, task.Task{Text: "{{a.output}}", Needs: []string{"a"}}))
	assert.NoError(t, Check(a, task.Task{Text: "{{nobody.output}}"}), "no reference")
	assert.ErrorContains(t, Check(a, task.Task{Text: "{{a.output}}"}), `task 2 uses the result of "a"`)
	assert.ErrorContains(t, Check(a, task.Task{Text: "{{b.output}}", Needs: []string{"a"}}), `"b"`)
}

// 20,000 tasks that name one another are looked at once each.
func BenchmarkCheck(b *testing.B) {
	var tasks []task.Task
	for i := range 20000 {
		tasks = append(tasks, task.Task{ID: fmt.Sprint(i), Text: "{{0.output}}", Needs: []string{"0"}})
	}
	for b.Loop() {
		_ = Check(tasks...)
	}
}
