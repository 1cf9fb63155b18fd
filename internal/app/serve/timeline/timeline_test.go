package timeline

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var begun = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// job is a job with times in seconds after the beginning; an end of 0 means that it is at work.
func job(id string, queued, started, ended float64) Job {
	at := func(s float64) time.Time { return begun.Add(time.Duration(s * float64(time.Second))) }
	j := Job{ID: id, Label: id, Queued: at(queued), Started: at(started)}
	if ended > 0 {
		j.Ended = at(ended)
	}
	return j
}

// With a cap of two, c waits for a, and d for c.
func some() []Job {
	return []Job{job("a", 0, 0, 4), job("b", 0, 0, 9), job("c", 0, 4, 7), job("d", 0, 7, 10)}
}

func TestChain(t *testing.T) {
	now := begun.Add(time.Hour)
	assert.Equal(t, []string{"a", "c", "d"}, Chain(some(), now))
	assert.Equal(t, []string{"x"}, Chain([]Job{job("x", 0, 0, 1)}, now))
	assert.Empty(t, Chain(nil, now))
	same := []Job{job("a", 0, 1, 1), job("b", 0, 1, 1)} // it ends also where times say nothing
	assert.NotEmpty(t, Chain(same, now))
}

func TestWorking(t *testing.T) {
	now := begun.Add(10 * time.Second)
	l := Working(some(), 2, now)
	assert.Equal(t, 2, l.Peak, "the job that ends gives its slot first")
	assert.True(t, strings.HasPrefix(l.Area, "M200 104H200"), l.Area)
	assert.True(t, strings.HasSuffix(l.Area, "Z"), l.Area)

	// A job that waits for its children is not at work, and the agent of the root takes no slot.
	up, down, root := job("up", 0, 0, 10), job("down", 2, 3, 8), job("root", 0, 0, 10)
	down.Parent, root.Slotless = "up", true
	assert.Equal(t, 1, Working([]Job{root, up, down}, 1, now).Peak)
}

// A job that waits for a person, its children or its next attempt has no slot, as far as that is recorded. What is
// recorded is in whole milliseconds: a job that has got the slot of another one may seem to have begun before.
func TestPeakIsThatOfTheSlots(t *testing.T) {
	now := begun.Add(time.Hour)
	span := func(from, to float64) Span { s := job("", 0, from, to); return Span{s.Started, s.Ended} }
	asks, next := job("asks", 0, 0, 10), job("next", 0, 2, 8)
	assert.Equal(t, 2, Working([]Job{asks, next}, 1, now).Peak, "nobody knows that it waits")
	asks.Known, asks.Work = true, []Span{span(0, 2), span(7.999, 10)}
	next.Known, next.Work = true, []Span{span(1.999, 8)}
	assert.Equal(t, 1, Working([]Job{asks, next}, 1, now).Peak)
	cached := job("cached", 0, 3, 4)
	cached.Known = true
	assert.Equal(t, 1, Working([]Job{asks, next, cached}, 1, now).Peak, "it was not run")
	l := Lanes([]Job{asks, next}, 0, 9, now).Lanes[0]
	require.Len(t, l.Away, 1)
	assert.InDelta(t, 200+.2*790, l.Away[0].X, .2)
	assert.Equal(t, "asks, 6.0 s waiting without a slot, 4.0 s at work", l.Title)
}

// A drawing of very many jobs is small, and shows the peak also where it lasts no longer than a point.
func TestLoadOfManyJobsIsSmall(t *testing.T) {
	var jobs []Job
	for i := range 5000 {
		jobs = append(jobs, job("x", 0, float64(i)*.01, float64(i)*.01+.009))
	}
	jobs = append(jobs, job("peak", 0, 20.001, 20.002))
	l := Working(jobs, 0, begun.Add(time.Hour))
	assert.Equal(t, 2, l.Peak)
	assert.Less(t, strings.Count(l.Area, "H"), 800)
	assert.Equal(t, 1, strings.Count(l.Area, "V14V"), "the top")
}

func TestLanes(t *testing.T) {
	now := begun.Add(20 * time.Second)
	j := job("late", 0, 12, 0)
	j.Earlier = []Span{{begun.Add(10 * time.Second), begun.Add(11 * time.Second)}}
	j.Models = []Span{{begun.Add(12 * time.Second), begun.Add(15 * time.Second)}}
	d := Lanes([]Job{job("a", 0, 0, 5), j}, 1, 10, now)
	require.Len(t, d.Lanes, 1, "the first one is on the page before")
	l := d.Lanes[0]
	assert.InDelta(t, 200, l.Queue.X, .1)
	assert.InDelta(t, 395, l.Queue.Width, .1, "half of the time")
	assert.InDelta(t, 595, l.Bar.X, .1)
	assert.InDelta(t, 395, l.Bar.Width, .1, "until now")
	require.Len(t, l.Retries, 1)
	assert.InDelta(t, 674, l.Retries[0], .1)
	assert.Equal(t, "late, 10 s in the queue, 10 s at work, 3.0 s for the model, 2 attempts",
		strings.ReplaceAll(l.Title, " 3 s", " 3.0 s"))
	assert.Len(t, Lanes(some(), 0, 2, now).Lanes, 2)
	assert.Empty(t, Lanes(some(), 99, 2, now).Lanes)
	assert.Empty(t, Lanes(nil, 0, 2, now).Lanes)
}

func TestClock(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0", 350 * time.Millisecond: "350 ms",
		2500 * time.Millisecond: "2.5 s",
		12 * time.Second:        "12 s", 185 * time.Second: "3:05", 7800 * time.Second: "2:10:00"} {
		assert.Equal(t, want, Clock(d))
	}
}
