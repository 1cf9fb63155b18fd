package gate

import (
	"context"
	"strconv"
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
		for _, r := range []llm.Report{good, {Kind: llm.Rejected}, {Kind: llm.UnknownModel},
			{Kind: llm.ContextOverflow}, {Kind: llm.Server}} {
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
		g := NewGate(Config{MaxInFlight: 5, Retries: 2, Notes: &said})
		permits := enter(t, g, 5)
		queued := line(t.Context(), g)
		for i, r := range []llm.Report{{Kind: llm.Busy}, {Cancelled: true}, {Kind: llm.BrokenStream}, refused} {
			require.NoError(t, g.breakerError(), i)
			permits[i].Leave(r)
			queued = requeue(t, g, queued)
		}
		e := demand(t, (<-queued).err, llm.Open)
		assert.EqualError(t, e, "Circuit breaker open: m failed 3 times in a row, next try in 60s")
		assert.Equal(t, time.Minute, e.RetryAfter)
		assert.Equal(t,
			[]string{"circuit breaker open: the model server failed 3 times in a row (unreachable), next try in 60s"},
			said.take())
		assert.Nil(t, g.Try("m", nil))
		require.NoError(t, g.Refusal("m"), "it is worth to wait")
		permits[4].Leave(good) // was sent before
		time.Sleep(59*time.Second + time.Millisecond)
		_, err := g.Enter(t.Context(), "other", false, nil)
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
	if err := g.breakers.refusal("m", nil); err != nil {
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

// again enters in the background as somebody who was refused and has a repeat.
func again(ctx context.Context, g *Gate, model string) chan outcome {
	c := make(chan outcome, 1)
	go func() {
		p, err := g.Enter(ctx, model, true, nil)
		c <- outcome{p, err}
	}()
	synctest.Wait()
	return c
}

// breaks has three requests for the model fail by a fault of that.
func breaks(t *testing.T, g *Gate, model string) {
	t.Helper()
	for range failuresToOpen {
		p := g.Try(model, nil)
		require.NotNil(t, p)
		p.Leave(llm.Report{Kind: llm.Server})
	}
}

// A model that is broken stops the requests for itself, and no others.
func TestBreakerOfAModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said notes
		g := NewGate(Config{MaxInFlight: 2, Retries: 1, Notes: &said})
		for range 2 {
			for _, model := range []string{"bad", "worse", "m"} {
				g.Try(model, nil).Leave(llm.Report{Kind: llm.Server})
			}
		}
		assert.Empty(t, said.take(), "none of them three times in a row")
		g.Try("m", nil).Leave(good)
		g.Try("bad", nil).Leave(llm.Report{Kind: llm.Server})
		assert.Equal(t, []string{`circuit breaker open: model "bad" failed 3 times in a row (server), next try in 60s`},
			said.take())
		_, err := g.Enter(t.Context(), "bad", false, nil)
		assert.EqualError(t, demand(t, err, llm.Open),
			"Circuit breaker open: bad failed 3 times in a row, next try in 60s")
		for range 10 {
			enter(t, g, 1)[0].Leave(good)
		}

		// Nor does whoever waits for it stop those behind him.
		patient := again(t.Context(), g, "bad")
		full := []outcome{<-line(t.Context(), g), <-line(t.Context(), g)}
		next := line(t.Context(), g)
		assert.True(t, waits(next), "it is full")
		full[0].permit.Leave(good)
		last := <-next
		require.NoError(t, last.err)
		full[1].permit.Leave(good)
		assert.True(t, waits(patient))
		time.Sleep(time.Minute)
		trial := (<-patient).permit
		second, other := again(t.Context(), g, "bad"), line(t.Context(), g)
		require.True(t, waits(second), "there is one trial")
		assert.True(t, waits(other), "it is full")
		trial.Leave(refused) // says nothing about the model
		o := <-second
		require.NoError(t, o.err)
		last.permit.Leave(good)
		require.NoError(t, (<-other).err)
		o.permit.Leave(llm.Report{Kind: llm.Server})
		assert.Equal(t,
			[]string{`circuit breaker open: model "bad" fails (server); tasks end until it answers, next try in 60s`},
			said.take())
		demand(t, g.Refusal("bad"), llm.Open)
		require.NoError(t, g.Refusal("m"))
		time.Sleep(time.Minute)
		g.Try("bad", nil).Leave(good)
		assert.Equal(t, []string{`circuit breaker closed: model "bad" answers again`}, said.take())
	})
}

// Both may be open at once: the server is tried first, and what it says of one
// model closes it for all.
func TestBreakersOfBoth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Config{MaxInFlight: 2, Retries: 5})
		breaks(t, g, "bad")
		time.Sleep(30 * time.Second)
		failTimes(t, g, failuresToOpen)
		_, err := g.Enter(t.Context(), "bad", false, nil)
		assert.Equal(t, time.Minute, demand(t, err, llm.Open).RetryAfter)
		start, patient, other := time.Now(), again(t.Context(), g, "bad"), again(t.Context(), g, "m")
		o := <-patient
		require.NoError(t, o.err)
		assert.Equal(t, time.Minute, time.Since(start))
		assert.True(t, waits(other))
		o.permit.Leave(llm.Report{Kind: llm.Server})
		require.NoError(t, (<-other).err, "the server is there")
		_, err = g.Enter(t.Context(), "bad", false, nil)
		demand(t, err, llm.Open)
	})
}

// Names of models that do not exist cost nothing.
func TestModelsAreBounded(t *testing.T) {
	g := NewGate(Config{MaxInFlight: 1})
	for i := range 10 * mostModels {
		g.Try(strconv.Itoa(i), nil).Leave(llm.Report{Kind: llm.Server})
	}
	assert.Len(t, g.breakers.models, mostModels)
	breaks(t, g, "bad")
	demand(t, g.Refusal("bad"), llm.Open)
}

// Who has a repeat left waits in the line for the trial: for one opening, and not
// for one that is hopeless.
func TestEnterAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Config{MaxInFlight: 1, Retries: 1})
		enter(t, g, 1)[0].Leave(good)
		p := enter(t, g, 1)[0]
		late := again(t.Context(), g, "m") // the breaker opens while it waits for its turn
		p.Leave(refused)
		o := <-late
		o.permit.Leave(refused)
		p = enter(t, g, 1)[0]
		late = again(t.Context(), g, "m")
		p.Leave(refused)
		assert.Equal(t, time.Minute, demand(t, (<-late).err, llm.Open).RetryAfter)

		start := time.Now()
		ctx, cancel := context.WithCancelCause(t.Context())
		gone, first, second := again(ctx, g, "m"), again(t.Context(), g, "m"), again(t.Context(), g, "m")
		cancel(errStop)
		require.Equal(t, errStop, (<-gone).err)
		assert.True(t, waits(first))
		_, err := g.Enter(t.Context(), "m", false, nil)
		demand(t, err, llm.Open)
		assert.Nil(t, g.Try("m", nil))
		o = <-first
		require.NoError(t, o.err)
		assert.Equal(t, time.Minute, time.Since(start))
		assert.True(t, waits(second))
		o.permit.Leave(refused)
		assert.Zero(t, demand(t, (<-second).err, llm.Open).RetryAfter, "hopeless now")
		_, err = g.Enter(t.Context(), "m", true, nil)
		demand(t, err, llm.Open)

		time.Sleep(time.Minute)
		o = <-again(t.Context(), g, "m")
		require.NoError(t, o.err)
		o.permit.Leave(good)
	})
}

// Who waits for a breaker waits for a Retry-After too, whichever is longer.
func TestEnterAgainIsHeldBack(t *testing.T) {
	for _, after := range []time.Duration{10 * time.Second, 100 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			g := NewGate(Config{MaxInFlight: 8, Retries: 5})
			permits := enter(t, g, 4)
			for _, p := range permits[:3] {
				p.Leave(refused)
			}
			start, patient := time.Now(), again(t.Context(), g, "m")
			assert.Equal(t, time.Minute, g.Waits())
			permits[3].Leave(llm.Report{Kind: llm.Busy, RetryAfter: after})
			assert.Equal(t, max(after, time.Minute), g.Waits())
			require.NoError(t, (<-patient).err)
			assert.Zero(t, g.Waits())
			assert.Equal(t, max(after, time.Minute), time.Since(start))
		})
	}
}
