package app

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/childproc"
	"qq/pkg/task"
)

// killSeeds is how many seeds TestCompletedMeansWritten tries for each mode; it tries one without it.
const killSeeds = "KILL_SEEDS"

// children are the processes of w that are agents. Their commands are none of them: they do not get this variable.
func (w *world) children() (agents []int, commands []int) {
	w.t.Helper()
	for _, pid := range w.processes() {
		environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		switch {
		case bytes.Contains(environ, []byte("\x00"+childproc.ControlVar+"=")):
			agents = append(agents, pid)
		case strings.HasSuffix(exe, "sh"):
			commands = append(commands, pid)
		}
	}
	return agents, commands
}

// TestCompletedMeansWritten: processes of agents are killed at random moments, and never a command. What a task wrote
// is there if it is completed, in place and in copies.
func TestCompletedMeansWritten(t *testing.T) {
	seeds, err := strconv.Atoi(os.Getenv(killSeeds))
	if err != nil {
		seeds = 1
	}
	for _, mode := range []string{"", "overlay", "worktree"} {
		for seed := range seeds {
			t.Run(fmt.Sprintf("%s-seed%d", mode, seed), func(t *testing.T) { killAgents(t, mode, seed) })
		}
	}
}

func killAgents(t *testing.T, mode string, seed int) {
	const writers = 30
	w := newTree(t)
	w.begin(w.dir)
	w.sh("git add -A; git commit -qm texts")
	var tasks []map[string]any
	for i := range writers {
		file := fmt.Sprint("text", i%4)
		one := map[string]any{"task": commandTask(fmt.Sprintf("sleep 0.%d; echo %d > made%d; sed -i '%ds/.*/by %d/' %s",
			1+i%3, i, i, 1+i/4*3, i, file))}
		if mode == "" {
			one["targets"] = []string{file, fmt.Sprint("made", i)}
		}
		tasks = append(tasks, one)
	}
	args := []string{"batch", "-a", "coder", "-j", "6", "--no-bar", "--json", w.tasksFile(tasks...)}
	if mode != "" {
		args = append(args, "--isolate", mode)
	}
	p := w.start(args...)
	var kills atomic.Int64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		r := rand.New(rand.NewPCG(uint64(seed), 1<<41))
		for kills.Load() < writers/2 {
			select {
			case <-stop:
				return
			case <-time.After(time.Duration(20+r.IntN(200)) * time.Millisecond):
			}
			if agents, _ := w.children(); len(agents) > 0 {
				if syscall.Kill(agents[r.IntN(len(agents))], syscall.SIGKILL) == nil {
					kills.Add(1)
				}
			}
		}
	}()
	_ = p.Wait()
	close(stop)
	<-stopped
	e := p.end()
	counts := map[task.Status]int{}
	results := e.results(t)
	require.Len(t, results, writers)
	for i, r := range results {
		counts[r.Status]++
		if r.Status == task.Completed {
			assert.Equal(t, fmt.Sprintln(i), w.content(fmt.Sprint("made", i)), "%d: %s", i, r.Output)
			assert.Contains(t, w.content(fmt.Sprint("text", i%4)), fmt.Sprintf("by %d\n", i), "%d: %s", i, r.Output)
			assert.Contains(t, r.Output, "exit code 0", "%d", i)
		} else {
			assert.Contains(t, []task.Status{task.Killed, task.UnknownOutcome}, r.Status, "%d: %s", i, r.Err())
		}
		if mode != "" && r.Status != task.Completed {
			assert.NoFileExists(t, filepath.Join(w.dir, fmt.Sprint("made", i)), "%d: %s", i, r.Status)
		}
	}
	assert.Positive(t, kills.Load())
	assert.Positive(t, counts[task.Completed])
	t.Logf("%d kills, %v", kills.Load(), counts)
}

// TestKilledCommandIsTold: if somebody kills the shell of a command, the agent reads that a signal ended it.
func TestKilledCommandIsTold(t *testing.T) {
	for _, mode := range []string{"", "overlay", "worktree"} {
		w := newTree(t)
		args := []string{"batch", "-a", "coder", "--no-bar", "--json",
			w.tasksFile(map[string]any{"task": commandTask("sleep 30; echo late > late")})}
		if mode != "" {
			args = append(args, "--isolate", mode)
		}
		p := w.start(args...)
		w.until(func() bool {
			_, commands := w.children()
			for _, pid := range commands {
				text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
				if bytes.Contains(text, []byte("echo late")) && syscall.Kill(pid, syscall.SIGKILL) == nil {
					return true
				}
			}
			return false
		})
		r := p.end().results(t)
		require.Len(t, r, 1)
		assert.Contains(t, r[0].Output, "killed by signal SIGKILL", "%s: %s", mode, r[0].Err())
		assert.NoFileExists(t, filepath.Join(w.dir, "late"))
	}
}
