package limits

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/task"
)

// twoResumes is a holder that wants its only slot back twice at once, while
// somebody else has it.
func twoResumes(t *testing.T, first context.Context) (l *Loan, ends chan error) {
	l = &Loan{slots: NewSlots(0), held: true}
	ends = make(chan error, 2)
	l.Lend()
	require.True(t, l.slots.Try())
	go func() { ends <- l.Resume(first, 1) }()
	synctest.Wait()
	l.Lend()
	go func() { ends <- l.Resume(t.Context(), 1) }()
	synctest.Wait()
	require.Empty(t, ends)
	return l, ends
}

// One slot is enough for both: the second does not wait for what the first got.
func TestTwoResumesShareASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, ends := twoResumes(t, t.Context())
		l.slots.Release()
		assert.NoError(t, <-ends)
		assert.NoError(t, <-ends)
		assert.True(t, l.held)
		assert.Zero(t, l.slots.free)
		l.End()
		assert.Equal(t, 1, l.slots.free)
	})
}

// When the one who waits is cancelled, the other takes over.
func TestResumeTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		l, ends := twoResumes(t, ctx)
		cancel()
		assert.ErrorIs(t, <-ends, context.Canceled)
		synctest.Wait()
		assert.Empty(t, ends)
		l.slots.Release()
		assert.NoError(t, <-ends)
		assert.True(t, l.held)
	})
}

// A slot that comes when the holder waits again, or has ended, goes on to the
// next.
func TestResumeTooLate(t *testing.T) {
	for name, meanwhile := range map[string]func(*Loan){"waits again": (*Loan).Lend, "ended": (*Loan).End} {
		synctest.Test(t, func(t *testing.T) {
			l := &Loan{slots: NewSlots(0), held: true}
			l.Lend()
			require.True(t, l.slots.Try())
			end := make(chan error, 1)
			go func() { end <- l.Resume(t.Context(), 1) }()
			synctest.Wait()
			meanwhile(l)
			l.slots.Release()
			assert.NoError(t, <-end, name)
			assert.False(t, l.held, name)
			assert.Equal(t, 1, l.slots.free, name)
		})
	}
}

// kept is a Keeper that says so from a time on.
type kept time.Time

func (k kept) Keeps() bool { return !time.Now().Before(time.Time(k)) }

// TestWatch: the slot is lent as soon as the Keeper says so, and is taken back at once, even if all are taken.
func TestWatch(t *testing.T) {
	for name, from := range map[string]time.Duration{"at once": 0, "later": 3 * time.Second, "never": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slots := NewSlots(1)
				require.True(t, slots.Try())
				l := HeldSlot(slots)
				var got time.Duration
				other := make(chan struct{})
				ctx, cancel := context.WithCancel(t.Context())
				start := time.Now()
				go func() {
					defer close(other)
					if slots.Acquire(ctx, false, 0) == nil {
						got = time.Since(start)
					}
				}()
				synctest.Wait()
				w := l.Watch(kept(start.Add(from)))
				time.Sleep(10 * time.Second)
				w.Stop()
				w.Stop()
				assert.True(t, l.Held())
				if from == time.Hour {
					cancel()
					<-other
					assert.Zero(t, got)
					return
				}
				<-other
				assert.InDelta(t, from, got, float64(nextLook))
				free, _ := slots.Free()
				assert.Zero(t, free)
				assert.False(t, slots.Try())
				l.End()
				assert.False(t, slots.Try(), "two were taken")
				slots.Release()
				assert.True(t, slots.Try())
				cancel()
			})
		})
	}
}

// TestOverdrawnSlotGoesToNobody: while more slots are taken than there are, one that is given back goes to nobody.
func TestOverdrawnSlotGoesToNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := NewSlots(1)
		require.True(t, slots.Try())
		l := HeldSlot(slots)
		l.Lend()
		require.True(t, slots.Try())
		l.Retake()
		turn := slots.Join(true, 1)
		l.End()
		select {
		case <-turn.granted:
			t.Error("one is still taken")
		default:
		}
		slots.Release()
		require.NoError(t, slots.Await(t.Context(), turn))
	})
}

// What is lent, and when, is told in milliseconds from the start on. Waits that overlap are one.
func TestAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := NewSlots(1)
		require.True(t, slots.Try())
		l, start := HeldSlot(slots), time.Now()
		assert.Empty(t, l.Away(start))
		time.Sleep(10 * time.Millisecond)
		l.Lend()
		time.Sleep(10 * time.Millisecond)
		l.Lend()
		assert.NoError(t, l.Resume(t.Context(), 1))
		time.Sleep(10 * time.Millisecond)
		assert.NoError(t, l.Resume(t.Context(), 1))
		time.Sleep(10 * time.Millisecond)
		l.Lend()
		time.Sleep(10 * time.Millisecond)
		assert.Equal(t, []task.Span{{From: 10, To: 30}, {From: 40, To: 50}}, l.Away(start), "until now")
		l.Retake()
		assert.Equal(t, []task.Span{{From: 10, To: 30}, {From: 40, To: 50}}, l.Away(start))
		for range maxAway + 5 {
			l.Lend()
			l.Retake()
		}
		assert.Len(t, l.Away(start), maxAway)
	})
}
