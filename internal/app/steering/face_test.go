package steering

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/app/joblines"
	"qq/internal/terminal/keys"
)

// TestLend: a question waits while a person types a message, until that is sent or left, or the question ends.
func TestLend(t *testing.T) {
	for name, code := range map[string]keys.Code{"sent": keys.Enter, "left": keys.Escape} {
		synctest.Test(t, func(t *testing.T) {
			r := &run{}
			f := &Face{run: r, tried: true, ends: make(chan struct{}), names: map[string]string{"id": "coder 1b2c"},
				chosen: "id", lines: []joblines.Line{{ID: "id", Live: true}}}
			f.free = sync.NewCond(&f.mu)
			f.press(keys.Key{Rune: 'm'})
			gone, leave := context.WithCancel(t.Context())
			ends, lent := make(chan error, 1), make(chan error, 1)
			go func() { ends <- f.Lend(gone) }()
			go func() { lent <- f.Lend(t.Context()) }()
			for _, k := range "stop o y s" {
				f.press(keys.Key{Rune: k})
				time.Sleep(150 * time.Millisecond)
			}
			leave()
			synctest.Wait()
			require.ErrorIs(t, <-ends, context.Canceled)
			require.Empty(t, lent, "a message is being typed")
			assert.Zero(t, f.held)
			f.press(keys.Key{Code: code})
			synctest.Wait()
			require.NoError(t, <-lent)
			assert.Equal(t, 1, f.held)
			if name == "sent" {
				assert.Equal(t, []string{"message id: stop o y s"}, r.asked)
			}
		})
	}
}

// TestLendIdle: a message that nobody goes on to type holds back no question, and its text is kept.
func TestLendIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &Face{run: &run{}, tried: true, ends: make(chan struct{}), names: map[string]string{"id": "coder 1b2c"},
			chosen: "id", lines: []joblines.Line{{ID: "id", Live: true}}}
		f.free = sync.NewCond(&f.mu)
		lent := make(chan error, 1)
		f.press(keys.Key{Rune: 'm'})
		go func() { lent <- f.Lend(t.Context()) }()
		for range 5 {
			time.Sleep(idleTime - time.Second)
			f.press(keys.Key{Rune: 'x'})
			synctest.Wait()
			require.Empty(t, lent)
		}
		time.Sleep(idleTime)
		require.NoError(t, <-lent)
		assert.Nil(t, f.input)
		assert.Equal(t, "xxxxx", f.draft)
	})
}
