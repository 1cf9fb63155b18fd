package standin

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func post(t *testing.T, ctx context.Context, url, model string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/api/chat", strings.NewReader(`{"model":"`+model+`"}`))
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func TestChat(t *testing.T) {
	s := httptest.NewServer(New())
	defer s.Close()
	for _, tt := range []struct {
		model string
		bytes int
	}{{"fast", len("One two three.")}, {"fast:latest", len("One two three.")}, {"slow1", len("One two three.")}, {"say5000", 5000}, {"say200000", 200_000}} {
		t.Run(tt.model, func(t *testing.T) {
			resp := post(t, t.Context(), s.URL, tt.model)
			require.Equal(t, http.StatusOK, resp.StatusCode)
			lines := bufio.NewScanner(resp.Body)
			lines.Buffer(nil, 1<<20)
			said, done := 0, false
			for lines.Scan() {
				var l line
				require.NoError(t, json.Unmarshal(lines.Bytes(), &l))
				assert.False(t, done, "nothing behind the last line")
				said += len(l.Message.Content)
				done = l.Done
			}
			require.NoError(t, lines.Err())
			assert.True(t, done)
			assert.Equal(t, tt.bytes, said)
		})
	}
	assert.Equal(t, http.StatusNotFound, post(t, t.Context(), s.URL, "nope").StatusCode)
}

// TestHang counts the requests that hang, while they do.
func TestHang(t *testing.T) {
	h := New()
	s := httptest.NewServer(h)
	defer s.Close()
	waiting := func(want string) {
		t.Helper()
		require.Eventually(t, func() bool {
			resp, err := http.Get(s.URL + "/bench/waiting")
			if err != nil {
				return false
			}
			defer resp.Body.Close()
			b, err := io.ReadAll(resp.Body)
			return err == nil && string(b) == want
		}, 10*time.Second, time.Millisecond)
	}
	waiting("0")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/api/chat", strings.NewReader(`{"model":"hang"}`))
		if assert.NoError(t, err) {
			_, err = http.DefaultClient.Do(r)
			assert.ErrorIs(t, err, context.Canceled)
		}
	}()
	waiting("1")
	cancel()
	<-ended
	waiting("0")
}

// TestScript: a task is answered with its calls, a result with itself.
func TestScript(t *testing.T) {
	s := httptest.NewServer(New())
	defer s.Close()
	say := func(role, content string) (answer, done line) {
		t.Helper()
		body, err := json.Marshal(map[string]any{"model": "script", "messages": []message{{"system", "x"}, {role, content}}})
		require.NoError(t, err)
		resp, err := http.Post(s.URL+"/api/chat", "application/json", bytes.NewReader(body))
		require.NoError(t, err)
		defer resp.Body.Close()
		require.Equal(t, http.StatusOK, resp.StatusCode)
		lines := json.NewDecoder(resp.Body)
		for require.NoError(t, lines.Decode(&done)); !done.Done; require.NoError(t, lines.Decode(&done)) {
			answer = done
		}
		return answer, done
	}
	_, calls := say("user", `{"tool":"t","times":2,"arguments":{"a":"{i}/{i}","b":"c"}}`)
	assert.Equal(t, []toolCall{
		{function{"t", map[string]string{"a": "0/0", "b": "c"}}}, {function{"t", map[string]string{"a": "1/1", "b": "c"}}},
	}, calls.Message.ToolCalls)
	_, calls = say("user", `{"tool":"t","times":1,"arguments":{"a":"{i}"}}`)
	assert.Equal(t, []toolCall{{function{"t", map[string]string{"a": "{i}"}}}}, calls.Message.ToolCalls)
	answer, done := say("tool", "a result")
	assert.Equal(t, "a result", answer.Message.Content)
	assert.Empty(t, done.Message.ToolCalls)

	resp := post(t, t.Context(), s.URL, "script")
	assert.Equal(t, http.StatusBadRequest, resp.StatusCode, "no task")
}

// TestParallel: one chat at a time. The wait is part of the whole time, and of
// none of its parts.
func TestParallel(t *testing.T) {
	for name, tt := range map[string]struct {
		model   string
		options []Option
	}{
		"by the server": {"slow20", []Option{Parallel(1)}},
		"by the model":  {"one20", nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(New(tt.options...))
			defer s.Close()
			const n = 4
			began := time.Now()
			var all sync.WaitGroup
			var queued, served atomic.Int64
			for range n {
				all.Go(func() {
					resp, err := http.Post(s.URL+"/api/chat", "application/json", strings.NewReader(`{"model":"`+tt.model+`"}`))
					if !assert.NoError(t, err) {
						return
					}
					defer resp.Body.Close()
					var l line
					for lines := json.NewDecoder(resp.Body); !l.Done; {
						if !assert.NoError(t, lines.Decode(&l)) {
							return
						}
					}
					parts := l.LoadDuration + l.PromptEvalDuration + l.EvalDuration
					queued.Add(int64(l.TotalDuration - parts))
					served.Add(int64(parts))
				})
			}
			all.Wait()
			took := time.Since(began)
			assert.GreaterOrEqual(t, took, n*20*time.Millisecond)
			assert.LessOrEqual(t, time.Duration(served.Load()), took, "one after the other")
			assert.Positive(t, queued.Load())
		})
	}
}

// TestFaults: each strikes the chats that it is meant for, so often.
func TestFaults(t *testing.T) {
	ask := func(t *testing.T, s *Server, task string) (status int, said string, err error) {
		t.Helper()
		resp, err := http.Post("http://"+s.Host()+"/api/chat", "application/json",
			strings.NewReader(`{"model":"fast","messages":[{"role":"user","content":"context\n`+task+`"}]}`))
		if err != nil {
			return 0, "", err
		}
		defer resp.Body.Close()
		for lines := json.NewDecoder(resp.Body); ; {
			var l line
			if err := lines.Decode(&l); err != nil || l.Done {
				return resp.StatusCode, said, err
			}
			said += l.Message.Content
		}
	}
	for name, tt := range map[string]struct {
		fault  Fault
		status int
		said   string
		err    error
	}{
		"503":          {Fault{Status: 503}, 503, "", nil},
		"cut":          {Fault{Break: Cut}, 0, "", io.EOF},
		"cut midway":   {Fault{Break: Cut, Midway: true}, 200, "One two", io.ErrUnexpectedEOF},
		"reset":        {Fault{Break: Reset}, 0, "", syscall.ECONNRESET},
		"reset midway": {Fault{Break: Reset, Midway: true}, 200, "One two", syscall.ECONNRESET},
		"slow":         {Fault{Delay: time.Millisecond, Pause: time.Millisecond}, 200, "One two three.", nil},
		"long":         {Fault{Say: 5}, 200, "All w", nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(Log())
			require.NoError(t, s.Start())
			defer s.Stop()
			s.Strike(Rule{Task: "other", Fault: Fault{Status: 500}})
			s.Strike(Rule{Task: "task", Role: "user", Times: 1, Fault: tt.fault})
			status, said, err := ask(t, s, "a task")
			assert.Equal(t, tt.status, status)
			if tt.err != nil {
				require.ErrorIs(t, err, tt.err)
			}
			if !strings.HasPrefix(name, "reset") { // what came before a reset may be lost
				assert.Equal(t, tt.said, said)
			}
			_, said, err = ask(t, s, "a task")
			require.NoError(t, err)
			assert.Equal(t, "One two three.", said)
			status, _, _ = ask(t, s, "another")
			assert.Equal(t, 500, status)
			s.Heal()
			status, _, _ = ask(t, s, "another")
			assert.Equal(t, 200, status)

			s.Stop()
			chats := s.Chats()
			require.Len(t, chats, 4)
			assert.Equal(t, tt.err == nil && tt.status == 200, chats[0].Whole)
			assert.True(t, chats[1].Whole)
			assert.Equal(t, []int{200, 500, 200}, []int{chats[1].Status, chats[2].Status, chats[3].Status})
			assert.Equal(t, map[string]int{"a task": 2, "another": 2}, s.Times())
			for _, c := range chats {
				assert.False(t, c.Ended.Before(c.Came))
			}
		})
	}
}

// TestRetryAfter: the header is there, in seconds.
func TestRetryAfter(t *testing.T) {
	s := New()
	require.NoError(t, s.Start())
	defer s.Stop()
	s.Strike(Rule{Fault: Fault{Status: 429, RetryAfter: 2 * time.Second}})
	resp := post(t, t.Context(), "http://"+s.Host(), "fast")
	assert.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	assert.Equal(t, "2", resp.Header.Get("Retry-After"))
	s.Heal()
	assert.Equal(t, http.StatusServiceUnavailable, post(t, t.Context(), "http://"+s.Host(), "busy").StatusCode)
}

// TestRestart: the same port, and nothing is forgotten.
func TestRestart(t *testing.T) {
	s := New(Log())
	require.NoError(t, s.Start())
	url := "http://" + s.Host()
	assert.Equal(t, http.StatusOK, post(t, t.Context(), url, "echo").StatusCode)
	s.Stop()
	s.Stop()
	_, err := http.Get(url)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.NoError(t, s.Start())
	defer s.Stop()
	assert.Equal(t, "http://"+s.Host(), url)
	assert.Equal(t, http.StatusOK, post(t, t.Context(), url, "echo").StatusCode)
	assert.Equal(t, 2, s.Count())
}
