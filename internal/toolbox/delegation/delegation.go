// Package delegation holds the tools that hand work to other agents.
package delegation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"qq/internal/toolbox/call"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// MaxTasks is how many tasks one call of run_parallel_tasks may hold.
const MaxTasks = 100

// Delegator has tasks done by other agents.
type Delegator interface {
	// Delegate returns when all tasks have ended, with one result for each, in
	// their order. It enforces the limits; it may be called by several
	// goroutines at once.
	Delegate(ctx context.Context, tasks []task.Task) []task.Result
}

// AgentInfo is an agent that can be asked.
type AgentInfo struct {
	Name        string
	Role        string
	Description string
}

// Tools returns the tools that hand work to other agents: delegate_task,
// run_parallel_tasks and list_agents. agents is called when a model asks who
// there is.
func Tools(d Delegator, agents func() []AgentInfo) tool.Set {
	g := delegation{d, agents}
	return tool.Set{
		call.Function{About: call.Define("delegate_task", tool.Delegates,
			"Have another agent do one task, and get its answer. It sees nothing of this conversation.",
			taskProperties, "task"), Do: call.Text(g.delegateTask)},
		call.Function{About: call.Define("run_parallel_tasks", tool.Delegates,
			"Have other agents do several independent tasks at once. Answers a JSON array of results in the order of the tasks.",
			`"tasks":{"type":"array","description":"at most 100 tasks","items":{"type":"object","properties":{`+taskProperties+`},"required":["task"]}},
			"tasks_json":{"type":"string","description":"instead of tasks: the array as JSON text"}`), Do: call.Text(g.runParallel)},
		call.Function{About: call.Define("list_agents", tool.Reads, "List the agents that tasks can be given to.", ""), Do: call.Text(g.listAgents)},
	}
}

const taskProperties = `
	"task":{"type":"string","description":"what to do, complete in itself"},
	"agent":{"type":"string","description":"name of the agent, default \"default\""},
	"context":{"type":"string","description":"text that the task is about"},
	"timeout":{"type":"number","description":"seconds"},
	"model":{"type":"string"},
	"read_only":{"type":"boolean","description":"take away the tools that change something"},
	"schema":{"type":"object","description":"JSON Schema of the answer"}`

type delegation struct {
	to     Delegator
	agents func() []AgentInfo
}

func (g delegation) delegateTask(ctx context.Context, args json.RawMessage) (string, error) {
	t, err := task.Decode(lenient(call.Unwrap(args)))
	if err != nil {
		return "", err
	}
	if err := checkFolder(t); err != nil {
		return "", err
	}
	results, err := g.delegate(ctx, []task.Task{t})
	if err != nil {
		return "", err
	}
	r := results[0]
	if !r.Success {
		return "", failure(r)
	}
	text := r.Output
	for _, w := range r.Warnings {
		text += "\n[warning: " + w + "]"
	}
	return text, nil
}

// failure is what a model reads of a task that failed. A text that says
// "Error: " by itself is about a child that was never started.
func failure(r task.Result) call.Plain {
	text := r.Err()
	if !strings.HasPrefix(text, "Error: ") {
		text = "Child agent error: " + text
	}
	if strings.TrimSpace(r.Output) != "" {
		text += "\n\nPartial output:\n" + r.Output
	}
	return call.Plain(text)
}

func (g delegation) runParallel(ctx context.Context, args json.RawMessage) (string, error) {
	var array, text json.RawMessage
	if err := call.Decode(args, call.Fields{"tasks": &array, "tasks_json": &text}); err != nil {
		return "", err
	}
	if array != nil && text != nil {
		return "", errors.New("give tasks or tasks_json, not both")
	}
	if array == nil {
		array = text
	}
	tasks, err := decodeTasks(array)
	if err != nil {
		return "", fmt.Errorf("%w. Nothing was started", err)
	}
	results, err := g.delegate(ctx, tasks)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(results); err != nil {
		return "", err
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

// decodeTasks reads an array of tasks, or a text that holds one.
func decodeTasks(data json.RawMessage) ([]task.Task, error) {
	var text string
	if json.Unmarshal(data, &text) == nil {
		data = json.RawMessage(unfence(text))
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, call.Missing("tasks")
	}
	var items []json.RawMessage
	if json.Unmarshal(data, &items) == nil && items != nil {
		for i := range items {
			items[i] = lenient(items[i])
		}
		if again, err := json.Marshal(items); err == nil {
			data = again
		}
	}
	tasks, err := task.DecodeList(data)
	if err != nil {
		return nil, err
	}
	if len(tasks) == 0 || len(tasks) > MaxTasks {
		return nil, fmt.Errorf("%d tasks in one call: give 1 to %d", len(tasks), MaxTasks)
	}
	for i, t := range tasks {
		if err := checkFolder(t); err != nil {
			return nil, fmt.Errorf("task %d: %w", i, err)
		}
	}
	return tasks, nil
}

// unfence takes the text out of a Markdown fence, in which models like to wrap
// JSON.
func unfence(text string) string {
	text = strings.TrimSpace(text)
	inner, ok := strings.CutPrefix(text, "```")
	if !ok {
		return text
	}
	if _, after, ok := strings.Cut(inner, "\n"); ok {
		inner = after
	}
	return strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(inner), "```"))
}

// lenient takes the quotes from a number and a flag that a model wrote as text.
// What is right already, or wrong in another way, stays as it was given.
func lenient(given json.RawMessage) json.RawMessage {
	var keys map[string]json.RawMessage
	if json.Unmarshal(given, &keys) != nil {
		return given
	}
	changed := false
	plain := func(key string, ok func(string) bool) {
		var text string
		if json.Unmarshal(keys[key], &text) == nil && ok(text) {
			keys[key], changed = json.RawMessage(text), true
		}
	}
	plain("timeout", func(s string) bool {
		_, err := strconv.ParseFloat(s, 64)
		return err == nil && json.Valid([]byte(s))
	})
	plain("read_only", func(s string) bool { return s == "true" || s == "false" })
	if changed {
		if again, err := json.Marshal(keys); err == nil {
			return again
		}
	}
	return given
}

// checkFolder keeps a model from sending a child out of the working directory
// by name. Links are the business of whoever starts the child.
func checkFolder(t task.Task) error {
	if t.WorkingDir != "" && !filepath.IsLocal(t.WorkingDir) {
		return errors.New(`"working_dir" must be a folder inside the working directory, relative to it`)
	}
	return nil
}

func (g delegation) delegate(ctx context.Context, tasks []task.Task) ([]task.Result, error) {
	results := g.to.Delegate(ctx, tasks)
	if len(results) != len(tasks) {
		return nil, fmt.Errorf("%d results came back for %d tasks", len(results), len(tasks))
	}
	return results, nil
}

func (g delegation) listAgents(_ context.Context, args json.RawMessage) (string, error) {
	if err := call.Decode(args, call.Fields{}); err != nil {
		return "", err
	}
	var lines []string
	for _, p := range g.agents() {
		lines = append(lines, fmt.Sprintf("%s (%s): %s", p.Name, p.Role, task.Shorten(p.Description, 300)))
	}
	if len(lines) == 0 {
		return "[no agents]", nil
	}
	return strings.Join(lines, "\n"), nil
}
