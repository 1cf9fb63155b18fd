package standin_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"qq/internal/standin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// line is one line of a stream.
type line struct {
	Model   string
	Created time.Time `json:"created_at"`
	Message struct {
		Role, Content, Thinking string
		ToolCalls               []struct {
			ID       string
			Function struct {
				Name      string
				Arguments json.RawMessage
			}
		} `json:"tool_calls"`
	}
	Done            bool
	DoneReason      string `json:"done_reason"`
	PromptEvalCount int    `json:"prompt_eval_count"`
	EvalCount       int    `json:"eval_count"`

	Total  time.Duration `json:"total_duration"`
	Load   time.Duration `json:"load_duration"`
	Prompt time.Duration `json:"prompt_eval_duration"`
	Eval   time.Duration `json:"eval_duration"`
	Error  string
}

// client makes no second connection that a test would have to wait for.
func client(t *testing.T) *http.Client {
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func post(t *testing.T, s *standin.Server, path, body string) (*http.Response, error) {
	return client(t).Post(s.URL+path, "application/json", strings.NewReader(body))
}

// chat sends body and returns the status, the lines and how the body ended.
func chat(t *testing.T, s *standin.Server, body string) (int, []line, error) {
	t.Helper()
	resp, err := post(t, s, "/api/chat", body)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	var lines []line
	r := bufio.NewReader(resp.Body)
	for {
		b, err := r.ReadBytes('\n')
		if len(b) > 0 {
			var l line
			require.NoError(t, json.Unmarshal(b, &l), "%s", b)
			lines = append(lines, l)
		}
		if err == io.EOF {
			err = nil
		} else if err == nil {
			continue
		}
		return resp.StatusCode, lines, err
	}
}

func join(lines []line) (text, thinking string) {
	for _, l := range lines {
		text += l.Message.Content
		thinking += l.Message.Thinking
	}
	return text, thinking
}

func user(content string) string {
	b, _ := json.Marshal(content)
	return `{"model":"stand-in","messages":[{"role":"user","content":` + string(b) + `}]`
}

var fan = standin.Script{Start: "[[fan]]",
	Text: `Two. <tool_call>{"name":"delegate_task","arguments":{"z":"[[poem]]","a":1}}</tool_call>` +
		`<tool_call>{"name":"delegate_task","arguments":{}}</tool_call>`}

const offer = `,"tools":[{"type":"function","function":{"name":"delegate_task","parameters":{}}}]`

func TestScripts(t *testing.T) {
	s := standin.Start(t, standin.Scripts(fan,
		standin.Script{Start: "[[poem]]", Text: "The sea\nis \"blue\" 你好. [[sum]]"},
		standin.Script{Start: "[[sum]]", Text: "Both are done."}))
	for name, tt := range map[string]struct {
		body, want string
		calls      int
	}{
		"echo of the last line": {user("first\nsecond line\n") + "}", "second line", 0},
		"marker anywhere":       {user("say [[poem]] now") + "}", "The sea\nis \"blue\" 你好. [[sum]]", 0},
		"the last of two":       {user("[[poem]] then [[sum]]") + "}", "Both are done.", 0},
		"unknown marker":        {user("[[sum]] then [[nope]] and [[") + "}", "Both are done.", 0},
		"system prompt": {`{"model":"stand-in:latest","messages":[{"role":"system",` +
			`"content":"[[sum]]"},{"role":"user","content":"hi"}]}`, "Both are done.", 0},
		"calls in the history": {`{"model":"stand-in","messages":[{"role":"assistant",` +
			`"tool_calls":[{"function":{"arguments":{"task":"[[sum]]"}}}]},{"role":"tool","content":"x"}]}`,
			"Both are done.", 0},
		"calls of an offered tool": {user("[[fan]]") + offer + "}", "Two. ", 2},
		"calls of an unknown tool": {user("[[fan]]") + strings.ReplaceAll(offer, "delegate_task", "other") + "}",
			"Two. ", 0},
		"without tools it is text": {user("[[fan]]") + "}", fan.Text, 0},
		"a document under a schema": {user("[[sum]]") +
			`,"format":{"type":"object","required":["ok","list"],"properties":{"ok":{"type":"boolean"},` +
			`"list":{"type":"array","minItems":2,"items":{"enum":["x"]}}}}}`, `{"ok":true,"list":["x","x"]}`, 0},
		"at most so many words":       {user("[[sum]]") + `,"options":{"num_predict":2}}`, "Both are", 0},
		"as many words as fit":        {user("[[sum]]") + `,"options":{"num_ctx":3}}`, "Both", 0},
		"the empty prompt is no echo": {`{"model":"stand-in","messages":[]}`, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			status, lines, err := chat(t, s, tt.body)
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, status)
			text, _ := join(lines)
			assert.Equal(t, tt.want, text)
			calls := 0
			for i, l := range lines {
				assert.Equal(t, i == len(lines)-1, l.Done)
				assert.Equal(t, "assistant", l.Message.Role)
				assert.WithinDuration(t, time.Now(), l.Created, time.Minute)
				for _, c := range l.Message.ToolCalls {
					calls++
					assert.Equal(t, "delegate_task", c.Function.Name)
					assert.NotEmpty(t, c.ID)
				}
			}
			assert.Equal(t, tt.calls, calls)
			last := lines[len(lines)-1]
			assert.Equal(t, strings.Contains(name, "words"), last.DoneReason == "length")
		})
	}
	assert.Equal(t, 13, s.Count("/api/chat"))
	assert.Len(t, s.Requests("/api/chat"), 13)
}

func TestThinking(t *testing.T) {
	s := standin.Start(t,
		standin.Models(standin.Model{Name: "stand-in", Capabilities: []string{"completion", "thinking"}}),
		standin.Scripts(standin.Script{Start: "[[t]]", Text: "<think>let me see</think>It is 4."}))
	for extra, want := range map[string][2]string{
		``:               {"It is 4.", "let me see"},
		`,"think":true`:  {"It is 4.", "let me see"},
		`,"think":false`: {"<think>let me see</think>It is 4.", ""},
		// The real server does not apply a format there.
		`,"format":{"type":"null"}`:               {"It is 4.", "let me see"},
		`,"format":{"type":"null"},"think":false`: {"null", ""},
	} {
		_, lines, err := chat(t, s, user("[[t]]")+extra+"}")
		require.NoError(t, err)
		text, thinking := join(lines)
		assert.Equal(t, want, [2]string{text, thinking}, extra)
	}
}

func TestRefusals(t *testing.T) {
	s := standin.Start(t,
		standin.Models(standin.Model{Name: "stand-in", Context: 10, Capabilities: []string{"completion"}}))
	for name, tt := range map[string]struct {
		body   string
		status int
		text   string
	}{
		"unknown model": {`{"model":"nope"}`, 404, "model 'nope' not found"},
		"no tools":      {user("x") + offer + "}", 400, "does not support tools"},
		"no thinking":   {user("x") + `,"think":true}`, 400, "does not support thinking"},
		"not JSON":      {"{", 400, "unexpected end"},
		"prompt too long": {user(strings.Repeat("x", 41)) + `,"truncate":false}`, 400,
			"the input length exceeds the context length"},
		"cut without a word": {user(strings.Repeat("x", 30)+"0123456789\n[[y]]") + "}", 200, ""},
		"as long as it can":  {user(strings.Repeat("x", 40)) + `,"truncate":false}`, 200, ""},
		"smaller context too": {user(strings.Repeat("x", 40)) + `,"truncate":false,"options":{"num_ctx":9}}`, 400,
			"exceeds"},
	} {
		t.Run(name, func(t *testing.T) {
			status, lines, err := chat(t, s, tt.body)
			require.NoError(t, err)
			assert.Equal(t, tt.status, status)
			require.NotEmpty(t, lines)
			assert.Contains(t, lines[0].Error, tt.text)
			if status == http.StatusOK {
				assert.Equal(t, 10, lines[len(lines)-1].PromptEvalCount)
			}
		})
	}
}

func TestCutFromTheFront(t *testing.T) {
	var seen standin.Prompt
	s := standin.Start(t, standin.IgnoreTruncate(), standin.Reply(func(p standin.Prompt) string {
		seen = p
		return "ok"
	}),
		standin.Models(standin.Model{Name: "stand-in", TokenBytes: 1}))
	_, lines, err := chat(t, s, `{"model":"stand-in","truncate":false,"options":{"num_ctx":7},"messages":[`+
		`{"role":"system","content":"abc"},{"role":"user","content":"0123456789"}]}`)
	require.NoError(t, err)
	assert.Equal(t, 7, lines[len(lines)-1].PromptEvalCount)
	assert.Empty(t, seen.Messages[0].Content)
	assert.Equal(t, "3456789", seen.Messages[1].Content)
}

func TestFaults(t *testing.T) {
	text := "one two three four"
	for name, tt := range map[string]struct {
		fault  standin.Fault
		status int
		text   string // how the text received begins
		done   bool
		err    error // any of that kind; io.EOF is any
		said   string
	}{
		"end":         {standin.Fault{Break: standin.End, After: 2}, 200, "one two", false, nil, ""},
		"cut":         {standin.Fault{Break: standin.Cut, After: 2}, 200, "one two", false, io.ErrUnexpectedEOF, ""},
		"cut at once": {standin.Fault{Break: standin.Cut}, 0, "", false, io.EOF, ""},
		"reset":       {standin.Fault{Break: standin.Reset, After: 2}, 200, "", false, syscall.ECONNRESET, ""},
		"error line": {standin.Fault{Break: standin.ErrorLine, After: 2, Error: `it "died"`}, 200, "one two", false,
			nil, `it "died"`},
		"error at once": {standin.Fault{Break: standin.ErrorLine, Error: "died"}, 500, "", false, nil, "died"},
		"slow": {standin.Fault{BeforeFirst: time.Millisecond, Between: time.Millisecond}, 200, text, true, nil,
			""},
		"after the end": {standin.Fault{Break: standin.End, After: 9}, 200, text, false, nil, ""},
		"status":        {standin.Fault{Status: 503, Error: "busy"}, 503, "", false, nil, "busy"},
	} {
		t.Run(name, func(t *testing.T) {
			s := standin.Start(t, standin.Scripts(standin.Script{Start: "[[x]]", Text: text, Fault: &tt.fault}))
			status, lines, err := chat(t, s, user("[[x]]")+"}")
			if tt.err != nil {
				require.ErrorIs(t, err, tt.err)
			} else {
				require.NoError(t, err)
			}
			if tt.err == nil || status != 0 {
				assert.Equal(t, tt.status, status)
			}
			got, said, done := "", "", false
			for _, l := range lines {
				got += l.Message.Content
				said += l.Error
				done = done || l.Done
			}
			assert.True(t, strings.HasPrefix(got, tt.text), got)
			assert.Equal(t, tt.said, said)
			assert.Equal(t, tt.done, done)
		})
	}
}

func TestStatusForTheFirstRequests(t *testing.T) {
	f := standin.Fault{Status: 429, Header: http.Header{"Retry-After": {"7"}}, Body: "<html>busy</html>", Times: 2}
	s := standin.Start(t, standin.Faulty("/api/chat", f), standin.Faulty("/api/version", standin.Fault{Status: 500}))
	for _, want := range []int{429, 429, 200} {
		resp, err := post(t, s, "/api/chat", user("x")+"}")
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		resp.Body.Close()
		assert.Equal(t, want, resp.StatusCode)
		if want == 429 {
			assert.Equal(t, "7", resp.Header.Get("Retry-After"))
			assert.Equal(t, f.Body, string(body))
		}
	}
	resp, err := client(t).Get(s.URL + "/api/version")
	require.NoError(t, err)
	resp.Body.Close()
	assert.Equal(t, 500, resp.StatusCode)
}

// Whoever is stuck in a request is let go when the client leaves, or when the
// server closes.
func TestStallAndLoop(t *testing.T) {
	newServer := func(t *testing.T) *standin.Server {
		return standin.Start(t, standin.Scripts(
			standin.Script{Start: "[[stall]]", Text: "a b c", Fault: &standin.Fault{Break: standin.Stall, After: 1}},
			standin.Script{Start: "[[loop]]", Text: "tick tock ", Loop: true}))
	}
	for _, marker := range []string{"[[stall]]", "[[loop]]"} {
		t.Run(marker, func(t *testing.T) {
			s := newServer(t)
			ctx, cancel := context.WithCancel(t.Context())
			req, err := http.NewRequestWithContext(ctx, "POST", s.URL+"/api/chat", strings.NewReader(user(marker)+"}"))
			require.NoError(t, err)
			resp, err := client(t).Do(req)
			require.NoError(t, err)
			_, err = bufio.NewReader(resp.Body).ReadBytes('\n')
			require.NoError(t, err)
			cancel()
			_, err = io.Copy(io.Discard, resp.Body)
			require.ErrorIs(t, err, context.Canceled)
			resp.Body.Close()
		})
		t.Run(marker+" close", func(t *testing.T) {
			s := newServer(t)
			resp, err := post(t, s, "/api/chat", user(marker)+"}")
			require.NoError(t, err)
			_, err = bufio.NewReader(resp.Body).ReadBytes('\n')
			require.NoError(t, err)
			s.Stop()
			_, _ = io.Copy(io.Discard, resp.Body) // it ends
			resp.Body.Close()
		})
	}
}

// TestParallel: one chat at a time. The wait of the others is part of the whole
// time and of none of its parts, and a server that is busy refuses without a wait.
func TestParallel(t *testing.T) {
	const n = 3
	var arrived sync.WaitGroup
	arrived.Add(n)
	s := standin.Start(t, standin.Parallel(1),
		standin.Faulty("/api/chat", standin.Fault{BeforeFirst: 20 * time.Millisecond, Between: 5 * time.Millisecond}),
		standin.Reply(func(standin.Prompt) string {
			arrived.Done()
			arrived.Wait()
			return "a b"
		}),
		standin.Scripts(
			standin.Script{Start: "[[stall]]", Text: "a b", Fault: &standin.Fault{Break: standin.Stall, After: 1}},
			standin.Script{Start: "[[full]]", Text: "a b",
				Fault: &standin.Fault{Status: 503, Header: http.Header{"Retry-After": {"1"}}}}))
	var done sync.WaitGroup
	waits := make(chan time.Duration, n)
	for range n {
		done.Go(func() {
			status, lines, err := chat(t, s, user("x")+"}")
			assert.NoError(t, err)
			assert.Equal(t, 200, status)
			last := lines[len(lines)-1]
			assert.GreaterOrEqual(t, last.Prompt, 20*time.Millisecond)
			assert.GreaterOrEqual(t, last.Eval, 5*time.Millisecond)
			waits <- last.Total - last.Load - last.Prompt - last.Eval
		})
	}
	done.Wait()
	close(waits)
	long := 0
	for w := range waits {
		assert.GreaterOrEqual(t, w, time.Duration(0))
		if w >= 20*time.Millisecond {
			long++
		}
	}
	assert.GreaterOrEqual(t, long, 2, "those that came second and third waited for the first")

	resp, err := post(t, s, "/api/chat", user("[[stall]]")+"}") // keeps the one seat
	require.NoError(t, err)
	defer resp.Body.Close()
	_, err = bufio.NewReader(resp.Body).ReadBytes('\n')
	require.NoError(t, err)
	status, _, err := chat(t, s, user("[[full]]")+"}")
	require.NoError(t, err)
	assert.Equal(t, 503, status)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "POST", s.URL+"/api/chat", strings.NewReader(user("[[stall]]")+"}"))
	require.NoError(t, err)
	_, err = client(t).Do(req)
	assert.ErrorIs(t, err, context.DeadlineExceeded, "there is one seat")
}

// TestRestart: a server that is stopped refuses and breaks off what it was saying;
// afterwards it answers at the same address, and goes on counting.
func TestRestart(t *testing.T) {
	s := standin.Start(t, standin.Scripts(standin.Script{Start: "[[stall]]", Text: "a b",
		Fault: &standin.Fault{Break: standin.Stall, After: 1}}))
	before := time.Now()
	for range 2 {
		resp, err := post(t, s, "/api/chat", user("[[stall]]")+"}")
		require.NoError(t, err)
		lines := bufio.NewReader(resp.Body)
		_, err = lines.ReadBytes('\n')
		require.NoError(t, err)
		s.Stop()
		_, err = lines.ReadBytes('\n')
		require.Error(t, err)
		resp.Body.Close()
		_, err = post(t, s, "/api/chat", user("x")+"}")
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		require.NoError(t, s.Start())
		_, again, err := chat(t, s, user("x")+"}")
		require.NoError(t, err)
		assert.Len(t, again, 2)
	}
	var asked []string
	for _, c := range s.Chats() {
		asked = append(asked, c.Task)
		assert.True(t, c.Came.After(before) && !c.Ended.Before(c.Came))
		assert.Equal(t, c.Task == "x", c.Whole)
		assert.Equal(t, 200, c.Status)
		assert.Equal(t, "user", c.Role)
	}
	assert.Equal(t, []string{"[[stall]]", "x", "[[stall]]", "x"}, asked)
	assert.Equal(t, map[string]int{"[[stall]]": 2, "x": 2}, s.Times())
	s.Stop()
	s.Stop()
	s.Forget()
	assert.Zero(t, s.Count("/api/chat"))
	assert.Empty(t, s.Chats())
}

func TestOtherPaths(t *testing.T) {
	s := standin.Start(t, standin.Models(
		standin.Model{Name: "old:1b", Context: 4096, Capabilities: []string{"completion"}},
		standin.Model{Name: "cloud", RemoteHost: "https://ollama.com"}))
	get := func(method, path, body string) (int, string) {
		req, err := http.NewRequest(method, s.URL+path, strings.NewReader(body))
		require.NoError(t, err)
		resp, err := client(t).Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(b)
	}
	status, body := get("GET", "/", "")
	assert.Equal(t, 200, status)
	assert.Equal(t, "Ollama is running", body)
	status, body = get("HEAD", "/", "")
	assert.Equal(t, 200, status)
	assert.Empty(t, body)
	_, body = get("GET", "/api/version", "")
	assert.JSONEq(t, `{"version":"`+standin.Version+`"}`, body)
	_, body = get("GET", "/api/tags", "")
	assert.Contains(t, body, `"name":"old:1b"`)
	assert.Contains(t, body, `"remote_host":"https://ollama.com"`)
	_, body = get("POST", "/api/show", `{"model":"old:1b"}`)
	assert.Contains(t, body, `"llama.context_length":4096`)
	assert.Contains(t, body, `"capabilities":["completion"]`)
	status, body = get("POST", "/api/show", `{"model":"nope"}`)
	assert.Equal(t, 404, status)
	assert.Contains(t, body, "not found")
	status, _ = get("GET", "/api/chat", "")
	assert.Equal(t, 404, status)
	assert.Len(t, s.Requests(""), 7)
}

func BenchmarkChat(b *testing.B) {
	s := standin.New()
	body := []byte(user(strings.Repeat("A sentence of a prompt with some words. ",
		100)+"\nSay this back to me, word by word.") + offer + "}")
	w := &discard{header: http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		req, _ := http.NewRequest("POST", "/api/chat", bytes.NewReader(body))
		s.ServeHTTP(w, req)
	}
}

type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(int)             {}
