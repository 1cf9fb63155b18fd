// Package timeline lays out when the jobs of a run waited and worked, as a drawing with one lane for each job, and how
// many were at work at once. It writes no SVG: that is a template of package page.
package timeline

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Span is a stretch of time.
type Span struct{ From, To time.Time }

// Job is one job of a run.
type Job struct {
	ID, Parent string
	Label      string
	Class      string // of its state
	Queued     time.Time
	Started    time.Time
	Ended      time.Time // zero if it is at work
	Earlier    []Span    // attempts before the last
	Models     []Span    // in which it waited for its model
	Slotless   bool      // it takes no slot: the root's own agent
	Known      bool      // Work is known
	Work       []Span    // when it had a slot
}

// Rect is a rectangle. Its height is that of all bars.
type Rect struct{ X, Y, Width float64 }

// Lane is one job of a drawing.
type Lane struct {
	Job
	Text    float64 // baseline of its label
	Queue   Rect
	Bar     Rect
	Away    []Rect    // without a slot
	Waits   []Rect    // for the model
	Retries []float64 // where an attempt began that was not the first
	Chain   bool      // it is a part of the longest chain
	Title   string    // all of it in words
}

// Tick is a mark of the axis.
type Tick struct {
	X    float64
	Text string
}

// Drawing is what is drawn.
type Drawing struct {
	Width, Height float64
	Left          float64 // where the time begins
	Ticks         []Tick
	Lanes         []Lane
}

// Load is a drawing of how many jobs were at work.
type Load struct {
	Width, Height float64
	Left          float64
	Ticks         []Tick
	Area          string // a path
	CapY          float64
	Cap, Peak     int // Cap is 0 if it is not known
	PeakY         float64
	Base          float64 // y of zero
}

const (
	width     = 1000.0
	left      = 200.0 // for labels
	lane      = 22.0
	barHeight = 12.0
	top       = 24.0
	loadTop   = 14.0
	loadArea  = 90.0
)

// BarHeight is the height of bars.
const BarHeight = barHeight

// scale maps times to the drawing.
type scale struct {
	from  time.Time
	whole time.Duration
}

func (s scale) x(t time.Time) float64 {
	if s.whole <= 0 {
		return left
	}
	part := float64(t.Sub(s.from)) / float64(s.whole)
	return left + min(1, max(0, part))*(width-left-10)
}

func (s scale) rect(from, to time.Time, y float64) Rect {
	a, b := s.x(from), s.x(to)
	return Rect{round(a), y, round(max(b-a, 1.5))}
}

func round(x float64) float64 { return float64(int(x*10+.5)) / 10 }

// over returns the scale of all jobs until now.
func over(jobs []Job, now time.Time) scale {
	var from, to time.Time
	for _, j := range jobs {
		begin := first(j)
		if from.IsZero() || begin.Before(from) {
			from = begin
		}
		if end := j.end(now); end.After(to) {
			to = end
		}
	}
	return scale{from, to.Sub(from)}
}

// first is when the job was accepted.
func first(j Job) time.Time {
	at := j.Queued
	if at.IsZero() || !j.Started.IsZero() && j.Started.Before(at) {
		at = j.Started
	}
	return at
}

func (j Job) end(now time.Time) time.Time {
	if j.Ended.IsZero() {
		return now
	}
	return j.Ended
}

// began is when its first attempt started.
func (j Job) began() time.Time {
	if len(j.Earlier) > 0 && j.Earlier[0].From.Before(j.Started) {
		return j.Earlier[0].From
	}
	return j.Started
}

// steps are the seconds between two marks of an axis.
var steps = []time.Duration{
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond,
	50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, time.Second,
	2 * time.Second, 5 * time.Second, 10 * time.Second, 20 * time.Second, 30 * time.Second, time.Minute,
	2 * time.Minute,
	5 * time.Minute, 10 * time.Minute, 20 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 6 * time.Hour,
	12 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour,
}

func (s scale) ticks() (ticks []Tick) {
	step := steps[len(steps)-1]
	for _, one := range steps {
		if s.whole/one <= 8 {
			step = one
			break
		}
	}
	for at := time.Duration(0); at <= s.whole && len(ticks) < 50; at += step {
		ticks = append(ticks, Tick{round(s.x(s.from.Add(at))), Clock(at)})
	}
	return ticks
}

// Clock returns a duration in short: 350 ms, 12 s, 3:05, 2:10:00.
func Clock(d time.Duration) string {
	switch {
	case d == 0:
		return "0"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second && d%time.Second != 0:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d:%02d", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%d:%02d:%02d", int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60)
}

// Lanes lays out the jobs from the number from on, at most count of them. The times are those of all jobs, and so is
// the longest chain.
func Lanes(jobs []Job, from, count int, now time.Time) Drawing {
	s := over(jobs, now)
	chain := map[string]bool{}
	for _, id := range Chain(jobs, now) {
		chain[id] = true
	}
	d := Drawing{Width: width, Left: left, Ticks: s.ticks()}
	from = min(max(from, 0), len(jobs))
	for i, j := range jobs[from:min(from+count, len(jobs))] {
		y := top + float64(i)*lane
		l := Lane{Job: j, Text: y + 10, Chain: chain[j.ID]}
		l.Queue = s.rect(first(j), j.began(), y)
		if j.began().Sub(first(j)) <= 0 {
			l.Queue.Width = 0
		}
		l.Bar = s.rect(j.began(), j.end(now), y)
		for i := 1; i < len(j.Work); i++ {
			l.Away = append(l.Away, s.rect(j.Work[i-1].To, j.Work[i].From, y))
		}
		for _, m := range j.Models {
			l.Waits = append(l.Waits, s.rect(m.From, m.To, y))
		}
		for n := range j.Earlier {
			next := j.Started
			if n+1 < len(j.Earlier) {
				next = j.Earlier[n+1].From
			}
			l.Retries = append(l.Retries, round(s.x(next)))
		}
		l.Title = j.words(now)
		d.Lanes = append(d.Lanes, l)
	}
	d.Height = top + float64(len(d.Lanes))*lane + 4
	return d
}

// words says what a lane shows.
func (j Job) words(now time.Time) string {
	parts := []string{j.Label}
	if q := j.began().Sub(first(j)); q > 0 {
		parts = append(parts, Clock(q)+" in the queue")
	}
	took := j.end(now).Sub(j.began())
	if j.Known {
		whole := took
		took = 0
		for _, w := range j.Work {
			took += w.To.Sub(w.From)
		}
		if away := whole - took; away >= 100*time.Millisecond {
			parts = append(parts, Clock(away)+" waiting without a slot")
		}
	}
	parts = append(parts, Clock(took)+" at work")
	var waits time.Duration
	for _, m := range j.Models {
		waits += m.To.Sub(m.From)
	}
	if waits > 0 {
		parts = append(parts, Clock(waits)+" for the model")
	}
	if n := len(j.Earlier); n > 0 {
		parts = append(parts, fmt.Sprintf("%d attempts", n+1))
	}
	return strings.Join(parts, ", ")
}

// slack is how late the end of a job may be recorded, after the next one has got its slot.
const (
	slack = 50 * time.Millisecond
	// atOnce is how long a job is in the queue that waits for nothing.
	atOnce = 2 * time.Millisecond
)

// Chain returns the longest chain of jobs, the first of them first: the job that ended last, the job whose end it was
// that let this one start, and so on. A job that never waited in the queue begins a chain.
func Chain(jobs []Job, now time.Time) (ids []string) {
	var work []*Job
	for i := range jobs {
		if j := &jobs[i]; !j.Slotless && !j.Started.IsZero() {
			work = append(work, j)
		}
	}
	if len(work) == 0 {
		return nil
	}
	slices.SortStableFunc(work, func(a, b *Job) int { return a.end(now).Compare(b.end(now)) })
	seen := map[string]bool{}
	for at := work[len(work)-1]; !seen[at.ID]; {
		seen[at.ID] = true
		ids = append(ids, at.ID)
		if at.began().Sub(first(*at)) <= atOnce {
			break
		}
		// The last one that had ended when this one began.
		n, _ := slices.BinarySearchFunc(work, at.began().Add(slack), func(j *Job, t time.Time) int {
			return cmp.Or(j.end(now).Compare(t), -1)
		})
		for n--; n >= 0 && (seen[work[n].ID] || work[n].ID == at.Parent); n-- {
		}
		if n < 0 || work[n].end(now).Before(first(*at)) {
			break
		}
		at = work[n]
	}
	slices.Reverse(ids)
	return ids
}

// Working lays out how many jobs were at work at once: how many had a slot. A job that waits for jobs that it has
// started, for a person or for its next attempt is not at work. limit is the cap; 0 means that it is not known.
func Working(jobs []Job, limit int, now time.Time) Load {
	s := over(jobs, now)
	changes := workChanges(jobs, now)
	l := Load{Width: width, Left: left, Ticks: s.ticks(), Cap: limit, Base: loadTop + loadArea}
	n := 0
	for _, c := range changes {
		n += c.by
		l.Peak = max(l.Peak, n)
	}
	high := max(l.Peak, limit, 1)
	y := func(n int) float64 { return round(l.Base - float64(n)/float64(high)*loadArea) }
	l.CapY, l.PeakY = y(limit), y(l.Peak)
	var path strings.Builder // one step for each point of the width, with the most that were at work there
	fmt.Fprintf(&path, "M%g %g", left, l.Base)
	n = 0
	for i := 0; i < len(changes); {
		x := int(s.x(changes[i].at))
		high := 0
		for ; i < len(changes) && int(s.x(changes[i].at)) == x; i++ {
			n += changes[i].by
			high = max(high, n)
		}
		fmt.Fprintf(&path, "H%dV%g", x, y(high))
		if n < high {
			fmt.Fprintf(&path, "V%g", y(n))
		}
	}
	fmt.Fprintf(&path, "V%gZ", l.Base)
	l.Area = path.String()
	l.Height = l.Base + 20
	return l
}

// change is a moment at which by more jobs were at work.
type change struct {
	at time.Time
	by int
}

// rounded is by how much a recorded time may be before the true one, so that a job that has got the slot of another one
// is not at work together with it.
const rounded = 3 * time.Millisecond

// workChanges are all changes, in their order. Of a job of which nobody knows when it had its slot, it is the time from
// its start to its end without that in which jobs that it has started were there.
func workChanges(jobs []Job, now time.Time) []change {
	below := map[string][]Span{}
	for _, j := range jobs {
		if j.Parent != "" {
			below[j.Parent] = append(below[j.Parent], Span{first(j), j.end(now)})
		}
	}
	var all []change
	for _, j := range jobs {
		if j.Slotless || j.Started.IsZero() {
			continue
		}
		for _, w := range j.Work {
			if from := w.From.Add(rounded); from.Before(w.To) {
				all = append(all, change{from, 1}, change{w.To, -1})
			}
		}
		if j.Known {
			continue
		}
		from, end := j.began(), j.end(now)
		away := below[j.ID]
		slices.SortFunc(away, func(a, b Span) int { return a.From.Compare(b.From) })
		for _, a := range away { // the time between them
			if a.From.After(from) && a.From.Before(end) {
				all = append(all, change{from, 1}, change{a.From, -1})
			}
			if a.To.After(from) {
				from = a.To
			}
		}
		if from.Before(end) {
			all = append(all, change{from, 1}, change{end, -1})
		}
	}
	// At the same moment, the one that ends gives its slot first.
	slices.SortStableFunc(all, func(a, b change) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.by, b.by)) })
	return all
}
