package supervisor

import (
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
	standing int           // reasons to stand still
	over     bool
	timer    *time.Timer // nil before the first goOn, and without bound
}

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
	c.used = c.spent()
	c.standing++
}

// goOn ends one stand.
func (c *clock) goOn() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.standing--; c.standing > 0 {
		return
	}
	c.since = time.Now()
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

// spare takes back up to d of the time used, and returns how much that was.
func (c *clock) spare(d time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	spent := c.spent()
	d = min(max(d, 0), spent)
	c.used, c.since = spent-d, time.Now()
	return d
}

// anew forgets the time used.
func (c *clock) anew() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used, c.since = 0, time.Now()
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
