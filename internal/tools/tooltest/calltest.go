// Package tooltest is what the tests of all tools need: a call as a model makes
// it, and the rules that hold for each tool.
package tooltest

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
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

// CheckSpecs checks that what each tool of set says that it accepts is what its
// schema says, and that all that is sent with every request is at most size
// bytes. Tools in except read their arguments in another way.
func CheckSpecs(t *testing.T, set tool.Set, size int, except ...string) {
	t.Helper()
	total := 0
	for _, s := range set.Specs() {
		var schema struct {
			Type       string
			Properties map[string]any
			Required   []string
		}
		require.NoError(t, json.Unmarshal(s.Parameters, &schema), "%s: %s", s.Name, s.Parameters)
		assert.Equal(t, "object", schema.Type)
		assert.NotEmpty(t, s.Effect, s.Name)
		total += len(s.Description) + len(s.Parameters)
		if !slices.Contains(except, s.Name) {
			checkArguments(t, set, s.Name, schema.Properties)
		}
	}
	assert.LessOrEqual(t, total, size, "the tools are sent with every request")
}

func checkArguments(t *testing.T, set tool.Set, name string, properties map[string]any) {
	t.Helper()
	_, accepted, _ := strings.Cut(Run(t, set, name, `{"no such":1}`).Content, "(accepted: ")
	if len(properties) == 0 {
		assert.Equal(t, "none)", accepted, name)
		return
	}
	names := strings.Split(strings.TrimSuffix(accepted, ")"), ", ")
	assert.Len(t, names, len(properties), name)
	for _, n := range names {
		assert.Contains(t, properties, n, name)
	}
}
