package gate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"qq/pkg/llm"
	"qq/pkg/money"
	"qq/pkg/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	refused = llm.Report{Kind: llm.Unreachable}
	good    = llm.Report{}
	errStop = errors.New("stopped by the test")
)

// enter takes n permits that are free.
func enter(t testing.TB, g *Gate, n int) (permits []llm.Permit) {
	t.Helper()
	for range n {
		p := g.Try("m", nil)
		require.NotNil(t, p)
		permits = append(permits, p)
	}
	return permits
}

// demand asks for an *llm.Error of that kind.
func demand(t testing.TB, err error, kind llm.Kind) *llm.Error {
	t.Helper()
	var e *llm.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, kind, e.Kind, "%v", e)
	return e
}

// notes are what a gate says to a person.
type notes struct {
	mu    sync.Mutex
	lines []string
}

func (n *notes) Note(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, fmt.Sprintf(format, args...))
}

func (n *notes) take() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	lines := n.lines
	n.lines = nil
	return lines
}

// outcome is what somebody got who waited.
type outcome struct {
	permit llm.Permit
	err    error
}

// line enters in the background.
func line(ctx context.Context, g *Gate) chan outcome {
	c := make(chan outcome, 1)
	go func() {
		p, err := g.Enter(ctx, "m", false, nil)
		c <- outcome{p, err}
	}()
	synctest.Wait()
	return c
}

// waits reports whether nothing has come yet.
func waits(c chan outcome) bool {
	synctest.Wait()
	return len(c) == 0
}

func TestFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Config{})
		p := enter(t, g, 1)[0]
		assert.Nil(t, g.Try("m", nil), "it is full")
		var all []chan outcome
		for range 5 {
			all = append(all, line(t.Context(), g))
		}
		for _, c := range all {
			assert.True(t, waits(c))
			p.Leave(good)
			p.Leave(good) // has no effect
			synctest.Wait()
			assert.Nil(t, g.Try("m", nil), "others have waited")
			o := <-c
			require.NoError(t, o.err)
			p = o.permit
		}
		p.Leave(good)
		enter(t, g, 1)
	})
}

func TestWaitingCanBeCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Config{})
		p := enter(t, g, 1)[0]
		ctx, cancel := context.WithCancelCause(t.Context())
		first, second := line(ctx, g), line(t.Context(), g)
		cancel(errStop)
		assert.Equal(t, errStop, (<-first).err)
		assert.True(t, waits(second))
		p.Leave(good)
		require.NoError(t, (<-second).err)
		_, err := g.Enter(ctx, "m", false, nil)
		require.Equal(t, errStop, err)
	})
}

// Who goes at the moment at which the permit comes leaves it to the next.
func TestPermitOfOneWhoHasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Config{})
		p := enter(t, g, 1)[0]
		gone := &waiter{model: "m", done: make(chan struct{})}
		gone.element = g.queue.PushBack(gone)
		next := line(t.Context(), g)
		p.Leave(good)
		require.NotNil(t, gone.permit)
		assert.True(t, waits(next))
		g.giveUp(gone)
		require.NoError(t, (<-next).err)
	})
}

// Nobody overtakes those who wait for a clock that is late.
func TestNobodyOvertakesTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Config{MaxInFlight: 8})
		enter(t, g, 1)[0].Leave(llm.Report{Kind: llm.Busy, RetryAfter: time.Second})
		first := line(t.Context(), g)
		g.wake.Stop()
		time.Sleep(time.Minute)
		assert.Nil(t, g.Try("m", nil))
		second := line(t.Context(), g) // it sets the line going
		require.NoError(t, (<-first).err)
		require.NoError(t, (<-second).err)
	})
}

func TestRetryAfterHoldsBackAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said notes
		g := NewGate(Config{MaxInFlight: 16, Notes: &said})
		permits, more := enter(t, g, 4), enter(t, g, 3)
		for _, p := range permits[:3] {
			p.Leave(llm.Report{Kind: llm.Busy, RetryAfter: 7 * time.Second})
		}
		assert.Equal(t, []string{"requests held back 7s by Retry-After of the model server"}, said.take(), "once")
		assert.Nil(t, g.Try("m", nil))
		require.NoError(t, g.Refusal("m"))
		start := time.Now()
		assert.Zero(t, g.Waits(), "nobody does")
		all := []chan outcome{line(t.Context(), g), line(t.Context(), g)}
		assert.Equal(t, 7*time.Second, g.Waits())
		permits[3].Leave(good) // what is under way goes on
		for _, c := range all {
			o := <-c
			require.NoError(t, o.err)
			o.permit.Leave(good)
		}
		assert.Equal(t, 7*time.Second, time.Since(start))

		// A longer one that comes later holds longer, and nobody can ask for more
		// than an hour.
		permits = enter(t, g, 1)
		permits[0].Leave(llm.Report{Kind: llm.Busy, RetryAfter: time.Second})
		for i, after := range []time.Duration{time.Minute, math.MaxInt64, time.Minute} {
			more[i].Leave(llm.Report{Kind: llm.Busy, RetryAfter: after})
		}
		assert.Len(t, said.take(), 3)
		start = time.Now()
		require.NoError(t, (<-line(t.Context(), g)).err)
		assert.Equal(t, time.Hour, time.Since(start))
	})
}

func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Config{MaxInFlight: 2, Budget: NewBudget(100, 0)})
		permits := enter(t, g, 2)
		first, second := line(t.Context(), g), line(t.Context(), g)
		permits[0].Leave(llm.Report{Usage: task.Usage{InputTokens: 90, OutputTokens: 9}})
		o := <-first
		require.NoError(t, o.err)
		require.NoError(t, g.Refusal("m"))
		permits[1].Leave(llm.Report{Kind: llm.BrokenStream, Usage: task.Usage{OutputTokens: 1}})
		e := demand(t, (<-second).err, llm.Spent)
		assert.EqualError(t, e,
			"Token budget exhausted: 100 of 100 tokens used\nhint: raise QQ_MAX_TOKENS or --max-tokens")
		assert.Nil(t, g.Try("m", nil))
		require.Equal(t, error(e), g.Refusal("m"))
		o.permit.Leave(llm.Report{Usage: task.Usage{InputTokens: -1000, OutputTokens: 7}})
		assert.Equal(t, task.Usage{InputTokens: 90, OutputTokens: 17}, g.config.Budget.Used(),
			"what was under way counts, and nobody gives back")
		_, err := g.Enter(t.Context(), "m", false, nil)
		assert.Contains(t, demand(t, err, llm.Spent).Problem, "107 of 100")
	})
}

// TestBudgetOfCost: what requests of all gates cost counts, also of those that failed, and nobody gives back.
func TestBudgetOfCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(0, 1000)
		g, other := NewGate(Config{MaxInFlight: 2, Budget: b}), NewGate(Config{MaxInFlight: 1, Budget: b})
		permits := enter(t, g, 2)
		first := enter(t, other, 1)[0]
		waiting := line(t.Context(), other)
		permits[0].Leave(llm.Report{Usage: task.Usage{InputTokens: 1 << 30, Cost: 600}})
		require.NoError(t, g.Refusal("m"))
		permits[1].Leave(llm.Report{Kind: llm.BrokenStream, Usage: task.Usage{Cost: 400}})
		e := demand(t, (<-waiting).err, llm.Spent)
		assert.EqualError(t, e, "Cost budget exhausted: 0.000001 of 0.000001 used\n"+
			"hint: raise QQ_MAX_COST or --max-cost")
		assert.Equal(t, task.Limit, e.TaskStatus())
		require.Equal(t, error(e), g.Refusal("m"))
		first.Leave(llm.Report{Usage: task.Usage{Cost: -500}})
		assert.Equal(t, money.Amount(1000), b.Used().Cost)
		assert.True(t, b.Spent())
	})
}

// credit adds up what one is told about waiting for others.
type credit struct {
	mu    sync.Mutex
	total time.Duration
}

func (c *credit) Behind(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total += d
}

func (c *credit) is(t *testing.T, want time.Duration) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	assert.Equal(t, want, c.total)
}

func TestBehindOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Config{MaxInFlight: 5})
		var a, b, c credit
		first, second, third := g.Try("m", &a), g.Try("m", &b), g.Try("m", &c)
		time.Sleep(3 * time.Second)
		first.Active()
		a.is(t, 0)
		b.is(t, 3*time.Second)
		time.Sleep(time.Second)
		first.Active()
		c.is(t, 4*time.Second)
		time.Sleep(time.Second)
		first.Leave(good)
		b.is(t, 5*time.Second)
		time.Sleep(2 * time.Second) // this is its own prompt
		second.Active()
		b.is(t, 5*time.Second)
		c.is(t, 7*time.Second)
		time.Sleep(time.Second)
		second.Leave(llm.Report{Cancelled: true})
		c.is(t, 7*time.Second) // that was not the server
		fourth := enter(t, g, 1)[0]
		fourth.Leave(refused)
		c.is(t, 7*time.Second)
		third.Leave(good)
		first.Active()
		c.is(t, 7*time.Second)
		a.is(t, 0)
	})
}

// asker asks the gate itself when it is told something.
type asker func()

func (f asker) Behind(time.Duration) { f() }
func (f asker) Note(string, ...any)  { f() }

// Whoever is told something may ask the gate itself.
func TestBehindIsCalledWithoutLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g *Gate
		asked, noted := 0, 0
		g = NewGate(Config{MaxInFlight: 2, Notes: asker(func() { noted = g.Limit() })})
		g.Try("m", asker(func() { asked = g.Limit() }))
		p := enter(t, g, 1)[0]
		time.Sleep(time.Second)
		p.Leave(llm.Report{Kind: llm.Server})
		assert.Equal(t, 2, asked)
		enter(t, g, 1)[0].Leave(llm.Report{Kind: llm.Busy, RetryAfter: time.Second})
		assert.Positive(t, noted)
	})
}

// A request that the server has lost is not behind others for ever.
func TestLostIsNotBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Config{MaxInFlight: 2})
		var lost credit
		g.Try("m", &lost)
		for range 100 {
			p := enter(t, g, 1)[0]
			time.Sleep(time.Second)
			p.Active()
			p.Leave(llm.Report{Timing: llm.Timing{Served: time.Second}})
		}
		lost.is(t, 5*time.Second)
	})
}

// Five children on a server that serves one at a time: none of them counts the
// time of the other four as its own.
func TestBehindAServerOfOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const prompt, answer = time.Second, 4 * time.Second
		g := NewGate(Config{MaxInFlight: 5})
		s := &server{slots: 1, cost: fixed(prompt, answer)()}
		start := time.Now()
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				for range 3 {
					var waited credit
					p, err := g.Enter(t.Context(), "m", false, &waited)
					if !assert.NoError(t, err) {
						return
					}
					sent := time.Now()
					s.chat(p)
					waited.is(t, time.Since(sent)-prompt-answer)
				}
			})
		}
		wg.Wait()
		assert.Equal(t, 15*(prompt+answer), time.Since(start), "the server is never idle")
	})
}

// Whatever comes of requests and whoever gives up: never more than the ceiling
// are under way, all who ask get an answer, nothing is left.
func TestAnyCrowd(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ceiling := rapid.IntRange(1, 6).Draw(rt, "ceiling")
		clients := rapid.IntRange(1, 40).Draw(rt, "clients")
		budget := rapid.SampledFrom([]int{0, 0, 300}).Draw(rt, "budget")
		patience := time.Duration(rapid.SampledFrom([]int{1, 20, 1000}).Draw(rt, "patience")) * time.Second
		ends := rapid.SliceOfN(rapid.SampledFrom([]llm.Report{
			good, {Timing: llm.Timing{Served: time.Second, Queued: time.Second}}, {Cancelled: true}, refused,
			{Kind: llm.Server},
			{Kind: llm.Busy, RetryAfter: 2 * time.Second}, {Kind: llm.Rejected}, {Usage: task.Usage{InputTokens: 20}},
		}), 1, 20).Draw(rt, "ends")
		seed := rapid.Uint64().Draw(rt, "seed")
		synctest.Test(t, func(t *testing.T) {
			g := NewGate(Config{MaxInFlight: ceiling, Budget: NewBudget(budget, 0), Retries: 1})
			c := &anyCrowd{gate: g, ends: ends, patience: patience}
			var wg sync.WaitGroup
			for i := range clients {
				rnd := rand.New(rand.NewPCG(seed, uint64(i)))
				wg.Go(func() { c.client(t.Context(), rnd) })
			}
			wg.Wait()
			assert.Empty(rt, c.wrong)
			assert.LessOrEqual(rt, c.most, ceiling)
			assert.Zero(rt, g.queue.Len())
			assert.Empty(rt, g.flight)
			assert.GreaterOrEqual(rt, g.Limit(), 1)
			assert.LessOrEqual(rt, g.Limit(), ceiling)
			assert.Equal(rt, c.tokens, g.config.Budget.Used().InputTokens)
			// Whatever happened, an hour later one may pass, or the budget is spent.
			time.Sleep(time.Hour)
			if p := g.Try("m", nil); p == nil {
				assert.Equal(rt, llm.Spent, demand(t, g.Refusal("m"), llm.Spent).Kind)
			}
		})
	})
}

type anyCrowd struct {
	gate     *Gate
	ends     []llm.Report
	patience time.Duration

	mu         sync.Mutex
	here, most int
	tokens     int
	wrong      []string
}

func (c *anyCrowd) client(ctx context.Context, rnd *rand.Rand) {
	for range 5 {
		c.request(ctx, rnd)
		time.Sleep(time.Duration(rnd.IntN(3)) * time.Second / 2)
	}
}

func (c *anyCrowd) Behind(d time.Duration) {
	if d <= 0 {
		c.count(0, 0, "behind by nothing")
	}
}

func (c *anyCrowd) request(ctx context.Context, rnd *rand.Rand) {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Duration(rnd.Int64N(int64(c.patience))), errStop)
	defer cancel()
	again, model := rnd.IntN(2) == 0, "m"
	if rnd.IntN(3) == 0 {
		model = "other"
	}
	p, err := c.gate.Enter(ctx, model, again, c)
	if err != nil {
		e, ok := errors.AsType[*llm.Error](err)
		if err != errStop && !(ok && (e.Kind == llm.Open || e.Kind == llm.Spent)) {
			c.count(0, 0, err.Error())
		}
		return
	}
	r := c.ends[rnd.IntN(len(c.ends))]
	c.count(1, 0)
	time.Sleep(time.Duration(rnd.IntN(4)) * time.Second / 2)
	if rnd.IntN(2) == 0 {
		p.Active()
		time.Sleep(time.Duration(rnd.IntN(4)) * time.Second / 2)
	}
	c.count(-1, r.Usage.InputTokens)
	p.Leave(r)
}

func (c *anyCrowd) count(n, tokens int, wrong ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.here += n
	c.most = max(c.most, c.here)
	c.tokens += tokens
	c.wrong = append(c.wrong, wrong...)
}

// Without a bubble, as fast as it goes: a permit that comes when its taker goes
// is not lost.
func TestGivingUpLosesNoPermit(t *testing.T) {
	g := NewGate(Config{MaxInFlight: 1})
	var wg sync.WaitGroup
	var mu sync.Mutex
	got := 0
	for range 8 {
		wg.Go(func() {
			for i := range 300 {
				ctx, cancel := context.WithCancel(t.Context())
				if i%2 == 0 {
					go cancel()
				}
				p, err := g.Enter(ctx, "m", false, nil)
				if err == nil {
					mu.Lock()
					got++
					mu.Unlock()
					p.Leave(good)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	assert.GreaterOrEqual(t, got, 8*150)
	enter(t, g, 1)[0].Leave(good)
}

func BenchmarkEnterLeave(b *testing.B) {
	g := NewGate(Config{MaxInFlight: 8})
	b.ReportAllocs()
	for b.Loop() {
		p, err := g.Enter(b.Context(), "m", false, nil)
		if err != nil {
			b.Fatal(err)
		}
		p.Active()
		p.Leave(llm.Report{Timing: llm.Timing{Served: time.Second}})
	}
}

// BenchmarkOpenToRefused is from the last failure until the last of a hundred who
// wait in line has been refused.
func BenchmarkOpenToRefused(b *testing.B) {
	var took []time.Duration
	for b.Loop() {
		g := NewGate(Config{MaxInFlight: 3})
		permits := enter(b, g, 3)
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() { _, _ = g.Enter(b.Context(), "m", false, nil) })
		}
		for range 2 {
			permits[0].Leave(refused)
			permits = permits[1:]
		}
		for queued := 0; queued < 98; {
			runtime.Gosched()
			g.mu.Lock()
			queued = g.queue.Len()
			g.mu.Unlock()
		}
		start := time.Now()
		permits[0].Leave(refused)
		wg.Wait()
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2])/1e3, "µs/median")
}

// TestResize: more requests may be under way at once, and fewer. A limit that the server has lowered stays.
func TestResize(t *testing.T) {
	l := newLimiter(2)
	l.resize(5)
	assert.Equal(t, []int{5, 5}, []int{l.ceiling, l.limit})
	l.lower(3, 0)
	l.resize(8)
	assert.Equal(t, []int{8, 3}, []int{l.ceiling, l.limit})
	l.resize(1)
	assert.Equal(t, []int{1, 1}, []int{l.ceiling, l.limit})
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Config{Server: "s", MaxInFlight: 1})
		first, err := g.Enter(t.Context(), "m", false, nil)
		require.NoError(t, err)
		second := make(chan llm.Permit, 1)
		go func() {
			p, err := g.Enter(t.Context(), "m", false, nil)
			assert.NoError(t, err)
			second <- p
		}()
		synctest.Wait()
		assert.Empty(t, second)
		g.Resize(2)
		synctest.Wait()
		require.Len(t, second, 1)
		first.Leave(llm.Report{})
		(<-second).Leave(llm.Report{})
	})
}
