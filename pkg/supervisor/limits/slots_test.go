package limits

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

// TestResize: more slots go to those who wait at once; with fewer, nobody loses one, and none is given until enough
// came back.
func TestResize(t *testing.T) {
	s := NewSlots(1)
	first, second, third := s.Join(false, 0), s.Join(false, 0), s.Join(false, 0)
	assert.Equal(t, []bool{true, false, false}, granted(first, second, third))
	s.Resize(2)
	assert.Equal(t, []bool{true, true, false}, granted(first, second, third))
	s.Resize(0) // at least 1
	s.Release()
	assert.Equal(t, []bool{true, true, false}, granted(first, second, third))
	s.Release()
	assert.Equal(t, []bool{true, true, true}, granted(first, second, third))
	all, taken, _ := s.State()
	assert.Equal(t, []int{1, 1}, []int{all, taken})
}

// TestPause: nothing starts, but who has lent a slot takes it back.
func TestPause(t *testing.T) {
	s := NewSlots(2)
	s.Pause(true)
	assert.False(t, s.Try())
	next, back := s.Join(false, 3), s.Join(true, 0)
	assert.Equal(t, []bool{false, true}, granted(next, back))
	s.Release()
	assert.Equal(t, []bool{false}, granted(next))
	_, _, paused := s.State()
	assert.True(t, paused)
	s.Pause(false)
	assert.Equal(t, []bool{true}, granted(next))
}

func granted(turns ...*Turn) (is []bool) {
	for _, w := range turns {
		select {
		case <-w.granted:
			is = append(is, true)
		default:
			is = append(is, false)
		}
	}
	return is
}

// TestSlotsAtRandom: whatever happens, no slot is lost, none is given beyond the cap, and none is free while somebody
// may have it.
func TestSlotsAtRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 4).Draw(t, "slots")
		s, paused, held := NewSlots(most), false, 0
		var waiting []*Turn
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			over := held > most
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0, 1:
				waiting = append(waiting, s.Join(rapid.Bool().Draw(t, "resume"), rapid.IntRange(0, 3).Draw(t, "depth")))
			case 2:
				if held > 0 {
					held--
					s.Release()
				}
			case 3:
				most = rapid.IntRange(1, 4).Draw(t, "resize")
				s.Resize(most)
			case 4:
				paused = !paused
				s.Pause(paused)
			case 5:
				if s.Try() {
					assert.False(t, paused)
					held++
				}
			}
			given, rest := 0, waiting[:0]
			for _, w := range waiting {
				if granted(w)[0] {
					given++
				} else {
					rest = append(rest, w)
				}
			}
			waiting, held = rest, held+given
			assert.False(t, held > most && given > 0 && over, "given beyond the cap")
			_, taken, _ := s.State()
			assert.Equal(t, held, taken)
			for _, w := range waiting {
				assert.False(t, held < most && (w.resume || !paused), "a slot is free for one who waits")
			}
		}
	})
}
