package launcher

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"qq/pkg/supervisor"
	"qq/pkg/task"
)

// blocking is a launcher whose jobs run until they may end.
type blocking struct {
	texts chan string
	end   chan struct{}
}

func (b blocking) Launch(_ context.Context, job task.Job, _ supervisor.Parent) task.Result {
	b.texts <- job.Text
	<-b.end
	return job.Ended(task.Completed, "")
}

func (b blocking) Stage(task.Job) supervisor.Staged { return staged{b} }

type staged struct{ blocking }

func (staged) Discard() {}

// Tasks that run at once have different numbers, the lowest that are free.
func TestLauncher(t *testing.T) {
	with := blocking{make(chan string), make(chan struct{})}
	l := New(with)
	job := task.Job{Task: task.Task{Text: "{%}: {%} {%}", Slots: []int{0, 9}}}
	var wg sync.WaitGroup
	start := func() string {
		wg.Go(func() { l.Launch(t.Context(), job, nil) })
		return <-with.texts
	}
	assert.Equal(t, "1: {%} 1", start(), "the second one is a value of the input")
	assert.Equal(t, "2: {%} 2", start())
	assert.Equal(t, "3: {%} 3", start())
	for range 3 {
		with.end <- struct{}{}
	}
	wg.Wait()
	assert.Equal(t, "1: {%} 1", start(), "all have ended")
	assert.Equal(t, "2: {%} 2", start(), "1 is taken again")
	for range 2 {
		with.end <- struct{}{}
	}
	wg.Wait()

	assert.Nil(t, l.Stage(job), "its process would have the text without the number")
	assert.NotNil(t, l.Stage(task.Job{Task: task.Task{Text: "x"}}))
	broken := task.Job{Task: task.Task{Text: "x", Broken: "no text\nhint: write one"}}
	assert.Nil(t, l.Stage(broken))
	r := l.Launch(t.Context(), broken, nil)
	assert.Equal(t, task.Failed, r.Status)
	assert.Equal(t, broken.Broken, r.Err())
}
