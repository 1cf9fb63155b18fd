// Package page drives the pages of qq serve in a real browser, as a person would, against real runs.
package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/standin"
	"qq/test/chromium"
	"qq/test/qqbin"
)

// world is where the qq of one test lives.
type world struct {
	t    *testing.T
	work string
	bin  string
	env  []string
	home string // QQ_HOME
}

func newWorld(t *testing.T, scripts ...standin.Script) *world {
	t.Helper()
	chromium.Program(t)
	dir := t.TempDir()
	w := &world{t: t, work: filepath.Join(dir, "project"), home: filepath.Join(dir, "qq")}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "bin"), 0o700))
	bin, err := qqbin.Install(t.Context(), filepath.Join(dir, "bin"))
	require.NoError(t, err)
	w.bin = bin
	server := standin.Start(t, standin.Scripts(scripts...))
	w.env = []string{"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "TERM=dumb", "OLLAMA_HOST=" + server.URL,
		"QQ_MODEL=ollama:" + standin.DefaultModel}
	for name, folder := range map[string]string{"HOME": "home", "QQ_HOME": "qq", "QQ_LOG_DIR": "logs", "TMPDIR": "tmp",
		"XDG_CONFIG_HOME": "config"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, folder), 0o700))
		w.env = append(w.env, name+"="+filepath.Join(dir, folder))
	}
	require.NoError(t, os.Mkdir(w.work, 0o700))
	t.Cleanup(func() {
		assert.Eventually(t, func() bool {
			left, err := qqbin.Processes(bin)
			return err == nil && len(left) == 0
		}, 10*time.Second, 20*time.Millisecond, "no process is left")
	})
	return w
}

func (w *world) file(name, text string) {
	w.t.Helper()
	path := filepath.Join(w.work, name)
	require.NoError(w.t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(w.t, os.WriteFile(path, []byte(text), 0o600))
}

func (w *world) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(w.t.Context(), w.bin, args...)
	cmd.Dir, cmd.Env = w.work, w.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// run runs qq to its end and returns its output.
func (w *world) run(args ...string) string {
	w.t.Helper()
	out, err := w.command(args...).CombinedOutput()
	if err != nil {
		require.IsType(w.t, &exec.ExitError{}, err)
	}
	return string(out)
}

// start starts a qq that ends with the test.
func (w *world) start(args ...string) *exec.Cmd {
	w.t.Helper()
	cmd := w.command(args...)
	out := &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = out, out
	require.NoError(w.t, cmd.Start())
	w.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		_ = cmd.Wait()
		if w.t.Failed() {
			w.t.Logf("qq %s:\n%s", strings.Join(args, " "), out)
		}
	})
	return cmd
}

// serve starts qq serve and returns the address that it prints.
func (w *world) serve() string {
	w.t.Helper()
	path := filepath.Join(w.t.TempDir(), "address")
	out, err := os.Create(path)
	require.NoError(w.t, err)
	cmd := w.command("serve", "-q")
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	require.NoError(w.t, cmd.Start())
	w.t.Cleanup(func() {
		begun := time.Now()
		require.NoError(w.t, cmd.Process.Signal(syscall.SIGTERM))
		_ = cmd.Wait()
		assert.Less(w.t, time.Since(begun), 5*time.Second, "it ends at once, also with open pages")
		out.Close()
	})
	var address string
	require.Eventually(w.t, func() bool {
		text, _ := os.ReadFile(path)
		line, _, whole := strings.Cut(string(text), "\n")
		address = line
		return whole
	}, 10*time.Second, 10*time.Millisecond)
	return address
}

// tasks writes a file of tasks.
func (w *world) tasks(tasks ...map[string]any) string {
	w.t.Helper()
	var lines strings.Builder
	for _, one := range tasks {
		line, err := json.Marshal(one)
		require.NoError(w.t, err)
		fmt.Fprintln(&lines, string(line))
	}
	w.file("tasks.jsonl", lines.String())
	return "tasks.jsonl"
}

// shots takes pictures of a page for a person to look at, if QQ_SHOTS names a folder.
func shots(p *chromium.Page, name string) {
	dir := os.Getenv("QQ_SHOTS")
	if dir == "" {
		return
	}
	for _, width := range []int{400, 1400} {
		for _, dark := range []bool{false, true} {
			p.Look(chromium.View{Width: width, Height: 900, Dark: dark})
			scheme := map[bool]string{false: "light", true: "dark"}[dark]
			p.Shot(filepath.Join(dir, fmt.Sprintf("%s-%d-%s.png", name, width, scheme)), true)
		}
	}
	p.Look(chromium.View{Width: 1400, Height: 900})
}
