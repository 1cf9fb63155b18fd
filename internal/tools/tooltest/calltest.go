// Package tooltest makes calls of tools as a model makes them, for tests.
package tooltest

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qq/pkg/tool"
)

// Run calls one tool of set. A failure begins with one of the texts that say so.
func Run(t testing.TB, set tool.Set, name, args string) tool.Result {
	t.Helper()
	return RunWith(context.Background(), t, set, name, args)
}

// RunWith is Run with a context.
func RunWith(ctx context.Context, t testing.TB, set tool.Set, name, args string) tool.Result {
	t.Helper()
	f, ok := set.Lookup(name)
	require.True(t, ok, name)
	r := f.Run(ctx, json.RawMessage(args))
	if r.Failed != (strings.HasPrefix(r.Content, "Error: ") || strings.HasPrefix(r.Content, "Child agent error: ")) {
		t.Errorf("failed is %v: %s", r.Failed, r.Content)
	}
	return r
}

// Args is the arguments of a call, from keys and values in turn.
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
