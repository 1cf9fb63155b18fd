package standin

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"qq/pkg/tool"
)

// CallTool calls one tool of set as a model does. It fails t if the tool is not in set, if a failed result does not
// begin with "Error: " or "Child agent error: ", or if a successful one does.
func CallTool(t testing.TB, set tool.Set, name, args string) tool.Result {
	t.Helper()
	return CallToolContext(context.Background(), t, set, name, args)
}

// CallToolContext is CallTool with a context.
func CallToolContext(ctx context.Context, t testing.TB, set tool.Set, name, args string) tool.Result {
	t.Helper()
	f, ok := set.Lookup(name)
	if !ok {
		t.Fatalf("there is no tool %s", name)
	}
	r := f.Run(ctx, json.RawMessage(args))
	if r.Failed != (strings.HasPrefix(r.Content, "Error: ") || strings.HasPrefix(r.Content, "Child agent error: ")) {
		t.Errorf("failed is %v: %s", r.Failed, r.Content)
	}
	return r
}

// Args returns the JSON arguments of a call. pairs are keys and values in turn; the keys are strings.
func Args(pairs ...any) string {
	args := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		args[pairs[i].(string)] = pairs[i+1]
	}
	data, err := json.Marshal(args)
	if err != nil {
		panic(err)
	}
	return string(data)
}
