package tally

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
)

// end ends a task and returns the count as text.
func (t *Tally) end() string {
	parts, done, total := t.End()
	return fmt.Sprintf("%v %d/%d", parts, done, total)
}

func TestCounts(t *testing.T) {
	var c Tally
	c.Begin(false, 2)
	assert.Equal(t, []string{"false 1/2", "false 2/2"}, []string{c.end(), c.end()})
	c.Begin(false, 1)
	assert.Equal(t, "false 1/1", c.end(), "what has ended before does not count")

	c.Begin(false, 1)
	c.Begin(false, 2) // another call of the same answer
	assert.Equal(t, []string{"false 1/3", "false 2/3", "false 3/3"}, []string{c.end(), c.end(), c.end()})

	c.Announce(false, 3, nil)
	c.Begin(false, 1)
	assert.Equal(t, "false 1/3", c.end(), "the others come later")
	c.Begin(false, 2)
	assert.Equal(t, []string{"false 2/3", "false 3/3"}, []string{c.end(), c.end()})

	c.Announce(true, 500, nil)
	c.Begin(true, 200)
	assert.Equal(t, "true 1/500", c.end())
	c.Announce(false, 0, nil)
	c.Begin(false, 1)
	assert.Equal(t, "false 1/200", c.end(), "parts that were left are still open")
}

// Of what is announced together, one call has the line; alone, each call has its own.
func TestParallel(t *testing.T) {
	var c Tally
	parallel := func(lines ...string) string {
		n, tasks, ok := c.Parallel(lines)
		if !ok {
			return ""
		}
		return fmt.Sprint(n, tasks)
	}
	assert.Equal(t, "2 [a b]", parallel("a", "b"))
	assert.Equal(t, "2 [c d]", parallel("c", "d"))
	assert.Empty(t, parallel("alone"))

	c.Announce(false, 4, []string{"first", "second"})
	assert.Equal(t, "4 [first second]", parallel("first"))
	assert.Empty(t, parallel("second"))
	assert.Empty(t, parallel("third", "fourth"))

	c.Announce(false, 2, nil)
	assert.Equal(t, "2 [x]", parallel("x"), "what was announced without texts has those of the call")
	c.Announce(false, 1, []string{"one"})
	assert.Empty(t, parallel("one"))
	c.Announce(false, 0, nil)
	assert.Equal(t, "2 [a b]", parallel("a", "b"))
	c.Announce(true, 9, nil)
	assert.Equal(t, "2 [a b]", parallel("a", "b"), "parts of a document, chunk by chunk")
}

// slowLog writes a line when it is told to.
type slowLog struct {
	begun, end chan struct{}
	lines      atomic.Int32
}

func (l *slowLog) Dispatched(string, int, []string) {
	close(l.begun)
	<-l.end
	l.lines.Add(1)
}

// TestLogComesFirst: none of two tasks that were announced together goes on before the line is written.
func TestLogComesFirst(t *testing.T) {
	var count Tally
	l := &slowLog{begun: make(chan struct{}), end: make(chan struct{})}
	count.Announce(false, 2, []string{"a", "b"})
	var wg sync.WaitGroup
	log := func() {
		count.Log(l, "id", []string{"a"})
		assert.EqualValues(t, 1, l.lines.Load())
	}
	wg.Go(log)
	<-l.begun
	wg.Go(log)
	for range 1000 { // time for the second to go on, if it could
		runtime.Gosched()
	}
	close(l.end)
	wg.Wait()
}
