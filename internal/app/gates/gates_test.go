package gates

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"qq/internal/models"
	"qq/internal/models/gate"
	"qq/internal/models/servers"
	"qq/pkg/llm"
	"qq/pkg/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// known are the Models of a test. The model of a task is what it says; a server is found from the time back on.
type known struct {
	others []string
	back   map[string]time.Time // by server; missing is at once
	slow   map[string]time.Duration
	uses   func(models.Model)

	mu     sync.Mutex
	models map[string]models.Model
	asked  map[string]int
}

func newKnown() *known {
	return &known{models: map[string]models.Model{}, asked: map[string]int{}, uses: func(models.Model) {}}
}

func (k *known) Others(task.Task) []string { return k.others }

func (k *known) Named(t task.Task) (string, models.Model, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	m, ok := k.models[t.Model]
	return t.Model, m, ok
}

func (k *known) Find(ctx context.Context, t task.Task, patient bool) error {
	server, name, _ := strings.Cut(t.Model, ":")
	k.mu.Lock()
	k.asked[t.Model]++
	k.mu.Unlock()
	select {
	case <-time.After(k.slow[server]):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	switch {
	case patient:
		time.Sleep(time.Second)
		fallthrough
	default:
		if time.Now().Before(k.back[server]) {
			return &llm.Error{Kind: llm.Unreachable, Problem: "no answer from " + server}
		}
	}
	if name == "missing" {
		return &llm.Error{Kind: llm.UnknownModel, Problem: server + " has no model " + name}
	}
	m := models.Model{Kind: servers.OpenAI, Server: server, Name: name}
	if t.Model == models.Extract {
		m = models.Model{Kind: models.Extract}
	}
	k.mu.Lock()
	k.models[t.Model] = m
	k.mu.Unlock()
	k.uses(m)
	return nil
}

// heard are the notes that a person was told.
type heard struct {
	mu    sync.Mutex
	notes []string
}

func (h *heard) Note(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.notes = append(h.notes, fmt.Sprintf(format, args...))
}

func newTest(t *testing.T, k *known, c gate.Config) *Gates {
	t.Helper()
	g := New(c, k)
	k.uses = g.Use
	t.Cleanup(g.Close)
	return g
}

func of(model string) task.Task { return task.Task{Text: "x", Model: model} }

func tasksOf(names ...string) (tasks []task.Task) {
	for _, n := range names {
		tasks = append(tasks, of(n))
	}
	return tasks
}

// TestEachServerHasItsGate: what one server does holds back no request to another, and notes say which it is.
func TestEachServerHasItsGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := &heard{}
		g := newTest(t, newKnown(), gate.Config{MaxInFlight: 4, Budget: gate.NewBudget(100, 0), Notes: said})
		require.NoError(t, g.Lookup(t.Context(), said, tasksOf("lab:m", "other:m", models.Extract)))
		for range 3 {
			p, err := g.Enter(t.Context(), "lab:m", false, nil)
			require.NoError(t, err)
			p.Leave(llm.Report{Kind: llm.Unreachable})
		}
		_, err := g.Enter(t.Context(), "lab:m", false, nil)
		assert.ErrorContains(t, err, "Circuit breaker open: lab:m failed 3 times")
		assert.Error(t, g.Refusal(of("lab:m")), "without retries it is hopeless")
		assert.NoError(t, g.Refusal(of("other:m")))
		assert.NotNil(t, g.First(of("other:m"), nil))
		assert.Nil(t, g.First(of("lab:m"), nil))
		assert.Nil(t, g.First(of(models.Extract), nil))
		assert.Nil(t, g.First(of("not:looked-up"), nil))
		assert.Equal(t, []string{"circuit breaker open: lab fails (unreachable); tasks end until it answers, " +
			"next try in 60s"}, said.notes)
		p, err := g.Enter(t.Context(), "other:m2", false, nil)
		require.NoError(t, err)
		p.Leave(llm.Report{Usage: task.Usage{InputTokens: 100}})
		assert.True(t, g.Spent(), "the budget is one")
		assert.Equal(t, 100, g.Used().InputTokens)
	})
}

// TestHostileNames: a child that names a server that no task uses gets neither its gate nor one for each name. All
// share a strict one.
func TestHostileNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTest(t, newKnown(), gate.Config{MaxInFlight: 4})
		require.NoError(t, g.Lookup(t.Context(), &heard{}, tasksOf("lab:m")))
		one, err := g.Enter(t.Context(), "evil:m", false, nil)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for _, name := range []string{"", ":", "lab", "lab2:m", "LAB:m", strings.Repeat("x", 1<<20), "auto"} {
			_, err := g.Enter(ctx, name, false, nil)
			assert.ErrorIs(t, err, context.DeadlineExceeded, "%.9q", name)
		}
		p, err := g.Enter(t.Context(), "lab:whatever", false, nil)
		require.NoError(t, err)
		p.Leave(llm.Report{})
		one.Leave(llm.Report{})
		assert.Len(t, g.byServer, 1)
	})
	g := newTest(t, newKnown(), gate.Config{MaxInFlight: 4, OnQuota: gate.QuotaWait})
	p, err := g.Enter(t.Context(), "evil:m", false, nil)
	require.NoError(t, err)
	p.Leave(llm.Report{Kind: llm.Quota, RetryAfter: time.Hour})
	_, err = g.Enter(t.Context(), "evil:m", false, nil)
	assert.ErrorContains(t, err, "the quota of a server that no task uses is used up", "nothing waits there")
}

// TestProbe: one request finds out what a server allows, except for Ollama, which says nothing about that.
func TestProbe(t *testing.T) {
	g := newTest(t, newKnown(), gate.Config{MaxInFlight: 4})
	g.Use(models.Model{Kind: servers.OpenAI, Server: "lab", Name: "m"})
	g.Use(models.Model{Kind: servers.Ollama, Server: "own", Name: "m"})
	for server, alone := range map[string]bool{"lab": true, "own": false} {
		require.NotNil(t, g.byServer[server].Try(server+":m", nil))
		assert.Equal(t, alone, g.byServer[server].Try(server+":m", nil) == nil, server)
	}
}

// TestLookup: a server that is away is an error if it is the only one. Else its tasks wait until it is there.
func TestLookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, said := newKnown(), &heard{}
		g := newTest(t, k, gate.Config{MaxInFlight: 4, Retries: 2, Notes: said})
		k.back = map[string]time.Time{"dead": time.Now().Add(90 * time.Second)}
		start := time.Now()
		require.NoError(t, g.Lookup(t.Context(), said, tasksOf("lab:m", "dead:m")))
		assert.Zero(t, time.Since(start))
		synctest.Wait()
		assert.Contains(t, said.notes, "no answer from dead: its tasks wait, those of other servers do not")
		assert.Zero(t, g.Ready(of("lab:m")))
		assert.Equal(t, time.Minute, g.Ready(of("dead:m")))
		assert.NoError(t, g.Refusal(of("dead:m")))
		time.Sleep(61 * time.Second)
		assert.Positive(t, g.Ready(of("dead:m")), "it is away still")
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Zero(t, g.Ready(of("dead:m")))
		assert.Equal(t, "circuit breaker closed: dead answers again", said.notes[len(said.notes)-1])
		assert.Equal(t, 3, k.asked["dead:m"])
	})
	synctest.Test(t, func(t *testing.T) {
		k, said := newKnown(), &heard{}
		g := newTest(t, k, gate.Config{MaxInFlight: 4, Retries: 2, Notes: said})
		k.back = map[string]time.Time{"dead": time.Now().Add(time.Hour)}
		assert.EqualError(t, g.Lookup(t.Context(), said, tasksOf("dead:m")), "no answer from dead")
		assert.Empty(t, said.notes)
		require.NoError(t, g.Lookup(t.Context(), said, tasksOf(models.Extract, "dead:m")))
		time.Sleep(150 * time.Second)
		assert.Equal(t, task.Unavailable, task.StatusOf(g.Refusal(of("dead:m"))), "nobody looks for it any more")
		assert.Zero(t, g.Ready(of("dead:m")), "to be refused")
	})
}

// TestLookupOfASlowServer: a slow server does not delay the run, and is waited for. A model that does not exist is an
// error before anything starts.
func TestLookupOfASlowServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, said := newKnown(), &heard{}
		g := newTest(t, k, gate.Config{MaxInFlight: 4, Notes: said})
		k.slow = map[string]time.Duration{"slow": 10 * time.Second, "lab": time.Second}
		start := time.Now()
		require.NoError(t, g.Lookup(t.Context(), said, tasksOf("slow:m", "lab:m")))
		assert.Equal(t, time.Second+patience, time.Since(start))
		assert.Equal(t, []string{"no answer about slow:m within 3s: its tasks wait, those of other servers do not"},
			said.notes)
		assert.Equal(t, lookAgain, g.Ready(of("slow:m")))
		time.Sleep(10 * time.Second)
		assert.Zero(t, g.Ready(of("slow:m")))

		assert.EqualError(t, g.Lookup(t.Context(), said, tasksOf("lab:m", "lab:missing")), "lab has no model missing")
		ctx, cancel := context.WithCancelCause(t.Context())
		stop := errors.New("stop")
		time.AfterFunc(time.Second, func() { cancel(stop) })
		assert.Equal(t, stop, g.Lookup(ctx, said, tasksOf("slow:n")))
	})
}

// TestWaits: the run waits if all servers in use do.
func TestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTest(t, newKnown(), gate.Config{MaxInFlight: 1})
		require.NoError(t, g.Lookup(t.Context(), &heard{}, tasksOf("lab:m", "other:m")))
		p, err := g.Enter(t.Context(), "lab:m", false, nil)
		require.NoError(t, err)
		p.Leave(llm.Report{Kind: llm.Busy, RetryAfter: time.Minute})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { _, err := g.Enter(ctx, "lab:m", false, nil); ended <- err }()
		synctest.Wait()
		assert.Equal(t, time.Minute, g.Waits())
		assert.Equal(t, time.Minute, g.Ready(of("lab:m")))
		p, err = g.Enter(t.Context(), "other:m", false, nil)
		require.NoError(t, err)
		assert.Zero(t, g.Waits(), "the other is at work")
		p.Leave(llm.Report{})
		cancel()
		assert.Error(t, <-ended)
		assert.Equal(t, time.Minute, g.Waits(), "a task is held back")
		time.Sleep(stale + 1)
		assert.Zero(t, g.Waits(), "not any more")
	})
}

// TestReadyOfTheOnlyServer: with one server there is nothing to choose.
func TestReadyOfTheOnlyServer(t *testing.T) {
	g := newTest(t, newKnown(), gate.Config{MaxInFlight: 1})
	require.NoError(t, g.Lookup(t.Context(), &heard{}, tasksOf("lab:m", "lab:n")))
	p, err := g.Enter(t.Context(), "lab:m", false, nil)
	require.NoError(t, err)
	p.Leave(llm.Report{Kind: llm.Busy, RetryAfter: time.Minute})
	assert.Zero(t, g.Ready(of("lab:m")))
}

// TestReadyElsewhere: a task does not wait for its server if a model elsewhere can answer it now.
func TestReadyElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKnown()
		g := newTest(t, k, gate.Config{MaxInFlight: 1})
		require.NoError(t, g.Lookup(t.Context(), &heard{}, tasksOf("lab:m", "other:m")))
		p, err := g.Enter(t.Context(), "lab:m", false, nil)
		require.NoError(t, err)
		p.Leave(llm.Report{Kind: llm.Busy, RetryAfter: time.Minute})
		for other, wait := range map[string]time.Duration{"lab:n": time.Minute, "other:m": 0, "unasked:m": 0} {
			k.others = []string{other}
			assert.Equal(t, wait, g.Ready(of("lab:m")), other)
		}
	})
}

// TestFallbackIsNotRefused: a task whose server has no quota left is refused, unless another model may answer it.
func TestFallbackIsNotRefused(t *testing.T) {
	for on, refuses := range map[gate.OnQuota]bool{
		gate.QuotaAuto: true, gate.QuotaStop: true, gate.QuotaFallback: false,
	} {
		k := newKnown()
		if !refuses {
			k.others = []string{"other:m"}
		}
		g := newTest(t, k, gate.Config{MaxInFlight: 1, OnQuota: on})
		require.NoError(t, g.Lookup(t.Context(), &heard{}, tasksOf("lab:m", "other:m")))
		p, err := g.Enter(t.Context(), "lab:m", false, nil)
		require.NoError(t, err)
		p.Leave(llm.Report{Kind: llm.Quota})
		assert.Equal(t, "the quota of lab is used up", g.UsedUp())
		assert.Equal(t, refuses, g.Refusal(of("lab:m")) != nil)
		_, err = g.Enter(t.Context(), "lab:m", false, nil)
		assert.ErrorContains(t, err, "the quota of lab is used up")
		assert.NoError(t, g.Refusal(of("other:m")))
	}
}
