package limits

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// told keeps what Notes is told.
type told []string

func (n *told) Note(format string, args ...any) { *n = append(*n, fmt.Sprintf(format, args...)) }

// busy returns slots of which n are in use.
func busy(n int) *Slots {
	s := NewSlots(n + 1)
	for range n {
		s.Try()
	}
	return s
}

// A fault is waited out with growing pauses until it has lasted for the limit, and told once.
func TestMachineWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var notes told
		m := NewMachine(busy(1), time.Minute, &notes)
		var tries Tries
		var at []time.Duration
		start := time.Now()
		for m.Wait(t.Context(), &tries, "it is full\nhint: make room") {
			at = append(at, time.Since(start))
		}
		assert.Equal(t, time.Minute, time.Since(start))
		assert.Equal(t, []time.Duration{100 * time.Millisecond, 300 * time.Millisecond, 700 * time.Millisecond}, at[:3])
		assert.Less(t, len(at), 20)
		assert.Equal(t, told{"it is full: tasks wait until that is over"}, notes)

		time.Sleep(newFault + time.Second)
		assert.True(t, m.Wait(t.Context(), &Tries{}, "it is full again"))
		assert.Len(t, notes, 2, "a new fault")
	})
}

// Without a limit of time nobody waits, and a job that is being ended waits no longer.
func TestMachineGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		assert.False(t, NewMachine(busy(1), 0, nil).Wait(t.Context(), &Tries{}, "x"))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		assert.False(t, NewMachine(busy(1), time.Minute, nil).Wait(ctx, &Tries{}, "x"))
		assert.Zero(t, time.Since(start))
	})
}

// While another job is at work a fault may last, and the end of that job wakes the one that has waited
// longest. When all jobs wait, the time counts.
func TestMachineAtWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := busy(3)
		m := NewMachine(slots, time.Minute, nil)
		ended := make(chan time.Duration, 2)
		start := time.Now()
		for range 2 {
			go func() {
				var tries Tries
				for time.Since(start) < time.Hour && m.Wait(t.Context(), &tries, "x") {
				}
				slots.Release()
				ended <- time.Since(start)
			}()
		}
		const work = 10*time.Minute + 11*time.Millisecond
		time.Sleep(work)
		synctest.Wait()
		require.Empty(t, ended, "the third is at work")
		slots.Release()
		m.Ended()
		for range 2 {
			took := <-ended
			assert.Greater(t, took, work+50*time.Second)
			assert.Less(t, took, work+70*time.Second)
		}
	})
}

// A job without a slot waits for the record.
func TestMachineWithoutSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMachine(busy(0), time.Minute, nil)
		tries := Tries{NoSlot: true}
		start := time.Now()
		for time.Since(start) < time.Hour && m.Wait(t.Context(), &tries, "x") {
		}
		assert.Equal(t, time.Minute, time.Since(start))
	})
}

// The end of a job wakes one waiter at a time, in the order in which they came.
func TestMachineWakesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMachine(busy(9), time.Hour, nil)
		woken := make(chan int, 3)
		for i := range 3 {
			go func() {
				tries := Tries{pause: longestPause}
				m.Wait(t.Context(), &tries, "x")
				woken <- i
			}()
			synctest.Wait()
		}
		start := time.Now()
		for i := range 3 {
			m.Ended()
			assert.Equal(t, i, <-woken)
		}
		m.Ended() // nobody waits
		assert.Zero(t, time.Since(start))
	})
}

// A job that gave up is not at work, though it still holds its slot: those that wait beside it give
// up with it.
func TestMachineGivesUpTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMachine(busy(2), time.Minute, nil)
		start := time.Now()
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				var tries Tries
				for time.Since(start) < time.Hour && m.Wait(t.Context(), &tries, "x") {
				}
			})
		}
		both.Wait()
		assert.Equal(t, time.Minute, time.Since(start))
	})
}
