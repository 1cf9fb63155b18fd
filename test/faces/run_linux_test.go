package faces

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/app/joblines"
	"qq/internal/control"
	"qq/internal/standin"
)

// answer is what the agent of the root says at its end.
const answer = "The answer, line one.\nThe answer, line two with 漢字 and é.\nThe answer ends.\n"

// delegation is a prompt whose agent hands tasks on. Their agents call tools, and take their time.
func delegation(tasks int, pause time.Duration) []standin.Script {
	var all []map[string]string
	for i := range tasks {
		all = append(all, map[string]string{"agent": "explorer", "task": fmt.Sprintf("[[look]] at part %d, 漢字", i)})
	}
	slow := &standin.Fault{BeforeFirst: pause}
	return []standin.Script{
		{Start: "[[hand on]]", Text: "I hand this on.\n" + call("run_parallel_tasks", map[string]any{"tasks": all})},
		{Start: "[[look]]", Text: "I look. " + call("grep_file", map[string]string{"pattern": "foo", "path": "[[then]]"}),
			Fault: slow},
		{Start: "[[then]]", Text: "It is done. [[end]]", Fault: slow},
		{Start: "[[end]]", Text: answer},
	}
}

var (
	times    = regexp.MustCompile(`\b(\d+ s|\d+m \d+s)\b`)
	spelling = regexp.MustCompile(` +`)
)

// still returns lines without what changes from second to second.
func still(lines []string) []string {
	lines = slices.Clone(lines)
	for i, l := range lines {
		lines[i] = strings.TrimSpace(spelling.ReplaceAllString(times.ReplaceAllString(l, "N s"), " "))
	}
	return lines
}

// blockOf returns the lines of the jobs that the screen of a run should show.
func blockOf(snap control.Snapshot, columns, rows int) []string {
	b := joblines.Of(snap.Jobs, snap.Ended, joblines.View{Now: time.Now(), Width: columns - 3, Most: rows/3 - 1})
	var lines []string
	for _, l := range b.Lines {
		lines = append(lines, l.Text)
	}
	return append(lines, b.Count.String())
}

// TestRunEqualsSnapshot: at 100 random moments, at widths of 20 to 200 and through resizes, the block below the answer of
// a run is what the root says of its jobs.
func TestRunEqualsSnapshot(t *testing.T) {
	w := newWorld(t, delegation(10, 6*time.Second)...)
	w.env = append(w.env, "QQ_MAX_PARALLEL=4")
	moments := 100
	for moments > 0 {
		s := w.sit(80, 36, "[[hand on]]")
		s.until("a block", func(text string) bool { return strings.Contains(text, "at work") })
		for moments > 0 {
			if rand.IntN(4) == 0 {
				s.resize(20+rand.IntN(181), 30+rand.IntN(30))
			}
			time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond)
			if !s.equals() {
				break // the run has ended
			}
			moments--
		}
		if moments == 0 {
			s.press("\x03")
		}
		s.wait()
	}
}

// equals waits until the screen equals a snapshot. It returns false if no job is at work any more.
func (s *seat) equals() bool {
	s.Helper()
	var want, got []string
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		snap, found := s.snapshot()
		if !found || len(snap.Jobs) < 2 {
			return false
		}
		s.mu.Lock()
		columns, rows := s.screen.Width(), s.screen.Height()
		got = still(s.screen.Below())
		s.mu.Unlock()
		want = still(blockOf(snap, columns, rows))
		if len(got) == len(want) && slices.Equal(got[:len(got)-1], want[:len(want)-1]) &&
			strings.HasPrefix(got[len(got)-1], strings.TrimSuffix(want[len(want)-1][:min(len(want[len(want)-1]), 8)], "…")) {
			return true
		}
	}
	require.Equal(s, want, got)
	return true
}

// TestRunText: what the agent of the root says is whole, whatever block was below it.
func TestRunText(t *testing.T) {
	w := newWorld(t, delegation(6, 700*time.Millisecond)...)
	for _, columns := range []int{40, 80} {
		s := w.sit(columns, 24, "[[hand on]]")
		assert.Zero(t, s.wait())
		s.mu.Lock()
		want := NewScreen(columns, 24)
		want.Print("I hand this on.\n" + answer)
		assert.Equal(t, want.Rows(), s.screen.Rows())
		assert.Equal(t, want.CursorPosition(), s.screen.CursorPosition())
		assert.Contains(t, string(s.all), "●", "there was a block")
		s.mu.Unlock()
	}
}
