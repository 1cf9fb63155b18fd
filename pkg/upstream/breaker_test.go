package upstream

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/llm"
)

// failTimes has n requests fail, one after the other.
func failTimes(t *testing.T, g *Gate, n int) {
	t.Helper()
	for range n {
		enter(t, g, 1)[0].Leave(refused)
	}
}

// What is no failure, or not in a row, does not open it.
func TestBreakerStaysClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Config{MaxInFlight: 5})
		failTimes(t, g, 2)
		for _, r := range []llm.Report{good, {Kind: llm.Rejected}, {Kind: llm.UnknownModel}, {Kind: llm.ContextOverflow}} {
			enter(t, g, 1)[0].Leave(r)
			failTimes(t, g, 2)
		}
		enter(t, g, 1)[0].Leave(good)
		for range 5 {
			enter(t, g, 1)[0].Leave(llm.Report{Cancelled: true, Kind: llm.Unreachable})
			enter(t, g, 1)[0].Leave(llm.Report{Kind: llm.Busy, RetryAfter: time.Nanosecond})
			time.Sleep(time.Nanosecond)
		}
		require.NoError(t, g.breakerError())
	})
}

func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said notes
		g := NewGate(Config{MaxInFlight: 5, Retries: 2, Note: said.add})
		permits := enter(t, g, 5)
		queued := line(t.Context(), g)
		for i, r := range []llm.Report{{Kind: llm.Busy}, {Cancelled: true}, {Kind: llm.BrokenStream}, {Kind: llm.Server}} {
			require.NoError(t, g.breakerError(), i)
			permits[i].Leave(r)
			queued = requeue(t, g, queued)
		}
		e := demand(t, (<-queued).err, llm.Open)
		assert.EqualError(t, e, "Circuit breaker open: m failed 3 times in a row, next try in 60s")
		assert.Equal(t, time.Minute, e.RetryAfter)
		assert.Equal(t, []string{"circuit breaker open: the model server failed 3 times in a row (server), next try in 60s"}, said.take())
		assert.Nil(t, g.Try("m", nil))
		require.NoError(t, g.Refusal("m"), "it is worth to wait")
		permits[4].Leave(good) // was sent before
		time.Sleep(59*time.Second + time.Millisecond)
		_, err := g.Enter(t.Context(), "other")
		e = demand(t, err, llm.Open)
		assert.Equal(t, "Circuit breaker open: other failed 3 times in a row, next try in 1s", e.Problem)
		assert.Equal(t, 999*time.Millisecond, e.RetryAfter)
		time.Sleep(e.RetryAfter)

		// One trial; the others wait for it.
		trial := enter(t, g, 1)[0]
		second, third := line(t.Context(), g), line(t.Context(), g)
		assert.True(t, waits(second))
		trial.Leave(llm.Report{Cancelled: true})
		o := <-second
		require.NoError(t, o.err, "it gets the trial")
		assert.True(t, waits(third))
		o.permit.Leave(refused)
		assert.Equal(t, time.Minute, demand(t, (<-third).err, llm.Open).RetryAfter)
		assert.Empty(t, said.take(), "opened again is no news")

		// The third time in a row is hopeless, but is tried each minute.
		time.Sleep(time.Minute)
		for range 3 {
			trial = enter(t, g, 1)[0]
			third = line(t.Context(), g)
			require.NoError(t, g.Refusal("m"))
			trial.Leave(refused)
			e = demand(t, (<-third).err, llm.Open)
			assert.Zero(t, e.RetryAfter)
			assert.Contains(t, e.Problem, "next try in 60s")
			assert.Equal(t, e, demand(t, g.Refusal("m"), llm.Open))
			time.Sleep(time.Minute)
			require.NoError(t, g.Refusal("m"))
		}
		assert.Len(t, said.take(), 1)

		trial = enter(t, g, 1)[0]
		third = line(t.Context(), g)
		trial.Leave(good)
		require.NoError(t, (<-third).err)
		assert.Equal(t, []string{"circuit breaker closed: the model server answers again"}, said.take())
		failTimes(t, g, 2)
		require.NoError(t, g.breakerError(), "it counts anew")
		failTimes(t, g, 1)
		require.Error(t, g.breakerError())
		require.NoError(t, g.Refusal("m"), "and hopes anew")
	})
}

// breakerError is what somebody who enters is told at once.
func (g *Gate) breakerError() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.breaker.refusal("m"); err != nil {
		return err
	}
	return nil
}

// requeue has somebody wait in line again who has got a permit.
func requeue(t *testing.T, g *Gate, c chan outcome) chan outcome {
	if waits(c) {
		return c
	}
	o := <-c
	if o.err != nil {
		c <- o
		return c
	}
	c = line(t.Context(), g)
	o.permit.Leave(llm.Report{Cancelled: true})
	return requeue(t, g, c)
}

// A request from before the breaker opened says nothing about the trial.
func TestBreakerHeedsOnlyTheTrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Config{MaxInFlight: 8, Retries: 5})
		permits := enter(t, g, 7)
		for _, p := range permits[:3] {
			p.Leave(refused)
		}
		permits[3].Leave(good)
		require.Error(t, g.breakerError())
		time.Sleep(time.Minute)
		trial := enter(t, g, 1)[0]
		permits[4].Leave(good)
		c := line(t.Context(), g)
		assert.True(t, waits(c), "the trial is still under way")
		permits[5].Leave(refused)
		assert.True(t, waits(c))
		trial.Leave(good)
		require.NoError(t, (<-c).err)
		for _, p := range enter(t, g, 2) {
			p.Leave(refused)
		}
		permits[6].Leave(refused)
		require.NoError(t, g.breakerError(), "two failures since it closed")
	})
}
