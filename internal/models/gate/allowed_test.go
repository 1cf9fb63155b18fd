package gate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/llm"
	"qq/pkg/task"
)

// strict is a server that allows most requests in each window, says so, and counts those that come too early.
type strict struct {
	most   int
	window time.Duration
	random *rand.Rand
	first  time.Duration // most time until it begins to answer
	rest   time.Duration // most time of the answer after that
	oldest bool          // it says when the first request of the window counts no more, not how long the window is

	mu   sync.Mutex
	came []time.Time
	over int
}

func (s *strict) Chat(ctx context.Context, _ llm.Request, yield func(llm.Chunk)) (llm.Response, error) {
	s.mu.Lock()
	travel, first, rest := s.some(20*time.Millisecond), s.some(s.first), s.some(s.rest)
	s.mu.Unlock()
	time.Sleep(travel) // requests overtake each other
	s.mu.Lock()
	now := time.Now()
	s.came = append(s.came, now)
	n, reset := 0, s.window
	for _, t := range s.came {
		if now.Sub(t) < s.window {
			if n++; n == 1 && s.oldest {
				reset = s.window - now.Sub(t)
			}
		}
	}
	if n > s.most {
		s.over++
	}
	s.mu.Unlock()
	time.Sleep(first)
	yield(llm.Chunk{Allowed: &llm.Allowance{
		Requests: llm.Meter{Limit: s.most, Left: max(s.most-n, 0), Reset: reset}}})
	yield(llm.Chunk{Text: "yes"})
	time.Sleep(rest)
	return llm.Response{Message: llm.Message{Content: "yes"}}, nil
}

func (s *strict) some(most time.Duration) time.Duration {
	return time.Duration(s.random.Int64N(int64(most) + 1))
}

// TestPace: whatever a server allows and however its answers come, it is never asked more often, and not much less.
func TestPace(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			s := &strict{most: 1 + r.IntN(8), window: time.Duration(1+r.IntN(5000)) * time.Millisecond, random: r,
				first:  time.Duration(r.IntN(300)) * time.Millisecond,
				rest:   time.Duration(r.IntN(2000)) * time.Millisecond,
				oldest: seed%2 == 0}
			g := NewGate(Config{MaxInFlight: 1 + r.IntN(12), Probe: true})
			b := Retrying(s, "m", entry{g}, Policy{})
			const n = 40
			start := time.Now()
			var wg sync.WaitGroup
			for range n {
				wg.Go(func() {
					_, err := b.Chat(t.Context(), llm.Request{}, nil)
					assert.NoError(t, err)
				})
			}
			wg.Wait()
			assert.Zero(t, s.over, "seed %d: %d in %v", seed, s.most, s.window)
			rounds := time.Duration(n/min(s.most, g.config.MaxInFlight) + 2)
			assert.Less(t, time.Since(start), rounds*(s.window+s.first+s.rest+50*time.Millisecond), "seed %d", seed)
		})
	}
}

// TestTokensLeft: a request that would need more tokens than are left waits for the reset.
func TestTokensLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Config{MaxInFlight: 4})
		used := llm.Report{Usage: task.Usage{InputTokens: 900, OutputTokens: 100}}
		p := enter(t, g, 1)[0]
		p.Allowed(llm.Allowance{Tokens: llm.Meter{Left: 2500, Reset: time.Minute}})
		p.Leave(used)
		two := enter(t, g, 2)
		assert.Nil(t, g.Try("m", nil), "500 are left")
		assert.Equal(t, time.Minute, g.Ready("m"))
		start := time.Now()
		third := line(t.Context(), g)
		assert.True(t, waits(third))
		assert.Equal(t, time.Minute, g.Waits())
		two[0].Leave(used)
		require.NoError(t, (<-third).err)
		assert.Equal(t, time.Minute, time.Since(start))
	})
}

// TestProbe: what a server allows is found out by one request. Others wait until it is answered, but not for long.
func TestProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, answer := range []func(llm.Permit){
			llm.Permit.Active,
			func(p llm.Permit) { p.Leave(llm.Report{Kind: llm.Rejected}) },
			func(p llm.Permit) { p.Leave(llm.Report{Kind: llm.Unreachable}) }, // then the next one finds out
			func(llm.Permit) { time.Sleep(probeTime) },
		} {
			g := NewGate(Config{MaxInFlight: 4, Probe: true})
			first := enter(t, g, 1)[0]
			second := line(t.Context(), g)
			assert.True(t, waits(second))
			assert.Equal(t, lookAgain, g.Ready("m"))
			assert.Zero(t, g.Waits(), "nobody knows")
			answer(first)
			assert.NoError(t, (<-second).err)
		}
	})
}

// TestProbeFails: a request that did not reach the server found out nothing, so the next one goes alone, too.
func TestProbeFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Config{MaxInFlight: 4, Probe: true})
		first := enter(t, g, 1)[0]
		second, third := line(t.Context(), g), line(t.Context(), g)
		first.Leave(refused)
		o := <-second
		require.NoError(t, o.err)
		assert.True(t, waits(third))
		o.permit.Active()
		assert.NoError(t, (<-third).err)
	})
}

// TestSharedKey: who shares a key with others sends no more requests than the server says are left, though it would
// allow more on the whole.
func TestSharedKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Config{MaxInFlight: 8})
		left := llm.Allowance{Requests: llm.Meter{Limit: 60, Left: 2, Reset: time.Minute}}
		p := enter(t, g, 1)[0]
		p.Allowed(left)
		p.Leave(good)
		two := enter(t, g, 2)
		assert.Nil(t, g.Try("m", nil), "none is left")
		assert.Equal(t, time.Minute, g.Ready("m"))
		for _, p := range two {
			p.Leave(good)
		}
		time.Sleep(time.Minute)
		three := enter(t, g, 3)
		three[0].Allowed(left)
		assert.Nil(t, g.Try("m", nil), "two are on their way")
		assert.Equal(t, time.Minute, g.Ready("m"))
	})
}

// TestUnnamedLimit: a server that does not name its limit allows at least the requests that it said were left, and the
// one that it answered. It is kept to that.
func TestUnnamedLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Config{MaxInFlight: 8})
		enter(t, g, 1)[0].Allowed(llm.Allowance{Requests: llm.Meter{Left: 1, Reset: time.Second}})
		enter(t, g, 1)
		time.Sleep(time.Second)
		enter(t, g, 1)
		assert.Nil(t, g.Try("m", nil), "two are on their way")
	})
}

// TestCancelledCounts: a request that was cancelled may have reached the server, which counts it.
func TestCancelledCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Config{MaxInFlight: 8})
		p := enter(t, g, 1)[0]
		p.Allowed(llm.Allowance{Requests: llm.Meter{Limit: 3, Left: 2, Reset: time.Second}})
		p.Leave(good)
		time.Sleep(time.Second)
		for _, p := range enter(t, g, 3) {
			p.Leave(llm.Report{Cancelled: true})
		}
		assert.Nil(t, g.Try("m", nil))
		time.Sleep(time.Second)
		assert.NotNil(t, g.Try("m", nil))
	})
}

// TestHostileAllowance: what a child makes up holds its server back for an hour at most.
func TestHostileAllowance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Config{MaxInFlight: 4})
		for _, m := range []llm.Meter{{Left: -1 << 62, Limit: -5, Reset: 1 << 62}, {Left: 1 << 62, Reset: -1},
			{Left: 1 << 62, Limit: 1 << 62, Reset: 1 << 62}} {
			p, err := g.Enter(t.Context(), "m", false, nil)
			require.NoError(t, err)
			p.Allowed(llm.Allowance{Requests: m, Tokens: m})
			p.Leave(good)
			assert.LessOrEqual(t, g.Ready("m"), time.Hour)
			p.Allowed(llm.Allowance{Requests: llm.Meter{Reset: time.Hour}}) // it has left
		}
	})
}

func quota(after time.Duration) error {
	return &llm.Error{Kind: llm.Quota, Problem: "you have no more", RetryAfter: after, Status: 429}
}

// TestQuota: whether requests wait for the reset of a quota, and what becomes of those that do not.
func TestQuota(t *testing.T) {
	for _, tt := range []struct {
		on    OnQuota
		after time.Duration
		waits time.Duration // 0: it is refused
	}{
		{"", 0, 0}, {QuotaAuto, 0, 0}, {QuotaAuto, 20 * time.Minute, 20 * time.Minute}, {QuotaAuto, 2 * time.Hour, 0},
		{QuotaWait, 0, quotaAgain}, {QuotaWait, 2 * time.Hour, time.Hour},
		{QuotaStop, time.Minute, 0}, {QuotaFallback, time.Minute, 0},
	} {
		t.Run(fmt.Sprint(tt.on, tt.after), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var said notes
				g := NewGate(Config{Server: "lab", MaxInFlight: 4, OnQuota: tt.on, Notes: &said})
				m := &model{ends: []error{quota(tt.after), quota(tt.after)}}
				start := time.Now()
				_, err := Retrying(m, "m", entry{g}, Policy{}).Chat(t.Context(), llm.Request{}, nil)
				lines := said.take()
				require.Len(t, lines, 1+len(m.waits())/2)
				assert.Equal(t, tt.waits == quotaAgain, strings.Contains(lines[0], "does not say until when"))
				if tt.waits > 0 {
					require.NoError(t, err, "it needs no retry for that")
					assert.Equal(t, 2*tt.waits, time.Since(start))
					assert.Empty(t, g.UsedUp())
					return
				}
				assert.EqualError(t, demand(t, err, llm.Quota), "you have no more")
				assert.Len(t, m.sent, 1, "it is not asked again")
				assert.Equal(t, "the quota of lab is used up", g.UsedUp())
				assert.Contains(t, demand(t, g.Refusal("other"), llm.Quota).Hint,
					"with --fallback, or wait with --on-quota wait")
				assert.Zero(t, g.Ready("other"), "to be refused")
				assert.Nil(t, g.Try("other", nil))
			})
		})
	}
}

// TestQuotaIsProbed: after the reset of a quota one request finds out for all whether there is one again.
func TestQuotaIsProbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Config{MaxInFlight: 4})
		m := &model{ends: []error{quota(time.Minute), quota(time.Minute), quota(time.Minute), quota(time.Minute),
			quota(time.Minute), quota(time.Minute)}}
		b := Retrying(m, "m", entry{g}, Policy{})
		start := time.Now()
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				_, err := b.Chat(t.Context(), llm.Request{}, nil)
				assert.NoError(t, err)
			})
		}
		wg.Wait()
		assert.Len(t, m.sent, 6+4, "four were under way at first")
		assert.Equal(t, 3*time.Minute, time.Since(start), "then one was sent in each minute")
	})
}

// TestQuotaWithoutAdmission: who admits everything does not decide about quotas.
func TestQuotaWithoutAdmission(t *testing.T) {
	m := &model{ends: []error{quota(0)}}
	_, err := Retrying(m, "m", nil, Policy{Retries: 3}).Chat(t.Context(), llm.Request{}, nil)
	demand(t, err, llm.Quota)
	assert.Len(t, m.sent, 1)
}

// TestBudgetOfAll: the budget is one for all gates, and a request in the queue of another gate is refused at once.
func TestBudgetOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := NewBudget(100, 0)
		one, two := NewGate(Config{Budget: budget}), NewGate(Config{Budget: budget})
		p, other := enter(t, one, 1)[0], enter(t, two, 1)[0]
		queued := line(t.Context(), two)
		assert.True(t, waits(queued))
		p.Leave(llm.Report{Usage: task.Usage{InputTokens: 60}})
		assert.True(t, waits(queued))
		p = enter(t, one, 1)[0]
		p.Leave(llm.Report{Usage: task.Usage{InputTokens: 40}})
		assert.ErrorContains(t, demand(t, (<-queued).err, llm.Spent), "100 of 100 tokens used")
		assert.True(t, budget.Spent())
		other.Leave(llm.Report{Usage: task.Usage{OutputTokens: 1}})
		assert.Equal(t, task.Usage{InputTokens: 100, OutputTokens: 1}, budget.Used())
	})
}

// TestFound: a look-up that fails opens the breaker of the server, and one that succeeds closes it.
func TestFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said notes
		away := kinds(llm.Unreachable)[0]
		g := NewGate(Config{Server: "lab", Retries: 2, Notes: &said})
		g.Found(nil)
		g.Found(errors.New("something else"))
		assert.Zero(t, g.Ready("m"))
		for n := range 3 {
			g.Found(away)
			g.Found(away) // is no news
			if n < 2 {
				require.NoError(t, g.Refusal("m"))
				assert.Equal(t, time.Minute, g.Ready("m"))
			}
			if n == 1 {
				assert.True(t, strings.HasPrefix(said.take()[0], "circuit breaker open: lab failed"))
			}
			if n < 2 {
				time.Sleep(time.Minute)
			}
		}
		demand(t, g.Refusal("m"), llm.Open)
		assert.Zero(t, g.Ready("m"), "to be refused")
		g.Found(nil)
		require.NoError(t, g.Refusal("m"))
		enter(t, g, 1)
		assert.Equal(t, "circuit breaker closed: lab answers again", said.take()[1])
	})
}

// entry is the way to a gate for a task without clocks.
type entry struct{ *Gate }

func (e entry) Enter(ctx context.Context, model string, again bool) (llm.Permit, error) {
	return e.Gate.Enter(ctx, model, again, nil)
}

// TestBusyForLong: a server that wants no requests for an hour keeps no request that another model can answer, neither
// the one that it told so, nor one that waits already, nor a later one. All others wait, as for the reset of a quota.
func TestBusyForLong(t *testing.T) {
	busy := &llm.Error{Kind: llm.Busy, Problem: "slow down", RetryAfter: time.Hour, Status: 429}
	chat := func(t *testing.T, g *Gate, hasty bool, ends ...error) (time.Duration, error) {
		began := time.Now()
		_, err := Retrying(&model{ends: ends}, "m", entry{g}, Policy{Retries: 2, Hasty: hasty}).
			Chat(t.Context(), llm.Request{}, nil)
		return time.Since(began), err
	}
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Config{MaxInFlight: 1, Retries: 2})
		var others sync.WaitGroup
		first := enter(t, g, 1)[0]
		for _, hasty := range []bool{true, false} {
			others.Go(func() {
				waited, err := chat(t, g, hasty)
				if assert.Equal(t, hasty, waited == time.Second, "%v", waited); hasty {
					demand(t, err, llm.Busy)
				}
			})
		}
		time.Sleep(time.Second)
		first.Leave(llm.Report{Kind: llm.Busy, RetryAfter: time.Hour})
		synctest.Wait()
		waited, err := chat(t, g, true)
		demand(t, err, llm.Busy)
		assert.Zero(t, waited, "a later one")
		others.Wait()
		waited, err = chat(t, NewGate(Config{MaxInFlight: 1}), true, busy)
		assert.EqualError(t, demand(t, err, llm.Busy), "slow down")
		assert.Zero(t, waited, "the one that was told so")
		waited, err = chat(t, NewGate(Config{MaxInFlight: 1}), false, busy)
		require.NoError(t, err)
		assert.Equal(t, time.Hour, waited, "without another model")
		waited, err = chat(t, NewGate(Config{MaxInFlight: 1, OnQuota: QuotaWait}), true, quota(30*time.Minute))
		require.NoError(t, err)
		assert.Equal(t, 30*time.Minute, waited, "a person wants to wait")
		g = NewGate(Config{MaxInFlight: 3, Retries: 2})
		for _, p := range enter(t, g, 3) {
			p.Leave(refused)
		}
		time.Sleep(openFor - 10*time.Second)
		for _, hasty := range []bool{true, false} {
			waited, err = chat(t, g, hasty)
			assert.Equal(t, hasty, err != nil)
			assert.Equal(t, hasty, waited == 0, "for an open breaker: %v", waited)
		}
	})
}

// TestSilentServer: a server that has not said anything for a while is not ready for further tasks, until it does.
func TestSilentServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Config{MaxInFlight: 4})
		assert.Zero(t, g.Ready("m"))
		two := enter(t, g, 2)
		time.Sleep(silence)
		assert.Zero(t, g.Ready("m"))
		time.Sleep(time.Nanosecond)
		assert.Equal(t, lookAgain, g.Ready("m"))
		two[0].Active()
		assert.Zero(t, g.Ready("m"))
		time.Sleep(2 * silence)
		two[0].Leave(llm.Report{Cancelled: true})
		assert.Equal(t, lookAgain, g.Ready("m"), "nothing was heard")
		two[1].Leave(good)
		assert.Zero(t, g.Ready("m"))
	})
}
