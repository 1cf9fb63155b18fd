package delegate

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/standin"
	"qq/pkg/task"
)

// TestReport: run_parallel_tasks answers an array, and in a block below it how many tasks ended how, with a line for
// each that failed or changed files.
func TestReport(t *testing.T) {
	ended := func(agent string, s task.Status, why string, files ...string) task.Result {
		r := task.Task{Agent: agent}.Ended(s, why)
		r.ChangedFiles, r.Output = files, "a long answer"
		r.Did = &task.Did{Calls: map[string]int{"edit_file": 1}}
		return r
	}
	results := []task.Result{
		ended("explorer", task.Completed, ""),
		ended("coder", task.Completed, "", "a.go", "b.go", "c.go", "d.go", "e.go", "f.go"),
		ended("coder", task.CheckFailed, "the check failed with exit code 1: make test\nhint: look"),
		ended("coder", task.Skipped, "task 3 was not completed"),
		ended("coder", task.Cancelled, "not started: enough"),
	}
	var tasks []string
	for range results {
		tasks = append(tasks, `{"task":"x"}`)
	}
	r := standin.CallTool(t, delegating(&scripted{results: results}), "run_parallel_tasks",
		fmt.Sprintf(`{"tasks":[%s]}`, strings.Join(tasks, ",")))
	var back []task.Result
	require.NoError(t, json.Unmarshal([]byte(r.Content), &back), "the content is the array")
	assert.Len(t, back, len(results))
	assert.NotContains(t, r.Content, "did", "what is for people costs no tokens")
	assert.Equal(t, `
5 tasks: 2 completed, 1 failed, 1 skipped, 1 cancelled
2. coder: changed a.go, b.go, c.go, d.go, e.go and 1 more
3. coder: check_failed: the check failed with exit code 1: make test; look
4. coder: skipped: task 3 was not completed
5. coder: cancelled: not started: enough`, r.Footer)
	assert.Less(t, len(report(make([]task.Result, 100))), 6000)
}
