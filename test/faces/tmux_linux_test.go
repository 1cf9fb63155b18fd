package faces

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"qq/internal/standin"
)

// pane is a person at a tmux with a shell in it.
type pane struct {
	*world
	server string // its socket
}

// tmux starts a shell in a tmux of that size. Without tmux the test is skipped.
func (w *world) tmux(columns, rows int) *pane {
	w.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		w.Skip("tmux is not installed")
	}
	p := &pane{world: w, server: filepath.Join(w.TempDir(), "tmux")}
	w.Cleanup(func() { _ = p.command("kill-server").Run() })
	p.run("-f", os.DevNull, "new-session", "-d", "-x", fmt.Sprint(columns), "-y", fmt.Sprint(rows), "env", "PS1=> ",
		"bash", "--norc", "-i")
	return p
}

func (p *pane) command(args ...string) *exec.Cmd {
	cmd := exec.Command("tmux", append([]string{"-u", "-S", p.server}, args...)...)
	cmd.Dir, cmd.Env = p.dir, append(p.env, "LC_ALL=C.UTF-8")
	return cmd
}

func (p *pane) run(args ...string) string {
	p.Helper()
	out, err := p.command(args...).CombinedOutput()
	require.NoError(p, err, "%s", out)
	return string(out)
}

// rows returns what is on the screen.
func (p *pane) rows() []string {
	p.Helper()
	rows := strings.Split(strings.TrimRight(p.run("capture-pane", "-p"), "\n"), "\n")
	for i, row := range rows {
		rows[i] = strings.TrimRight(row, " ")
	}
	return rows
}

// until waits until the screen is as it should be.
func (p *pane) until(what string, is func(rows []string) bool) {
	p.Helper()
	end := time.Now().Add(10 * time.Second)
	for rows := p.rows(); !is(rows); rows = p.rows() {
		if time.Now().After(end) {
			p.Fatalf("%s: the screen is\n%s", what, strings.Join(rows, "\n"))
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (p *pane) shows(text string) {
	p.Helper()
	p.until("shows "+text, func(rows []string) bool { return strings.Contains(strings.Join(rows, "\n"), text) })
}

func (p *pane) resize(columns, rows int) {
	p.Helper()
	p.run("resize-window", "-x", fmt.Sprint(columns), "-y", fmt.Sprint(rows))
}

// whole reports whether the block is on the screen once: the line of text, the row where it goes on, and one row for each job.
func whole(rows []string, jobs int) bool {
	text := slices.Index(rows, "I hand this on.")
	if text < 0 || len(rows) != text+jobs+3 || !strings.Contains(rows[len(rows)-1], "at work") {
		return false
	}
	for i, row := range rows {
		if is := text+1 < i && i <= text+1+jobs; strings.HasPrefix(row, "● ") != is || !is && strings.Contains(row, "…") &&
			i < len(rows)-1 {
			return false
		}
	}
	return true
}

// TestTmuxResize: tmux breaks the rows of the block and joins them again when its size changes. After any series of
// changes the block is on the screen once, below the text, and what others have written is kept.
func TestTmuxResize(t *testing.T) {
	var tasks []map[string]string
	const jobs = 6
	for i := range jobs {
		word := []string{"one and two ", "漢字かな", "😀👩‍👩‍👧🇩🇪e\u0301 "}[i%3]
		tasks = append(tasks, map[string]string{"agent": "explorer", "task": "[[look]] " + strings.Repeat(word, 40)})
	}
	w := newWorld(t, standin.Script{Start: "[[hand on]]", Text: "I hand this on.\n" +
		call("run_parallel_tasks", map[string]any{"tasks": tasks})},
		standin.Script{Start: "[[look]]", Text: "done", Fault: &standin.Fault{BeforeFirst: time.Minute}})
	w.env = append(w.env, "QQ_MAX_PARALLEL=8")
	p := w.tmux(80, 24)
	p.run("send-keys", "clear; seq -f 'MARK %g.' 30; "+w.bin+" '[[hand on]]'", "Enter")
	is := func(what string) {
		t.Helper()
		p.until(what, func(rows []string) bool { return whole(rows, jobs) })
		time.Sleep(150 * time.Millisecond)
		p.until(what+", and later", func(rows []string) bool { return whole(rows, jobs) })
	}
	is("at the beginning")
	for _, size := range [][2]int{{33, 8}, {160, 24}, {80, 24}, {57, 16}, {81, 38}, {33, 8}, {80, 24}} {
		p.resize(size[0], size[1])
		time.Sleep(80 * time.Millisecond)
	}
	is("after large steps")
	for _, columns := range []int{60, 100, 50, 80, 30, 160, 80} {
		p.resize(columns, 24)
		is(fmt.Sprint(columns, " columns"))
	}
	for i := range 25 {
		p.resize(40+i*37%120, 22+i%4)
		time.Sleep(20 * time.Millisecond)
	}
	is("after a storm")
	for _, rows := range []int{21, 40, 24} {
		p.resize(80, rows)
		is(fmt.Sprint(rows, " rows"))
	}
	all := p.run("capture-pane", "-p", "-S", "-")
	for i := range 30 {
		require.Contains(t, all, fmt.Sprintf("MARK %d.", i+1), "what stood above is kept")
	}
}

// TestTmuxTop: after any series of resizes qq top fills the screen, and no row of it is there twice.
func TestTmuxTop(t *testing.T) {
	const jobs = 4
	w := newWorld(t, delegation(jobs, time.Minute)...)
	w.env = append(w.env, "QQ_MAX_PARALLEL=8")
	s := w.sit(80, 24, "[[hand on]]")
	s.shows(fmt.Sprint(jobs, " at work"))
	p := w.tmux(80, 24)
	p.run("send-keys", w.bin+" top", "Enter")
	is := func(columns, lines int) {
		t.Helper()
		p.until(fmt.Sprint(columns, " columns, ", lines, " lines"), func(rows []string) bool {
			at := 0
			for _, row := range rows {
				if strings.Contains(row, "● explorer") {
					at++
				}
			}
			all := strings.Join(rows, "\n")
			return len(rows) == lines && at == jobs && strings.HasPrefix(rows[0], "qq top") && strings.HasPrefix(
				rows[lines-1], "? keys") && strings.Count(all, "qq top") == 1 && strings.Count(all, "? keys") == 1
		})
	}
	is(80, 24)
	for _, columns := range []int{60, 100, 50, 80} {
		p.resize(columns, 24)
		is(columns, 24)
	}
	for i := range 15 {
		p.resize(40+i*37%120, 14+i%12)
		time.Sleep(20 * time.Millisecond)
	}
	p.resize(80, 24)
	is(80, 24)
	p.run("send-keys", "q")
	p.until("left", func(rows []string) bool { return rows[len(rows)-1] == ">" })
	s.press("\x03")
	s.wait()
}
