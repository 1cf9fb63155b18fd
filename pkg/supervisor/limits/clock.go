package limits

import (
	"slices"
	"sync"
	"time"
)

// Clock measures the time that a job uses, and calls a function when the time allowed is used up.
// It can be paused. It has a timer but no goroutine. Reset is called often, so it does not touch
// the timer: a timer that fires too early is set again.
type Clock struct {
	allowed time.Duration // 0 means no limit
	out     func()        // called once, when the time is used up

	mu     sync.Mutex
	used   time.Duration // time used before since
	since  time.Time     // when the clock was last resumed, reset or given time back
	began  time.Time     // when the clock was first resumed
	ran    []stretch     // the last periods, in order, whose time is in used
	pauses int           // calls of Pause without a Resume yet; at 0 the clock runs
	turned time.Time     // when it was last paused or resumed
	over   bool
	timer  *time.Timer // nil before the first Resume, and without a limit
}

// stretch is a period in which a clock ran and which was not given back.
type stretch struct{ from, to time.Time }

// mostStretches is how many periods a clock remembers. Older ones are not needed, because only
// recent time is given back.
const mostStretches = 256

// NewClock returns a clock that is paused; Resume starts it. When the time allowed is used up, the
// clock calls out once, in a goroutine of its own. If allowed is 0, there is no limit.
func NewClock(allowed time.Duration, out func()) *Clock {
	return &Clock{allowed: allowed, out: out, pauses: 1}
}

// ring is called by the timer. It calls out if the time is used up, and sets the timer again if
// not.
func (c *Clock) ring() {
	c.mu.Lock()
	if c.over || c.pauses > 0 { // Resume sets the timer
		c.mu.Unlock()
		return
	}
	if left := c.allowed - c.spent(); left > 0 {
		c.timer.Reset(left)
		c.mu.Unlock()
		return
	}
	c.over = true
	c.mu.Unlock()
	c.out()
}

// spent returns the time used until now. The caller holds the lock.
func (c *Clock) spent() time.Duration {
	if c.pauses > 0 {
		return c.used
	}
	return c.used + time.Since(c.since)
}

// Pause stops the clock until Resume. Each Pause needs a Resume of its own before the clock runs
// again.
func (c *Clock) Pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pauses++; c.pauses > 1 {
		return
	}
	c.turned = time.Now()
	c.used += c.turned.Sub(c.since)
	c.remember(c.turned)
}

// remember adds the time since the clock was last resumed to the periods in which it ran. The
// caller holds the lock.
func (c *Clock) remember(now time.Time) {
	n := len(c.ran)
	switch {
	case !now.After(c.since):
		return
	case n > 0 && c.ran[n-1].to.Equal(c.since):
		c.ran[n-1].to = now
		return
	case n == mostStretches:
		c.ran = slices.Delete(c.ran, 0, 1)
	}
	c.ran = append(c.ran, stretch{c.since, now})
}

// Resume ends one Pause. The clock runs if no other Pause is left.
func (c *Clock) Resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pauses--; c.pauses > 0 {
		return
	}
	c.since = time.Now()
	c.turned = c.since
	if c.began.IsZero() {
		c.began = c.since
	}
	switch left := c.allowed - c.used; {
	case c.allowed == 0 || c.over:
	case c.timer == nil:
		c.timer = time.AfterFunc(left, c.ring)
	default:
		c.timer.Reset(left)
	}
}

// Paused reports whether the clock is paused.
func (c *Clock) Paused() bool {
	paused, _ := c.Turned()
	return paused
}

// Turned returns whether the clock is paused, and since when that is so. The time is zero if the
// clock never ran.
func (c *Clock) Turned() (paused bool, since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pauses > 0, c.turned
}

// GiveBack changes the clock as if it had been paused for the last d: the time used in that period
// counts no more. Time that was given back before is not given back again. GiveBack returns d, or
// the time since the first Resume if that is shorter.
func (c *Clock) GiveBack(d time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	d = min(max(d, 0), now.Sub(c.began))
	if c.pauses == 0 {
		c.used += now.Sub(c.since)
		c.remember(now)
		c.since = now
	}
	from := now.Add(-d)
	for len(c.ran) > 0 {
		last := &c.ran[len(c.ran)-1]
		if !last.to.After(from) {
			break
		}
		if last.from.Before(from) {
			c.used -= last.to.Sub(from)
			last.to = from
			break
		}
		c.used -= last.to.Sub(last.from)
		c.ran = c.ran[:len(c.ran)-1]
	}
	return d
}

// Reset sets the time used to 0.
func (c *Clock) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used, c.since, c.ran = 0, time.Now(), nil
}

// Left returns the time that is left. false means that there is no limit; the time is then
// meaningless.
func (c *Clock) Left() (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.allowed - c.spent(), c.allowed > 0
}

// End stops the clock for good. It does not call out any more.
func (c *Clock) End() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	if c.timer != nil {
		c.timer.Stop()
	}
}
