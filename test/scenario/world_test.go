package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/test/qqbin"
)

const (
	runTimeout  = 60 * time.Second
	goneTimeout = 5 * time.Second
	pollEvery   = 5 * time.Millisecond
)

// world is where the qq of one test lives.
type world struct {
	t    *testing.T
	dir  string
	work string // its working directory
	bin  string // its own name for the program
	env  []string
	uid  int // who runs it; 0 is who runs the test
	// server is the name of the model server, before the colon in the names of models.
	server string
}

// serverSetting returns the setting with the address of a server that speaks a dialect.
func serverSetting(dialect, host string) string {
	if !strings.Contains(host, "://") {
		host = "http://" + host
	}
	return "QQ_SERVER_other=" + dialect + " " + host + "/v1"
}

// newWorld makes folders for one test, and sees to it that no process of it is left at the end. host is the model
// server's address. qq speaks to its own interface, or to that which QQ_TEST_DIALECT names.
func newWorld(t *testing.T, host, model string, env ...string) *world {
	t.Helper()
	return newWorldIn(t, os.Getenv("QQ_TEST_DIALECT"), host, model, env...)
}

// newWorldIn is newWorld for a dialect; empty is that of Ollama.
func newWorldIn(t *testing.T, dialect, host, model string, env ...string) *world {
	t.Helper()
	program, err := house.program()
	require.NoError(t, err)
	dir := t.TempDir()
	w := &world{t: t, dir: dir, work: filepath.Join(dir, "work"), server: "ollama",
		bin: filepath.Join(house.dir, "qq-"+strconv.FormatInt(time.Now().UnixNano(), 36))}
	require.NoError(t, os.Link(program, w.bin))
	w.env = []string{"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "TERM=dumb", "OLLAMA_HOST=" + host}
	if dialect != "" {
		w.server = "other"
		w.env = append(w.env, serverSetting(dialect, host))
	}
	w.env = append(w.env, "QQ_MODEL="+w.server+":"+model)
	for name, folder := range map[string]string{
		"HOME": "home", "QQ_HOME": "qq", "QQ_LOG_DIR": "logs", "TMPDIR": "tmp",
		"XDG_CONFIG_HOME": "config", "XDG_STATE_HOME": "state", "XDG_CACHE_HOME": "cache", "XDG_DATA_HOME": "data",
		"XDG_RUNTIME_DIR": "run",
	} {
		path := filepath.Join(dir, folder)
		require.NoError(t, os.Mkdir(path, 0o700))
		w.env = append(w.env, name+"="+path)
	}
	require.NoError(t, os.Mkdir(w.work, 0o700))
	w.env = append(w.env, env...)
	t.Cleanup(func() {
		w.assertGone()
		assert.NoError(t, os.Remove(w.bin))
	})
	return w
}

// file writes a file into the working directory.
func (w *world) file(name, text string) string {
	w.t.Helper()
	path := filepath.Join(w.work, name)
	require.NoError(w.t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(w.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// ended is how a qq ended.
type ended struct {
	t              *testing.T
	code           int // -1 when a signal ended it
	stdout, stderr string
}

// running is a qq at work.
type running struct {
	w              *world
	cmd            *exec.Cmd
	cancel         context.CancelFunc
	stdout, stderr bytes.Buffer
}

// start starts qq in a process group of its own; without input its stdin is
// /dev/null, as under cron.
func (w *world) start(input string, args ...string) *running {
	w.t.Helper()
	r := w.prepared(input, args...)
	require.NoError(w.t, r.cmd.Start())
	return r
}

// prepared is start without the start.
func (w *world) prepared(input string, args ...string) *running {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), runTimeout)
	r := &running{w: w, cancel: cancel, cmd: exec.CommandContext(ctx, w.bin, args...)}
	r.cmd.Dir, r.cmd.Env = w.work, w.env
	r.cmd.Stdout, r.cmd.Stderr = &r.stdout, &r.stderr
	if input != "" {
		r.cmd.Stdin = strings.NewReader(input)
	}
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if w.uid != 0 {
		id := uint32(w.uid)
		r.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: id, Gid: id, NoSetGroups: true}
	}
	r.cmd.Cancel = func() error { return syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL) }
	r.cmd.WaitDelay = time.Second // for a process that was left behind with the pipes
	return r
}

// wait waits for qq to end by itself.
func (r *running) wait() ended {
	t := r.w.t
	t.Helper()
	defer r.cancel()
	err := r.cmd.Wait()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	e := ended{t: t, code: r.cmd.ProcessState.ExitCode(), stdout: r.stdout.String(), stderr: r.stderr.String()}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("qq %q: %v\nstdout: %.2000q\nstderr: %.4000s", r.cmd.Args[1:], r.cmd.ProcessState, e.stdout,
				e.stderr)
		}
	})
	return e
}

// qq runs qq to its end.
func (w *world) qq(args ...string) ended {
	w.t.Helper()
	return w.start("", args...).wait()
}

// result is what qq says about a task in JSON.
type result struct {
	Task     string  `json:"task"`
	Agent    string  `json:"agent"`
	Success  *bool   `json:"success"`
	Output   *string `json:"output"`
	Error    *string `json:"error"`
	Index    int     `json:"index"`
	Status   string  `json:"status"`
	ExitCode *int    `json:"exit_code"`
	Usage    struct {
		InputTokens  int `json:"input_tokens"`
		OutputTokens int `json:"output_tokens"`
	} `json:"usage"`
	Structured json.RawMessage `json:"structured"`
}

// parse reads one result and checks what is true of every result: the fields
// that scripts rely on are there, and agree with each other.
func parse(t *testing.T, document string) result {
	t.Helper()
	var r result
	require.NoError(t, json.Unmarshal([]byte(document), &r), "%q", document)
	require.NotNil(t, r.Success, "success")
	require.NotNil(t, r.Output, "output")
	require.NotNil(t, r.ExitCode, "exit_code")
	assert.Equal(t, *r.Success, r.Status == "completed", "success and status %q", r.Status)
	assert.Equal(t, *r.Success, r.Error == nil, "success and error")
	assert.Equal(t, *r.Success, *r.ExitCode == 0, "success and exit_code")
	return r
}

// json is the one result on stdout, which agrees with the exit code.
func (e ended) json() result {
	e.t.Helper()
	r := parse(e.t, e.stdout)
	assert.Equal(e.t, e.code, *r.ExitCode, "exit code and exit_code")
	return r
}

// failed is a JSON result with that status, error text and exit code.
func (e ended) failed(code int, status string) result {
	e.t.Helper()
	r := e.json()
	assert.Equal(e.t, code, e.code, "exit code")
	assert.Equal(e.t, status, r.Status)
	require.NotNil(e.t, r.Error, "error")
	assert.NotEmpty(e.t, *r.Error)
	return r
}

// answered is a text answer and exit 0.
func (e ended) answered(want string) {
	e.t.Helper()
	assert.Equal(e.t, want+"\n", e.stdout)
	assert.Equal(e.t, 0, e.code, "exit code")
}

// spawned are the depths and agents of the children that the log tells of.
func (w *world) spawned() []string {
	w.t.Helper()
	b, err := os.ReadFile(filepath.Join(w.dir, "logs", "child_process.log"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	require.NoError(w.t, err)
	line := regexp.MustCompile(`(?m)^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d - child_process - INFO - \[[0-9a-f]{8}\] ` +
		`Spawning child: agent=(\S+), (depth=\d+), task=`)
	var children []string
	for _, m := range line.FindAllStringSubmatch(string(b), -1) {
		children = append(children, m[1]+" "+m[2])
	}
	return children
}

// processes are the processes of this world that are alive.
func (w *world) processes() []int {
	w.t.Helper()
	pids, err := qqbin.Processes(w.bin)
	require.NoError(w.t, err)
	return pids
}

// until polls until done, or fails the test.
func (w *world) until(limit time.Duration, what string, done func() bool) {
	w.t.Helper()
	require.Eventually(w.t, done, limit, pollEvery, what)
}

// assertGone fails the test when a process is left, and ends it.
func (w *world) assertGone() {
	w.t.Helper()
	gone := func() bool { return len(w.processes()) == 0 }
	if assert.Eventually(w.t, gone, goneTimeout, pollEvery, "no process is left") {
		return
	}
	for _, pid := range w.processes() {
		assert.NoError(w.t, syscall.Kill(pid, syscall.SIGKILL))
	}
}
