package limits

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

func TestClock(t *testing.T) {
	type step = func(*Clock)
	const s = time.Second
	pass := func(d time.Duration) step { return func(*Clock) { <-time.After(d) } }
	giveBack := func(d time.Duration) step { return func(c *Clock) { c.GiveBack(d) } }
	pause, resume, reset, end := (*Clock).Pause, (*Clock).Resume, (*Clock).Reset, (*Clock).End
	for name, c := range map[string]struct {
		steps []step
		want  time.Duration // 0 is never
	}{
		"goes":                   {nil, 10 * s},
		"pauses":                 {[]step{pass(4 * s), pause, pass(100 * s), resume}, 110 * s},
		"pauses for ever":        {[]step{pass(4 * s), pause}, 0},
		"pauses twice":           {[]step{pause, pause, pass(60 * s), resume, pass(60 * s), resume}, 130 * s},
		"pauses in time":         {[]step{pass(10*s - 1), pause, pass(60 * s), resume}, 70 * s},
		"resets":                 {[]step{pass(9 * s), reset, pass(9 * s), reset}, 28 * s},
		"resets while it pauses": {[]step{pass(9 * s), pause, reset, pass(s), resume}, 20 * s},
		"ends":                   {[]step{pass(s), end}, 0},
		"ends while it pauses":   {[]step{pause, end, resume}, 0},
		"gives back":             {[]step{pass(9 * s), giveBack(3 * s)}, 13 * s},
		"gives back too much":    {[]step{pass(9 * s), giveBack(time.Hour)}, 19 * s},
		"gives back less than 0": {[]step{pass(9 * s), giveBack(-time.Hour)}, 10 * s},
		// It ran in 4 of these 5 seconds.
		"gives back as it pauses": {[]step{pass(9 * s), pause, pass(s), giveBack(5 * s), resume}, 15 * s},
		"paused meanwhile": {
			[]step{pass(4 * s), pause, pass(2 * s), resume, pass(3 * s), giveBack(6 * s)}, 16 * s,
		},
		"gives back twice":      {[]step{pass(9 * s), giveBack(3 * s), giveBack(3 * s)}, 13 * s},
		"gives back more of it": {[]step{pass(9 * s), giveBack(3 * s), giveBack(5 * s)}, 15 * s},
		"gives back some again": {[]step{pass(6 * s), giveBack(3 * s), pass(2 * s), giveBack(4 * s)}, 15 * s},
		"gives back two stretches": {
			[]step{pass(6 * s), giveBack(2 * s), pass(s), giveBack(s), pass(s), giveBack(8 * s)}, 18 * s,
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			start, after := time.Now(), time.Duration(0)
			clock := NewClock(10*s, func() { after += time.Since(start) })
			clock.Resume()
			for _, step := range c.steps {
				step(clock)
			}
			<-time.After(time.Hour)
			synctest.Wait()
			assert.Equal(t, c.want, after, name)
		})
	}
}

// However it runs, pauses and gives back, each second counts once or not at all.
func TestClockBySeconds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.IntRange(-6, 6), 1, 60).Draw(rt, "steps")
		synctest.Test(t, func(t *testing.T) {
			c := NewClock(0, nil)
			c.Resume()
			var counts []bool // each second since the beginning
			for _, n := range steps {
				switch {
				case n > 0: // n seconds pass
					<-time.After(time.Duration(n) * time.Second)
					counts = append(counts, slices.Repeat([]bool{!c.Paused()}, n)...)
				case n == 0 && c.Paused():
					c.Resume()
				case n == 0:
					c.Pause()
				default: // the last -2n seconds are given back
					given := min(-2*n, len(counts))
					assert.Equal(rt, time.Duration(given)*time.Second, c.GiveBack(time.Duration(-2*n)*time.Second))
					clear(counts[len(counts)-given:])
				}
				used := 0
				for _, yes := range counts {
					if yes {
						used++
					}
				}
				left, _ := c.Left()
				assert.Equal(rt, -time.Duration(used)*time.Second, left)
			}
		})
	})
}

func TestClockWithoutBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewClock(0, func() { assert.Fail(t, "it has no end") })
		assert.True(t, c.Paused())
		c.Resume()
		<-time.After(time.Hour)
		assert.False(t, c.Paused())
		assert.Equal(t, time.Minute, c.GiveBack(time.Minute))
		c.Pause()
		c.Resume()
		left, bounded := c.Left()
		assert.False(t, bounded)
		assert.Equal(t, -59*time.Minute, left)
	})
}
