package ledger

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/record/ledger/alive"
	"qq/pkg/task"
)

// Whatever was promised by a root that is killed while it writes is there.
func TestKilledRootsLoseNothing(t *testing.T) {
	home := t.TempDir()
	claimed, finished := map[string]bool{}, map[string]bool{}
	const deaths = 20
	for i := range deaths {
		p := play(t, nil, "write", home, fmt.Sprintf("root%d", i), "1000000")
		moment := 2 * time.Millisecond // anywhere between two lines
		if i%4 == 0 {
			moment = 20 * time.Millisecond // or while it opens the ledger
		} else {
			for range 1 + rand.N(150) {
				p.note(p.line(t), claimed, finished)
			}
		}
		<-time.After(rand.N(moment))
		require.NoError(t, p.cmd.Process.Kill())
		lines, err := p.rest()
		require.Error(t, err)
		for _, line := range lines {
			p.note(line, claimed, finished)
		}
	}
	require.NotEmpty(t, finished)

	l := open(t, home)
	sound(t, l)
	runs, err := l.List(Filter{})
	require.NoError(t, err)
	status := map[string]task.Status{}
	for _, r := range runs {
		status[r.ID] = r.Status
		assert.False(t, r.Live)
	}
	for id := range claimed {
		assert.Contains(t, status, id, "a lost claim")
	}
	for id := range finished {
		past, err := l.Known("b", id, 0)
		require.NoError(t, err)
		require.True(t, past.Ended, "a lost result")
		assert.True(t, strings.HasPrefix(past.Result.Output, id))
		assert.Equal(t, task.Completed, status[id])
	}
	open := 0
	for id, s := range status {
		if s != task.Completed {
			assert.Equal(t, task.Interrupted, s, id)
			open++
		}
	}
	assert.LessOrEqual(t, open, deaths*4, "at most one for each hand")
	locks, err := l.roots.Left(".lock")
	require.NoError(t, err)
	assert.Empty(t, locks)
	modes(t, home)
}

func (p *player) note(line string, claimed, finished map[string]bool) {
	word, id, _ := strings.Cut(line, " ")
	switch word {
	case "claimed":
		claimed[id] = true
	case "finished":
		finished[id] = true
	default:
		panic(line)
	}
}

func TestTwoRootsWriteAtOnce(t *testing.T) {
	home := t.TempDir()
	const n = 1000
	var players []*player
	for _, name := range []string{"one", "two", "three"} {
		players = append(players, play(t, nil, "write", home, name, fmt.Sprint(n)))
	}
	for _, p := range players {
		lines, err := p.rest()
		require.NoError(t, err, lines[max(0, len(lines)-1):])
		assert.Len(t, lines, 2*n)
	}
	l := open(t, home)
	sound(t, l)
	runs, err := l.List(Filter{Status: []task.Status{task.Completed}})
	require.NoError(t, err)
	assert.Len(t, runs, 3*n)
	modes(t, home)
}

func TestLiveness(t *testing.T) {
	home := t.TempDir()
	p := play(t, nil, "hold", home, "r")
	require.Equal(t, "ready", p.line(t))
	l := open(t, home)
	look := func() Run {
		run, _, _, err := l.Show("run-r")
		require.NoError(t, err)
		return run
	}
	assert.Equal(t, task.Running, look().Status)
	assert.True(t, look().Live)
	live, err := l.List(Filter{Live: true})
	require.NoError(t, err)
	assert.Equal(t, []string{"run-r"}, ids(live))
	n, err := l.Clear(Filter{})
	require.NoError(t, err)
	assert.Zero(t, n, "what runs is left alone")

	require.NoError(t, p.cmd.Process.Kill())
	p.rest()
	assert.Equal(t, task.Interrupted, look().Status)
	assert.False(t, look().Live)
	live, err = l.List(Filter{Live: true})
	require.NoError(t, err)
	assert.Empty(t, live)
	dead, err := l.List(Filter{Status: []task.Status{task.Interrupted}})
	require.NoError(t, err)
	assert.Equal(t, []string{"run-r"}, ids(dead))
	_, _, err = l.Owner("run-r")
	require.ErrorIs(t, err, ErrEnded)
	n, err = l.Clear(Filter{})
	require.NoError(t, err)
	assert.Equal(t, 1, n)
	for _, table := range []string{"roots", "batches", "executions"} {
		var rows int
		require.NoError(t, l.db.QueryRow("SELECT count(*) FROM "+table).Scan(&rows))
		assert.Zero(t, rows, table)
	}
}

func TestTerminate(t *testing.T) {
	home := t.TempDir()
	for id, whole := range map[string]string{"run-r0": "run-r0", "batch-r1": "batch-r1", "r2": "r2", "n-r3": "run-r3"} {
		name := id[strings.LastIndex(id, "r"):]
		p := play(t, nil, "hold", home, name)
		require.Equal(t, "ready", p.line(t))
		l := open(t, home)
		found, r, err := l.Owner(id)
		require.NoError(t, err)
		assert.Equal(t, []any{whole, name, p.cmd.Process.Pid}, []any{found, r.ID, r.PID})
		require.NoError(t, l.Terminate(r))
		_, err = p.rest()
		require.Error(t, err)
		assert.Equal(t, syscall.SIGTERM, p.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal())
		_, _, err = l.Owner(id)
		require.ErrorIs(t, err, ErrEnded)
		require.ErrorIs(t, l.Terminate(r), alive.ErrEnded)
	}
	l := open(t, home)
	_, _, err := l.Owner("unknown")
	require.ErrorIs(t, err, ErrNone)
	_, _, err = l.Owner("run-")
	require.ErrorIs(t, err, ErrAmbiguous)
}

// Neither what has ended nor a process that happens to have the pid is signalled.
func TestTerminateSparesOthers(t *testing.T) {
	home := t.TempDir()
	p := play(t, nil, "hold", home, "r")
	require.Equal(t, "ready", p.line(t))
	l := open(t, home)
	require.NoError(t, l.Finish("run-r", done("", "")))
	_, _, err := l.Owner("run-r")
	require.ErrorIs(t, err, ErrEnded, "a run that has ended")

	_, err = l.db.Exec("UPDATE roots SET process = process || '0'")
	require.NoError(t, err)
	if alive.Identity(os.Getpid()) != "" {
		_, r, err := l.Owner("batch-r")
		require.NoError(t, err)
		require.ErrorIs(t, l.Terminate(r), alive.ErrEnded, "another process with the same pid")
	}
	require.NoError(t, p.stdin.Close())
	_, err = p.rest()
	require.NoError(t, err, "it ended by itself")
}

func TestPromptsGoThroughTheJournal(t *testing.T) {
	home := t.TempDir()
	killed, running, ended := play(t, nil, "prompt", home, "killed"), play(t, nil, "prompt", home, "running"),
		play(t, nil, "prompt", home, "ended")
	for _, p := range []*player{killed, running, ended} {
		require.Equal(t, "ready", p.line(t))
	}
	require.NoError(t, killed.cmd.Process.Kill())
	killed.rest()
	require.NoError(t, ended.stdin.Close())
	_, err := ended.rest()
	require.NoError(t, err)
	_, err = os.Stat(Path(home))
	require.ErrorIs(t, err, os.ErrNotExist, "no database for a prompt")

	look := func(want map[string]task.Status) {
		l, err := Open(home, Options{})
		require.NoError(t, err)
		runs, err := l.List(Filter{})
		require.NoError(t, err)
		got := map[string]task.Status{}
		for _, r := range runs {
			got[r.ID] = r.Status
		}
		assert.Equal(t, want, got)
		_, _, r, err := l.Show("run-ended")
		require.NoError(t, err)
		assert.Equal(t, "odd \xff\x00 bytes", r.Output)
		require.NoError(t, l.Close())
	}
	for range 2 { // taken in once
		look(map[string]task.Status{"run-killed": task.Interrupted, "run-running": task.Running,
			"run-ended": task.Completed})
		left, err := filepath.Glob(filepath.Join(home, "ledger", "*"+journalSuffix))
		require.NoError(t, err)
		assert.Equal(t, []string{filepath.Join(home, "ledger", "running"+journalSuffix)}, left)
	}
	require.NoError(t, running.stdin.Close())
	_, err = running.rest()
	require.NoError(t, err)
	look(map[string]task.Status{"run-killed": task.Interrupted, "run-running": task.Completed,
		"run-ended": task.Completed})
	left, err := os.ReadDir(filepath.Join(home, "ledger"))
	require.NoError(t, err)
	require.Len(t, left, 1)
	assert.Equal(t, "opening", left[0].Name())
	modes(t, home)
}
