package models

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/models/servers"
	"qq/internal/models/wire"
	"qq/internal/standin"
	"qq/pkg/llm"
	"qq/pkg/tool"
)

func TestAnswer(t *testing.T) {
	s := standin.Start(t, standin.Scripts(standin.Script{Start: "[[hello]]", Text: "Hello there. Größe 你好 🙂 done."}))
	var got chunks
	resp, err := clientOf(t, s).Backend(standIn, Options{}).Chat(t.Context(), ask("[[hello]]"), got.add)
	require.NoError(t, err)
	text, thinking := got.text()
	assert.Equal(t, "Hello there. Größe 你好 🙂 done.", text)
	assert.Empty(t, thinking)
	assert.Len(t, got, 6, "one chunk a word")
	assert.Equal(t, llm.Message{Role: llm.Assistant, Content: text}, resp.Message)
	assert.Equal(t, llm.StopEnd, resp.Stop)
	assert.Equal(t, 6, resp.Usage.OutputTokens)
	assert.Positive(t, resp.Usage.InputTokens)
	assert.Equal(t, 1, s.Count("/api/chat"))
	assert.Len(t, s.Requests(""), 1, "a chat is one request")
}

func TestWhatIsSent(t *testing.T) {
	s := standin.Start(t)
	_, err := clientOf(t, s).Backend(standIn, Options{}).Chat(t.Context(), llm.Request{
		System: "be brief",
		Messages: []llm.Message{
			{Role: llm.User, Content: "go"},
			{Role: llm.Assistant, Thinking: "hm", Calls: []tool.Call{{ID: "c1", Name: "delegate_task",
				Arguments: json.RawMessage(`{"z":1,"a":"<b>"}`)}, {ID: "c2", Name: "x"}}},
			{Role: llm.ToolRole, Content: "done", CallID: "c1", Tool: "delegate_task"},
		},
		Tools:     []tool.Spec{delegate, {Name: "now", Parameters: json.RawMessage(`{"type":"object"}`)}},
		MaxTokens: 50,
	}, ignore)
	require.NoError(t, err)
	got := sentTo(t, s)[0]
	assert.Equal(t, "stand-in", got.Model)
	assert.Equal(t, map[string]any{"num_ctx": 8192.0, "num_predict": 50.0}, got.Options)
	require.NotNil(t, got.Truncate)
	assert.False(t, *got.Truncate)
	require.NotNil(t, got.Shift)
	assert.False(t, *got.Shift)
	assert.Nil(t, got.Think)
	assert.Nil(t, got.Format)

	require.Len(t, got.Messages, 4)
	assert.Equal(t, "system", got.Messages[0].Role)
	assert.Equal(t, "be brief", got.Messages[0].Content)
	assert.Equal(t, "hm", got.Messages[2].Thinking)
	require.Len(t, got.Messages[2].ToolCalls, 2)
	assert.Equal(t, "c1", got.Messages[2].ToolCalls[0].ID)
	assert.Equal(t, `{"z":1,"a":"<b>"}`, string(got.Messages[2].ToolCalls[0].Function.Arguments))
	assert.Equal(t, `{}`, string(got.Messages[2].ToolCalls[1].Function.Arguments))
	assert.Equal(t, "tool", got.Messages[3].Role)
	assert.Equal(t, "c1", got.Messages[3].ToolCallID)
	assert.Equal(t, "delegate_task", got.Messages[3].ToolName)

	require.Len(t, got.Tools, 2)
	assert.Equal(t, delegate.Description, got.Tools[0].Function.Description)
	assert.JSONEq(t, string(delegate.Parameters), string(got.Tools[0].Function.Parameters))
	assert.JSONEq(t, `{"type":"object","properties":{}}`, string(got.Tools[1].Function.Parameters))
}

func TestThinkIsSaidWhereItMatters(t *testing.T) {
	schema := json.RawMessage(`{"type":"object"}`)
	for _, tt := range []struct {
		thinks bool
		schema json.RawMessage
		want   any
	}{{false, nil, nil}, {true, nil, true}, {true, schema, false}, {false, schema, false}} {
		s := standin.Start(t,
			standin.Models(standin.Model{Name: "stand-in", Capabilities: []string{"completion", "thinking"}}))
		r := ask("x")
		r.Schema = tt.schema
		resp, err := clientOf(t, s).Backend(Model{Name: "stand-in", Thinking: tt.thinks}, Options{}).Chat(t.Context(),
			r, ignore)
		require.NoError(t, err)
		got := sentTo(t, s)[0]
		assert.Equal(t, tt.want, got.Think)
		assert.Equal(t, tt.schema, got.Format)
		if tt.schema != nil {
			assert.Equal(t, "{}", resp.Message.Content)
		}
	}
}

func TestThinkingIsKeptApart(t *testing.T) {
	script := standin.Scripts(standin.Script{Start: "[[t]]", Text: "<think>two and two</think>\nIt is 4."})
	for name, capabilities := range map[string][]string{
		"by the server":             {"completion", "thinking"},
		"leaked into the content":   {"completion"},
		"when the server tells not": {"completion", "tools"},
	} {
		t.Run(name, func(t *testing.T) {
			s := standin.Start(t, script, standin.Models(standin.Model{Name: "m", Capabilities: capabilities}))
			c := clientOf(t, s)
			m, err := c.Show(t.Context(), "m")
			require.NoError(t, err)
			var got chunks
			resp, err := c.Backend(m, Options{}).Chat(t.Context(), ask("[[t]]"), got.add)
			require.NoError(t, err)
			assert.Equal(t, "two and two", resp.Message.Thinking)
			assert.Equal(t, "It is 4.", strings.TrimSpace(resp.Message.Content))
			text, thinking := got.text()
			assert.Equal(t, resp.Message.Content, text)
			assert.Equal(t, resp.Message.Thinking, thinking)
		})
	}
}

func TestToolCalls(t *testing.T) {
	script := standin.Scripts(standin.Script{Start: "[[fan]]",
		Text: `Two. <tool_call>{"name":"delegate_task","arguments":{"task":"a < b","agent":"x",` +
			`"a":{"z":12345678901234567890,"b":1.0}}}</tool_call>` +
			`<tool_call>{"name":"delegate_task","arguments":{}}</tool_call>`})
	r := ask("[[fan]]")
	r.Tools = []tool.Spec{delegate}
	for name, option := range map[string]standin.Option{"ids of the server": script, "own ids": standin.NoCallIDs()} {
		t.Run(name, func(t *testing.T) {
			s := standin.Start(t, script, option)
			resp, err := clientOf(t, s).Backend(standIn, Options{}).Chat(t.Context(), r, ignore)
			require.NoError(t, err)
			assert.Equal(t, "Two. ", resp.Message.Content)
			calls := resp.Message.Calls
			require.Len(t, calls, 2)
			assert.Equal(t, `{"task":"a \u003c b","agent":"x","a":{"z":12345678901234567890,"b":1.0}}`,
				string(calls[0].Arguments), "in the order given")
			assert.Equal(t, `{}`, string(calls[1].Arguments))
			assert.Equal(t, "delegate_task", calls[0].Name)
			assert.NotEqual(t, calls[0].ID, calls[1].ID)
			if name == "own ids" {
				assert.Regexp(t, regexp.MustCompile(`^call_[a-z2-7]{12}$`), calls[0].ID)
			}
		})
	}
	t.Run("no tools for a model without", func(t *testing.T) {
		s := standin.Start(t, script,
			standin.Models(standin.Model{Name: "stand-in", Capabilities: []string{"completion"}}))
		_, err := clientOf(t, s).Backend(Model{Name: "stand-in"}, Options{}).Chat(t.Context(), r, ignore)
		require.NoError(t, err)
		assert.Empty(t, sentTo(t, s)[0].Tools)
	})
	t.Run("an unknown tool is an empty answer, not an error", func(t *testing.T) {
		s := standin.Start(t, standin.Scripts(standin.Script{Start: "[[x]]",
			Text: `<tool_call>{"name":"nope","arguments":{}}</tool_call>`}))
		r := ask("[[x]]")
		r.Tools = []tool.Spec{delegate}
		resp, err := clientOf(t, s).Backend(standIn, Options{}).Chat(t.Context(), r, ignore)
		require.NoError(t, err)
		assert.Empty(t, resp.Message.Content)
		assert.Empty(t, resp.Message.Calls)
	})
}

func TestRequestsThatMakeNoSense(t *testing.T) {
	s := standin.Start(t)
	b := clientOf(t, s).Backend(standIn, Options{})
	for want, r := range map[string]llm.Request{
		"schema": {Schema: json.RawMessage(`{`)},
		"tool x": {Tools: []tool.Spec{{Name: "x", Parameters: json.RawMessage(`[]`)}}},
		"a call of y": {Messages: []llm.Message{{Role: llm.Assistant,
			Calls: []tool.Call{{Name: "y", Arguments: json.RawMessage(`7`)}}}}},
		"parameters of tool": {Tools: []tool.Spec{{Name: "empty"}}},
	} {
		_, err := b.Chat(t.Context(), r, ignore)
		assert.Contains(t, failure(t, err, llm.Rejected).Problem, want)
	}
	assert.Zero(t, s.Count("/api/chat"))
}

func TestStopsAtTheTokenLimit(t *testing.T) {
	s := standin.Start(t)
	r := ask("one two three four")
	r.MaxTokens = 2
	resp, err := clientOf(t, s).Backend(standIn, Options{}).Chat(t.Context(), r, ignore)
	require.NoError(t, err)
	assert.Equal(t, "one two", resp.Message.Content)
	assert.Equal(t, llm.StopLength, resp.Stop)
}

func TestStatuses(t *testing.T) {
	for name, tt := range map[string]struct {
		fault standin.Fault
		kind  llm.Kind
		after time.Duration
		text  string
	}{
		"too many": {standin.Fault{Status: 429, Error: "slow down",
			Header: http.Header{"Retry-After": {"7"}}}, llm.Busy, 7 * time.Second, "slow down"},
		"queue full": {standin.Fault{Status: 503,
			Error: "server busy, please try again.  maximum pending requests exceeded"}, llm.Busy, 0,
			"maximum pending requests"},
		"loading": {standin.Fault{Status: 503, Error: "llm server loading model"}, llm.Busy, 0,
			"loading model"},
		"gateway": {standin.Fault{Status: 502, Body: "<html>\nbad</html>"}, llm.Busy, 0,
			"502: bad gateway"},
		"timeout":       {standin.Fault{Status: 504}, llm.Busy, 0, "gateway timeout"},
		"an empty body": {standin.Fault{Status: 500}, llm.Server, 0, "internal server error"},
		"fault": {standin.Fault{Status: 500, Error: "option \"num_ctx\" must\nbe of type integer"},
			llm.Server, 0, `must be of type`},
		"bad request": {standin.Fault{Status: 400, Error: "model is required"}, llm.Rejected, 0,
			"model is required"},
		"not text": {standin.Fault{Status: 418, Body: `{"error":{"code":1}}`}, llm.Rejected, 0,
			`{"code":1}`},
		"an object": {standin.Fault{Status: 400, Body: `{"error":{"message":"no\nway","type":"x","code":null}}`},
			llm.Rejected, 0, "answered 400: no way"},
		"too long": {standin.Fault{Status: 400, Error: "the input length exceeds the context length"},
			llm.ContextOverflow, 0, "context overflow: the input length"},
		"who are you": {standin.Fault{Status: 401, Body: `{"error":"unauthorized","signin_url":"https://x"}`},
			llm.Rejected, 0, "unauthorized"},
		"silly retry-after": {standin.Fault{Status: 503, Header: http.Header{"Retry-After": {"999999999"}}}, llm.Busy,
			time.Hour, ""},
		"retry-after a date": {standin.Fault{Status: 503,
			Header: http.Header{"Retry-After": {"Fri, 31 Dec 9999 23:59:59 GMT"}}}, llm.Busy, time.Hour, ""},
		"a date that is past": {standin.Fault{Status: 503,
			Header: http.Header{"Retry-After": {"Sat, 01 Jan 2000 00:00:00 GMT"}}}, llm.Busy, 0, ""},
		"an endless page": {standin.Fault{Status: 500, Body: strings.Repeat("all work and no play ", 100_000)},
			llm.Server, 0, "all work"},
	} {
		t.Run(name, func(t *testing.T) {
			s := standin.Start(t, standin.Faulty("/api/chat", tt.fault))
			resp, err := clientOf(t, s).Backend(standIn, Options{}).Chat(t.Context(), ask("x"), ignore)
			e := failure(t, err, tt.kind)
			assert.Equal(t, tt.fault.Status, e.Status)
			assert.Equal(t, tt.after, e.RetryAfter)
			assert.Contains(t, e.Problem, tt.text)
			assert.Less(t, len(e.Problem), 500)
			assert.Empty(t, resp.Message.Content)
			assert.Empty(t, resp.Stop)
			assert.Equal(t, 1, s.Count("/api/chat"), "repeating is somebody else's decision")
		})
	}
	t.Run("unknown model", func(t *testing.T) {
		_, err := clientOf(t, standin.Start(t)).Backend(Model{Name: "nope"}, Options{}).Chat(t.Context(), ask("x"),
			ignore)
		assert.Equal(t, "ollama pull nope", failure(t, err, llm.UnknownModel).Hint)
	})
}

func TestBrokenStreams(t *testing.T) {
	const text = "one two three four"
	for name, tt := range map[string]struct {
		fault   standin.Fault
		partial bool
		text    string
	}{
		"ends without a last word": {standin.Fault{Break: standin.End, After: 2}, true, "ended early"},
		"all but the last line":    {standin.Fault{Break: standin.End, After: 4}, true, "ended early"},
		"cut":                      {standin.Fault{Break: standin.Cut, After: 2}, true, "unexpected EOF"},
		"reset":                    {standin.Fault{Break: standin.Reset, After: 2}, false, "connection reset"},
		"the runner died": {standin.Fault{Break: standin.ErrorLine, After: 2, Error: "llama runner died"},
			true, "llama runner died"},
	} {
		t.Run(name, func(t *testing.T) {
			s := standin.Start(t, standin.Scripts(standin.Script{Start: "[[x]]", Text: text, Fault: &tt.fault}))
			var got chunks
			resp, err := clientOf(t, s).Backend(standIn, Options{}).Chat(t.Context(), ask("[[x]]"), got.add)
			assert.Contains(t, failure(t, err, llm.BrokenStream).Problem, tt.text)
			said, _ := got.text()
			assert.Equal(t, said, resp.Message.Content, "the partial text is kept")
			assert.Empty(t, resp.Stop)
			if tt.partial {
				assert.True(t, strings.HasPrefix(text, said) && len(said) >= len("one two"), said)
			}
		})
	}
	t.Run("before the first byte", func(t *testing.T) {
		for _, how := range []standin.Break{standin.Cut, standin.Reset} {
			s := standin.Start(t, standin.Faulty("/api/chat", standin.Fault{Break: how}))
			_, err := clientOf(t, s).Backend(standIn, Options{}).Chat(t.Context(), ask("x"), ignore)
			failure(t, err, llm.Unreachable)
		}
	})
	t.Run("a line that is too long for the client", func(t *testing.T) {
		s := standin.Start(t, standin.Reply(func(standin.Prompt) string { return strings.Repeat("x", wire.MaxLine+1) }))
		_, err := clientOf(t, s).Backend(standIn, Options{}).Chat(t.Context(), ask("x"), ignore)
		failure(t, err, llm.BrokenStream)
	})
}

// What a server says in the middle of a stream decides what kind of failure it is.
func TestFailuresWithinStreams(t *testing.T) {
	for line, kind := range map[string]llm.Kind{
		`{"error":{"code":429,"message":"slow down"}}`:                         llm.Busy,
		`{"error":{"code":500,"message":"it died"}}`:                           llm.BrokenStream,
		`{"error":{"code":400,"message":"no"}}`:                                llm.Rejected,
		`{"choices":[{"delta":{},"finish_reason":"content_filter"}]}`:          llm.Rejected,
		`{"choices":[{"delta":{},"finish_reason":"error"}]}`:                   llm.BrokenStream,
		`{"choices":[{"delta":{"content":" more"}}]}`:                          llm.BrokenStream, // it ends
		`{"choices":[{"delta":{"content":" more"}}]}` + "\n\ndata:\n\ndata: {": llm.BrokenStream,
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"content\":\"some\"}}]}\n\ndata: %s\n\n", line)
		}))
		c, err := Open(servers.Server{Name: "lab", Kind: servers.OpenAI, URL: s.URL}, "")
		require.NoError(t, err)
		resp, err := c.Backend(Model{Kind: servers.OpenAI, Name: "m"}, Options{}).Chat(t.Context(), ask("x"), ignore)
		assert.Equal(t, kind, failure(t, err, kind).Kind, line)
		assert.Contains(t, resp.Message.Content, "some")
		c.Close()
		s.Close()
	}
}

func TestCancel(t *testing.T) {
	stall := &standin.Fault{Break: standin.Stall, After: 2}
	s := standin.Start(t, standin.Scripts(
		standin.Script{Start: "[[loop]]", Text: "tick tock ", Loop: true},
		standin.Script{Start: "[[stall]]", Text: "a b c d", Fault: stall},
		standin.Script{Start: "[[slow]]", Text: "a", Fault: &standin.Fault{BeforeFirst: time.Hour}}))
	b := clientOf(t, s).Backend(standIn, Options{})
	for _, marker := range []string{"[[loop]]", "[[stall]]"} {
		t.Run(marker, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			n := 0
			resp, err := b.Chat(ctx, ask(marker), func(llm.Chunk) {
				if n++; n == 2 {
					cancel(errStop)
				}
			})
			require.Equal(t, errStop, err)
			assert.NotEmpty(t, resp.Message.Content)
			assert.Empty(t, resp.Stop)
		})
	}
	t.Run("before the first word", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		_, err := b.Chat(ctx, ask("[[slow]]"), ignore)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
	t.Run("before the request", func(t *testing.T) {
		_, err := b.Chat(stopped(t.Context()), ask("x"), ignore)
		require.Equal(t, errStop, err)
	})
	t.Run("after the last word it is an answer", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := standin.Start(t, standin.Reply(func(standin.Prompt) string { return "word" }))
		resp, err := clientOf(t, s).Backend(standIn, Options{}).Chat(ctx, ask("x"), ignore)
		cancel()
		require.NoError(t, err)
		assert.Equal(t, "word", resp.Message.Content)
	})
}

func TestContextSize(t *testing.T) {
	m := Model{Name: "stand-in", Context: 40960, Tools: true}
	start := func(t *testing.T, o ...standin.Option) (*standin.Server, *Client) {
		s := standin.Start(t, append(o, standin.Models(standin.Model{Name: "stand-in", Context: 40960}))...)
		return s, clientOf(t, s)
	}
	t.Run("grows with the conversation and never shrinks", func(t *testing.T) {
		s, c := start(t)
		b := c.Backend(m, Options{})
		for _, n := range []int{10, 8000, 10} {
			_, err := b.Chat(t.Context(), ask(strings.Repeat("abc ", n)), ignore)
			require.NoError(t, err)
		}
		assert.Equal(t, []int{8192, 16384, 16384}, sizes(t, s))
	})
	t.Run("as the caller asks", func(t *testing.T) {
		s, c := start(t)
		_, err := c.Backend(m, Options{MinContext: 16384}).Chat(t.Context(), ask("x"), ignore)
		require.NoError(t, err)
		_, err = c.Backend(m, Options{MinContext: 1 << 20}).Chat(t.Context(), ask("x"), ignore)
		require.NoError(t, err)
		assert.Equal(t, []int{16384, 40960}, sizes(t, s))
	})
	t.Run("hopeless prompts are not sent", func(t *testing.T) {
		s, c := start(t)
		_, err := c.Backend(m, Options{}).Chat(t.Context(), ask(strings.Repeat("abc ", 80_000)), ignore)
		e := failure(t, err, llm.ContextOverflow)
		assert.Contains(t, e.Error(), "context overflow")
		assert.Zero(t, s.Count("/api/chat"))
	})
}

// A vocabulary may need many more tokens than the estimate says.
func TestEstimateTooLow(t *testing.T) {
	models := standin.Models(standin.Model{Name: "stand-in", Context: 40960, TokenBytes: 1})
	m := Model{Name: "stand-in", Context: 40960}
	s := standin.Start(t, models)
	b := clientOf(t, s).Backend(m, Options{})
	prompt := strings.Repeat("abcdef ", 3000) // 21,000 bytes
	var got chunks
	_, err := b.Chat(t.Context(), ask(prompt), got.add)
	require.NoError(t, err)
	assert.Len(t, got, 3000, "what an attempt that failed said is not repeated")
	_, err = b.Chat(t.Context(), ask(prompt+prompt[:len(prompt)/6]), ignore)
	require.NoError(t, err)
	assert.Equal(t, []int{8192, 16384, 32768, 40960}, sizes(t, s), "the second time it is known")

	_, err = b.Chat(t.Context(), ask(prompt+prompt), ignore)
	failure(t, err, llm.ContextOverflow)
	s = standin.Start(t, models)
	_, err = clientOf(t, s).Backend(m, Options{}).Chat(t.Context(), ask(prompt+prompt), ignore)
	assert.Equal(t, 400, failure(t, err, llm.ContextOverflow).Status)
	assert.Equal(t, []int{16384, 32768, 40960}, sizes(t, s), "the whole context is tried before giving up")
}

// Other servers have a context of their own: what qq would ask Ollama for is neither a sign that a prompt was cut nor
// the limit of an answer.
func TestContextOfOtherServers(t *testing.T) {
	s := standin.Start(t, standin.Models(standin.Model{Name: "m", Context: 40960, TokenBytes: 1}))
	for _, server := range speakers(s)[1:] {
		for _, tt := range []struct{ context, answer, want int }{
			{0, 0, 0}, {40960, 0, 0}, {40960, 1000, 1000}, {0, 1000, 1000}, {40960, 1 << 20, -1},
		} {
			s.Forget()
			c, err := Open(server, "")
			require.NoError(t, err)
			m := Model{Kind: server.Kind, Name: "m", Context: tt.context, Answer: tt.answer}
			resp, err := c.Backend(m, Options{}).Chat(t.Context(), ask(strings.Repeat("abcdef ", 3000)+"\nx"), ignore)
			require.NoError(t, err)
			assert.Equal(t, "x", resp.Message.Content)
			if server.Kind == servers.Anthropic && tt.want == 0 {
				tt.want = 8192 // it demands one
			}
			got := s.Requests("")[0].Prompt().Options.NumPredict
			if tt.want < 0 { // what the prompt leaves, by an estimate
				assert.Less(t, got, 40960-3000)
				assert.Greater(t, got, 20000)
			} else {
				assert.Equal(t, tt.want, got, "%s %+v", server.Kind, tt)
			}
			_, err = c.Backend(m, Options{}).Chat(t.Context(), ask(strings.Repeat("abcdef ", 6000)), ignore)
			assert.Equal(t, 400, failure(t, err, llm.ContextOverflow).Status)
			c.Close()
		}
	}
}

// An old server cuts a long prompt whatever it is told.
func TestSilentCut(t *testing.T) {
	s := standin.Start(t, standin.IgnoreTruncate(), standin.Models(standin.Model{Name: "stand-in", TokenBytes: 2}))
	resp, err := clientOf(t, s).Backend(standIn, Options{}).Chat(t.Context(),
		ask(strings.Repeat("abc ", 5000)+"\nanswer me"), ignore)
	e := failure(t, err, llm.ContextOverflow)
	assert.Contains(t, e.Problem, "cut the prompt to 8192 tokens")
	assert.Equal(t, 8192, resp.Usage.InputTokens)
}

func TestConcurrentChats(t *testing.T) {
	s := standin.Start(t)
	b := clientOf(t, s).Backend(standIn, Options{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for _, text := range []string{"one two", "three"} {
				resp, err := b.Chat(t.Context(), ask(text), ignore)
				if assert.NoError(t, err) {
					assert.Equal(t, text, resp.Message.Content)
				}
			}
		})
	}
	wg.Wait()
	assert.Equal(t, 16, s.Count("/api/chat"))
}

// The times of a real answer are within the time that it took.
func TestTimingOfAnAnswer(t *testing.T) {
	start := time.Now()
	resp, err := clientOf(t, standin.Start(t)).Backend(standIn, Options{}).Chat(t.Context(), ask("x"), ignore)
	require.NoError(t, err)
	assert.Positive(t, resp.Timing.Served)
	assert.Less(t, resp.Timing.Queued+resp.Timing.Served, time.Since(start))
}

// A server that serves one request at a time says how long the second waited.
func TestTimingBehindAnother(t *testing.T) {
	var turn sync.Mutex
	locked := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		came := time.Now()
		if !turn.TryLock() {
			close(locked)
			turn.Lock()
		}
		defer turn.Unlock()
		taken := time.Now()
		_, _ = fmt.Fprintln(w, `{"message":{"content":"a"}}`)
		_ = http.NewResponseController(w).Flush()
		<-locked
		_, _ = fmt.Fprintf(w,
			`{"done":true,"total_duration":%d,"load_duration":1,"prompt_eval_duration":1,"eval_duration":%d}`+"\n",
			time.Since(came), time.Since(taken))
	}))
	defer s.Close()
	b := clientAt(t, s.URL).Backend(standIn, Options{})
	var got [2]llm.Timing
	var all sync.WaitGroup
	first := make(chan struct{})
	var once sync.Once
	for i := range got {
		all.Go(func() {
			resp, err := b.Chat(t.Context(), ask("x"), func(llm.Chunk) { once.Do(func() { close(first) }) })
			assert.NoError(t, err)
			got[i] = resp.Timing
		})
		<-first // the second is sent when the first has its turn
	}
	all.Wait()
	assert.Less(t, got[0].Queued, got[0].Served)
	assert.Positive(t, got[1].Queued)
}
