package delegate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"qq/pkg/agents"
	"qq/pkg/task"
	"qq/pkg/tool"
)

func (g delegation) spawnTool() tool.Tool {
	about := tool.Spec{Name: "spawn_agent", Effect: tool.Delegates,
		Description: `Make a temporary agent, with your prompt and some of your tools, for one task. ` +
			`Example: {"instructions":"Count the tests in src","tools":["list_files"],"mode":"read_only"}` +
			`. With background it answers an id at once: collect the result with wait_children. ` +
			`Writers need targets to run at once`,
		Parameters: json.RawMessage(spawnSchema)}
	return tool.Function{About: about, Do: g.spawn, Intent: planned(g.spawned)}
}

// spawnSchema is the JSON Schema of spawn_agent.
const spawnSchema = `{"type":"object","required":["instructions"],"properties":{` +
	`"instructions":{"type":"string"},"system_prompt":{"type":"string"},` +
	`"tools":{"type":"array","items":{"type":"string"}},"mode":{"type":"string","enum":["default","read_only"]},` +
	`"name":{"type":"string"},"agent":{"type":"string"},"model":{"type":"string"},"context":{"type":"string"},` +
	`"working_dir":{"type":"string"},"targets":{"type":"array","items":{"type":"string"}},` +
	`"timeout":{"type":"number"},` +
	`"schema":{"type":"object"},"require_file_references":{"type":"boolean"},"background":{"type":"boolean"}}}`

func (g delegation) spawn(ctx context.Context, args json.RawMessage) (tool.Result, error) {
	t, background, err := g.decodeSpawn(args)
	if err != nil {
		return tool.Result{}, err
	}
	if !background {
		return g.one(ctx, t)
	}
	c, err := g.parent.Spawn(ctx, t)
	if refused, ok := errors.AsType[*tool.RefusedError](err); ok {
		return tool.Result{Refused: refused}, tool.Plain("Child agent error: " + refused.Reason)
	}
	if err != nil {
		return tool.Result{}, err
	}
	return tool.Text(fmt.Sprintf("started %s: collect it with wait_children", name(c))), nil
}

// decodeSpawn decodes the arguments of spawn_agent.
func (g delegation) decodeSpawn(args json.RawMessage) (t task.Task, background bool, err error) {
	var text, near, prompt, mode, agent, name, model, dir string
	var tools, targets, timeout, schema, references json.RawMessage
	fields := tool.Fields{"instructions": &text, "context": &near, "system_prompt": &prompt, "tools": &tools,
		"mode": &mode, "agent": &agent, "timeout": &timeout, "schema": &schema, "require_file_references": &references,
		"background": &background, "name": &name, "model": &model, "working_dir": &dir, "targets": &targets}
	if given, ok := fieldsOf(tool.Unwrap(args)); ok {
		if given, err = renamed(given, agentName); err != nil {
			return t, false, err
		}
		args = object(given)
	}
	if err := tool.Decode(args, fields); err != nil {
		return t, false, err
	}
	if text == "" {
		return t, false, tool.Missing("instructions")
	}
	made, err := temporary(name, prompt, tools)
	if err != nil {
		return t, false, err
	}
	if agent != "" && (made.Name != "" || made.Prompt != "" || len(made.Tools) > 0) {
		return t, false, errors.New("a registered agent has its own prompt and tools, and its name: leave out " +
			"system_prompt, tools and name, or agent")
	}
	readOnly := false
	switch strings.ReplaceAll(strings.ToLower(mode), "-", "_") {
	case "", "default":
	case "read_only", "readonly":
		readOnly = true
	default:
		return t, false, fmt.Errorf("mode %q is not known: use default or read_only", task.Shorten(mode, 40))
	}
	if t, err = taskOf(map[string]any{"task": text, "context": near, "timeout": timeout, "schema": schema,
		"require_file_references": references, "model": model, "working_dir": dir, "targets": targets}); err != nil {
		return t, false, err
	}
	if err := checkFolder(t); err != nil {
		return t, false, err
	}
	t.ReadOnly, t.Agent = readOnly, agent
	if agent == "" {
		t.Temporary = made
	}
	return t, background, nil
}

// taskOf makes a task of JSON values, which [task.Decode] checks. A nil value is an absent one.
func taskOf(values map[string]any) (task.Task, error) {
	data, err := json.Marshal(values)
	if err != nil {
		return task.Task{}, err
	}
	if data, err = lenient(data); err != nil {
		return task.Task{}, err
	}
	return task.Decode(data)
}

// temporary makes the definition of a temporary agent from its name, its prompt and its list of tools.
func temporary(name, prompt string, tools json.RawMessage) (*task.Temporary, error) {
	names, err := list("tools", tools)
	switch {
	case err != nil:
		return nil, err
	case len(prompt) > agents.MaxPrompt:
		return nil, fmt.Errorf("system_prompt is %d bytes long, at most %d: put documents into context",
			len(prompt), agents.MaxPrompt)
	case !utf8.ValidString(prompt) || strings.ContainsRune(prompt, 0):
		return nil, errors.New("system_prompt contains a character that is no text")
	case tools != nil && len(names) == 0:
		// No tools would mean all tools, which is the opposite of what was asked.
		return nil, errors.New("tools is empty: name tools, or leave it out")
	}
	return &task.Temporary{Name: strings.TrimSpace(name), Prompt: prompt, Tools: names}, nil
}
