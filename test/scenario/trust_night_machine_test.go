package scenario

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/standin"
)

// night is a batch of n tasks, in a world of its own, with a stand-in for the model server. A model
// such as "echo20" answers each task with itself after 20 ms.
type night struct {
	*world
	s     *standin.Server
	n     int
	tasks string
}

func newNight(t *testing.T, n int, model string, env ...string) *night {
	t.Helper()
	s := standin.Start(t, standin.ByName())
	b := &night{world: newWorld(t, s.Host(), model, env...), s: s, n: n}
	var text strings.Builder
	for i := range n {
		text.WriteString(nightTask(i) + "\n")
	}
	b.tasks = b.file("tasks.txt", text.String())
	return b
}

func nightTask(i int) string { return fmt.Sprintf("Task %d: say something", i) }

// answers is the output of the whole batch as text.
func (b *night) answers() string {
	var text strings.Builder
	for i := range b.n {
		text.WriteString("You said: " + nightTask(i) + "\n")
	}
	return text.String()
}

// batch starts the batch with these flags, with its results as text.
func (b *night) batch(flags ...string) *running {
	b.t.Helper()
	return b.start("", append(append([]string{"batch", "--no-bar"}, flags...), b.tasks)...)
}

// asked waits until the server was asked n times.
func (b *night) asked(n int) {
	b.t.Helper()
	b.until(runTimeout, fmt.Sprintf("%d requests", n), func() bool { return b.s.Count("/api/chat") >= n })
}

// under starts qq from a shell, after the commands in script.
func (w *world) under(script string, args ...string) *running {
	w.t.Helper()
	bin := w.bin
	defer func() { w.bin = bin }()
	w.bin = "/bin/sh"
	return w.start("", append([]string{"-c", script + `; exec "$0" "$@"`, bin}, args...)...)
}

// telling starts the batch with stderr going to a file, so that said can wait for what it says.
func (b *night) telling(flags ...string) *running {
	b.t.Helper()
	return b.under("exec 2>"+b.errors(), append(append([]string{"batch", "--no-bar"}, flags...), b.tasks)...)
}

// errors is the file with the stderr of telling.
func (b *night) errors() string { return filepath.Join(b.dir, "errors") }

// said waits until the batch has said that.
func (b *night) said(text string) {
	b.t.Helper()
	b.until(runTimeout, "it says "+text, func() bool {
		all, err := os.ReadFile(b.errors())
		return err == nil && strings.Contains(string(all), text)
	})
}

// whole expects that all tasks are done, in order.
func (b *night) whole(e ended) {
	b.t.Helper()
	assert.Equal(b.t, 0, e.code, "exit code; stderr %s", e.stderr)
	if e.stdout != b.answers() {
		assert.Fail(b.t, "another output", "%d of %d lines: %.500q", strings.Count(e.stdout, "\n"), b.n, e.stdout)
	}
}

// brokenOff expects that the batch ended because of a fault that stderr tells about, with no task that
// counts as failed, and that plain --resume does the rest.
func (b *night) brokenOff(e ended, why string) {
	b.t.Helper()
	assert.Equal(b.t, 3, e.code, "exit code")
	assert.Contains(b.t, e.stderr, why)
	assert.Contains(b.t, e.stderr, "tasks wait until that is over")
	assert.Less(b.t, strings.Count(e.stdout, "You said: "), b.n)
	b.whole(b.batch("-j", "8", "--resume").wait())
}

// away moves path away, and returns the function that moves it back.
func (w *world) away(path string) (back func()) {
	w.t.Helper()
	require.NoError(w.t, os.Rename(path, path+".away"))
	return func() { require.NoError(w.t, os.Rename(path+".away", path)) }
}

// TestNightFewDescriptors: where fewer files can be open than all children need, fewer run at once,
// which is said once, and no task is lost.
func TestNightFewDescriptors(t *testing.T) {
	b := newNight(t, 300, "echo")
	e := b.under("ulimit -n 64", "batch", "--no-bar", "-j", "16", b.tasks).wait()
	b.whole(e)
	assert.Regexp(t, `^qq: children at once: at most [1-9], because this process may open only 64 files: tasks wait `+
		`until that is over\n$`, e.stderr)
}

// TestNightFewProcesses: the user may start only a few processes. What cannot start now waits.
func TestNightFewProcesses(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become a user without any process")
	}
	b := newNight(t, 60, "echo50")
	const uid = 64017
	require.NoError(t, filepath.WalkDir(b.dir, func(path string, _ os.DirEntry, _ error) error {
		return os.Chown(path, uid, uid)
	}))
	for dir := filepath.Dir(b.dir); dir != "/"; dir = filepath.Dir(dir) { // the user must get there
		info, err := os.Stat(dir)
		require.NoError(t, err)
		require.NoError(t, os.Chmod(dir, info.Mode()|0o011))
	}
	require.NoError(t, os.Chmod(house.dir, 0o711))
	require.NoError(t, os.Chmod(b.bin, 0o755))
	if _, err := exec.LookPath("setpriv"); err != nil {
		t.Skip("no setpriv")
	}
	const become = `set -- setpriv --reuid 64017 --regid 64017 --clear-groups prlimit --nproc=90 "$0" "$@"; ` +
		`exec "$@"`
	b.whole(b.under(become, "batch", "--no-bar", "-j", "16", b.tasks).wait())
}

// TestNightHome: the folder of qq is away for a while in the middle of a batch.
func TestNightHome(t *testing.T) {
	b := newNight(t, 100, "echo50")
	q := b.telling("-j", "8")
	b.asked(20)
	back := b.away(filepath.Join(b.dir, "qq"))
	b.said("tasks wait until that is over")
	back()
	b.whole(q.wait())
	assert.Equal(t, b.n, b.s.Count("/api/chat"), "no task was done twice")
}

// TestNightHomeStaysAway: it does not come back within the time that QQ_FAULT_WAIT allows.
func TestNightHomeStaysAway(t *testing.T) {
	b := newNight(t, 100, "echo50", "QQ_FAULT_WAIT=2")
	q := b.batch("-j", "8")
	b.asked(20)
	back := b.away(filepath.Join(b.dir, "qq"))
	e := q.wait()
	back()
	b.brokenOff(e, "journal is gone")
}

// TestNightRunFolder: somebody tidies up the folder of running children.
func TestNightRunFolder(t *testing.T) {
	b := newNight(t, 100, "echo20")
	q := b.batch("-j", "8")
	for _, n := range []int{10, 40, 70} {
		b.asked(n)
		if err := os.RemoveAll(filepath.Join(b.dir, "qq", "run")); !errors.Is(err, syscall.ENOTEMPTY) {
			require.NoError(t, err) // a child that starts may make a file meanwhile
		}
	}
	b.whole(q.wait())
	assert.Equal(t, b.n, b.s.Count("/api/chat"))
}

// TestNightWorkingDirectory: the working directory is away for a while, and then it is another one.
func TestNightWorkingDirectory(t *testing.T) {
	b := newNight(t, 100, "echo20")
	b.tasks = filepath.Join(b.dir, "tasks.txt")
	require.NoError(t, os.Rename(filepath.Join(b.work, "tasks.txt"), b.tasks))
	q := b.telling("-j", "8")
	b.asked(20)
	require.NoError(t, os.Remove(b.work))
	b.said("the working directory: ")
	require.NoError(t, os.Mkdir(b.work, 0o700))
	b.whole(q.wait())
}

// TestNightWorkingDirectoryStaysAway: the batch ends and can be resumed.
func TestNightWorkingDirectoryStaysAway(t *testing.T) {
	b := newNight(t, 100, "echo20", "QQ_FAULT_WAIT=1")
	b.tasks = filepath.Join(b.dir, "tasks.txt")
	require.NoError(t, os.Rename(filepath.Join(b.work, "tasks.txt"), b.tasks))
	q := b.batch("-j", "8")
	b.asked(20)
	require.NoError(t, os.Remove(b.work))
	e := q.wait()
	require.NoError(t, os.Mkdir(b.work, 0o700))
	b.brokenOff(e, "the working directory: ")
}

// TestNightUsageIsForMistakes: what the machine cannot do is no mistake in the configuration, neither
// for a child nor for a single run; an unknown model is.
func TestNightUsageIsForMistakes(t *testing.T) {
	b := newNight(t, 1, "echo", "QQ_FAULT_WAIT=1")
	outputs := filepath.Join(b.dir, "qq", "outputs")
	tasks := b.file("tasks.jsonl", `{"task":"a","agent":"coder"}`)
	// The folder for the output of commands is a loop of links: it cannot be made.
	require.NoError(t, os.Symlink("/dev/full/outputs", outputs))
	e := b.qq("batch", "--no-bar", "--output-format", "jsonl", "--auto-approve", tasks)
	var r result
	require.NoError(t, json.Unmarshal([]byte(e.stdout), &r), e.stdout)
	assert.Equal(t, "usage", r.Status, "QQ_HOME is set up in a way that cannot work")
	require.NoError(t, os.Remove(outputs))

	w := b.file("wrong.jsonl", `{"task":"a","model":"nope"}`)
	assert.Equal(t, 2, b.qq("batch", "--no-bar", w).code)
}

// TestNightReadOnlyHome: a QQ_HOME that cannot be written has one exit code.
func TestNightReadOnlyHome(t *testing.T) {
	b := newNight(t, 1, "echo")
	home := filepath.Join(b.dir, "qq")
	require.Equal(t, 0, b.batch().wait().code)
	if err := syscall.Mount("none", home, "tmpfs", 0, "size=8m"); err != nil {
		t.Skip("no mount: ", err)
	}
	t.Cleanup(func() { assert.NoError(t, syscall.Unmount(home, syscall.MNT_DETACH)) })
	require.NoError(t, syscall.Mount("none", home, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	for _, args := range [][]string{
		{"hello"}, {"--json", "hello"}, {"--ephemeral", "-a", "coder", "hello"},
		{"batch", "--no-bar", b.tasks}, {"batch", "--no-bar", "--resume", b.tasks}, {"batch", "--cache", b.tasks},
		{"runs"}, {"runs", "clear", "--all"},
	} {
		e := b.qq(args...)
		if args[0] == "runs" && e.code == 0 {
			continue // with nothing recorded there is nothing to open
		}
		assert.Equal(t, 2, e.code, "%q: %s", args, e.stderr)
		assert.Contains(t, e.stderr, "hint: ", args)
	}
}
