package gate

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/llm"
	"qq/pkg/task"
)

// model answers with what is next in ends, and with "yes" when they are used up.
type model struct {
	ends []error
	hang bool      // it says half of the answer and then nothing
	away time.Time // until when it is not there

	mu   sync.Mutex
	sent []time.Time
}

func (m *model) Chat(ctx context.Context, _ llm.Request, yield func(llm.Chunk)) (llm.Response, error) {
	m.mu.Lock()
	m.sent = append(m.sent, time.Now())
	var err error
	if len(m.ends) > 0 {
		err, m.ends = m.ends[0], m.ends[1:]
	}
	if time.Now().Before(m.away) {
		err = kinds(llm.Unreachable)[0]
	}
	m.mu.Unlock()
	r := llm.Response{Usage: task.Usage{InputTokens: 10, OutputTokens: 1}}
	if err != nil {
		yield(llm.Chunk{Text: "no"})
		r.Message.Content = "no"
		return r, err
	}
	yield(llm.Chunk{Text: "ye"})
	if m.hang {
		<-ctx.Done()
		r.Message.Content = "ye"
		return r, context.Cause(ctx)
	}
	yield(llm.Chunk{Text: "s"})
	r.Message.Content = "yes"
	return r, nil
}

// waits are the times between the requests.
func (m *model) waits() (waits []time.Duration) {
	for i := 1; i < len(m.sent); i++ {
		waits = append(waits, m.sent[i].Sub(m.sent[i-1]))
	}
	return waits
}

func kinds(kinds ...llm.Kind) (errs []error) {
	for _, k := range kinds {
		errs = append(errs, &llm.Error{Kind: k, Problem: "it is " + string(k), Hint: "do something"})
	}
	return errs
}

// repeats is a function that hears about retries.
type repeats func(n int, wait time.Duration, err error)

func (f repeats) Repeated(n int, wait time.Duration, err error) { f(n, wait, err) }

func TestRepeatsUntilAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &model{ends: kinds(llm.Unreachable, llm.Busy, llm.BrokenStream)}
		type repeat struct {
			n    int
			wait time.Duration
			kind llm.Kind
		}
		var told []repeat
		b := Retrying(m, "m", nil, Policy{Retries: 3, Repeats: repeats(func(n int, wait time.Duration, err error) {
			e, _ := errors.AsType[*llm.Error](err)
			told = append(told, repeat{n, wait, e.Kind})
		})})
		var text string
		r, err := b.Chat(t.Context(), llm.Request{}, func(c llm.Chunk) { text += c.Text })
		require.NoError(t, err)
		assert.Equal(t, "yes", r.Message.Content)
		assert.Equal(t, task.Usage{InputTokens: 40, OutputTokens: 4}, r.Usage, "of all attempts")
		assert.Equal(t, "nononoyes", text)
		assert.Equal(t, 3, b.Repeats())
		waits := m.waits()
		for i, want := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second} {
			assert.InEpsilon(t, want, waits[i], jitter)
			assert.Equal(t, repeat{i + 1, waits[i], []llm.Kind{llm.Unreachable, llm.Busy, llm.BrokenStream}[i]},
				told[i])
		}
		_, err = b.Chat(t.Context(), llm.Request{}, nil)
		require.NoError(t, err)
		assert.Equal(t, 3, b.Repeats())
	})
}

func TestGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &model{ends: kinds(llm.Busy, llm.Busy, llm.Unreachable)}
		b := Retrying(m, "m", nil, Policy{Retries: 2})
		r, err := b.Chat(t.Context(), llm.Request{}, nil)
		assert.EqualError(t, demand(t, err, llm.Unreachable),
			"it is unreachable (after 3 attempts)\nhint: do something")
		assert.Equal(t, "no", r.Message.Content, "what it said last")
		assert.Equal(t, 33, r.Usage.InputTokens+r.Usage.OutputTokens)
		assert.Len(t, m.sent, 3)
	})
}

func TestWhatIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ends := append(kinds(llm.ContextOverflow, llm.UnknownModel, llm.Rejected, llm.Unsupported, llm.Server,
			llm.Spent, llm.Open), errStop)
		for _, end := range ends {
			m := &model{ends: []error{end}}
			_, err := Retrying(m, "m", nil, Policy{Retries: 5}).Chat(t.Context(), llm.Request{}, nil)
			assert.Equal(t, end, err)
			assert.Len(t, m.sent, 1)
		}
		for _, retries := range []int{0, -1} {
			m := &model{ends: kinds(llm.Busy)}
			_, err := Retrying(m, "m", nil, Policy{Retries: retries}).Chat(t.Context(), llm.Request{}, nil)
			assert.Equal(t, "it is busy", demand(t, err, llm.Busy).Problem)
		}
	})
}

func TestWaits(t *testing.T) {
	busy := kinds(llm.Busy)[0]
	seen := map[time.Duration]bool{}
	for range 1000 {
		for n, want := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second,
			8 * time.Second,
			16 * time.Second, 30 * time.Second, 30 * time.Second} {
			d := wait(n, busy)
			assert.InEpsilon(t, want, d, jitter)
			seen[d] = true
		}
		assert.InEpsilon(t, longestWait, wait(1<<40, busy), jitter)
		for _, asked := range []time.Duration{time.Millisecond, time.Second, time.Hour} {
			assert.GreaterOrEqual(t, wait(0, &llm.Error{Kind: llm.Busy, RetryAfter: asked}),
				max(asked, 400*time.Millisecond))
			assert.Equal(t, asked, wait(5, &llm.Error{Kind: llm.Open, RetryAfter: asked}))
		}
	}
	assert.Greater(t, len(seen), 4000, "not all at once")
}

func TestCancelledAtAnyTime(t *testing.T) {
	for _, tt := range []struct {
		name  string
		model *model
		after time.Duration
		text  string
	}{
		{"while it waits to repeat", &model{ends: kinds(llm.Busy, llm.Busy)}, 100 * time.Millisecond, "no"},
		{"while it is answered", &model{hang: true}, time.Second, "ye"},
		{"while a repeat is answered", &model{ends: kinds(llm.Busy), hang: true}, time.Second, "ye"},
		{"before", &model{}, 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer time.AfterFunc(tt.after, func() { cancel(errStop) }).Stop()
				if tt.after == 0 {
					cancel(errStop)
				}
				g := NewGate(Config{MaxInFlight: 1})
				start := time.Now()
				r, err := Retrying(tt.model, "m", &waitMeter{Gate: g}, Policy{Retries: 5}).Chat(ctx, llm.Request{}, nil)
				require.Equal(t, errStop, err)
				assert.Equal(t, tt.after, time.Since(start))
				assert.Equal(t, tt.text, r.Message.Content)
				enter(t, g, 1)
			})
		})
	}
}

// An answer that is there when the time is up is an answer.
func TestAnsweredAtTheLastMoment(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, err := Retrying(&model{}, "m", nil, Policy{Retries: 5}).Chat(ctx, llm.Request{}, func(llm.Chunk) { cancel() })
	require.NoError(t, err)
	assert.Equal(t, "yes", r.Message.Content)
}

// Each attempt enters the gate and leaves it with its own report, and says when
// the server speaks.
func TestEachAttemptPassesTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Config{MaxInFlight: 4})
		var waited credit
		g.Try("m", &waited)
		time.Sleep(time.Second)
		const after = 20 * time.Second
		m := &model{ends: []error{&llm.Error{Kind: llm.Busy, RetryAfter: after}}}
		r, err := Retrying(m, "m", &waitMeter{Gate: g}, Policy{Retries: 1}).Chat(t.Context(), llm.Request{}, nil)
		require.NoError(t, err)
		assert.Equal(t, []time.Duration{after}, m.waits())
		assert.Equal(t, 2, g.Limit(), "halved")
		assert.Equal(t, r.Usage, g.config.Budget.Used())
		waited.is(t, time.Second+after)
	})
}

// waitMeter is an admission that measures how long one waits in it, as a task
// whose clocks are paused meanwhile.
type waitMeter struct {
	*Gate
	waited time.Duration
}

func (s *waitMeter) Enter(ctx context.Context, model string, again bool) (llm.Permit, error) {
	defer s.since(time.Now())
	return s.Gate.Enter(ctx, model, again, nil)
}

func (s *waitMeter) since(start time.Time) { s.waited += time.Since(start) }

// Whatever the server or a breaker says how long to wait is waited for in the
// admission, where no clock goes.
func TestWaitsInTheAdmission(t *testing.T) {
	const after = 6 * time.Second
	later := &llm.Error{Kind: llm.Busy, RetryAfter: after}
	for name, tt := range map[string]struct {
		open    int // requests that have failed before
		ends    []error
		took    time.Duration
		own     time.Duration // of that, at least
		repeats int
	}{
		"Retry-After":              {0, []error{later, later}, 2 * after, 0, 2},
		"a breaker":                {3, nil, time.Minute, 0, 1},
		"a breaker, again":         {3, kinds(llm.Unreachable), 2 * time.Minute, time.Second, 3},
		"both":                     {3, []error{later}, time.Minute + after, 0, 2},
		"nobody has said how long": {0, kinds(llm.Unreachable), 500 * time.Millisecond, 500 * time.Millisecond, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &waitMeter{Gate: NewGate(Config{MaxInFlight: 4, Retries: 3})}
				failTimes(t, s.Gate, tt.open)
				var told []time.Duration
				m := &model{ends: tt.ends}
				b := Retrying(m, "m", s, Policy{Retries: 3, Repeats: repeats(func(_ int, wait time.Duration, _ error) {
					told = append(told, wait)
				})})
				start := time.Now()
				_, err := b.Chat(t.Context(), llm.Request{}, nil)
				require.NoError(t, err)
				took := time.Since(start)
				assert.InDelta(t, tt.took, took, float64(250*time.Millisecond))
				assert.InDelta(t, tt.own, took-s.waited, float64(250*time.Millisecond))
				assert.Equal(t, tt.repeats, b.Repeats())
				var total time.Duration
				for _, d := range told {
					total += d
				}
				assert.InDelta(t, took, total, float64(time.Second), "a person is told how long it takes")
			})
		})
	}
}

// Where nobody keeps it back, a Backend waits by itself.
func TestWaitsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Config{MaxInFlight: 4, Retries: 3})
		start := time.Now()
		m := &model{ends: []error{&llm.Error{Kind: llm.Open, RetryAfter: time.Minute}}}
		_, err := Retrying(m, "m", nil, Policy{Retries: 1}).Chat(t.Context(), llm.Request{}, nil)
		require.NoError(t, err)
		assert.Equal(t, time.Minute, time.Since(start))

		for _, tt := range []struct {
			a     llm.Admission
			after time.Duration
		}{{nil, 6 * time.Second}, {&waitMeter{Gate: g}, 100 * time.Millisecond}} {
			m := &model{ends: []error{&llm.Error{Kind: llm.Busy, RetryAfter: tt.after}}}
			_, err = Retrying(m, "m", tt.a, Policy{Retries: 1}).Chat(t.Context(), llm.Request{}, nil)
			require.NoError(t, err)
			assert.GreaterOrEqual(t, m.waits()[0], max(tt.after, 400*time.Millisecond))
		}
	})
}

// panicking is a backend that does.
type panicking struct{}

func (panicking) Chat(context.Context, llm.Request, func(llm.Chunk)) (llm.Response, error) {
	panic("as told")
}

func TestPanicLeavesTheGate(t *testing.T) {
	g := NewGate(Config{MaxInFlight: 1})
	assert.Panics(t, func() {
		_, _ = Retrying(panicking{}, "m", &waitMeter{Gate: g}, Policy{}).Chat(t.Context(), llm.Request{}, nil)
	})
	enter(t, g, 1)
}

// A server that is down for good: five who ask it find out together, with few
// requests, and end.
func TestServerDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &model{away: time.Now().Add(time.Hour)}
		g := NewGate(Config{MaxInFlight: 5, Retries: 2})
		var wg sync.WaitGroup
		start := time.Now()
		for range 5 {
			wg.Go(func() {
				_, err := Retrying(m, "m", &waitMeter{Gate: g}, Policy{Retries: 2}).Chat(t.Context(), llm.Request{},
					nil)
				e, ok := errors.AsType[*llm.Error](err)
				if assert.True(t, ok, "%v", err) {
					assert.Contains(t, e.Problem, "(after 3 attempts)")
					assert.Equal(t, task.Unavailable, e.TaskStatus())
				}
			})
		}
		wg.Wait()
		// From three to five are sent before it is known, and a trial each minute. Who
		// is refused at first has one more attempt then.
		assert.GreaterOrEqual(t, len(m.sent), 4)
		assert.LessOrEqual(t, len(m.sent), 7)
		assert.GreaterOrEqual(t, time.Since(start), time.Minute)
		assert.LessOrEqual(t, time.Since(start), 2*time.Minute+2*time.Second)
	})
}

// A server that is away for a while costs a while.
func TestServerRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &model{away: time.Now().Add(50 * time.Second)}
		g := NewGate(Config{MaxInFlight: 5, Retries: 2})
		var wg sync.WaitGroup
		start := time.Now()
		for range 5 {
			wg.Go(func() {
				_, err := Retrying(m, "m", &waitMeter{Gate: g}, Policy{Retries: 2}).Chat(t.Context(), llm.Request{},
					nil)
				assert.NoError(t, err)
			})
		}
		wg.Wait()
		assert.Equal(t, time.Minute, time.Since(start))
	})
}

// dying says something before it is gone.
type dying struct{ asked int }

func (d *dying) Chat(context.Context, llm.Request, func(llm.Chunk)) (llm.Response, error) {
	if d.asked++; d.asked == 1 {
		return llm.Response{Message: llm.Message{Content: "tick tock"}},
			&llm.Error{Kind: llm.BrokenStream, Problem: "broke off"}
	}
	return llm.Response{}, &llm.Error{Kind: llm.Unreachable, Problem: "gone"}
}

// What there was of an answer is kept when the repeats bring none.
func TestPartialTextIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := Retrying(&dying{}, "m", nil, Policy{Retries: 2}).Chat(t.Context(), llm.Request{}, nil)
		assert.ErrorContains(t, err, "gone (after 3 attempts)")
		assert.Equal(t, "tick tock", r.Message.Content)
	})
}

// slow answers in two pieces.
type slow struct{}

func (slow) Chat(_ context.Context, _ llm.Request, yield func(llm.Chunk)) (llm.Response, error) {
	time.Sleep(2 * time.Second)
	yield(llm.Chunk{Text: "a"})
	time.Sleep(3 * time.Second)
	yield(llm.Chunk{Text: "b"})
	return llm.Response{}, nil
}

// late has a slot after a minute.
type late struct{ unlimited }

func (l late) Enter(context.Context, string, bool) (llm.Permit, error) {
	time.Sleep(time.Minute)
	return l, nil
}

// The time to the first piece of an answer is known, and does not count the attempts before it.
func TestTimeToFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := Retrying(slow{}, "m", late{}, Policy{}).Chat(t.Context(), llm.Request{}, nil)
		require.NoError(t, err)
		assert.Equal(t, []time.Duration{2 * time.Second, 5 * time.Second, time.Minute},
			[]time.Duration{r.First, r.Took, r.Waited})
	})
}
