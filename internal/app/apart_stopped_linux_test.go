package app

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/app/command"
	"qq/internal/standin"
	"qq/pkg/task"
)

// newHanging makes a world as [newTree] does, in which a task with the word "hang" does not end before it is released.
func newHanging(t *testing.T) (w *world, release func()) {
	var released atomic.Bool
	w, _ = newServedWorld(t, standin.Reply(func(p standin.Prompt) string {
		reply := callTools(p)
		if strings.Contains(p.Last("user"), "hang") && strings.HasPrefix(reply, "done") {
			for begun := time.Now(); !released.Load() && time.Since(begun) < 20*time.Second; {
				time.Sleep(10 * time.Millisecond)
			}
		}
		return reply
	}))
	w.set("QQ_APPROVE=auto", "QQ_ALLOW=none", "GIT_CONFIG_NOSYSTEM=1")
	w.file("src/a.txt", "one\n")
	w.sh("git init -q -b main . && git config user.name n && git config user.email n@localhost && git add -A && " +
		"git commit -qm first")
	return w, func() { released.Store(true) }
}

// taken runs the command with which a result says that what the task had changed can be taken.
func (w *world) taken(r task.Result) {
	w.t.Helper()
	_, command, ok := strings.Cut(strings.Join(r.Warnings, "\n"), "what it had changed, if it is not in the folder: ")
	require.True(w.t, ok, "%q", r.Warnings)
	w.sh(strings.Split(command, "\n")[0])
}

// TestApartKilledWaiting: qq is killed while one isolated task is at work, one has written a file and waits for its
// turn, and one that has run a command waits, too. Nothing of them is in the folder. So the resumed batch runs the
// first two again. What the command did elsewhere is not known: that task is not repeated, and its result says how to
// take what it had changed.
func TestApartKilledWaiting(t *testing.T) {
	long(t)
	for _, mode := range []string{"overlay", "worktree"} {
		t.Run(mode, func(t *testing.T) {
			w, release := newHanging(t)
			args := []string{"batch", "-a", "coder", "--isolate", mode, "-j", "4", "--no-bar", "--json", w.tasksFile(
				map[string]any{"task": `write_file {"path": "hang", "content": "1\n"}`},
				map[string]any{"id": "wrote", "task": `write_file {"path": "wrote", "content": "2\n"}`},
				map[string]any{"id": "ran", "task": commandTask("echo 3 > ran")},
				map[string]any{"task": "wait for it", "agent": "explorer", "needs": []string{"wrote"}},
			)}
			p := w.start(args...)
			w.until(func() bool {
				found, _ := filepath.Glob(filepath.Join(w.home, "qq/outputs/*.patch"))
				return len(found) == 1
			})
			time.Sleep(300 * time.Millisecond) // the others write
			p.signal(syscall.SIGKILL)
			p.end()
			release()
			assert.Empty(t, w.sh("git status --porcelain"))
			e := w.run(append(args, "--resume")...)
			r := e.documents(t)
			require.Len(t, r, 4, e.errors)
			for _, i := range []int{0, 1, 3} {
				assert.Equal(t, task.Completed, r[i].Status, "%d: %s", i, r[i].Err())
			}
			assert.Equal(t, task.UnknownOutcome, r[2].Status)
			assert.Equal(t, "?? hang\n?? wrote\n", w.sh("git status --porcelain"))
			w.taken(r[2])
			assert.Equal(t, "1\n2\n3\n", w.sh("cat hang wrote ran"))
			w.noCopies()
		})
	}
}

// TestApartInterrupted: after Ctrl-C each isolated task that was at work says how to take what it had changed. One that
// only wrote in its copy runs again when the batch is resumed. One that ran a command says it once more.
func TestApartInterrupted(t *testing.T) {
	w, release := newHanging(t)
	args := []string{"batch", "-a", "coder", "--isolate", "overlay", "--no-bar", "--json", w.tasksFile(
		map[string]any{"task": `write_file {"path": "hang", "content": "1\n"}`},
		map[string]any{"task": commandTask("echo 2 > ran # hang")},
	)}
	p := w.start(args...)
	w.until(func() bool {
		found, _ := filepath.Glob(filepath.Join(w.home, "qq/copies/*/*/upper/*"))
		return len(found) == 2
	})
	time.Sleep(300 * time.Millisecond)
	p.signal(syscall.SIGINT)
	for _, r := range p.end().documents(t) {
		assert.Equal(t, task.Interrupted, r.Status)
		assert.Contains(t, strings.Join(r.Warnings, "\n"), "it was not completed; to take what it changed: git -C ")
	}
	release()
	r := w.run(append(args, "--resume")...).documents(t)
	assert.Equal(t, task.Completed, r[0].Status, r[0].Err())
	assert.Equal(t, task.UnknownOutcome, r[1].Status)
	w.taken(r[1])
	assert.Equal(t, "1\n2\n", w.sh("cat hang ran"))
	w.noCopies()
}

// TestStoppedWhileCopied: a signal while the first worktree is made is all that is said, not that there can be none.
func TestStoppedWhileCopied(t *testing.T) {
	w := newTree(t)
	git, err := exec.LookPath("git")
	require.NoError(t, err)
	bin := filepath.Join(w.home, "bin")
	require.NoError(t, os.Mkdir(bin, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(bin, "git"), []byte("#!/bin/sh\ncase \"$*\" in *HEAD^*) > "+bin+
		"/asked; sleep 30;; esac\nexec "+git+" \"$@\"\n"), 0o700))
	w.set("PATH=" + bin + ":" + command.Environment(w.env).Get("PATH"))
	p := w.start("batch", "-a", "coder", "--isolate", "worktree", "--no-bar", w.tasksFile(map[string]any{"task": "x"}))
	w.until(func() bool { _, err := os.Stat(bin + "/asked"); return err == nil })
	p.signal(syscall.SIGINT)
	e := p.end()
	assert.Equal(t, 130, e.code)
	assert.Equal(t, "qq: stopped by a signal\n", e.errors)
	w.noCopies()
}

// TestKeptCopyIsSaid: when a copy is kept, because there can be no patch, a person reads where, how large it is, and
// that it takes room.
func TestKeptCopyIsSaid(t *testing.T) {
	w := newTree(t)
	e, r := w.isolated("overlay", []map[string]any{{"id": "large", "check": "false",
		"task": commandTask("head -c 3000000 /dev/zero > more; truncate -s 257M too-large")}}, "--repair", "0")
	_, dir, ok := strings.Cut(strings.Join(r[0].Warnings, ""), "what it changed is kept in the folder ")
	require.True(t, ok, r[0].Warnings)
	assert.Contains(t, e.errors, "qq: warning: what task large changed is kept in the folder "+dir+" (3 MB)\n  hint: "+
		"take what you need of it and remove it: that makes room on the disk of QQ_HOME\n")
	assert.Equal(t, 1, strings.Count(e.errors, "makes room"))
}

// TestApartFullHome: a task fills the disk of QQ_HOME for some time. Meanwhile two others cannot hand over their
// answers. What the first of them did is only in its copy, so it runs again. The other one has run a command: its copy
// is kept, and named.
func TestApartFullHome(t *testing.T) {
	long(t)
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a disk")
	}
	if out, err := exec.CommandContext(t.Context(), "unshare", "-m", "true").CombinedOutput(); err != nil {
		t.Skip(string(out))
	}
	for _, mode := range []string{"overlay", "worktree"} {
		t.Run(mode, func(t *testing.T) {
			w, release := newHanging(t)
			self, err := os.Executable()
			require.NoError(t, err)
			require.NoError(t, os.MkdirAll(filepath.Join(w.home, "bin"), 0o700))
			require.NoError(t, os.Symlink(self, filepath.Join(w.home, "bin/qq")))
			require.NoError(t, os.MkdirAll(filepath.Join(w.home, "qq"), 0o700))
			file := w.tasksFile(
				map[string]any{"task": commandTask("sleep 1.5; head -c 30000000 /dev/zero > big; sleep 4; rm big")},
				map[string]any{"task": `write_file {"path": "hang", "content": "1\n"}`},
				map[string]any{"task": commandTask("echo 2 > ran # hang")},
			)
			defer time.AfterFunc(3*time.Second, release).Stop()
			script := "mount -t tmpfs -o size=12m none " + w.home + "/qq && cd " + w.dir + " && " + w.home +
				"/bin/qq batch -a coder -j 3 --isolate " + mode + " --no-bar --json " + file + "; cat " + w.home +
				"/qq/copies/*.kept/ran " + w.home + "/qq/outputs/*.patch >&2"
			cmd := exec.CommandContext(t.Context(), "unshare", "-m", "sh", "-c", script)
			cmd.Env = append(w.env, "QQ_FAULT_WAIT=60")
			var said strings.Builder
			cmd.Stderr = &said
			out, _ := cmd.Output()
			r := ended{out: string(out), errors: said.String()}.documents(t)
			require.Len(t, r, 3, "%s", said.String())
			assert.Equal(t, task.Completed, r[0].Status, r[0].Err())
			assert.Equal(t, task.Completed, r[1].Status, r[1].Err())
			assert.Equal(t, "1\n", w.sh("cat hang"))
			if r[2].Status == task.Completed { // there was room when the second one gave up its copy
				assert.Equal(t, "2\n", w.sh("cat ran"))
				return
			}
			assert.Equal(t, task.Unavailable, r[2].Status)
			assert.Regexp(t, "to take what it changed: git |what it changed is kept in the folder ", r[2].Warnings)
			assert.Regexp(t, `(?m)^\+?2$`, said.String())
		})
	}
}
