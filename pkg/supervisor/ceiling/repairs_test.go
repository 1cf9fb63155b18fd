package ceiling

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"qq/pkg/agents"
	"qq/pkg/task"
)

// TestRepairs: changes that are handed out after commands are a repair. Nothing else is.
func TestRepairs(t *testing.T) {
	known := &Agents{Registry: agents.Load(nil), temporary: map[string]agents.Agent{
		"lookers": {Name: "lookers", Tools: []string{"delegate_task"}, Agents: []string{"explorer", "lookers"}},
		"testers": {Name: "testers", Tools: []string{"delegate_task"}, Agents: []string{"lookers", "executor"}},
		"leaders": {Name: "leaders", Tools: []string{"delegate_task"}, Agents: []string{"lookers", "leaders", "coder"}},
		"bound": {Name: "bound", Tools: []string{"delegate_task"}, Agents: []string{"coder"}, DisallowedTools: []string{
			"edit_file", "write_file", "create_file", "delete_file", "ast_grep_replace"}},
	}}
	for calls, want := range map[string]int{ // how many of the calls are let through
		"coder executor, coder executor, coder executor, coder executor, explorer":      3,
		"coder, executor, coder, executor, coder, executor, coder":                      6,
		"coder, coder, coder, executor, coder, coder, executor, coder, executor, coder": 9,
		"executor, coder, executor, coder, executor, coder, executor, coder":            7, // the first looks
		"coder, coder, coder, coder, coder":                                             5,
		"coder, executor, executor, explorer, executor, executor":                       6,
		"coder executor, explorer, reader, worker, executor, database, executor, coder": 7,
		"default, executor, default, executor, default, executor, default":              6, // default asks the coder
		"coder, executor, leaders, executor, leaders, executor, leaders":                6,
		"coder, executor, lookers, testers, bound, researcher, lookers, testers, bound": 9,
	} {
		var r Repairs
		got := 0
		for call := range strings.SplitSeq(calls, ", ") {
			var tasks []task.Task
			for _, name := range strings.Fields(call) {
				one := task.Task{Agent: name}
				if name == "reader" {
					one = task.Task{Agent: "coder", ReadOnly: true}
				}
				tasks = append(tasks, one)
			}
			barred := r.Check(agents.Agent{Name: "lead", MaxRepairs: 2}, known, tasks)
			again := r.Check(agents.Agent{Name: "lead", MaxRepairs: 2}, known, tasks)
			assert.Equal(t, barred, again, "it counts nothing")
			err := r.Take(agents.Agent{Name: "lead", MaxRepairs: 2}, known, tasks)
			assert.NoError(t, (&Repairs{ran: true}).Take(agents.Agent{}, known, tasks), "without a limit")
			assert.Equal(t, barred, err)
			if err != nil {
				assert.ErrorContains(t, err, "it has repaired as often as it may (max_repairs of lead)")
				break
			}
			got++
		}
		assert.Equal(t, want, got, calls)
	}
}
