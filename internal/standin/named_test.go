package standin_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/standin"
)

func tell(model, task string) string {
	body, _ := json.Marshal(map[string]any{"model": model, "messages": []map[string]string{
		{"role": "system", "content": "x"}, {"role": "user", "content": "context\n" + task},
	}})
	return string(body)
}

func TestByName(t *testing.T) {
	s := standin.Start(t, standin.ByName())
	for model, want := range map[string]string{
		"fast": "One two three.", "fast:latest": "One two three.", "slow1": "One two three.", "one1": "One two three.",
		"say5": "All w", "echo": "You said: a task", "echo1": "You said: a task",
	} {
		status, lines, err := chat(t, s, tell(model, "a task"))
		require.NoError(t, err)
		assert.Equal(t, 200, status)
		text, _ := join(lines)
		assert.Equal(t, want, text, model)
	}
	for model, want := range map[string]int{"nope": 404, "slow": 404, "fast3": 404, "say": 404, "busy": 503,
		"script": 400} {
		status, _, err := chat(t, s, tell(model, "a task"))
		require.NoError(t, err)
		assert.Equal(t, want, status, model)
	}
	resp, err := post(t, s, "/api/show", `{"model":"slow200"}`)
	require.NoError(t, err)
	resp.Body.Close()
	assert.Equal(t, 200, resp.StatusCode)
	status, _, err := chat(t, s, tell("fast", strings.Repeat("x", 1<<20)))
	require.NoError(t, err)
	assert.Equal(t, 200, status, "any length")
	assert.Greater(t, s.Chats()[13].Size, 1<<20)
}

// TestHang counts the requests that hang, while they do.
func TestHang(t *testing.T) {
	s := standin.Start(t, standin.ByName())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/api/chat",
			strings.NewReader(tell("hang", "x")))
		if assert.NoError(t, err) {
			_, err = client(t).Do(r)
			assert.ErrorIs(t, err, context.Canceled)
		}
	}()
	require.Eventually(t, func() bool { return s.Waiting() == 1 }, 10*time.Second, time.Millisecond)
	assert.True(t, s.Chats()[0].Ended.IsZero())
	cancel()
	<-ended
	require.Eventually(t, func() bool { return s.Waiting() == 0 }, 10*time.Second, time.Millisecond)
}

// TestScript: a task is answered with its calls, a result with itself.
func TestScript(t *testing.T) {
	s := standin.Start(t, standin.ByName())
	say := func(role, content string) (text string, calls []string) {
		t.Helper()
		body, err := json.Marshal(map[string]any{"model": "script", "messages": []map[string]string{
			{"role": "system", "content": "x"}, {"role": role, "content": content},
		}})
		require.NoError(t, err)
		status, lines, err := chat(t, s, string(body))
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status)
		for _, l := range lines {
			for _, c := range l.Message.ToolCalls {
				calls = append(calls, c.Function.Name+string(c.Function.Arguments))
			}
		}
		text, _ = join(lines)
		return text, calls
	}
	_, calls := say("user", `{"tool":"t","times":2,"arguments":{"a":"{i}/{i}","b":"c"}}`)
	assert.Equal(t, []string{`t{"a":"0/0","b":"c"}`, `t{"a":"1/1","b":"c"}`}, calls)
	_, calls = say("user", `{"tool":"t","times":1,"arguments":{"a":"{i}"}}`)
	assert.Equal(t, []string{`t{"a":"{i}"}`}, calls)
	text, calls := say("tool", "a result")
	assert.Equal(t, "a result", text)
	assert.Empty(t, calls)
}

// TestOneAtATime: the wait is part of the whole time, and of none of its parts.
func TestOneAtATime(t *testing.T) {
	for name, tt := range map[string]struct {
		model   string
		options []standin.Option
	}{
		"by the server": {"slow20", []standin.Option{standin.ByName(), standin.Parallel(1)}},
		"by the model":  {"one20", []standin.Option{standin.ByName()}},
	} {
		t.Run(name, func(t *testing.T) {
			s := standin.Start(t, tt.options...)
			const n = 4
			began := time.Now()
			var all sync.WaitGroup
			var queued, served atomic.Int64
			for range n {
				all.Go(func() {
					_, lines, err := chat(t, s, tell(tt.model, "x"))
					if assert.NoError(t, err) {
						l := lines[len(lines)-1]
						parts := l.Load + l.Prompt + l.Eval
						queued.Add(int64(l.Total - parts))
						served.Add(int64(parts))
					}
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

// TestRules: a fault strikes the chats that it is meant for, so often.
func TestRules(t *testing.T) {
	long := strings.Repeat(strings.Repeat("All work and no play. ", 2979)[:64<<10], 48)
	for name, tt := range map[string]struct {
		fault  standin.Fault
		status int
		said   string
		err    error
	}{
		"503":          {standin.Fault{Status: 503}, 503, "", nil},
		"cut":          {standin.Fault{Break: standin.Cut}, 0, "", io.EOF},
		"cut midway":   {standin.Fault{Break: standin.Cut, After: 2}, 200, "One two", io.ErrUnexpectedEOF},
		"reset":        {standin.Fault{Break: standin.Reset}, 0, "", syscall.ECONNRESET},
		"reset midway": {standin.Fault{Break: standin.Reset, After: 2}, 200, "One two", syscall.ECONNRESET},
		"slow": {standin.Fault{BeforeFirst: time.Millisecond, Between: time.Millisecond}, 200, "One two three.",
			nil},
		"long":      {standin.Fault{Say: 5}, 200, "All w", nil},
		"very long": {standin.Fault{Say: 3 << 20}, 200, long, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := standin.Start(t, standin.ByName())
			ask := func(task string) (status int, said string, err error) {
				status, lines, err := chat(t, s, tell("fast", task))
				said, _ = join(lines)
				return status, said, err
			}
			tt.fault.Times = 1
			s.Strike(standin.Rule{Task: "other", Fault: standin.Fault{Status: 500}})
			s.Strike(standin.Rule{Task: "task", Role: "tool", Fault: standin.Fault{Status: 500}})
			s.Strike(standin.Rule{Task: "task", Role: "user", Fault: tt.fault})
			status, said, err := ask("a task")
			if tt.err != nil {
				require.ErrorIs(t, err, tt.err)
			}
			if !strings.HasPrefix(name, "reset") { // what came before a reset may be lost
				assert.Equal(t, tt.status, status)
				assert.Equal(t, tt.said, said)
			}
			_, said, err = ask("a task")
			require.NoError(t, err)
			assert.Equal(t, "One two three.", said)
			status, _, _ = ask("another")
			assert.Equal(t, 500, status)
			s.Heal()
			status, _, _ = ask("another")
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
