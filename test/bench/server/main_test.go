package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
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
	s := httptest.NewServer(newHandler())
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
	h := newHandler()
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
	s := httptest.NewServer(newHandler())
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
