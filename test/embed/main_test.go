package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// Three children in processes of their own: each has its result, in the order of the
// tasks, and nothing is alive afterwards.
func TestEmbed(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "embed")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	var out, log bytes.Buffer
	mark := "EMBED_MARK=" + dir
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), mark, "TMPDIR="+dir)
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS == "linux" && len(processes(t, mark)) == 0 {
		t.Error("the running program is not found")
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, &log)
	}

	want := `0 straggler timeout Child process timed out after 1s []
1 asker completed the shouter says GOOD MORNING []
2 writer completed written [notes.md]
`
	if out.String() != want {
		t.Errorf("got:\n%swant:\n%s", &out, want)
	}
	for _, line := range []string{
		"1 straggler tool_start sleep", "2 shouter sub_agent_complete",
		"1 writer tool_start write", "0  batch_complete",
	} {
		if !strings.Contains(log.String(), line) {
			t.Errorf("no event %q in:\n%s", line, &log)
		}
	}
	if left := processes(t, mark); len(left) > 0 {
		t.Errorf("processes are left behind: %v", left)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "embed-*")); err != nil || len(left) > 0 {
		t.Errorf("files are left behind: %v %v", left, err)
	}
}

// processes are those that have an entry in their environment. Where there is no
// /proc, nobody knows.
func processes(t *testing.T, entry string) (found []string) {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		env, err := os.ReadFile(filepath.Join(d, "environ")) // empty for a zombie
		if err == nil && strings.Contains("\x00"+string(env), "\x00"+entry+"\x00") {
			found = append(found, d)
		}
	}
	return found
}
