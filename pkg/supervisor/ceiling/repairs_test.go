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
	known := &Agents{Registry: agents.Load(nil)}
	for calls, want := range map[string]int{ // how many of the calls are let through
		"coder executor, coder executor, coder executor, coder executor, explorer":      3,
		"coder, executor, coder, executor, coder, executor, coder":                      6,
		"coder, coder, coder, executor, coder, coder, executor, coder, executor, coder": 9,
		"executor, coder, executor, coder, executor, coder, executor, coder":            7, // the first looks
		"coder, coder, coder, coder, coder":                                             5,
		"coder, executor, executor, explorer, executor, executor":                       6,
		"coder executor, explorer, reader, worker, executor, database, executor, coder": 7,
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
			err := r.Take(agents.Agent{Name: "lead", MaxRepairs: 2}, known, tasks)
			assert.NoError(t, (&Repairs{ran: true}).Take(agents.Agent{}, known, tasks), "without a limit")
			if err != nil {
				assert.ErrorContains(t, err, "it has repaired as often as it may (max_repairs of lead)")
				break
			}
			got++
		}
		assert.Equal(t, want, got, calls)
	}
}
