package app

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/sandbox"
	"qq/internal/standin"
	"qq/pkg/childproc"
	"qq/pkg/task"
)

var update = flag.Bool("update", false, "rewrite what is generated: .env.example and the tables of README.md")

// TestMain lets the test binary run as qq, because a qq starts its own binary for each
// child.
func TestMain(m *testing.M) {
	sandbox.Exec(os.Environ()) // returns unless this process is to become a confined command
	if filepath.Base(os.Args[0]) == "qq" || os.Getenv(childproc.ControlVar) != "" {
		code := Main(os.Args, Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, os.Environ())
		if testing.CoverMode() != "" {
			syscall.Exit(code) // os.Exit would write a warning about coverage data to stderr
		}
		os.Exit(code)
	}
	if filepath.Base(os.Args[0]) == "claude" {
		os.Exit(playClaude())
	}
	if name := filepath.Base(os.Args[0]); name == "acp-agent" || name == "opencode" {
		os.Exit(playACP())
	}
	os.Exit(m.Run())
}

// world is where the qq of one test lives: folders and an environment of its own.
type world struct {
	t   *testing.T
	dir string // the working directory
	env []string

	home string
}

// newWorld makes a world whose model is extract.
func newWorld(t *testing.T) *world {
	t.Helper()
	home := t.TempDir()
	w := &world{t: t, dir: t.TempDir(), home: home}
	w.env = []string{
		"PATH=" + os.Getenv("PATH"), "TERM=dumb", "HOME=" + home, "QQ_HOME=" + filepath.Join(home, "qq"),
		"XDG_CONFIG_HOME=" + filepath.Join(home, "config"), "XDG_STATE_HOME=" + filepath.Join(home, "state"),
		"OLLAMA_HOST=127.0.0.1:1", "QQ_MODEL=extract", "GORACE=atexit_sleep_ms=0",
	}
	t.Cleanup(func() {
		left, _ := filepath.Glob(filepath.Join(home, "qq", "run", "*"))
		assert.Empty(t, left, "temporary files")
	})
	return w
}

// newServedWorld makes a world whose model is that of a stand-in server.
func newServedWorld(t *testing.T, options ...standin.Option) (*world, *standin.Server) {
	t.Helper()
	server := standin.Start(t, options...)
	w := newWorld(t)
	w.set(
		"OLLAMA_HOST="+server.URL,
		"QQ_MODEL=ollama:stand-in",
		"QQ_ALLOW=delegate_task,run_parallel_tasks",
		"QQ_RETRIES=0",
	)
	return w, server
}

// set changes variables.
func (w *world) set(entries ...string) { w.env = append(w.env, entries...) }

// dead makes the usual ports of other servers ones at which nobody listens, whatever runs on this machine.
func (w *world) dead() {
	for _, name := range []string{"llamacpp", "vllm", "lmstudio"} {
		w.set("QQ_SERVER_" + name + "=openai http://127.0.0.1:1/v1")
	}
}

// with is w with other variables.
func (w *world) with(entries ...string) *world {
	other := *w
	other.env = append(w.env[:len(w.env):len(w.env)], entries...)
	return &other
}

// file writes a file into the working directory.
func (w *world) file(name, text string) {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	require.NoError(w.t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(w.t, os.WriteFile(path, []byte(text), 0o600))
}

// ended is how a qq ended.
type ended struct {
	code        int
	out, errors string
}

// run runs qq in this process, with nothing on stdin.
func (w *world) run(args ...string) ended {
	w.t.Helper()
	in, err := os.Open(os.DevNull)
	require.NoError(w.t, err)
	defer in.Close()
	return w.runOn(in, args...)
}

// pipe runs qq with text on stdin.
func (w *world) pipe(text string, args ...string) ended {
	w.t.Helper()
	in, err := os.CreateTemp(w.t.TempDir(), "stdin")
	require.NoError(w.t, err)
	defer in.Close()
	_, err = in.WriteString(text)
	require.NoError(w.t, err)
	_, err = in.Seek(0, 0)
	require.NoError(w.t, err)
	return w.runOn(in, args...)
}

func (w *world) runOn(in *os.File, args ...string) ended {
	w.t.Helper()
	w.t.Chdir(w.dir)
	dir := w.t.TempDir()
	s := Streams{In: in}
	var err error
	s.Out, err = os.Create(filepath.Join(dir, "out"))
	require.NoError(w.t, err)
	defer s.Out.Close()
	s.Err, err = os.Create(filepath.Join(dir, "err"))
	require.NoError(w.t, err)
	defer s.Err.Close()
	e := ended{code: Main(append([]string{"qq"}, args...), s, w.env)}
	out, err := os.ReadFile(s.Out.Name())
	require.NoError(w.t, err)
	problems, err := os.ReadFile(s.Err.Name())
	require.NoError(w.t, err)
	e.out, e.errors = string(out), string(problems)
	return e
}

// command is qq as a process of its own.
func (w *world) command(args ...string) *exec.Cmd {
	w.t.Helper()
	self, err := os.Executable()
	require.NoError(w.t, err)
	cmd := exec.CommandContext(w.t.Context(), self)
	cmd.Args = append([]string{"qq"}, args...)
	cmd.Dir, cmd.Env = w.dir, w.env
	return cmd
}

// document is the one JSON document on stdout.
func (e ended) document(t *testing.T) task.Result {
	t.Helper()
	var r task.Result
	dec := json.NewDecoder(strings.NewReader(e.out))
	require.NoError(t, dec.Decode(&r), "stdout: %q, stderr: %q", e.out, e.errors)
	assert.False(t, dec.More(), "one document: %q", e.out)
	return r
}

// documents are the results of a batch in the format json.
func (e ended) documents(t *testing.T) []task.Result {
	t.Helper()
	var all []task.Result
	require.NoError(t, json.Unmarshal([]byte(e.out), &all), "stdout: %q, stderr: %q", e.out, e.errors)
	return all
}

// jsonLines are the lines of text, each an object.
func jsonLines(t *testing.T, text string) []map[string]any {
	t.Helper()
	var all []map[string]any
	for line := range bytes.Lines([]byte(text)) {
		var object map[string]any
		require.NoError(t, json.Unmarshal(line, &object), string(line))
		all = append(all, object)
	}
	return all
}

func open(t *testing.T, name string) *os.File {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// lockFile locks f as another process would that has it open.
func lockFile(t *testing.T, f *os.File) {
	t.Helper()
	require.NoError(t, syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB))
}

// long leaves out a test of many processes where there is little time: with -short, as under the race detector.
// make test runs it.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("it takes long")
	}
}
