package supervisor

import (
	"slices"
	"sync"
	"time"
)

// clock counts time that somebody uses, and says when it is used up. It can
// stand still. It is a timer and no goroutine, and that timer is not touched by
// what happens often: when it rings too early, it is set again.
type clock struct {
	allowed time.Duration // 0 is without bound
	out     func()        // called once, when the time is used up

	mu       sync.Mutex
	used     time.Duration // until since
	since    time.Time     // when it went on last
	began    time.Time     // when it went on first
	went     []stretch     // of the time used, before since; the last ones, in order
	standing int           // reasons to stand still
	over     bool
	timer    *time.Timer // nil before the first goOn, and without bound
}

// stretch is a time in which a clock went and that was not given back.
type stretch struct{ from, to time.Time }

// mostStretches bounds what is remembered: what is given back is not long ago.
const mostStretches = 256

// newClock returns a clock that stands still until goOn.
func newClock(allowed time.Duration, out func()) *clock {
	return &clock{allowed: allowed, out: out, standing: 1}
}

// ring looks whether the time is used up.
func (c *clock) ring() {
	c.mu.Lock()
	if c.over || c.standing > 0 { // who lets it go on sets the timer
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
func (c *clock) spent() time.Duration {
	if c.standing > 0 {
		return c.used
	}
	return c.used + time.Since(c.since)
}

// stand holds the clock until goOn. When several do, it stands until the last of
// them is over.
func (c *clock) stand() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.standing++; c.standing > 1 {
		return
	}
	now := time.Now()
	c.used += now.Sub(c.since)
	c.remember(now)
}

// remember files the time since the clock went on last. The clock is locked.
func (c *clock) remember(now time.Time) {
	n := len(c.went)
	switch {
	case !now.After(c.since):
		return
	case n > 0 && c.went[n-1].to.Equal(c.since):
		c.went[n-1].to = now
		return
	case n == mostStretches:
		c.went = slices.Delete(c.went, 0, 1)
	}
	c.went = append(c.went, stretch{c.since, now})
}

// goOn ends one stand.
func (c *clock) goOn() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.standing--; c.standing > 0 {
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

// stands reports whether something holds the clock.
func (c *clock) stands() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.standing > 0
}

// spare gives back the time used in the last d, whatever of it was not given back
// before. It returns d, or the age of the clock when that is less.
func (c *clock) spare(d time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	d = min(max(d, 0), now.Sub(c.began))
	if c.standing == 0 {
		c.used += now.Sub(c.since)
		c.remember(now)
		c.since = now
	}
	from := now.Add(-d)
	for len(c.went) > 0 {
		last := &c.went[len(c.went)-1]
		if !last.to.After(from) {
			break
		}
		if last.from.Before(from) {
			c.used -= last.to.Sub(from)
			last.to = from
			break
		}
		c.used -= last.to.Sub(last.from)
		c.went = c.went[:len(c.went)-1]
	}
	return d
}

// anew forgets the time used.
func (c *clock) anew() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used, c.since, c.went = 0, time.Now(), nil
}

// left is the time that is not used yet; false says that there is no bound.
func (c *clock) left() (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.allowed - c.spent(), c.allowed > 0
}

// end makes the clock silent.
func (c *clock) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	if c.timer != nil {
		c.timer.Stop()
	}
}
