package scenario

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// endureHome is QQ_HOME of a world.
func endureHome(w *world) string { return filepath.Join(w.dir, "qq") }

// TestLedgerOfGarbage: what is no ledger is not touched; that is said before
// anything is asked, and --no-ledger goes on without.
func TestLedgerOfGarbage(t *testing.T) {
	m := endurePlay(t, endureLead)
	w := newWorld(t, m.addr, played)
	path := filepath.Join(endureHome(w), "ledger.db")
	garbage := strings.Repeat("this is no database\n", 500)
	require.NoError(t, os.WriteFile(path, []byte(garbage), 0o600))
	tasks := w.file("tasks.txt", "a\n")
	for _, args := range [][]string{
		{"batch", "--no-bar", tasks}, {"batch", "--no-bar", "--resume", tasks}, {"runs"}, {"runs", "clear", "--all"},
	} {
		e := w.qq(args...)
		assert.NotZero(t, e.code, "exit code of %q", args)
		assert.Empty(t, e.stdout)
		assert.Contains(t, e.stderr, "ledger.db is damaged", "%q", args)
		lines := strings.Split(strings.TrimSpace(e.stderr), "\n")
		if assert.Len(t, lines, 2, "%q", args) {
			assert.True(t, strings.HasPrefix(lines[1], "  hint: "), lines[1])
		}
	}
	assert.Zero(t, m.requests())
	e := w.qq("Lead", "--json")
	assert.NotContains(t, e.stdout, `"success":true,"output":""`)
	assert.Equal(t, garbage, endureRead(t, path))
	m.forget()

	assert.Equal(t, 0, w.qq("batch", "--no-bar", "--no-ledger", tasks).code)
	w.qq("Lead", "--no-ledger").answered("Both are done.")
	w.qq("Say it.").answered("Answer to Say it.") // who starts nobody needs no database
	assert.Equal(t, garbage, endureRead(t, path))
}

// TestLedgerThatCannotBeWritten: a home that belongs to somebody else.
func TestLedgerThatCannotBeWritten(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become somebody else")
	}
	const nobody = 65534
	m := endurePlay(t, endureEcho)
	w := newWorld(t, m.addr, played)
	tasks := w.file("tasks.txt", "a\nb\n")
	require.Equal(t, 0, w.qq("batch", "--no-bar", tasks).code)
	require.NoError(t, filepath.Walk(w.dir, func(path string, info os.FileInfo, err error) error {
		if err == nil && info.IsDir() {
			err = os.Chmod(path, 0o755)
		} else if err == nil {
			err = os.Chmod(path, 0o644)
		}
		return err
	}))
	for dir := filepath.Dir(w.dir); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		require.NoError(t, os.Chmod(dir, 0o755))
	}
	for _, name := range []string{"tmp", "logs", "run"} {
		require.NoError(t, os.Chmod(filepath.Join(w.dir, name), 0o777))
	}
	program := filepath.Join(w.dir, "qq-of-all") // its folder is for its owner alone
	require.NoError(t, exec.Command("cp", w.bin, program).Run())
	require.NoError(t, os.Chmod(program, 0o755))
	as := func(args ...string) ended {
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Dir, cmd.Env = w.work, w.env
		var stdout, stderr strings.Builder
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		if err := cmd.Run(); cmd.ProcessState == nil {
			require.NoError(t, err)
		}
		return ended{t: t, code: cmd.ProcessState.ExitCode(), stdout: stdout.String(), stderr: stderr.String()}
	}
	m.forget()
	for _, args := range [][]string{{"batch", "--no-bar", tasks}, {"Say it."}, {"runs", "list"},
		{"runs", "clear", "--all"}} {
		e := as(args...)
		assert.Contains(t, []int{1, 2}, e.code, "exit code of %q", args)
		assert.Empty(t, e.stdout)
		assert.Regexp(t, `permission denied|may not be written by this user`, e.stderr, "%q", args)
		assert.Contains(t, e.stderr, "\n  hint: ", "%q", args)
	}
	assert.Zero(t, m.requests(), "nothing is begun that cannot be recorded")
	as("Say it.", "--no-ledger").answered("Answer to Say it.")
	assert.Contains(t, w.qq("runs", "list").stdout, "2/2 done")
}

// TestLedgerOfTwoRoots: two batches at once write into one ledger, and each finds
// all of its own.
func TestLedgerOfTwoRoots(t *testing.T) {
	m := endurePlay(t, endureEcho)
	w := newWorld(t, m.addr, played)
	const n = 100
	var roots []*running
	for _, name := range []string{"one", "two"} {
		var tasks strings.Builder
		for i := range n {
			fmt.Fprintf(&tasks, "%s %d\n", name, i)
		}
		roots = append(roots, w.start("", "batch", "--no-bar", "-j", "4", "--output-format", "jsonl",
			w.file(name+".txt", tasks.String())))
	}
	for i, name := range []string{"one", "two"} {
		e := roots[i].wait()
		require.Equal(t, 0, e.code, "exit code")
		results := endureLines(t, e)
		require.Len(t, results, n)
		tree := w.runs("tree", results[0].BatchID)
		assert.Len(t, tree, n)
		for _, r := range tree {
			assert.Equal(t, "completed", r.Status)
			assert.Equal(t, fmt.Sprintf("%s %d", name, r.Index), r.Task)
		}
	}
	for _, batch := range w.runs("list") {
		assert.Equal(t, map[string]int{"completed": n}, batch.Counts)
	}
}
