package app

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/task"
)

// apartSeeds is how many seeds TestApartKilled tries. Without it, these are as many as fit into some time.
const apartSeeds = "APART_SEEDS"

// edits is the script of a writer. To run it again changes nothing.
func edits(seed, writer int) string {
	r := rand.New(rand.NewPCG(uint64(seed), uint64(writer)))
	var lines []string
	for range 1 + r.IntN(3) {
		n := r.IntN(1000)
		switch r.IntN(5) {
		case 0, 1, 2:
			lines = append(lines, fmt.Sprintf("sed -i '%ds/.*/by %d/' text%d", 1+n%13*3, writer, n%4))
		case 3:
			lines = append(lines, fmt.Sprintf("mkdir -p made/%d; echo %d > made/%d/%d", n%3, writer, n%3, writer))
		case 4:
			lines = append(lines, fmt.Sprintf("rm -f victim%d", n%20))
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// begin makes the tree of the writers.
func (w *world) begin(dir string) {
	require.NoError(w.t, os.MkdirAll(dir, 0o700))
	for i := range 4 {
		var b strings.Builder
		for line := range 40 {
			fmt.Fprintf(&b, "text %d line %d\n", i, line)
		}
		require.NoError(w.t, os.WriteFile(filepath.Join(dir, "text"+strconv.Itoa(i)), []byte(b.String()), 0o600))
	}
	for i := range 20 {
		require.NoError(w.t, os.WriteFile(filepath.Join(dir, "victim"+strconv.Itoa(i)), []byte("v\n"), 0o600))
	}
}

// TestApartKilled: many tasks edit one repository at once, and the qq that runs them is killed at random moments and
// continued. At the end, the tree is that of a serial run of the completed tasks in input order; each other one is in
// conflict and has its patch. Between, each file is as before or as after one task. Nothing is left.
func TestApartKilled(t *testing.T) {
	const writers, least, enough = 50, 2, 12 * time.Second
	seeds, err := strconv.Atoi(os.Getenv(apartSeeds))
	start := time.Now()
	if testing.Short() {
		start = start.Add(-enough)
	}
	conflicts, kills, seed := 0, 0, 0
	for ; seed < seeds || err != nil && (seed < least || time.Since(start) < enough); seed++ {
		mode := []string{"overlay", "worktree", "overlay", "overlay"}[seed%4]
		if !t.Run(fmt.Sprintf("seed%d-%s", seed, mode), func(t *testing.T) {
			c, k := killedWriters(t, seed, writers, mode)
			conflicts, kills = conflicts+c, kills+k
		}) {
			break
		}
	}
	t.Logf("%d seeds, %d kills, %d conflicts", seed, kills, conflicts)
}

func killedWriters(t *testing.T, seed, writers int, mode string) (conflicts, kills int) {
	w := newTree(t)
	w.begin(w.dir)
	w.sh("git add -A; git commit -qm texts")
	before := w.gitState()
	var tasks []map[string]any
	for i := range writers {
		tasks = append(tasks, map[string]any{"task": commandTask(edits(seed, i)), "idempotent": true})
	}
	file, out := w.tasksFile(tasks...), filepath.Join(w.home, "out.json")
	r := rand.New(rand.NewPCG(uint64(seed), 1<<40))
	args := []string{"batch", "-a", "coder", "--isolate", mode, "-j", "8", "--no-bar", "--output-format", "json",
		"-o", out, file}
	for round := 0; ; round++ {
		cmd := w.command(args...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		var said strings.Builder
		cmd.Stderr = &said
		require.NoError(t, cmd.Start())
		if round < 4 {
			after := time.Duration(r.IntN(60*writers)) * time.Millisecond
			timer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
			defer timer.Stop()
		}
		_ = cmd.Wait()
		if round == 0 {
			args = append(args, "--resume")
		}
		if cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled() {
			kills++
			assert.Equal(t, before, w.gitState())
			continue
		}
		if strings.Contains(said.String(), "another qq writes its results there") && round < 20 {
			<-time.After(100 * time.Millisecond) // a process that the killed one was starting has its files
			continue
		}
		require.Contains(t, []int{0, 4}, cmd.ProcessState.ExitCode(), said.String())
		break
	}
	// One that was killed before it had locked its folder: the next one removes that.
	left, err := filepath.Glob(filepath.Join(w.home, "qq", "run", ".new-*"))
	require.NoError(t, err)
	assert.Empty(t, left)
	text, err := os.ReadFile(out)
	require.NoError(t, err)
	var results []task.Result
	require.NoError(t, json.Unmarshal(text, &results))
	require.Len(t, results, writers)
	serial := &world{t: t, dir: filepath.Join(w.home, "serial"), env: w.env}
	serial.begin(serial.dir)
	for i, res := range results {
		switch res.Status {
		case task.Completed:
			serial.sh("cd .\n" + edits(seed, i))
		case task.Conflict:
			conflicts++
			_, patch, _ := strings.Cut(res.Err(), " --reject ")
			assert.FileExists(t, patch)
		default:
			assert.Fail(t, "status", "%d: %s: %s", i, res.Status, res.Err())
		}
	}
	const list = "find . -name .git -prune -o -name .gitignore -o -path ./src -prune -o -path ./out -prune -o " +
		"-name untracked -o -type f -print | sort | xargs sha256sum"
	assert.Equal(t, serial.sh(list), w.sh(list))
	assert.Equal(t, before, w.gitState())
	w.noCopies()
	return conflicts, kills
}
