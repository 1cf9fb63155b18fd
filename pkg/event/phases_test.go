package event

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// heard keeps the phases that a sink gets.
type heard struct{ phases []string }

func (h *heard) Handle(e Event) {
	h.phases = append(h.phases, fmt.Sprintf("%s %d/%d %s", e.Phase, e.Done, e.Total, e.Text))
}

func (h *heard) take() []string {
	got := h.phases
	h.phases = nil
	return got
}

// TestWait: after a wait comes what the agent does, also where it has begun meanwhile.
func TestWait(t *testing.T) {
	h := &heard{}
	p := &Phases{Stream: NewStream("", h)}
	p.Wait("for a", 0, func() {})
	assert.Equal(t, []string{"waiting 0/0 for a"}, h.take(), "nothing was told before")
	p.Tell(PhaseTools, "", 0, 2)
	p.Wait("for a", 0, func() {
		p.Wait("for b", 0, func() { p.Tell(PhaseDelegating, "", 1, 2) })
		p.Emit(Event{Text: "no phase"})
	})
	assert.Equal(t, []string{
		"tools 0/2 ", "waiting 0/0 for a", "waiting 0/0 for b", "delegating 1/2 ", "waiting 0/0 for b",
		"waiting 0/0 for a", " 0/0 no phase", "delegating 1/2 ",
	}, h.take())
	p.Wait("for a", 0, p.End)
	p.Tell(PhaseModel, "", 1, 2)
	assert.Equal(t, []string{"waiting 0/0 for a"}, h.take(), "the agent has ended")
}

// TestQuietWait: a wait is told when it lasts, never after its end, and what comes after it only if it was told.
func TestQuietWait(t *testing.T) {
	for range 100 { // the end of the wait and its being told come at the same time
		synctest.Test(t, func(t *testing.T) {
			h := &heard{}
			p := &Phases{Stream: NewStream("", h)}
			p.Tell(PhaseModel, "", 1, 2)
			p.Wait("for a", time.Second, func() { time.Sleep(time.Second) })
			p.Tell(PhaseTools, "", 0, 1)
			time.Sleep(time.Hour)
			got := h.take()
			if len(got) > 2 {
				assert.Equal(t, []string{"model 1/2 ", "waiting 0/0 for a", "model 1/2 ", "tools 0/1 "}, got)
				return
			}
			assert.Equal(t, []string{"model 1/2 ", "tools 0/1 "}, got)
		})
	}
}
