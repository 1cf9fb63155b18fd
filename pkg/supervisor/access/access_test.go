package access

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"qq/pkg/supervisor/lease"
	"qq/pkg/supervisor/targets"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func on(name string) lease.Request {
	return lease.Request{Job: name, Targets: []targets.Target{targets.Parse(name, false)}}
}

func TestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tree Tree
		wake := make(chan struct{}, 1)
		a := tree.Ask(nil, on("x"), nil)
		b := tree.Ask(nil, on("x"), wake)
		assert.True(t, a.Granted())
		assert.False(t, b.Granted())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, b.Await(ctx), context.DeadlineExceeded)
		go func() {
			time.Sleep(time.Second)
			a.End()
		}()
		began := time.Now()
		require.NoError(t, b.Await(t.Context()))
		assert.Equal(t, time.Second, time.Since(began))
		<-wake
		b.End()
		b.End()
	})
}

// An agent may wait for several groups of children at once: it lends with the first wait, and resumes after the last.
func TestLendsAsOftenAsItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tree Tree
		a := tree.Ask(nil, on("x"), nil)
		a.Lend()
		a.Lend()
		b := tree.Ask(nil, on("x"), nil)
		assert.True(t, b.Granted())
		require.NoError(t, a.Resume(t.Context()), "it still waits, and needs no lease")
		assert.False(t, a.Granted())
		var wg sync.WaitGroup
		wg.Go(func() { assert.NoError(t, a.Resume(t.Context())) })
		synctest.Wait()
		a.Lend() // meanwhile it waits for something else
		wg.Wait()
		assert.False(t, a.Granted())
		c := tree.Ask(nil, on("x"), nil)
		b.End()
		assert.True(t, c.Granted(), "a does not stand in the way")
		c.End()
		require.NoError(t, a.Resume(t.Context()))
		assert.True(t, a.Granted())
		a.End()
	})
}

// A job that does not start yet lets others go first, and keeps its place.
func TestRest(t *testing.T) {
	var tree Tree
	wake := make(chan struct{}, 1)
	a, b := tree.Ask(nil, on("x"), nil), tree.Ask(nil, on("x"), wake)
	b.Rest()
	b.Rest()
	c, d := tree.Ask(nil, on("x"), nil), tree.Ask(nil, on("x"), nil)
	a.Rest()
	assert.True(t, c.Granted())
	a.Claim()
	b.Claim()
	b.Claim()
	assert.False(t, a.Granted() || b.Granted())
	c.End()
	assert.True(t, a.Granted(), "before b, which asked later")
	a.End()
	<-wake
	assert.True(t, b.Granted())
	b.End()
	b.Rest()
	b.Claim()
	assert.True(t, d.Granted())
	d.End()
	assert.Empty(t, tree.waiting)
}

// Who gives up does not keep others from their lease.
func TestGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tree Tree
		a := tree.Ask(nil, on("x"), nil)
		a.Lend()
		b := tree.Ask(nil, on("x"), nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() { assert.Error(t, a.Resume(ctx)) })
		synctest.Wait()
		c := tree.Ask(nil, on("x"), nil)
		wg.Wait()
		b.End()
		assert.True(t, c.Granted())
		a.End()
		c.End()
	})
}

func TestNone(t *testing.T) {
	var tree *Tree
	l := tree.Ask(nil, on("x"), nil)
	assert.Nil(t, l)
	l.Lend()
	require.NoError(t, l.Resume(t.Context()))
	require.NoError(t, l.Await(t.Context()))
	assert.True(t, l.Granted())
	l.End()
}

// TestRace: many jobs that lend, give up and end at random moments all get through.
func TestRace(t *testing.T) {
	var tree Tree
	var wg sync.WaitGroup
	var at sync.Map // who works on which file
	for i := range 200 {
		r := rand.New(rand.NewPCG(uint64(i), 1))
		wg.Go(func() {
			name := []string{"x", "y", "z"}[r.IntN(3)]
			l := tree.Ask(nil, on(name), nil)
			defer l.End()
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(r.IntN(20))*time.Millisecond)
			defer cancel()
			if r.IntN(5) > 0 {
				ctx = t.Context()
			}
			if l.Await(ctx) != nil {
				return
			}
			for range r.IntN(4) {
				if other, loaded := at.LoadOrStore(name, i); loaded {
					t.Errorf("%d and %d work on %s", i, other, name)
				}
				time.Sleep(time.Duration(r.IntN(200)) * time.Microsecond)
				at.Delete(name)
				l.Lend()
				time.Sleep(time.Duration(r.IntN(200)) * time.Microsecond)
				if l.Resume(ctx) != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	assert.Empty(t, tree.waiting)
}
