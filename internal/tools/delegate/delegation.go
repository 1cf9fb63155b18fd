// Package delegate holds the tools that hand work to other agents.
//
// A task is handed to a registered agent (delegate_task, run_parallel_tasks) or
// to a temporary one that is made for it (spawn_agent). Where there is a
// [task.Family], an agent may also start one in the background: its result is
// collected later, and until then it can be sent messages and be ended.
//
// Not promised here: limits, permissions and the order of tasks. Whoever
// implements [Delegator] and [task.Family] keeps them.
package delegate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"qq/pkg/task"
	"qq/pkg/tool"
)

// maxTasks is how many tasks one call of run_parallel_tasks may hold.
const maxTasks = 100

// Parent is what the tools ask for. It enforces the limits.
type Parent interface {
	task.Delegator
	task.Family
}

// Tools returns the tools that delegate tasks and those for children in the background. The text of
// delegate_task has the roster. agents lists the agents, each time that a model calls list_agents.
func Tools(p Parent, roster Roster, agents func() []AgentInfo) tool.Set {
	g := delegation{p, agents}
	// The schemas name what is used most. The tools accept all that a task has.
	set := tool.Set{
		tool.Function{Do: g.delegateTask, Intent: planned(oneTask), About: tool.Spec{
			Name: "delegate_task", Effect: tool.Delegates,
			Description: `Give an agent one task. It sees only task and context. ` +
				`Example: {"task":"Find where ports are set","agent":"explorer"}` + roster.String(),
			Parameters: json.RawMessage(`{"type":"object","required":["task"],"properties":{` +
				`"task":{"type":"string"},"agent":{"type":"string"},"context":{"type":"string"}}}`)}},
		tool.Function{Do: g.runParallel, Intent: planned(decodeParallel), About: tool.Spec{
			Name: "run_parallel_tasks", Effect: tool.Delegates,
			Description: `delegate_task for many at once, each after its needs. ` +
				`Example: {"tasks":[{"id":"a","task":"Fix x"},{"task":"Test","needs":["a"]}]}`,
			Parameters: json.RawMessage(`{"type":"object","required":["tasks"],"properties":{"tasks":{"type":"array",` +
				`"items":{"type":"object","required":["task"],"properties":{"id":{"type":"string"},` +
				`"task":{"type":"string"},"agent":{"type":"string"},` +
				`"targets":{"type":"array","items":{"type":"string"}},` +
				`"needs":{"type":"array","items":{"type":"string"}}}}}}}`)}},
		g.spawnTool(),
		tool.Function{Do: tool.TextOnly(g.listAgents), About: tool.Spec{Name: "list_agents", Effect: tool.Reads,
			Description: `List the agents that can be asked.`,
			Parameters:  json.RawMessage(noArguments)}},
	}
	return append(set, g.childrenTools()...)
}

// noArguments is the schema of a tool that takes none.
const noArguments = `{"type":"object","properties":{}}`

type delegation struct {
	parent Parent
	agents func() []AgentInfo
}

func (g delegation) delegateTask(ctx context.Context, args json.RawMessage) (tool.Result, error) {
	t, err := decodeTask(args)
	if err != nil {
		return tool.Result{}, err
	}
	return g.one(ctx, t)
}

// decodeTask decodes the arguments of delegate_task.
func decodeTask(args json.RawMessage) (task.Task, error) {
	data, err := lenient(tool.Unwrap(args))
	if err != nil {
		return task.Task{}, err
	}
	t, err := task.Decode(data)
	if err != nil {
		return t, err
	}
	return t, checkFolder(t)
}

// one delegates one task and returns the answer to the model.
func (g delegation) one(ctx context.Context, t task.Task) (tool.Result, error) {
	results, err := g.delegate(ctx, []task.Task{t})
	if err != nil {
		return tool.Result{}, err
	}
	r := results[0]
	if !r.Success {
		return tool.Result{Footer: footer(r), Refused: refusal(results)}, failure(r)
	}
	text := r.Output + changed(r)
	for _, w := range r.Warnings {
		text += "\n[warning: " + w + "]"
	}
	return tool.Result{Content: text, Footer: footer(r)}, nil
}

// footer returns a line about what the task took: "[coder 7dfddf4f: completed in 12.3 s, 3,120 tokens in,
// 410 out]". It is "" for a task that never started. Arrays of results have [report] instead, and each
// result in them has duration_ms and usage.
func footer(r task.Result) string {
	if r.ExecutionID == "" || r.Attempts == 0 {
		return ""
	}
	after := "after"
	if r.Success {
		after = "in"
	}
	text := fmt.Sprintf("[%s %s: %s %s %.1f s", r.Agent, task.ShortID(r.ExecutionID), r.Status, after,
		float64(r.DurationMS)/1000)
	if u := r.Usage; u != (task.Usage{}) { // some models report none
		text += fmt.Sprintf(", %s tokens in, %s out", grouped(u.InputTokens), grouped(u.OutputTokens))
	}
	return text + "]"
}

// grouped formats n with a comma before every three digits.
func grouped(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// refusal returns why the first refused task was not allowed to start; nil means that none was refused. A call that
// was refused to a running child is part of the child's result and does not count.
func refusal(results []task.Result) *tool.RefusedError {
	for _, r := range results {
		if r.Status == task.Refused && r.Attempts == 0 {
			reason, hint := task.Explain(errors.New(r.Err()))
			return &tool.RefusedError{Reason: reason, Hint: hint}
		}
	}
	return nil
}

// forModel returns r without what only a person can do about a refusal.
func forModel(r task.Result) task.Result {
	if r.Status == task.Refused {
		r.CutHint()
	}
	return r
}

// failure returns the answer to the model for a task that failed. It begins with "Error: " if the
// child never started.
func failure(r task.Result) tool.Plain {
	text := forModel(r).Err()
	if !strings.HasPrefix(text, "Error: ") {
		text = "Child agent error: " + text
	}
	if strings.TrimSpace(r.Output) != "" {
		text += "\n\nPartial output:\n" + r.Output
	}
	text += changed(r)
	return tool.Plain(text)
}

func (g delegation) runParallel(ctx context.Context, args json.RawMessage) (tool.Result, error) {
	tasks, err := decodeParallel(args)
	if err != nil {
		return tool.Result{}, err
	}
	results, err := g.delegate(ctx, tasks)
	if err != nil {
		return tool.Result{}, err
	}
	text, err := encode(results)
	return tool.Result{Content: text, Footer: report(results), Refused: refusal(results)}, err
}

// decodeParallel decodes the arguments of run_parallel_tasks.
func decodeParallel(args json.RawMessage) ([]task.Task, error) {
	var array, text json.RawMessage
	if err := tool.Decode(args, tool.Fields{"tasks": &array, "tasks_json": &text}); err != nil {
		return nil, err
	}
	if array != nil && text != nil {
		return nil, errors.New("give tasks or tasks_json, not both")
	}
	if array == nil {
		array = text
	}
	tasks, err := decodeTasks(array)
	if err != nil {
		return nil, fmt.Errorf("%w. Nothing was started", err)
	}
	return tasks, nil
}

// encode returns the results as a JSON array on one line.
func encode(results []task.Result) (string, error) {
	shown := make([]task.Result, len(results))
	for i, r := range results {
		shown[i] = listed(forModel(r))
		shown[i].Did = nil // for people
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(shown); err != nil {
		return "", err
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

// decodeTasks decodes a JSON array of tasks, or a string that contains one.
func decodeTasks(data json.RawMessage) ([]task.Task, error) {
	var text string
	if json.Unmarshal(data, &text) == nil {
		data = json.RawMessage(unfence(text))
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, tool.Missing("tasks")
	}
	var items []json.RawMessage
	if json.Unmarshal(data, &items) == nil && items != nil {
		for i := range items {
			var err error
			if items[i], err = lenient(items[i]); err != nil {
				return nil, fmt.Errorf("task %d: %w", i, err)
			}
		}
		if again, err := json.Marshal(items); err == nil {
			data = again
		}
	}
	tasks, err := task.DecodeList(data)
	if err != nil {
		return nil, err
	}
	if len(tasks) == 0 || len(tasks) > maxTasks {
		return nil, fmt.Errorf("%d tasks in one call: give 1 to %d", len(tasks), maxTasks)
	}
	for i, t := range tasks {
		if err := checkFolder(t); err != nil {
			return nil, fmt.Errorf("task %d: %w", i, err)
		}
	}
	return tasks, nil
}

// checkFolder returns an error if the path of t's working directory leads out of the agent's own one. It does not
// look at symbolic links; the Launcher checks those.
func checkFolder(t task.Task) error {
	if t.WorkingDir != "" && !filepath.IsLocal(t.WorkingDir) {
		return errors.New(`"working_dir" must be a folder inside the working directory, relative to it`)
	}
	return nil
}

func (g delegation) delegate(ctx context.Context, tasks []task.Task) ([]task.Result, error) {
	results := g.parent.Delegate(ctx, tasks)
	if len(results) != len(tasks) {
		return nil, fmt.Errorf("%d results came back for %d tasks", len(results), len(tasks))
	}
	return results, nil
}

func (g delegation) listAgents(_ context.Context, args json.RawMessage) (string, error) {
	if err := tool.Decode(args, tool.Fields{}); err != nil {
		return "", err
	}
	var lines []string
	for _, p := range g.agents() {
		line := fmt.Sprintf("%s (%s)", p.Name, p.Role)
		if p.Description != "" {
			line += ": " + task.Shorten(p.Description, 300)
		}
		lines = append(lines, line)
	}
	if len(lines) == 0 {
		return "[no agents]", nil
	}
	return strings.Join(lines, "\n"), nil
}
