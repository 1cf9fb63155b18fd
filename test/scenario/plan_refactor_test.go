package scenario

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/test/ollamatest"
	"qq/test/tinymodel"
)

// planFiles is how many files of the project use the function that is renamed.
const planFiles = 12

// planCall is a model's call of a tool.
func planCall(t *testing.T, name string, args any) string {
	t.Helper()
	text, err := json.Marshal(args)
	require.NoError(t, err)
	return fmt.Sprintf(`<tool_call>{"name": %q, "arguments": %s}</tool_call>`, name, text)
}

// planUse is the line of a file that uses the function of that name.
func planUse(i int, name string) string {
	if i == 1 {
		return name + `() { total=$((total + $1))`
	}
	return fmt.Sprintf(`use_%02d() { %s %d`, i, name, i)
}

// planProject makes a project of shell files, and its test, which passes only if all of them use the new name.
func planProject(w *world) {
	run := "set -eu\ntotal=0\n"
	for i := 1; i <= planFiles; i++ {
		text := planUse(i, "load_value") + "; }\n"
		if i == 1 {
			text = strings.TrimSuffix(text, "\n") + " # [[found]]\n"
		} else {
			run += fmt.Sprintf("use_%02d\n", i)
		}
		if i == planFiles { // the marker is not near what is edited
			text += strings.Repeat("\n", 10) + "# [[renamed]]\n"
		}
		w.file(fmt.Sprintf("lib/%02d.sh", i), text)
		run = fmt.Sprintf(". lib/%02d.sh\n", i) + run
	}
	w.file("test.sh", run+"! grep -rn load_value lib\ntest $total = 77\necho \"passed with $total [[passed]]\"\n")
}

// planModel plays planner, coder and executor. Each marker leads to what is said next. What a coder writes has a
// marker that ends its work, and the end of the last file has one that ends that of the planner.
func planModel(t *testing.T) ollamatest.Model {
	t.Helper()
	list := []tinymodel.Script{
		{Start: "[[rename]]", Text: planCall(t, "grep_file", map[string]string{"pattern": "load_value"})},
		{Start: "[[done]]", Text: "Renamed."},
		{Start: "[[tests]]", Text: planCall(t, "run_pty_cmd", map[string]string{"command": "sh test.sh"})},
		{Start: "[[passed]]", Text: "sh test.sh: exit code 0. [[checked]]"},
		{Start: "[[checked]]", Text: planCall(t, "read_file", map[string]string{
			"path": fmt.Sprintf("lib/%02d.sh", planFiles)})},
		{Start: "[[renamed]]", Text: "Reached: 12 files, the tests pass."},
	}
	var tasks []map[string]any
	var ids []string
	for i := 1; i <= planFiles; i++ {
		id, file := fmt.Sprintf("f%02d", i), fmt.Sprintf("lib/%02d.sh", i)
		ids = append(ids, id)
		tasks = append(tasks, map[string]any{"id": id, "task": "Rename load_value to open_value. [[" + id + "]]",
			"agent": "coder", "targets": file, "context": "Only " + file + "."})
		text := "# [[done]]\n" + planUse(i, "open_value")
		list = append(list, tinymodel.Script{Start: "[[" + id + "]]", Text: planCall(t, "edit_file", map[string]string{
			"path": file, "old_text": planUse(i, "load_value"), "new_text": text})})
	}
	tasks = append(tasks, map[string]any{"task": "Run the tests. [[tests]]", "agent": "executor", "needs": ids})
	list = append(list, tinymodel.Script{Start: "[[found]]",
		Text: planCall(t, "run_parallel_tasks", map[string]any{"tasks": tasks})})
	spec := ollamatest.Spec(list...)
	spec.Context = 32768
	return ollamatest.Model{Name: "plan-refactor", Spec: spec, Template: template}
}

// planRenamed checks that all files have the new name only.
func planRenamed(t *testing.T, w *world) {
	t.Helper()
	for i := 1; i <= planFiles; i++ {
		text, err := os.ReadFile(filepath.Join(w.work, fmt.Sprintf("lib/%02d.sh", i)))
		require.NoError(t, err)
		assert.Contains(t, string(text), planUse(i, "open_value"))
		assert.NotContains(t, string(text), "load_value")
	}
}

// planTeam are the children that rename and test.
func planTeam() (team []string) {
	for range planFiles {
		team = append(team, "coder depth=1")
	}
	return append(team, "executor depth=1")
}

// TestPlanner: planner renames a function in 12 files. It looks, hands out a task for each file and one for the tests,
// which needs the others, and reads what was changed.
func TestPlanner(t *testing.T) {
	s := house.server(t, "1")
	require.NoError(t, s.Create(t.Context(), planModel(t)))
	w := newWorld(t, s.URL.Host, "plan-refactor", "QQ_APPROVE=auto", "QQ_MAX_PARALLEL=4")
	planProject(w)
	w.qq("-a", "planner", "Rename load_value to open_value, and run the tests. [[rename]]").
		answered("Reached: 12 files, the tests pass.")
	planRenamed(t, w)
	assert.Equal(t, planTeam(), w.spawned())
}

// TestPlanThenBatch: qq plan prints the same tasks and changes nothing, and qq batch does them.
func TestPlanThenBatch(t *testing.T) {
	s := house.server(t, "1")
	require.NoError(t, s.Create(t.Context(), planModel(t)))
	w := newWorld(t, s.URL.Host, "plan-refactor", "QQ_APPROVE=auto", "QQ_MAX_PARALLEL=4")
	planProject(w)
	e := w.qq("plan", "-o", "plan.jsonl", "Rename load_value to open_value, and run the tests. [[rename]]")
	require.Equal(t, 0, e.code)
	text, err := os.ReadFile(filepath.Join(w.work, "plan.jsonl"))
	require.NoError(t, err)
	assert.Equal(t, planFiles+1, strings.Count(string(text), "\n"))
	assert.Empty(t, w.spawned())
	first, err := os.ReadFile(filepath.Join(w.work, "lib/01.sh"))
	require.NoError(t, err)
	assert.Contains(t, string(first), "load_value")

	e = w.qq("batch", "--no-bar", "--output-format", "jsonl", "plan.jsonl")
	require.Equal(t, 0, e.code)
	assert.Equal(t, planFiles+1, strings.Count(e.stdout, `"success":true`))
	planRenamed(t, w)
	assert.Equal(t, planTeam(), w.spawned())
}
