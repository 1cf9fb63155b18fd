package tool_test

import (
	"context"
	"encoding/json"
	"fmt"

	"qq/pkg/tool"
)

// remove is a tool that plans its calls.
type remove struct{}

var _ tool.Planner = remove{}

func (remove) Spec() tool.Spec {
	return tool.Spec{
		Name: "remove_file", Description: "Removes one file.", Effect: tool.Writes,
		Parameters: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`),
	}
}

func (remove) Plan(_ context.Context, args json.RawMessage) (tool.Intent, error) {
	path, err := pathOf(args)
	return tool.Intent{Risk: tool.High, Paths: []string{path}, Summary: "remove " + path}, err
}

func (remove) Run(_ context.Context, args json.RawMessage) tool.Result {
	path, err := pathOf(args)
	if err != nil {
		return tool.Failure("Error: " + err.Error())
	}
	return tool.Result{Content: "removed " + path, Changed: []string{path}}
}

func pathOf(args json.RawMessage) (string, error) {
	var call struct {
		Path string `json:"path"`
	}
	if json.Unmarshal(args, &call) != nil || call.Path == "" {
		return "", fmt.Errorf(`remove_file takes {"path": "a.txt"}`)
	}
	return call.Path, nil
}

// What a call would do is known before it runs, so that somebody can decide.
func ExamplePlan() {
	tools := tool.Set{remove{}}
	call := tool.Call{Name: "remove_file", Arguments: json.RawMessage(`{"path":"old.txt"}`)}
	t, ok := tools.Lookup(call.Name)
	if !ok {
		panic("no such tool")
	}
	intent, err := tool.Plan(context.Background(), t, call.Arguments)
	if err != nil {
		panic(err)
	}
	fmt.Println(intent.Summary, intent.Effect, intent.Risk)
	if intent.Risk != tool.Low {
		ctx := tool.WithGrant(context.Background(), intent)
		fmt.Println(t.Run(ctx, call.Arguments).Content)
	}
	_, err = tool.Plan(context.Background(), t, json.RawMessage(`{}`))
	fmt.Println(err)
	// Output:
	// remove old.txt writes high
	// removed old.txt
	// remove_file takes {"path": "a.txt"}
}

func ExampleSet() {
	tools := tool.Set{remove{}}
	_, ok := tools.Lookup("rm")
	fmt.Println(tools.Names(), ok)
	// Output: [remove_file] false
}
