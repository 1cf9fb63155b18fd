package faces

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
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
	"qq/pkg/task"
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
	return w, w.begin(children, args...)
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

// busy is a world with a batch of which that many tasks are at work, of that many. Their agents call a tool
// after each pause, again and again or, if ends is set, once.
func busy(t *testing.T, children, tasks int, pause time.Duration, ends bool) (w *world, end func()) {
	slow := &standin.Fault{BeforeFirst: pause}
	next := "[[look]]"
	if ends {
		next = "[[then]]"
	}
	w = newWorld(t,
		standin.Script{Start: "[[look]]", Fault: slow,
			Text: "I look. " + call("list_files", map[string]string{"pattern": next})},
		standin.Script{Start: "[[then]]", Fault: slow, Text: "It is done."})
	w.env = append(w.env, fmt.Sprint("QQ_MAX_PARALLEL=", children))
	args := []string{"batch", "-j", fmt.Sprint(children), "-a", "explorer", "-m", "[[look]] at {}, 漢字", ":::"}
	for i := range tasks {
		args = append(args, fmt.Sprint("part", i))
	}
	return w, w.begin(children, args...)
}

// begin starts a batch and waits until that many tasks are at work.
func (w *world) begin(children int, args ...string) (end func()) {
	w.Helper()
	end = w.background(args...)
	for until := time.Now().Add(60 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if snap, found := w.snapshot(); found && snap.AtWork == children {
			return end
		}
		require.Less(w, time.Now(), until, "the children have not started")
	}
}

// TestTopEqualsSnapshot: at 100 random moments, at widths of 20 to 200 and through resizes, what qq top shows of a run is
// what its root says, while its jobs call tools, end and start.
func TestTopEqualsSnapshot(t *testing.T) {
	w, end := busy(t, 12, 2000, 3*time.Second, true)
	s := w.sit(80, 40, "top", "--until-end")
	s.shows("slowest")
	seen := map[string]bool{}
	for range 100 {
		if rand.IntN(3) == 0 {
			s.resize(20+rand.IntN(181), 34+rand.IntN(30))
		}
		time.Sleep(time.Duration(rand.IntN(400)) * time.Millisecond)
		seen[s.equalsTree()] = true
	}
	t.Logf("%d different moments", len(seen))
	assert.Greater(t, len(seen), 10, "the jobs have changed")
	s.press("\x1b[B\x1b[D") // Down is passed over the line of the slowest task
	end()
	assert.Zero(t, s.wait(), "it ends with the run")
	assert.Contains(t, s.text(), "run ")
	assert.False(t, s.screen.IsAltScreen())
	assert.False(t, s.screen.CursorHidden())
}

// wideHead is how wide a screen must be for all that the rows above the jobs tell.
const wideHead = 70

// headOf returns what the rows above and below the jobs of a batch must tell.
func headOf(snap control.Snapshot) []string {
	b, working := snap.Batch, 0
	first := -1
	for i, j := range snap.Jobs {
		if j.State == task.Queued {
			continue
		}
		working++
		if first < 0 || j.Started.Before(snap.Jobs[first].Started) {
			first = i
		}
	}
	if first < 0 {
		return nil
	}
	queued := fmt.Sprintf("%d queued", b.Total-b.Done-working)
	return []string{fmt.Sprintf("1 run, %d at work, %s\n", working, queued),
		fmt.Sprintf(" %d/%d done", b.Done-b.Cancelled, b.Total), "slowest: N s " + snap.Jobs[first].Task, "\n" + queued}
}

// equalsTree waits until the screen is that of a snapshot, and returns it.
func (s *seat) equalsTree() string {
	s.Helper()
	var want, got []string
	text := ""
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		snap, found := s.snapshot()
		require.True(s, found)
		s.mu.Lock()
		width := s.screen.Width()
		want, got = treeOf(snap, width), nil
		rows := still(s.screen.Rows())
		s.mu.Unlock()
		for _, row := range rows {
			if r, _ := utf8.DecodeRuneInString(row); strings.ContainsRune("●◦✓✗", r) {
				got = append(got, row)
			}
		}
		text = strings.Join(rows, "\n")
		head := headOf(snap)
		if width < wideHead {
			head = nil
		}
		missing := slices.ContainsFunc(head, func(part string) bool { return !strings.Contains(text, part) })
		if len(got) >= 10 && slices.Equal(got, want) && !missing {
			return text
		}
		want = append(want, head...)
	}
	require.Equal(s, want, got, text)
	return ""
}

// TestTopCost: with 200 children at work that call a tool about once a second, qq top writes at most 20 kB a second to the
// terminal and takes at most two hundredths of a processor.
func TestTopCost(t *testing.T) {
	w, end := busy(t, 200, 250, time.Second, false)
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

// TestRunCost: the terminal of a batch with 200 tasks at work gets at most 20 kB a second.
func TestRunCost(t *testing.T) {
	w := newWorld(t,
		standin.Script{Start: "[[look]]", Fault: &standin.Fault{BeforeFirst: time.Second},
			Text: "I look. " + call("list_files", map[string]string{"pattern": "[[look]]"})})
	w.env = append(w.env, "QQ_MAX_PARALLEL=200")
	args := []string{"batch", "-j", "200", "-a", "explorer", "-m", "[[look]] at {}, 漢字", ":::"}
	for i := range 250 {
		args = append(args, fmt.Sprint("part", i))
	}
	s := w.sit(200, 60, args...)
	s.shows("200 at work")
	time.Sleep(2 * time.Second)
	s.cost(8*time.Second, 20_000, 4) // it is the root: most of what it computes is not for the screen
	s.press("\x03")
	s.wait()
}

// TestTopSteers: the keys of qq top: a row is closed and opened, a transcript shown, a job cancelled and sent a message, a
// run paused and ended.
func TestTopSteers(t *testing.T) {
	w, _ := live(t, 4)
	s := w.sit(100, 40, "top")
	snap, found := w.snapshot()
	require.True(t, found)
	s.matches(`› ▾ batch ` + snap.Batch.ID[len(snap.Batch.ID)-8:] + ` .* 0/54 done`)
	s.press(left)
	s.matches(`› ▸ batch`)
	s.gone("part0,")
	s.press(right)
	s.shows("part0,")
	s.press(down)
	s.matches(`(?m)^› +● explorer .*part0,`)
	s.press(enter)
	s.shows("transcript of explorer")
	s.matches(`│ \[\[look\]\] at part0, 漢字`)
	s.press("q")
	s.shows("at work")
	s.press("mHello\r")
	s.shows("sent to explorer")
	s.press("x")
	s.shows("told explorer")
	s.matches(`✗ explorer  cancelled`)
	s.press("p")
	s.shows("paused: no further job starts")
	s.matches(`batch .*paused, `)
	s.press("p")
	s.shows("jobs start again")
	s.press("?")
	s.shows("send it a message")
	s.press("?\x1b[H")
	s.press("x")
	s.shows("x again ends the whole run")
	s.press("x")
	s.matches(`batch .*(ended|terminated)`)
	s.press("q")
	assert.Zero(t, s.wait())
	assert.False(t, s.screen.IsAltScreen())
}

// TestTopKilled: a run that is stopped does not hinder qq top, which goes on with it afterwards, while tasks end. Of one
// that was killed it says so.
func TestTopKilled(t *testing.T) {
	w, _ := busy(t, 3, 2000, 500*time.Millisecond, true)
	snap, found := w.snapshot()
	require.True(t, found)
	s := w.sit(140, 40, "top")
	done := regexp.MustCompile(`batch .* (\d+)/2000 done`)
	count := func() int {
		row := done.FindStringSubmatch(s.text())
		if row == nil {
			return -1
		}
		n, err := strconv.Atoi(row[1])
		require.NoError(t, err)
		return n
	}
	s.matches(`batch .*/2000 done`)
	require.NoError(t, syscall.Kill(snap.Root.PID, syscall.SIGSTOP))
	s.matches(`batch .*the root does not reply`)
	require.NoError(t, syscall.Kill(snap.Root.PID, syscall.SIGCONT))
	require.Eventually(t, func() bool { return count() >= 0 }, 20*time.Second, 20*time.Millisecond)
	for range 2 { // the first time it may be the count of the moment
		before := count()
		require.Eventually(t, func() bool { return count() > before }, 20*time.Second, 20*time.Millisecond)
	}
	require.NoError(t, syscall.Kill(snap.Root.PID, syscall.SIGKILL))
	s.matches(`batch .*killed`)
	s.press("\x03")
	assert.Zero(t, s.wait())
}

// TestTopPlain: with NO_COLOR no row has a style.
func TestTopPlain(t *testing.T) {
	w, _ := live(t, 2)
	w.env = append(w.env, "NO_COLOR=1")
	s := w.sit(80, 24, "top")
	s.shows("slowest")
	s.press(down + "q")
	assert.Zero(t, s.wait())
	assert.NotRegexp(t, "\x1b\\[[0-9;]*m", string(s.all))
}

// TestWatchBatch: a batch is found by its id and by that of its root. Without a terminal the last line says how it ended,
// and the exit code is that of a batch of which tasks are left.
func TestWatchBatch(t *testing.T) {
	w, end := live(t, 2)
	snap, found := w.snapshot()
	require.True(t, found)
	id := snap.Batch.ID[len(snap.Batch.ID)-8:]
	watching := func(id string) (*exec.Cmd, *bytes.Buffer) {
		cmd := exec.CommandContext(t.Context(), w.bin, "runs", "watch", id)
		cmd.Dir, cmd.Env = w.dir, w.env
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &said
		require.NoError(t, cmd.Start())
		return cmd, &said
	}
	one, oneSaid := watching(id)
	other, otherSaid := watching(snap.Root.ExecutionID)
	s := w.sit(80, 20, "runs", "watch", id)
	s.matches(`^qq runs watch  `)
	s.matches(`batch ` + id + ` .* 0/52 done`)
	s.matches(`(?m)^ +50 queued`)
	s.matches(`\? keys  q leave `)
	time.Sleep(500 * time.Millisecond) // both listen
	end()
	assert.Equal(t, 4, s.wait())
	for cmd, said := range map[*exec.Cmd]*bytes.Buffer{one: oneSaid, other: otherSaid} {
		assert.Error(t, cmd.Wait())
		assert.Equal(t, 4, cmd.ProcessState.ExitCode(), said.String())
		assert.Regexp(t, "run "+id+` ended: 0 completed.*\n$`, said.String())
	}
}

// TestWatch: a run is shown until it ends; without a terminal each thing that happens is a line.
func TestWatch(t *testing.T) {
	w := newWorld(t, delegation(3, 1500*time.Millisecond)...)
	w.env = append(w.env, "QQ_MAX_PARALLEL=2")
	w.background("[[hand on]]")
	var snap control.Snapshot
	require.Eventually(t, func() (found bool) {
		snap, found = w.snapshot()
		return found && len(snap.Jobs) > 2
	}, 20*time.Second, 20*time.Millisecond)
	short := snap.Root.ExecutionID[len(snap.Root.ExecutionID)-8:]
	lines := exec.CommandContext(t.Context(), w.bin, "runs", "watch", short)
	lines.Dir, lines.Env = w.dir, w.env
	var said bytes.Buffer
	lines.Stdout = &said
	require.NoError(t, lines.Start())
	s := w.sit(100, 30, "runs", "watch", snap.Jobs[1].ExecutionID)
	s.matches(`(?m)^› +● explorer .*part 0`)
	assert.Zero(t, s.wait(), "it ends with the run")
	assert.Contains(t, s.text(), "run "+short+" completed")
	require.NoError(t, lines.Wait())
	assert.Regexp(t, `^\[default `+short+`\] at work for [0-9.]+ ?s, .*: \[\[hand on\]\]\n`, said.String())
	assert.Regexp(t, `(?m)^  \[explorer [0-9a-f]{8}\] at work for [0-9.]+ ?s, waits for .* at part 0`, said.String())
	assert.Regexp(t, `(?m)^  \[explorer [0-9a-f]{8}\] done in `, said.String())
	assert.Contains(t, said.String(), "run "+short+" completed\n")
	out, err := exec.CommandContext(t.Context(), w.bin, "runs", "watch", "ffffffff").CombinedOutput()
	assert.Error(t, err)
	assert.Contains(t, string(out), "no run at work has this id")
	out, err = exec.CommandContext(t.Context(), w.bin, "top").CombinedOutput()
	assert.Error(t, err)
	assert.Contains(t, string(out), "needs a terminal")
}

// TestTopEnded: the tokens of a run that has ended are those of its record.
func TestTopEnded(t *testing.T) {
	w := newWorld(t, delegation(2, 700*time.Millisecond)...)
	s := w.sit(100, 30, "top")
	s.shows("no run is at work")
	w.background("[[hand on]]")
	s.matches(`▾ .*completed`)
	row := regexp.MustCompile(`completed.* (\S+k?)\s*\n`).FindStringSubmatch(s.text())
	require.NotNil(t, row, s.text())
	cmd := exec.CommandContext(t.Context(), w.bin, "runs", "list")
	cmd.Dir, cmd.Env = w.dir, w.env
	out, err := cmd.Output()
	require.NoError(t, err)
	recorded := regexp.MustCompile(`completed +default +\S+ +(\d+)`).FindStringSubmatch(string(out))
	require.NotNil(t, recorded, string(out))
	tokens, err := strconv.Atoi(recorded[1])
	require.NoError(t, err)
	assert.Equal(t, fmt.Sprintf("%.1fk", float64(tokens)/1000), row[1])
	s.press("q")
	assert.Zero(t, s.wait())
}
