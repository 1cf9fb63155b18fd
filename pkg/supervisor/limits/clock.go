package limits

import (
	"slices"
	"sync"
	"time"
)

// Clock counts the time that a job uses, and says when it is used up. It can be paused.
// It has a timer and no goroutine. Reset, which is called often, does not touch the
// timer: when that rings too early, it is set again.
type Clock struct {
	allowed time.Duration // 0 means no limit
	out     func()        // called once, when the time is used up

	mu     sync.Mutex
	used   time.Duration // until since
	since  time.Time     // when it was resumed last
	began  time.Time     // when it was resumed first
	ran    []stretch     // of the time used, before since; the last ones, in order
	pauses int           // under way
	over   bool
	timer  *time.Timer // nil before the first resume, and without bound
}

// stretch is a time in which a clock ran and that was not given back.
type stretch struct{ from, to time.Time }

// mostStretches bounds what is remembered: what is given back is not long ago.
const mostStretches = 256

// NewClock returns a clock that is paused until Resume. It calls out once, in a goroutine
// of its own, when the time allowed is used up; 0 means no limit.
func NewClock(allowed time.Duration, out func()) *Clock {
	return &Clock{allowed: allowed, out: out, pauses: 1}
}

// ring looks whether the time is used up.
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

// spent is the time used until now. The clock is locked.
func (c *Clock) spent() time.Duration {
	if c.pauses > 0 {
		return c.used
	}
	return c.used + time.Since(c.since)
}

// Pause stops the clock until Resume. After several calls, it runs again when each of
// them was resumed.
func (c *Clock) Pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pauses++; c.pauses > 1 {
		return
	}
	now := time.Now()
	c.used += now.Sub(c.since)
	c.remember(now)
}

// remember files the time since the clock was resumed last. The clock is locked.
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

// Resume ends one pause.
func (c *Clock) Resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pauses--; c.pauses > 0 {
		return
	}
	c.since = time.Now()
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
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pauses > 0
}

// GiveBack gives back the time used in the last d, unless it was given back before. It
// returns d, or the age of the clock when that is less.
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

// Reset forgets the time used.
func (c *Clock) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used, c.since, c.ran = 0, time.Now(), nil
}

// Left is the time that is not used yet; false means that there is no limit.
func (c *Clock) Left() (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.allowed - c.spent(), c.allowed > 0
}

// End stops the clock for good: it does not call out any more.
func (c *Clock) End() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	if c.timer != nil {
		c.timer.Stop()
	}
}
