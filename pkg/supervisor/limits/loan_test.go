package limits

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
