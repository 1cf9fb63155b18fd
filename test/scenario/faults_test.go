package scenario

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ollama/ollama/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/test/ollamatest"
)

// TestCutPrompt: a server cuts a prompt that is too long without a word; qq
// never takes the answer to the rest for an answer.
func TestCutPrompt(t *testing.T) {
	speakers(t, func(t *testing.T, s speaker) {
		for _, tt := range []struct {
			name   string
			length int // in characters, which are tokens for this model, and a quarter of one for others
		}{
			{"a little too long", 2 * smallContext},
			{"far too long", 50 * smallContext},
		} {
			t.Run(tt.name, func(t *testing.T) {
				w := s.world(t, small)
				if s.dialect != "" { // it does not say there how large the context is: else nobody can notice
					w.env = append(w.env, serverSetting(s.dialect, s.URL.Host)+fmt.Sprintf(" context=%d", smallContext))
				}
				text := strings.Repeat("words and ", tt.length/10) + "[[poem]]"
				e := w.start(text, "What is this?", "--json").wait()
				r := e.failed(1, "failed")
				assert.Contains(t, *r.Error, "context overflow")
				assert.Empty(t, *r.Output)

				e = w.start(text, "What is this?").wait()
				assert.Equal(t, 1, e.code, "exit code")
				assert.Empty(t, e.stdout)
				assert.Contains(t, e.stderr, "context overflow")
			})
		}
	})
}

// TestBrokenStream: the server answers 200 and the stream ends without done.
// What was said is kept, and is no success.
func TestBrokenStream(t *testing.T) {
	t.Parallel() // it waits for most of its time
	speakers(t, func(t *testing.T, s speaker) {
		w := s.world(t, scripted)
		r := w.qq("Say no. [[stuck]]", "--json").failed(3, "broken_stream")
		assert.Contains(t, *r.Output, "nono")
	})
}

// TestUnknownModel names the command that gets it.
func TestUnknownModel(t *testing.T) {
	speakers(t, func(t *testing.T, s speaker) {
		w := s.world(t, scripted)
		e := w.qq("What?", "--model", w.server+":nope")
		assert.Equal(t, 2, e.code, "exit code")
		assert.Empty(t, e.stdout)
		if s.dialect == "" {
			assert.Contains(t, e.stderr, "ollama pull nope")
		} else { // the server may be another one
			assert.Contains(t, e.stderr, "the server has: ")
			assert.Contains(t, e.stderr, "other:"+scripted)
		}

		r := w.qq("What?", "--model", w.server+":nope", "--json").failed(2, "usage")
		assert.Contains(t, *r.Error, "nope")
	})
}

// TestNoServer: nobody listens.
func TestNoServer(t *testing.T) {
	ollamatest.Binary(t) // a scenario like the others, though without a server
	r := newRelay(t, "")
	r.close()
	w := newWorld(t, r.addr, scripted)
	e := w.qq("What?", "--json")
	e.failed(3, "unavailable")
}

// TestBusy: the queue of the server is full. One model is at work and there is
// room for one only, so requests for another wait: one before the door, one in
// the queue, and all others are turned away.
func TestBusy(t *testing.T) {
	s := ollamatest.Start(t, "OLLAMA_MAX_QUEUE=1", "OLLAMA_NUM_PARALLEL=1", "OLLAMA_MAX_LOADED_MODELS=1")
	// the same file would be one model to the server
	for name, context := range map[string]int{"one": 8192, "other": 16384} {
		spec := scripts()
		spec.Context = context
		require.NoError(t, s.Create(t.Context(), ollamatest.Model{Name: name, Spec: spec, Template: template}))
	}
	fillQueue(t, s, "one", "other")
	w := newWorld(t, s.URL.Host, "other")
	r := w.qq("What?", "--json").failed(3, "unavailable")
	assert.Empty(t, *r.Output)
}

// fillQueue keeps s busy with the model working until the test ends, and the
// queue full of requests for waiting.
func fillQueue(t *testing.T, s *ollamatest.Server, working, waiting string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		all.Wait()
	})
	ask := func(model string, chunk func()) error {
		return s.Client.Chat(ctx,
			&api.ChatRequest{Model: model, Messages: []api.Message{{Role: "user", Content: "[[loop]]"}}},
			func(api.ChatResponse) error { chunk(); return nil })
	}
	started := make(chan struct{})
	all.Go(func() { _ = ask(working, sync.OnceFunc(func() { close(started) })) }) // until it is cancelled
	receive(t, started)

	// Three clients that ask again when turned away. There is room for two, so
	// when it is always the same one, the other two wait.
	turnedAway := make(chan int)
	for client := range 3 {
		all.Go(func() {
			for ctx.Err() == nil {
				err := ask(waiting, func() {})
				if status := (api.StatusError{}); !errors.As(err, &status) ||
					status.StatusCode != http.StatusServiceUnavailable {
					return
				}
				select {
				case turnedAway <- client:
				case <-ctx.Done():
				}
			}
		})
	}
	for last, inARow := -1, 0; inARow < 20; inARow++ {
		if client := receive(t, turnedAway); client != last {
			last, inARow = client, 0
		}
	}
}

// receive waits for c, within reason.
func receive[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(runTimeout):
		require.FailNow(t, "waited in vain")
		return *new(T) // not reached
	}
}

// TestServerKilled: the server dies in the middle of an answer.
func TestServerKilled(t *testing.T) {
	t.Parallel() // it waits for most of its time
	for name, tt := range map[string]struct{ engine, dialect string }{
		"engine0": {"0", ""}, "engine1": {"1", ""}, "openai": {"1", "openai"}, "anthropic": {"1", "anthropic"},
	} {
		t.Run(name, func(t *testing.T) {
			s := ollamatest.Start(t, "OLLAMA_NEW_ENGINE="+tt.engine)
			require.NoError(t, s.Create(t.Context(), ollamatest.Model{Name: "m", Spec: scripts(), Template: template}))
			relay := newRelay(t, s.URL.Host)
			w := newWorldIn(t, tt.dialect, relay.addr, "m")
			q := w.start("", "Go on. [[loop]]", "--json")
			receive(t, relay.flowing)
			require.NoError(t, s.Kill())
			r := q.wait().failed(3, "unavailable") // after the repeats
			assert.Contains(t, *r.Output, "tick tock")
		})
	}
}
