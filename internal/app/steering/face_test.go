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
	"qq/internal/control/board"
	"qq/internal/terminal/keys"
	"qq/pkg/supervisor/jobs"
	"qq/pkg/task"
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

// twoJobs are those of the root and of a child.
func twoJobs() []board.Job {
	return []board.Job{{Job: jobs.Job{ExecutionID: "root", State: task.Running}},
		{Job: jobs.Job{ExecutionID: "id", ParentExecutionID: "root", Agent: "coder", State: task.Running}}}
}

// TestChosenGone: when the line of the chosen job goes, no job is chosen: no key means another one by accident.
func TestChosenGone(t *testing.T) {
	r := &run{jobs: twoJobs()}
	f := &Face{run: r, tried: true, ends: make(chan struct{})}
	f.free = sync.NewCond(&f.mu)
	f.Rows(time.Now(), 80, 5)
	f.press(keys.Key{Code: keys.Down})
	assert.Regexp(t, "^› ", f.Rows(time.Now(), 80, 5).Rows[0])
	r.jobs[1].ExecutionID = "other"
	assert.Regexp(t, "^● ", f.Rows(time.Now(), 80, 5).Rows[0])
	f.press(keys.Key{Rune: 'x'})
	assert.Equal(t, "choose a job first: ↑ ↓", f.notice)
}

// TestPausedFromElsewhere: where no key is read, none is offered to go on.
func TestPausedFromElsewhere(t *testing.T) {
	r := &run{paused: true, jobs: twoJobs()}
	f := &Face{run: r, tried: true, ends: make(chan struct{})}
	f.free = sync.NewCond(&f.mu)
	assert.Equal(t, "paused: qq top lets it go on", f.Rows(time.Now(), 80, 5).Paused)
	f.reading = true
	assert.Equal(t, "paused: p goes on", f.Rows(time.Now(), 80, 5).Paused)
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
