package replay

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/llm"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// called are the entries of a call and of its result.
func called(id, name, args, result string, failed bool) []llm.Entry {
	return []llm.Entry{
		{Message: llm.Message{Role: llm.Assistant, Calls: []tool.Call{
			{ID: id, Name: name, Arguments: json.RawMessage(args)}}}},
		{Message: llm.Message{Role: llm.ToolRole, CallID: id, Tool: name, Content: result}, Failed: failed},
	}
}

var offered = []tool.Spec{{Name: "read_file", Effect: tool.Reads}, {Name: "run_pty_cmd", Effect: tool.Executes}}

func TestTape(t *testing.T) {
	var entries []llm.Entry
	for _, e := range [][]llm.Entry{
		called("1", "read_file", `{"path":"a","limit":5}`, "old", false),
		called("2", "run_pty_cmd", `{"command":"make"}`, "broken", true),
		called("3", "run_pty_cmd", `{"command":"make"}`, "fine", false),
		called("4", "read_file", `{"limit":5.0,"path":"a"}`, "new", false),
		called("5", "run_pty_cmd", `{"command":"rm"}`, "Error: run_pty_cmd was refused: no", true),
		called("6", "gone_tool", `{}`, "there", false),
	} {
		entries = append(entries, e...)
	}
	ctx, end := context.WithCancelCause(t.Context())
	tp := newTape(entries, offered, end)
	give := func(name, args string) tool.Result {
		one, _, err := tp.Admit(ctx, tool.Call{Name: name, Arguments: json.RawMessage(args)})
		require.NoError(t, err)
		return one.Run(ctx, json.RawMessage(args))
	}
	assert.Equal(t, "old", give("read_file", `{ "limit": 5, "path": "a", "offset": null }`).Content)
	assert.Equal(t, "new", give("read_file", `{"path":"a","limit":5}`).Content, "in order")
	assert.Equal(t, "new", give("read_file", `{"path":"a","limit":5}`).Content, "reading repeats")
	first := give("run_pty_cmd", `{"command":"make"}`)
	assert.Equal(t, "broken", first.Content)
	assert.True(t, first.Failed)
	assert.Equal(t, "fine", give("run_pty_cmd", `{"command":"make"}`).Content)
	refused := give("run_pty_cmd", `{"command":"rm"}`)
	require.NotNil(t, refused.Refused)
	assert.Equal(t, "no", refused.Refused.Reason)
	assert.Equal(t, "there", give("gone_tool", `{}`).Content, "a tool that the agent had")
	require.NoError(t, ctx.Err())

	assert.True(t, give("run_pty_cmd", `{"command":"make"}`).Failed, "a command does not repeat")
	cause := context.Cause(ctx)
	assert.Equal(t, task.NotRecorded, task.StatusOf(cause))
	assert.ErrorContains(t, cause, "2 times, not more")
	var e *task.Error
	assert.True(t, errors.As(cause, &e))
}

// A call of a tool that nobody has ends the replay too: what the model would be told is not in the record.
func TestTapeNoTool(t *testing.T) {
	ctx, end := context.WithCancelCause(t.Context())
	tp := newTape(called("1", "ask_user", `{"question":"a"}`, "Error: no tool", true), offered, end)
	for _, args := range []string{`{"question":"a"}`, `{"question":"b"}`} {
		one, _, err := tp.Admit(ctx, tool.Call{Name: "ask_user", Arguments: json.RawMessage(args)})
		require.NoError(t, err)
		require.NoError(t, ctx.Err())
		assert.True(t, one.Run(ctx, json.RawMessage(args)).Failed)
	}
	assert.Equal(t, task.NotRecorded, task.StatusOf(context.Cause(ctx)))
}

func TestKey(t *testing.T) {
	same := func(a, b string) bool { return key("t", json.RawMessage(a)) == key("t", json.RawMessage(b)) }
	for _, c := range [][2]string{
		{`{"a":1,"b":[1,{"c":"x"}]}`, ` {"b":[1.0,{"c":"\u0078"}],"a":1}`}, {`{"a":null}`, `{}`}, {`"{\"a\":1}"`, `{"a":1}`},
		{`{"a":1.50}`, `{"a":1.5}`}, {`{"a":1e1}`, `{"a":1e1}`}, {`not json`, `not json`},
	} {
		assert.True(t, same(c[0], c[1]), c)
	}
	for _, c := range [][2]string{
		{`{"a":1}`, `{"a":"1"}`}, {`{"a":1}`, `{"a":2}`}, {`[1,2]`, `[2,1]`}, {`not json`, `no json`},
		{`{"a":9007199254740993}`, `{"a":9007199254740992}`}, {`{"a":""}`, `{}`}, {`{} {}`, `{}`},
	} {
		assert.False(t, same(c[0], c[1]), c)
	}
	assert.NotEqual(t, key("a", nil), key("b", nil))
	huge := `{"a":` + strings.Repeat("9", 1_000_000) + `}`
	assert.True(t, same(huge, huge))
}

func FuzzKey(f *testing.F) {
	for _, s := range []string{`{"a":1.50,"b":[null,{"c":-0}]}`, `"x"`, `{`, `1e999999999`, `{"a":1}{"a":2}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		k := key("t", json.RawMessage(s))
		var v any
		if json.Unmarshal([]byte(s), &v) != nil {
			return
		}
		if _, isText := v.(string); isText {
			return // arguments in a string are unwrapped
		}
		_, args, _ := strings.Cut(k, "\x00")
		if again := key("t", json.RawMessage(args)); again != k && json.Valid([]byte(args)) {
			if len(args) > 0 && args[0] == '"' {
				return
			}
			t.Fatalf("%q is %q, and then %q", s, k, again)
		}
	})
}

func TestLastAttempt(t *testing.T) {
	user := func(text string, attempt int) llm.Entry {
		return llm.Entry{Message: llm.Message{Role: llm.User, Content: text}, Attempt: attempt}
	}
	answer := llm.Entry{Message: llm.Message{Role: llm.Assistant, Content: "yes"}}
	for name, c := range map[string]struct {
		entries []llm.Entry
		want    string
		n       int
	}{
		"one":                   {[]llm.Entry{user("a", 0), answer}, "a", 2},
		"the last":              {[]llm.Entry{user("a", 0), answer, user("b", 2), answer, answer}, "b", 3},
		"the last said nothing": {[]llm.Entry{user("a", 0), answer, user("b", 2), answer, user("c", 3)}, "b", 2},
		"only the first spoke":  {[]llm.Entry{user("a", 0), answer, user("b", 2)}, "a", 2},
		"none spoke":            {[]llm.Entry{user("a", 0), user("b", 2)}, "a", 2},
	} {
		got := lastAttempt(c.entries)
		require.Len(t, got, c.n, name)
		assert.Equal(t, c.want, got[0].Content, name)
	}
	assert.Empty(t, lastAttempt(nil))
}
