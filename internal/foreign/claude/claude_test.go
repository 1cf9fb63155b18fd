package claude

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"qq/internal/foreign/wire"
	"qq/internal/foreign/wire/wiretest"
	"qq/pkg/task"
	"qq/pkg/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// said runs a turn in which the program writes lines.
func said(t *testing.T, lines ...string) (wire.Outcome, *wiretest.Recorder, string) {
	t.Helper()
	r, in := &wiretest.Recorder{}, &wiretest.Stdin{}
	script := &afterTask{in: in, Reader: strings.NewReader(strings.Join(lines, "\n") + "\n")}
	o, err := Dialect{}.Converse(t.Context(), wire.Job{Text: "do it", System: "Be careful."},
		wire.Stream{In: in, Out: wire.NewLines(script)}, r)
	require.NoError(t, err)
	assert.True(t, in.Closed)
	return o, r, in.String()
}

// afterTask is a stream that begins when its program has been told its task, in two lines.
type afterTask struct {
	io.Reader
	in *wiretest.Stdin
}

func (a *afterTask) Read(p []byte) (int, error) {
	for strings.Count(a.in.String(), "\n") < 2 {
		runtime.Gosched()
	}
	return a.Reader.Read(p)
}

const good = `{"type":"result","subtype":"success","is_error":false,"result":"Done.","session_id":"s","num_turns":2,` +
	`"total_cost_usd":0.0000000011,"usage":{"input_tokens":7,"output_tokens":3},"modelUsage":{"a":{"inputTokens":10,` +
	`"outputTokens":2,"cacheReadInputTokens":5,"cacheCreationInputTokens":1},"b":{"inputTokens":1}}}`

func TestTurn(t *testing.T) {
	o, r, in := said(t,
		`{"type":"system","subtype":"init","session_id":"s","model":"m1"}`,
		`{"type":"stream_event","event":{"type":"message_start","message":{"id":"1","usage":{"input_tokens":9}}}}`,
		`{"type":"stream_event","event":{"type":"content_block_delta","delta":{"type":"text_delta","text":"I "}}}`,
		`{"type":"stream_event","event":{"type":"content_block_delta","delta":{"type":"text_delta","text":"look."}}}`,
		`{"type":"assistant","message":{"id":"1","content":[{"type":"text","text":"I look."}],"usage":{"input_tokens":9}}}`,
		`{"type":"assistant","message":{"id":"1","content":[{"type":"tool_use","id":"c1","name":"Read",`+
			`"input":{"file_path":"x"}}],"usage":{"input_tokens":9}}}`,
		`{"type":"stream_event","event":{"type":"message_delta","usage":{"output_tokens":4}}}`,
		`{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"c1","is_error":true,`+
			`"content":[{"type":"text","text":"no"},{"type":"image"}]}]}}`,
		`{"type":"assistant","parent_tool_use_id":"c0","message":{"id":"9","content":[{"type":"text","text":"sub"}],`+
			`"usage":{"input_tokens":100}}}`,
		`{"type":"assistant","message":{"id":"2","content":"Done.","usage":{"input_tokens":1,"output_tokens":1}}}`,
		good)
	assert.Equal(t, wire.Outcome{Ended: true, Answer: "Done.", Model: "m1", Session: "s", Turns: 2, Usage: task.Usage{
		InputTokens: 17, OutputTokens: 2, CachedTokens: 5, Cost: 2, PricedTokens: 19}}, o)
	assert.Equal(t, "I look.", r.Texts)
	assert.Equal(t, task.Usage{InputTokens: 110, OutputTokens: 5}, r.Usage)
	assert.Equal(t, []string{"c1 failed"}, r.Ends)
	require.Len(t, r.Begins, 1)
	assert.Equal(t, "Read", r.Begins[0].Name)
	var said []string
	for _, e := range r.Entries {
		said = append(said, e.Content)
	}
	assert.Equal(t, []string{"I look.", "", "no[image]", "Done."}, said, "without that of the sub-agent")
	var first, second map[string]any
	lines := strings.Split(in, "\n")
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &first))
	require.NoError(t, json.Unmarshal([]byte(lines[1]), &second))
	assert.Equal(t, "Be careful.", first["request"].(map[string]any)["appendSystemPrompt"])
	assert.Equal(t, "do it", second["message"].(map[string]any)["content"])
}

// TestEnds: what is a good end of a turn, and what is not.
func TestEnds(t *testing.T) {
	for text, want := range map[string]wire.Outcome{
		``:                        {},
		`{"type":"result"`:        {},
		`{"type":"Result"}`:       {},
		`[{"type":"result"}]`:     {},
		`{"type":["result"]}`:     {},
		`{"type":"result"}`:       {Ended: true, Failed: "the turn failed"},
		`{"type":"result","x":1}`: {Ended: true, Failed: "the turn failed"},
		`{"type":"result","subtype":"success","is_error":true,"result":"no"}`: {Ended: true, Failed: "no"},
		`{"type":"result","subtype":"success","is_error":"no"}`:               {},
		`{"type":"result","subtype":"new_kind","result":""}`:                  {Ended: true, Failed: "new_kind"},
		`{"type":"result","subtype":"error_max_turns","errors":["a","b"]}`: {Ended: true, Failed: "a; b",
			Status: task.TurnLimit},
		`{"type":"result","subtype":"error_max_budget_usd"}`: {Ended: true, Failed: "error_max_budget_usd",
			Status: task.Limit},
		`{"type":"result","subtype":"success","result":"x","structured_output":{"a":1}}`: {Ended: true, Answer: "x",
			Structured: json.RawMessage(`{"a":1}`)},
		`{"type":"result","subtype":"success","result":"x","structured_output":null,"total_cost_usd":-1}`: {Ended: true,
			Answer: "x"},
	} {
		o, _, _ := said(t, text)
		assert.Equal(t, want, o, text)
	}
	o, _, err := wiretest.Said(t.Context(), Dialect{}, wire.Job{}, []byte(good), &wiretest.Recorder{})
	require.NoError(t, err)
	assert.True(t, o.Ended, "a whole object needs no newline")
	o, _, err = wiretest.Said(t.Context(), Dialect{}, wire.Job{}, []byte(good[:len(good)-1]), &wiretest.Recorder{})
	require.NoError(t, err)
	assert.False(t, o.Ended)
}

// TestAsked: what a program asks is answered on its stdin, while the stream is read on.
func TestAsked(t *testing.T) {
	in := &wiretest.Stdin{}
	out, theirs := io.Pipe()
	open := make(chan struct{})
	r := &wiretest.Recorder{Decide: func(q wire.Question) tool.Decision {
		if q.CallID == "c1" {
			<-open // until the second was answered
			return tool.Decision{Reason: "not that"}
		}
		close(open)
		return tool.Decision{Allowed: true}
	}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		ask := func(id, name, input string) string {
			return `{"type":"control_request","request_id":"r` + id + `","request":{"subtype":"can_use_tool","tool_name":"` +
				name + `","tool_use_id":"` + id + `","input":` + input + "}}\n"
		}
		for _, l := range []string{
			ask("c1", "Bash", `{"command":"rm x"}`), ask("c2", "Write", `{"file_path":"a","content":"b"}`),
			`{"type":"control_request","request_id":"h","request":{"subtype":"hook_callback"}}` + "\n",
			`{"type":"control_request","request_id":"u","request":{"subtype":"unheard"}}` + "\n",
		} {
			_, _ = theirs.Write([]byte(l))
		}
		assert.Eventually(t, func() bool {
			return strings.Count(in.String(), `"control_response"`) == 4
		}, 30*time.Second, time.Millisecond)
		_, _ = theirs.Write([]byte(good + "\n"))
	}()
	o, err := Dialect{}.Converse(t.Context(), wire.Job{}, wire.Stream{In: in, Out: wire.NewLines(out)}, r)
	require.NoError(t, err)
	assert.True(t, o.Ended)
	<-done
	replies := map[string]map[string]any{}
	for _, text := range strings.Split(strings.TrimSpace(in.String()), "\n") {
		var l struct {
			Response struct {
				ID       string         `json:"request_id"`
				Error    string         `json:"error"`
				Response map[string]any `json:"response"`
			} `json:"response"`
		}
		require.NoError(t, json.Unmarshal([]byte(text), &l))
		if l.Response.Error != "" {
			l.Response.Response = map[string]any{"error": l.Response.Error}
		}
		replies[l.Response.ID] = l.Response.Response
	}
	assert.Equal(t, map[string]any{"behavior": "deny", "message": "not that"}, replies["rc1"])
	assert.Equal(t, map[string]any{"behavior": "allow",
		"updatedInput": map[string]any{"file_path": "a", "content": "b"}}, replies["rc2"])
	assert.Contains(t, replies["h"]["hookSpecificOutput"], "permissionDecision")
	assert.Equal(t, "ask", replies["h"]["hookSpecificOutput"].(map[string]any)["permissionDecision"])
	assert.Contains(t, replies["u"]["error"], "does not know")
}

// TestDeaf: a program that does not read its stdin does not keep the stream from being read.
func TestDeaf(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	text := strings.Repeat(`{"type":"control_request","request_id":"h","request":{"subtype":"hook_callback"}}`+"\n", 100)
	o, err := Dialect{}.Converse(context.Background(), wire.Job{Text: strings.Repeat("x", 1<<20)},
		wire.Stream{In: w, Out: wire.NewLines(strings.NewReader(text + good))}, &wiretest.Recorder{})
	require.NoError(t, err)
	assert.True(t, o.Ended)
}

func TestQuestion(t *testing.T) {
	for _, c := range []struct {
		name, input string
		want        wire.Question
	}{
		{"Bash", `{"command":"ls"}`, wire.Question{Effect: tool.Executes, Command: "ls", Preview: "ls"}},
		{"Read", `{"file_path":"/x/.env"}`, wire.Question{Effect: tool.Reads, Paths: []string{"/x/.env"},
			Summary: "Read /x/.env", Preview: `{"file_path":"/x/.env"}`}},
		{"Edit", `{"file_path":"a","old_string":"b\nc","new_string":"d"}`, wire.Question{Effect: tool.Writes,
			Paths: []string{"a"}, Preview: "-b\n-c\n+d\n"}},
		{"NotebookEdit", `{"notebook_path":"n","new_source":"s"}`, wire.Question{Effect: tool.Writes,
			Paths: []string{"n"}, Preview: "s"}},
		{"WebFetch", `{"url":"https://example.org:8080/x"}`, wire.Question{Effect: tool.Network, Host: "example.org:8080",
			Preview: "https://example.org:8080/x"}},
		{"Task", `{"prompt":"x"}`, wire.Question{Effect: tool.Reads, Preview: `{"prompt":"x"}`}},
		{"mcp__x__y", `{"path":"a"}`, wire.Question{Effect: tool.Executes, Preview: `{"path":"a"}`}},
		{"Read", `{"file_path":7}`, wire.Question{Effect: tool.Executes, Preview: `{"file_path":7}`}},
		{"Bash", `[]`, wire.Question{Effect: tool.Executes, Preview: `[]`}},
	} {
		c.want.Tool, c.want.CallID = c.name, "id"
		assert.Equal(t, c.want, Question(c.name, "id", json.RawMessage(c.input)), c.name+c.input)
	}
}

func TestCommand(t *testing.T) {
	c, err := Dialect{}.Command(wire.Job{Model: "opus", MaxTurns: 3, ReadOnly: true, Session: "s",
		MaxCost: 1_500_000_000, Text: "secret text", System: "secret text"})
	require.NoError(t, err)
	line := strings.Join(c.Args, " ")
	assert.Contains(t, line, "--model opus --max-turns 3 --max-budget-usd 1.5 --resume s")
	assert.Contains(t, line, ",Edit,MultiEdit,Write,NotebookEdit")
	assert.NotContains(t, line, "secret")
}

// FuzzMessages: whatever a program writes, a turn ends, and a success has an end mark.
func FuzzMessages(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte(`{"type":"assistant","message":{"id":"1","content":[{"type":"tool_use","id":"c","name":"N","input":{}}]}}`))
	f.Add([]byte(`{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"c","content":"x"}]}}`))
	f.Add([]byte(`{"type":"control_request","request_id":"r","request":{"subtype":"can_use_tool","tool_name":"Edit",` +
		`"input":{"edits":[{"old_string":"a"}]}}}` + "\n" + `{"type":"control_cancel_request","request_id":"r"}`))
	f.Add([]byte(`{"type":"stream_event","event":{"type":"message_delta","usage":{"output_tokens":1e99}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r := &wiretest.Recorder{}
		o, in, err := wiretest.Said(context.Background(), Dialect{}, wire.Job{Text: "x"}, text, r)
		require.NoError(t, err)
		assert.True(t, in.Closed)
		for _, u := range []task.Usage{o.Usage, r.Usage} {
			assert.Equal(t, u.Bounded(1<<50), u)
		}
		if o.Ended {
			assert.Contains(t, string(text), "result")
		} else {
			assert.Empty(t, o.Answer)
		}
	})
}
