package agent

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/models"
	"qq/internal/models/gate"
	"qq/internal/standin"
	"qq/pkg/agents"
	"qq/pkg/llm"
	"qq/pkg/task"
)

// chat is a model that is a function.
type chat func(ctx context.Context, yield func(llm.Chunk)) error

func (c chat) Chat(ctx context.Context, _ llm.Request, yield func(llm.Chunk)) (llm.Response, error) {
	return llm.Response{}, c(ctx, yield)
}

const patience = 10 * time.Second

// silent says nothing, and what its client says of that.
func silent(ctx context.Context, _ func(llm.Chunk)) error {
	<-ctx.Done()
	return &llm.Error{Kind: llm.BrokenStream, Problem: "the answer broke off", Err: context.Cause(ctx)}
}

func broken(context.Context, func(llm.Chunk)) error { return &llm.Error{Kind: llm.Server} }

// watching is a watch over requests that pass gate.
func watching(g *gate.Gate) func(context.Context, chat) error {
	w := &watch{gate: g, idle: patience}
	return func(ctx context.Context, c chat) error {
		_, err := gate.Retrying(watched{c, w}, "m", w, gate.Policy{Retries: 2}).Chat(ctx, llm.Request{}, func(llm.Chunk) {})
		return err
	}
}

// late is an admission with a long line before it.
type late struct {
	wait    time.Duration
	reports []llm.Report
}

func (l *late) Enter(context.Context, string) (llm.Permit, error) {
	time.Sleep(l.wait)
	return l, nil
}
func (*late) Active()              {}
func (l *late) Leave(r llm.Report) { l.reports = append(l.reports, r) }

// TestWrittenTime: the time to write a prompt counts from when the request is sent,
// and one that takes longer says nothing against the server and is not sent again.
func TestWrittenTime(t *testing.T) {
	for _, c := range []struct {
		name    string
		takes   time.Duration
		written bool
	}{{"in time", promptTime - time.Second, true}, {"too late", promptTime + time.Second, false}} {
		synctest.Test(t, func(t *testing.T) {
			line := &late{wait: time.Hour}
			w := work{toolmaker: toolmaker{setup: Setup{Model: Model{Kind: models.Ollama}}, agent: agents.Agent{PromptTemplate: "Write it."}}}
			w.admission, w.retries = line, 3
			slow := chat(func(ctx context.Context, _ func(llm.Chunk)) error {
				select {
				case <-time.After(c.takes):
					return nil
				case <-ctx.Done():
					return silent(ctx, nil)
				}
			})
			begin := time.Now()
			text, _, repeated := w.written(t.Context(), answered{slow}, "a task")
			assert.Zero(t, repeated)
			assert.Equal(t, c.written, text != "", c.name)
			assert.Equal(t, time.Hour+min(c.takes, promptTime), time.Since(begin))
			assert.Equal(t, []llm.Report{{Cancelled: !c.written}}, line.reports)
		})
	}
}

// answered is a backend that has something to say.
type answered struct{ llm.Backend }

func (a answered) Chat(ctx context.Context, r llm.Request, yield func(llm.Chunk)) (llm.Response, error) {
	_, err := a.Backend.Chat(ctx, r, yield)
	return llm.Response{Message: llm.Message{Content: "You are one."}, Stop: llm.StopEnd}, err
}

// TestWatch: a request from which nothing comes back is given up, and not sent
// again; one from which something comes now and then is not.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ask := watching(gate.NewGate(gate.Config{MaxInFlight: 2}))
		begin := time.Now()
		assert.Equal(t, &task.ClockError{Status: task.Idle, After: patience}, ask(t.Context(), silent))
		assert.Equal(t, patience, time.Since(begin))
		assert.NoError(t, ask(t.Context(), func(_ context.Context, yield func(llm.Chunk)) error {
			for range 5 {
				time.Sleep(patience * 9 / 10)
				yield(llm.Chunk{Text: "x"})
			}
			return nil
		}))
		ctx, cancel := context.WithTimeoutCause(t.Context(), patience/2, os.ErrClosed)
		defer cancel()
		assert.Equal(t, os.ErrClosed, ask(ctx, silent), "that was somebody else")
		assert.NoError(t, ask(t.Context(), func(context.Context, func(llm.Chunk)) error {
			time.Sleep(2 * patience) // it does not hear that it is given up
			return nil
		}), "an answer is an answer")
		time.Sleep(time.Hour) // no timer is left that could end anything
		assert.NoError(t, ask(t.Context(), func(ctx context.Context, _ func(llm.Chunk)) error { return ctx.Err() }))
	})
}

// TestWatchBehindOthers: what a request waits at the server while that is at work
// for others does not count.
func TestWatchBehindOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := gate.NewGate(gate.Config{MaxInFlight: 2})
		other, err := gate.Enter(t.Context(), "m")
		require.NoError(t, err)
		go func() {
			for range 10 {
				time.Sleep(patience / 2)
				other.Active()
			}
		}()
		begin := time.Now()
		assert.IsType(t, &task.ClockError{}, watching(gate)(t.Context(), silent))
		assert.Equal(t, 6*patience, time.Since(begin))
	})
}

// TestWatchInLine: nor does what it waits until it may be sent.
func TestWatchInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := gate.NewGate(gate.Config{MaxInFlight: 1})
		other, err := gate.Enter(t.Context(), "m")
		require.NoError(t, err)
		time.AfterFunc(5*patience, func() { other.Leave(llm.Report{}) })
		assert.NoError(t, watching(gate)(t.Context(), func(context.Context, func(llm.Chunk)) error { return nil }))
	})
}

// TestWatchTellsNothing: that a request was given up tells neither for the server
// nor against it.
func TestWatchTellsNothing(t *testing.T) {
	open := func(t *testing.T, chats ...chat) bool {
		gate := gate.NewGate(gate.Config{MaxInFlight: 2})
		for _, c := range chats {
			assert.Error(t, watching(gate)(t.Context(), c))
		}
		return gate.Refusal("m") != nil
	}
	synctest.Test(t, func(t *testing.T) {
		assert.True(t, open(t, broken, broken, broken))
		assert.False(t, open(t, silent, silent, silent, silent))
		assert.False(t, open(t, broken, broken, silent))
		assert.True(t, open(t, broken, broken, silent, broken), "it is no success between them")
	})
}

// TestIdleOfTheAgent: what the definition says of the root's own agent holds.
func TestIdleOfTheAgent(t *testing.T) {
	server := standin.Start(t, standin.Scripts(standin.Script{Start: "[[stall]]", Text: "a b c", Fault: &standin.Fault{Break: standin.Stall, After: 1}}))
	folder := t.TempDir()
	definition := "---\nname: hasty\ndescription: waits for nobody\ntools: []\nidle_timeout: 1\n---\nYou answer.\n"
	require.NoError(t, os.WriteFile(filepath.Join(folder, "hasty.md"), []byte(definition), 0o600))
	e := newEngine(t, func(c *Config) {
		c.Settings.OllamaHost, c.Settings.Model, c.Settings.MaxParallel = server.URL, "ollama:"+standin.DefaultModel, 1
		c.Agents = agents.Load([]agents.Dir{{Path: folder}})
	})
	agent, m, err := e.Staff(t.Context(), task.Task{Agent: "hasty"})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	out, err := e.Run(ctx, Run{Agent: agent, Model: m}, task.Task{Text: "Say it. [[stall]]"})
	require.NoError(t, err)
	assert.Equal(t, task.Idle, out.Status, out.Err)
	assert.Equal(t, "a", out.Text)
}
