package delegate

import (
	"cmp"
	"context"
	"encoding/json"

	"qq/pkg/supervisor/ceiling"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// planned returns the function that says what a call would do: hand on the tasks that decode finds in
// its arguments. The risk is always low. The real risk depends on the agents that get the tasks. Only
// the root can judge that; it asks for approval before a child starts.
func planned(decode decoder) func(context.Context, json.RawMessage) (tool.Intent, error) {
	return func(_ context.Context, args json.RawMessage) (tool.Intent, error) {
		in := tool.Intent{Risk: tool.Low}
		tasks, err := decode(args)
		if err != nil {
			return in, nil // the call itself says what is wrong
		}
		for i, t := range tasks {
			if tasks[i].Agent = cmp.Or(t.Agent, task.DefaultAgent); t.Temporary != nil {
				tasks[i].Agent = "temporary"
			}
		}
		in.Tasks = ceiling.Lines(tasks)
		return in, nil
	}
}

// decoder decodes the tasks in the arguments of a call.
type decoder func(args json.RawMessage) ([]task.Task, error)

// oneTask is a decoder of the arguments of delegate_task.
func oneTask(args json.RawMessage) ([]task.Task, error) {
	t, err := decodeTask(args)
	return []task.Task{t}, err
}

// spawned is a decoder of the arguments of spawn_agent.
func (g delegation) spawned(args json.RawMessage) ([]task.Task, error) {
	t, _, err := g.decodeSpawn(args)
	return []task.Task{t}, err
}
