package output

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/app/columns"
	"qq/pkg/task"
)

// TestBatchLine: a narrow terminal shows the first parts whole, and a wide one the text of the oldest task.
func TestBatchLine(t *testing.T) {
	s := standing{done: 23, total: 50, failed: 2, worked: 23, atWork: 3, age: 48 * time.Second,
		elapsed: 72 * time.Second,
		oldest:  "Summarize pkgs/net-http.txt in one sentence, and say why 日本語\nmatters \x1b[2J"}
	for most, want := range map[int]string{
		200: "23/50 done, 2 failed, 3 at work · 1m 12s, 19.2/min, 1m 25s left · " +
			"oldest: 48 s Summarize pkgs/net-http.txt in one sentence, and say why 日本語 matters [2J",
		120: "23/50 done, 2 failed, 3 at work · 1m 12s, 19.2/min, 1m 25s left · " +
			"oldest: 48 s Summarize pkgs/net-http.txt in one sente…",
		79: "23/50 done, 2 failed, 3 at work · 1m 12s, 19.2/min, 1m 25s left · oldest: 48 s",
		77: "23/50 done, 2 failed, 3 at work · 1m 12s, 19.2/min · oldest: 48 s",
		55: "23/50 done, 2 failed, 3 at work · 1m 12s · oldest: 48 s",
		54: "23/50 done, 2 failed · 1m 12s · oldest: 48 s",
		39: "23/50 done, 2 failed · 1m 12s",
		22: "23/50 done, 2 failed",
		15: "23/50 done",
		3:  "",
	} {
		got := s.line(most)
		assert.Equal(t, want, got, most)
		assert.LessOrEqual(t, columns.Of(got), most)
	}
	early := standing{done: 1, total: 3, worked: 1, atWork: 2, age: 12 * time.Second, elapsed: 12 * time.Second}
	assert.Equal(t, "1/3 done · 12 s · oldest: 12 s", early.line(37), "rather than a rate")
	s.cancelled = 1
	assert.Equal(t, "23/50 done, 2 failed, 1 cancelled, 3 at work · 1m 12s, 19.2/min, 1m 25s left · oldest: 48 s",
		s.line(99))
	early.held, early.hold, early.atWork, early.done, early.worked = 2, "notes waits for cli", 1, 0, 0
	for most, want := range map[int]string{
		80: "0/3 done, 1 at work, 2 wait · 12 s · notes waits for cli · oldest: 12 s",
		56: "0/3 done, 1 at work, 2 wait · 12 s · notes waits for cli",
		37: "0/3 done, 1 at work, 2 wait · 12 s",
	} {
		assert.Equal(t, want, early.line(most))
	}
}

// TestColumnsFor: the ^C that a terminal echoes after the line has room, so that it does not wrap.
func TestColumnsFor(t *testing.T) {
	out, _ := newOutput(t)
	assert.Equal(t, usualWidth-len("^C")-1, columnsFor(out))
}

// TestFit: no line is wider than the terminal, whatever characters it has.
func TestFit(t *testing.T) {
	wide := strings.Repeat("漢字", 100)
	for most := range 100 {
		got := fit(most, part{text: "head"}, part{before: " · ", text: wide, rank: 2, least: 10},
			part{before: " · ", text: "12 s", rank: 1}, part{before: " · ", text: "tail", rank: 3})
		assert.LessOrEqual(t, columns.Of(got), most)
		assert.Equal(t, most >= 11, strings.HasSuffix(strings.TrimSuffix(got, " · tail"), " · 12 s"), got)
		assert.Equal(t, most >= 24, strings.Contains(got, "漢"), got)
		assert.Equal(t, most >= 31, strings.HasSuffix(got, "tail"), got)
	}
	assert.Equal(t, "a, b", fit(10, part{text: "a"}, part{before: "; "}, part{before: ", ", text: "b", rank: 5}))
}

func TestClock(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0 s", 999 * time.Millisecond: "0 s", 48 * time.Second: "48 s", 72 * time.Second: "1m 12s",
		3*time.Hour + 5*time.Minute: "3h 05m", 49 * time.Hour: "2d 01h",
	} {
		assert.Equal(t, want, Clock(d), d)
	}
	assert.Equal(t, "1 s", Left(200*time.Millisecond))
	assert.Equal(t, "0 s", Left(0))
	assert.Equal(t, "1m 00s", Left(59500*time.Millisecond))
}

func TestTokensSoFar(t *testing.T) {
	for n, want := range map[int]string{
		0: "", 999: "999 tokens", 1000: "1.0k tokens", 3141: "3.1k tokens", 31415: "31.4k tokens",
		3_141_592: "3.1M tokens",
	} {
		assert.Equal(t, want, tokensSoFar(task.Usage{InputTokens: n}), n)
	}
}

// TestDelayCounts: tasks that start far apart take at least that time, however fast they are.
func TestDelayCounts(t *testing.T) {
	s := standing{done: 1, total: 8, worked: 1, atWork: 1, elapsed: 4 * time.Second, delay: time.Hour}
	assert.Equal(t, "1/8 done, 1 at work · 4 s, 15.0/min, 6h 00m left", s.line(200))
	s.delay = time.Second
	assert.Equal(t, "1/8 done, 1 at work · 4 s, 15.0/min, 28 s left", s.line(200), "the slower of both counts")
}

// TestHeadFits: the line above a result fits the terminal.
func TestHeadFits(t *testing.T) {
	var out strings.Builder
	r := NewResults(Text, &out)
	r.Heads, r.Width = true, 40
	require.NoError(t, r.Write(strings.Repeat("word ", 30), "", results()[0]))
	head, _, _ := strings.Cut(out.String(), "\n")
	assert.Equal(t, 39, columns.Of(head), head)
}
