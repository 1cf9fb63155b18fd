package acp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"qq/internal/foreign/wire"
	"qq/internal/foreign/wire/wiretest"
	"qq/pkg/agents/program"
	"qq/pkg/task"
	"qq/pkg/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func updated(kind, rest string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":%q,%s}}}`,
		kind, rest)
}

func said(t *testing.T, job wire.Job, lines ...string) (wire.Outcome, *wiretest.Recorder) {
	t.Helper()
	r := &wiretest.Recorder{}
	lines = append([]string{`{"id":1,"result":{"protocolVersion":1}}`}, lines...)
	o, in, err := wiretest.Said(t.Context(), Dialect{}, job, []byte(strings.Join(lines, "\n")+"\n"), r)
	require.NoError(t, err)
	assert.True(t, in.Closed)
	return o, r
}

const opened = `{"id":2,"result":{"sessionId":"s","models":{"currentModelId":"m","availableModels":[{"modelId":"n"}]}}}`

func TestTurn(t *testing.T) {
	o, r := said(t, wire.Job{Text: "do it"}, opened,
		updated("agent_thought_chunk", `"content":{"type":"text","text":"hm"}`),
		updated("agent_message_chunk", `"content":{"type":"text","text":"I look."}`),
		updated("tool_call", `"toolCallId":"c","title":"Read x","kind":"read","rawInput":{}`),
		updated("tool_call_update", `"toolCallId":"c","rawInput":{"path":"x"}`),
		updated("tool_call_update", `"toolCallId":"c","status":"failed","content":[{"type":"content","content":{"text":"no"}}]`),
		updated("tool_call_update", `"toolCallId":"unknown","status":"completed"`),
		`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"other","update":{"sessionUpdate":`+
			`"agent_message_chunk","content":{"type":"text","text":"theirs"}}}}`,
		updated("agent_message_chunk", `"content":{"type":"text","text":"Done."}`),
		`{"id":4,"result":{"stopReason":"end_turn","usage":{"inputTokens":7,"outputTokens":3,"cachedReadTokens":2}}}`,
		updated("agent_message_chunk", `"content":{"type":"text","text":"More."}`))
	assert.Equal(t, wire.Outcome{Ended: true, Answer: "Done.", Model: "m",
		Usage: task.Usage{InputTokens: 9, OutputTokens: 3, CachedTokens: 2}}, o)
	assert.Equal(t, "I look.Done.", r.Texts)
	require.Len(t, r.Begins, 2)
	assert.JSONEq(t, `{"path":"x"}`, string(r.Begins[1].Arguments))
	assert.Equal(t, []string{"c failed"}, r.Ends)
}

// TestEnds: what is a good end of a turn, and what is not.
func TestEnds(t *testing.T) {
	for text, want := range map[string]string{
		`{"id":4,"result":{"stopReason":"end_turn"}}`:              "",
		`{"id":4,"result":{"stopReason":"refusal"}}`:               "refused",
		`{"id":4,"result":{"stopReason":"cancelled"}}`:             "ended with cancelled",
		`{"id":4,"result":{"stopReason":"new"}}`:                   "ended with new",
		`{"id":4,"result":{}}`:                                     "without a reason",
		`{"id":4,"result":[]}`:                                     "without a reason",
		`{"id":4}`:                                                 "neither a result nor an error",
		`{"id":4,"error":{"code":-32000,"message":"who are you"}}`: "log in with the program itself first",
	} {
		o, _ := said(t, wire.Job{}, opened, updated("agent_message_chunk", `"content":{"type":"text","text":"x"}`), text)
		assert.True(t, o.Ended, text)
		if want == "" {
			assert.Empty(t, o.Failed)
			continue
		}
		assert.Contains(t, o.Failed, want, text)
	}
	for _, text := range []string{`{"id":5,"result":{"stopReason":"end_turn"}}`,
		`{"id":"4","result":{"stopReason":"end_turn"}}`, `[{"id":4}]`,
		`{"id":4,"method":"x","result":{"stopReason":"end_turn"}}`} {
		o, _ := said(t, wire.Job{}, opened, text)
		assert.False(t, o.Ended, text)
	}
	o, _ := said(t, wire.Job{}, `{"id":2,"result":{}}`)
	assert.Contains(t, o.Failed, "no id")
	o, r := said(t, wire.Job{Model: "n"}, opened, `{"id":3,"error":{"code":1,"message":"no"}}`,
		`{"id":4,"result":{"stopReason":"end_turn"}}`)
	assert.Empty(t, o.Failed)
	assert.Contains(t, r.Warnings[0], "the model n cannot be set: no")
	o, _, err := wiretest.Said(t.Context(), Dialect{}, wire.Job{}, []byte(`{"id":1,"result":{"protocolVersion":2}}`+"\n"),
		&wiretest.Recorder{})
	require.NoError(t, err)
	assert.Contains(t, o.Failed, "version 1")
}

func TestQuestion(t *testing.T) {
	for does, want := range map[string]tool.Effect{
		"read": tool.Reads, "search": tool.Reads, "edit": tool.Writes, "delete": tool.Writes, "move": tool.Writes,
		"fetch": tool.Network, "execute": tool.Executes, "other": tool.Executes, "": tool.Executes,
		"new": tool.Executes,
	} {
		assert.Equal(t, want, question(toolCall{Does: does}, nil).Effect, does)
	}
	q := question(toolCall{ID: "c", Title: "T", Does: "edit", Input: json.RawMessage(`{"a":1}`)},
		json.RawMessage(`[{"type":"diff","path":"x","oldText":"a","newText":"b"}]`))
	assert.Equal(t, "{\"a\":1}\nx\n-a\n+b", q.Preview)
	q = question(toolCall{Does: "execute", Input: json.RawMessage(`{"command":"make"}`)}, nil)
	assert.Equal(t, "make", q.Command)
}

func TestCommand(t *testing.T) {
	c, err := Dialect{}.Command(wire.Job{Text: "x",
		Program: program.Program{Name: program.ACP, Words: []string{"a", "--acp"}}})
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "--acp"}, c.Args)
	c, err = Dialect{}.Command(wire.Job{Program: program.Program{Name: program.OpenCode}})
	require.NoError(t, err)
	assert.Equal(t, []string{"opencode", "acp"}, c.Args)
	_, err = Dialect{}.Command(wire.Job{Program: program.Program{Name: program.Codex}})
	require.Error(t, err)
}

// FuzzFrames: whatever a program writes, a turn ends, and a success has its end mark.
func FuzzFrames(f *testing.F) {
	f.Add([]byte(`{"id":1,"result":{"protocolVersion":1}}` + "\n" + opened + "\n" +
		updated("tool_call", `"toolCallId":"c","kind":"edit","rawInput":{"a":1}`) + "\n" +
		`{"id":"q","method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"c"},` +
		`"options":[{"optionId":"y","kind":"allow_once"}]}}` + "\n" +
		`{"id":4,"result":{"stopReason":"end_turn","usage":{"inputTokens":1e9}}}`))
	f.Add([]byte(`{"id":9,"method":"fs/read_text_file","params":{}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		o, in, err := wiretest.Said(context.Background(), Dialect{}, wire.Job{Text: "x", Model: "n"}, text,
			&wiretest.Recorder{})
		require.NoError(t, err)
		assert.True(t, in.Closed)
		assert.Equal(t, o.Usage.Bounded(1<<50), o.Usage)
		if o.Ended && o.Failed == "" {
			assert.Contains(t, string(text), "end_turn")
		}
	})
}
