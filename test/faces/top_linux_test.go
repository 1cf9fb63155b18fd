package faces

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/app/joblines"
	"qq/internal/control"
	"qq/internal/standin"
)

// background starts qq without a terminal. It is ended with the test.
func (w *world) background(args ...string) (end func()) {
	w.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, w.bin, args...)
	cmd.Dir, cmd.Env = w.dir, w.env
	var said bytes.Buffer
	cmd.Stderr = &said
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	require.NoError(w, cmd.Start())
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	end = func() {
		cancel()
		<-ended
	}
	w.Cleanup(func() {
		end()
		if w.Failed() {
			w.Logf("qq %q: %s", args, said.String())
		}
	})
	return end
}

// live is a world with a batch of which that many tasks are at work for long.
func live(t *testing.T, children int) (w *world, end func()) {
	w = newWorld(t,
		standin.Script{Start: "[[look]]", Fault: &standin.Fault{BeforeFirst: 2 * time.Second},
			Text: "I look. " + call("list_files", map[string]string{"pattern": "[[then]]"})},
		standin.Script{Start: "[[then]]", Fault: &standin.Fault{BeforeFirst: time.Minute}, Text: "done"})
	w.env = append(w.env, fmt.Sprint("QQ_MAX_PARALLEL=", children))
	args := []string{"batch", "-j", fmt.Sprint(children), "-a", "explorer", "-m", "[[look]] at {}, 漢字", ":::"}
	for i := range children + 50 {
		args = append(args, fmt.Sprint("part", i))
	}
	end = w.background(args...)
	for until := time.Now().Add(60 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if snap, found := w.snapshot(); found && snap.AtWork == children {
			return w, end
		}
		require.Less(t, time.Now(), until, "the children have not started")
	}
}

// treeOf returns the rows of the jobs that qq top should show.
func treeOf(snap control.Snapshot, columns int) []string {
	lines, _ := joblines.Tree(snap.Jobs, snap.Ended, nil, time.Now(), columns-3)
	var rows []string
	for _, l := range lines {
		rows = append(rows, l.Text)
	}
	return still(rows)
}

// TestTopEqualsSnapshot: at 100 random moments, at widths of 20 to 200 and through resizes, what qq top shows of a run is
// what its root says.
func TestTopEqualsSnapshot(t *testing.T) {
	w, end := live(t, 20)
	s := w.sit(80, 40, "top", "--until-end")
	s.shows("slowest")
	for range 100 {
		if rand.IntN(3) == 0 {
			s.resize(20+rand.IntN(181), 34+rand.IntN(30))
		}
		time.Sleep(time.Duration(rand.IntN(50)) * time.Millisecond)
		s.equalsTree()
	}
	s.press("\x1b[B\x1b[D") // Down is passed over the line of the slowest task
	end()
	assert.Zero(t, s.wait(), "it ends with the run")
	assert.Contains(t, s.text(), "run ")
	assert.False(t, s.screen.IsAltScreen())
	assert.False(t, s.screen.CursorHidden())
}

// equalsTree waits until the rows of the jobs are those of a snapshot.
func (s *seat) equalsTree() {
	s.Helper()
	var want, got []string
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		snap, found := s.snapshot()
		require.True(s, found)
		s.mu.Lock()
		want, got = treeOf(snap, s.screen.Width()), nil
		rows := s.screen.Rows()
		s.mu.Unlock()
		for _, row := range still(rows) {
			if r, _ := utf8.DecodeRuneInString(row); strings.ContainsRune("●◦✓✗", r) {
				got = append(got, row)
			}
		}
		if n := len(got); n >= 10 && n <= len(want) && slices.Equal(got, want[:n]) {
			return
		}
	}
	require.Equal(s, want, got)
}

// TestTopCost: with 200 children at work, qq top writes at most 20 kB a second to the terminal and takes at most two
// hundredths of a processor.
func TestTopCost(t *testing.T) {
	w, end := live(t, 200)
	defer end()
	s := w.sit(200, 60, "top")
	s.shows("slowest")
	time.Sleep(2 * time.Second) // it has started, and the children too
	s.cost(10*time.Second, 20_000, 0.02)
	s.press("q")
	assert.Zero(t, s.wait())
}

// cost looks how many bytes the process writes and how long it computes.
func (s *seat) cost(during time.Duration, most int64, share float64) {
	s.Helper()
	bytes := func() int64 {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.written
	}
	start, before, busy := time.Now(), bytes(), s.busy()
	time.Sleep(during)
	took := time.Since(start).Seconds()
	rate, used := float64(bytes()-before)/took, (s.busy()-busy).Seconds()/took
	s.Logf("%.0f bytes a second, %.4f of a processor", rate, used)
	assert.LessOrEqual(s, rate, float64(most), "bytes a second")
	assert.LessOrEqual(s, used, share, "of a processor")
}
