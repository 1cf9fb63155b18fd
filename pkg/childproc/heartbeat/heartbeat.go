// Package heartbeat decides when a child reports to the root that it is active.
package heartbeat

import (
	"sync/atomic"
	"time"
)

// How often a child reports activity: several times within its idle time, and not at all if it ends
// soon.
const (
	firstSign   = 250 * time.Millisecond
	fastestBeat = 10 * time.Millisecond
	slowestBeat = 5 * time.Second
	beatsInIdle = 20
)

// Never is a time that does not come.
const Never = time.Duration(1 << 62)

// Heartbeat decides when the child reports to the root that it is active. It has no timer: each
// call of Active asks it. Its times are nanoseconds since began.
type Heartbeat struct {
	began time.Time
	lead  time.Duration // before the first beat
	every time.Duration
	next  atomic.Int64
}

// Begin starts the heartbeat of a child that may be inactive for idleMS milliseconds. With 0 there
// is no such limit and the heartbeat never asks for a report. It must be called before any other
// method.
func (h *Heartbeat) Begin(idleMS int64) {
	h.began, h.lead, h.every = time.Now(), firstSign, Never
	h.next.Store(int64(Never))
	if idleMS > 0 {
		ms := min(idleMS/beatsInIdle, slowestBeat.Milliseconds())
		h.every = max(time.Duration(ms)*time.Millisecond, fastestBeat)
		h.lead = min(firstSign, h.every)
		h.next.Store(int64(h.lead))
	}
}

// Lead returns how long before the first report.
func (h *Heartbeat) Lead() time.Duration { return h.lead }

// Now returns the time since Begin, in nanoseconds.
func (h *Heartbeat) Now() int64 { return int64(time.Since(h.began)) }

// Due reports whether the child must report activity now. If several goroutines call it at the same
// time, only one of them gets true.
func (h *Heartbeat) Due(now int64) bool {
	next := h.next.Load()
	return now >= next && h.next.CompareAndSwap(next, now+int64(h.every))
}

// Skip delays the next report by a full interval. It is called when the child reports activity for
// another reason.
func (h *Heartbeat) Skip(now int64) { h.next.Store(now + int64(h.every)) }
