package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/record/ledger/alive"
	"qq/internal/standin"
	"qq/pkg/task"
)

// callTools is a reply of a stand-in server: a task of lines "TOOL {ARGUMENTS}" calls these tools, one after another.
// Then the answer is what the last one said.
func callTools(p standin.Prompt) string {
	at := 0
	var lines []string
	for i, m := range p.Messages {
		if m.Role == "user" {
			at, lines = i, nil
			for line := range strings.Lines(m.Content) {
				name, args, ok := strings.Cut(strings.TrimSpace(line), " {")
				if ok && !strings.Contains(name, " ") {
					lines = append(lines, fmt.Sprintf(`<tool_call>{"name": %q, "arguments": {%s}</tool_call>`, name, args))
				}
			}
		}
	}
	n := 0
	for _, m := range p.Messages[at:] {
		if m.Role == "tool" {
			n++
		}
	}
	if n < len(lines) {
		return lines[n]
	}
	return "done: " + task.Shorten(p.Last("tool"), 2000)
}

// newTree makes a world whose tasks are those of callTools, in a repository of git.
func newTree(t *testing.T) *world {
	w, _ := newServedWorld(t, standin.Reply(callTools))
	w.set("QQ_APPROVE=auto", "QQ_ALLOW=none", "GIT_CONFIG_NOSYSTEM=1")
	w.file("src/a.txt", "one\ntwo\nthree\nfour\nfive\nsix\nseven\n")
	w.file("src/b.txt", "b\n")
	w.file(".gitignore", "out/\n")
	w.file("out/kept", "ignored\n")
	w.sh("git init -q -b main . && git config user.name n && git config user.email n@localhost && git add -A && " +
		"git commit -qm first && echo dirty >> src/b.txt && echo new > untracked")
	return w
}

// sh runs a script in the working directory.
func (w *world) sh(script string) string {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), "/bin/sh", "-ec", script)
	cmd.Dir, cmd.Env = w.dir, w.env
	out, err := cmd.CombinedOutput()
	require.NoError(w.t, err, "%s\n%s", script, out)
	return string(out)
}

// state is all that a join must not touch: HEAD, index, stash and branches.
func (w *world) gitState() string {
	return w.sh("git rev-parse HEAD; git stash list; git branch -a; " +
		"sha256sum .git/index .git/HEAD .git/config")
}

// commandTask is a task that runs a command.
func commandTask(command string) string {
	text, _ := json.Marshal(map[string]string{"command": command})
	return "run_pty_cmd " + string(text)
}

// delegateTask is a task that delegates one to coder.
func delegateTask(text string) string {
	args, _ := json.Marshal(map[string]string{"agent": "coder", "task": text})
	return "delegate_task " + string(args)
}

// tasksFile writes tasks as JSON Lines.
func (w *world) tasksFile(tasks ...map[string]any) string {
	var b strings.Builder
	for _, t := range tasks {
		line, err := json.Marshal(t)
		require.NoError(w.t, err)
		b.Write(append(line, '\n'))
	}
	path := filepath.Join(w.home, "tasks.jsonl")
	require.NoError(w.t, os.WriteFile(path, []byte(b.String()), 0o600))
	return path
}

// noCopies asserts that nothing is left of copies.
func (w *world) noCopies() {
	w.t.Helper()
	entries, _ := os.ReadDir(filepath.Join(w.home, "qq/copies"))
	for _, e := range entries {
		assert.False(w.t, e.IsDir() || strings.HasPrefix(e.Name(), "tree-"), e.Name())
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(w.t, err)
	assert.NotContains(w.t, string(mounts), w.dir)
	for _, left := range []string{".qq-join-*", ".git/worktrees", ".git/*.unlisted"} {
		files, _ := filepath.Glob(filepath.Join(w.dir, left))
		assert.Empty(w.t, files)
	}
	if _, err := os.Stat(filepath.Join(w.dir, ".git")); err == nil {
		assert.Equal(w.t, 2, strings.Count(w.sh("git worktree list; git branch --format='%(refname)'"), "\n"))
	}
}

// isolated runs a batch of these tasks with --isolate.
func (w *world) isolated(mode string, tasks []map[string]any, more ...string) (ended, []task.Result) {
	w.t.Helper()
	e := w.run(append([]string{"batch", "-a", "coder", "--isolate", mode, "--no-bar", "--output-format", "json",
		w.tasksFile(tasks...)}, more...)...)
	r := e.documents(w.t)
	require.Len(w.t, r, len(tasks), e.errors)
	return e, r
}

// TestApart: tasks that write work in copies, at once, and are joined in input order. Two that change the same line are
// in conflict: the second one has that status, and its patch can be applied. Nothing but the tree changes.
func TestApart(t *testing.T) {
	for _, mode := range []string{"overlay", "worktree"} {
		t.Run(mode, func(t *testing.T) {
			w := newTree(t)
			before := w.gitState()
			e, r := w.isolated(mode, []map[string]any{
				{"task": commandTask("sleep 1; sed -i s/one/A/ src/a.txt; echo a > a.new; echo in > out/x || true")},
				{"task": commandTask("sed -i s/seven/B/ src/a.txt; test ! -e a.new; cat src/b.txt untracked")},
				{"task": commandTask("sed -i s/one/C/ src/a.txt; echo c > c.new")},
				{"task": commandTask("rm untracked; git commit -qam second || true; exit 1")},
				{"task": `read_file {"path": "src/a.txt"}`, "agent": "explorer"},
			}, "-j", "5")
			assert.Equal(t, 4, e.code)
			assert.NotContains(t, e.errors, "unplanned", "each writer has its copy")
			for _, i := range []int{0, 1, 3, 4} {
				assert.Equal(t, task.Completed, r[i].Status, "%d: %s %s", i, r[i].Output, r[i].Err())
			}
			assert.Contains(t, r[1].Output, "b dirty new", "the copy has what is not committed")
			assert.Equal(t, []string{"a.new", "src/a.txt"}, r[0].ChangedFiles)
			assert.Equal(t, []string{"src/a.txt"}, r[1].ChangedFiles)
			assert.Equal(t, []string{"untracked"}, r[3].ChangedFiles)
			assert.Equal(t, task.Conflict, r[2].Status)
			assert.Empty(t, r[2].ChangedFiles)
			want := "A\ntwo\nthree\nfour\nfive\nsix\nB\n"
			assert.Equal(t, want, w.sh("cat src/a.txt; test ! -e c.new; test ! -e out/x"))
			if mode == "overlay" {
				assert.Contains(t, strings.Join(r[0].Warnings, "\n"), "not joined, because git ignores it: out/x")
			}
			assert.Equal(t, before, w.gitState())
			assert.Contains(t, r[2].Err(), "nothing was joined: src/a.txt: it was changed by task 1, task 2, in the "+
				"same lines; ")
			_, command, _ := strings.Cut(r[2].Err(), "to take what fits: ")
			w.sh(command + " || true; grep -q c c.new; rm c.new src/a.txt.rej")
			w.noCopies()
		})
	}
}

// TestApartApply: the command of a conflict applies what fits, wherever the folder is. git reads the paths of a patch
// from the top of a repository.
func TestApartApply(t *testing.T) {
	long(t)
	const commit = "git -C main commit -qm first --allow-empty; "
	for name, c := range map[string]struct{ setUp, dir string }{
		"root":            {"git init -q .", "."},
		"subfolder":       {"git init -q .; mkdir -p \"it's/sub dir\"", "it's/sub dir"},
		"no repository":   {"mkdir 'sub dir'", "sub dir"},
		"linked worktree": {"git init -q main; " + commit + "git -C main worktree add -q ../linked", "linked"},
		"subfolder of a linked worktree": {"git init -q main; " + commit +
			"git -C main worktree add -q ../linked; mkdir 'linked/sub dir'", "linked/sub dir"},
	} {
		for _, mode := range []string{"overlay", "worktree"} {
			if name == "no repository" && mode == "worktree" {
				continue
			}
			t.Run(name+" "+mode, func(t *testing.T) {
				w, _ := newServedWorld(t, standin.Reply(callTools))
				w.set("QQ_APPROVE=auto", "QQ_ALLOW=none", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=n",
					"GIT_COMMITTER_NAME=n", "GIT_AUTHOR_EMAIL=n@localhost", "GIT_COMMITTER_EMAIL=n@localhost")
				w.sh(c.setUp)
				w.dir = filepath.Join(w.dir, c.dir)
				w.file("f", "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\n")
				w.sh("git commit -qm more --allow-empty || true")
				_, r := w.isolated(mode, []map[string]any{
					{"id": "first", "task": commandTask("sed -i s/two/A/ f")},
					{"task": commandTask("sleep 0.3; sed -i 's/two/B/; s/ten/TEN/' f; mkdir new; " +
						"echo new > 'new/a file'")},
				})
				require.Equal(t, task.Conflict, r[1].Status, "%s %s", r[0].Err(), r[1].Err())
				assert.Contains(t, r[1].Err(), "joined: f: it was changed by task first, in the same lines; to take ")
				_, command, _ := strings.Cut(r[1].Err(), "to take what fits: ")
				cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", command)
				cmd.Dir, cmd.Env = "/", w.env
				out, err := cmd.CombinedOutput()
				assert.Error(t, err, "git says that something did not fit: %s", out)
				assert.Equal(t, "A TEN new\n", w.sh("echo $(sed -n 2p f) $(tail -n 1 f) $(cat 'new/a file')"))
				assert.Contains(t, w.sh("cat f.rej"), "+B")
			})
		}
	}
}

// TestApartFolderRemoved: the kernel has no overlay of a folder that is gone, so a task that is at work then has seen
// what was in no tree. It is not completed.
func TestApartFolderRemoved(t *testing.T) {
	for name, remove := range map[string]string{"removed": "rm -rf src", "moved": "mv src src2",
		"replaced": "rm -rf src; echo file > src"} {
		t.Run(name, func(t *testing.T) {
			w := newTree(t)
			_, r := w.isolated("overlay", []map[string]any{
				{"id": "first", "task": commandTask(remove + "; touch $(seq -f seen%g 100)")},
				// An overlay shows new files, if nobody has looked for them before.
				{"task": commandTask("ls src; for i in $(seq 100); do sleep 0.1; test -e seen$i && break; done; " +
					"rm -rf src; echo file > src; echo 1 > new")},
			}, "-j", "2")
			require.Equal(t, task.Completed, r[0].Status, r[0].Err())
			require.Equal(t, task.Conflict, r[1].Status, "%s %s", r[1].Output, r[1].Err())
			assert.Contains(t, r[1].Err(), "nothing was joined: src: task first removed this folder while the task "+
				"was at work in its copy; to take what it changed: git ")
			assert.NoFileExists(t, filepath.Join(w.dir, "new"))
			w.noCopies()
		})
	}
}

// TestApartSweptAtTheEnd: when a qq is killed, a process that it was starting can hold the locks of its folders for a
// moment longer. If the next qq begins before that, it removes the folders at its end.
func TestApartSweptAtTheEnd(t *testing.T) {
	id := task.NewID()
	var release func()
	w, _ := newServedWorld(t, standin.Reply(func(standin.Prompt) string {
		release()
		return "done"
	}))
	copies, run := filepath.Join(w.home, "qq/copies"), filepath.Join(w.home, "qq/run/1-1")
	require.NoError(t, os.MkdirAll(filepath.Join(copies, id, "some"), 0o700))
	require.NoError(t, os.MkdirAll(run, 0o700))
	lock, err := alive.Dir{Path: copies}.Hold(id)
	require.NoError(t, err)
	file, err := os.Create(filepath.Join(run, "lock"))
	require.NoError(t, err)
	require.NoError(t, syscall.Flock(int(file.Fd()), syscall.LOCK_EX))
	release = sync.OnceFunc(func() { _ = errors.Join(lock.Release(), file.Close()) })
	w.file("tasks.txt", "Do it\n")
	e := w.run("batch", "--isolate", "overlay", "--no-bar", "tasks.txt")
	assert.Zero(t, e.code, e.errors)
	w.noCopies()
	assert.NoDirExists(t, run)
}

// TestApartDelegated: what an agent delegates gets a copy of its own, and what that one delegates works in the copy.
// The agent that a person started sees what was joined when it has the answer.
func TestApartDelegated(t *testing.T) {
	for _, mode := range []string{"overlay", "worktree"} {
		t.Run(mode, func(t *testing.T) {
			w := newTree(t)
			inner := delegateTask(commandTask("cat half > whole; echo in >> whole"))
			outer := delegateTask(commandTask("echo half > half; sleep 0.5") + "\n" + inner + "\n" +
				commandTask("cat whole && rm half"))
			e := w.run("-a", "coder", "--isolate", mode, "--json", "-m", outer+
				"\n"+commandTask("cat whole; test ! -e half && echo gone"))
			r := e.document(t)
			assert.Equal(t, task.Completed, r.Status, e.errors)
			assert.Contains(t, r.Output, "half in gone")
			assert.Equal(t, []string{"whole"}, r.ChangedFiles)
			w.noCopies()
		})
	}
}

// TestApartNotCompleted: nothing of a task that was not completed is joined. What it changed is kept.
func TestApartNotCompleted(t *testing.T) {
	w := newTree(t)
	before := w.sh("git status --porcelain; sha256sum src/*")
	_, r := w.isolated("overlay", []map[string]any{
		{"task": commandTask("echo half > half") + "\n" + commandTask("sleep 60"), "timeout": 2},
	}, "--halt", "never")
	assert.Equal(t, task.Timeout, r[0].Status)
	assert.Empty(t, r[0].ChangedFiles)
	assert.Equal(t, before, w.sh("git status --porcelain; sha256sum src/*"))
	_, command, ok := strings.Cut(strings.Join(r[0].Warnings, "\n"), "it was not completed; to take what it changed: ")
	require.True(t, ok, r[0].Warnings)
	w.sh(command + "; grep -q half half")
	w.noCopies()
}

// TestApartKept: if there can be no patch of what a task changed, its copy is kept, and the result says where.
func TestApartKept(t *testing.T) {
	long(t)
	for _, mode := range []string{"overlay", "worktree"} {
		t.Run(mode, func(t *testing.T) {
			w := newTree(t)
			before := w.sh("git status --porcelain; sha256sum src/*")
			_, r := w.isolated(mode, []map[string]any{
				{"task": commandTask("echo done > work; truncate -s 300M large") + "\n" + commandTask("sleep 60"),
					"timeout": 3},
			}, "--halt", "never")
			assert.Equal(t, task.Timeout, r[0].Status)
			kept := func(text string) {
				_, dir, ok := strings.Cut(text, "what it changed is kept in the folder ")
				require.True(t, ok, text)
				dir, _, _ = strings.Cut(dir, "\n")
				assert.Equal(t, "done\n", w.sh("cat "+dir+"/work"))
				require.NoError(t, os.RemoveAll(dir))
			}
			first := strings.Join(r[0].Warnings, "\n")
			git, err := exec.LookPath("git")
			require.NoError(t, err)
			w.file("bin/git", "#!/bin/sh\ncase \"$*\" in *check-ignore*) exit 7; esac\nexec "+git+" \"$@\"\n")
			bin := filepath.Join(w.home, "bin")
			require.NoError(t, os.Rename(filepath.Join(w.dir, "bin"), bin))
			require.NoError(t, os.Chmod(filepath.Join(bin, "git"), 0o755))
			w.set("PATH=" + bin + ":" + os.Getenv("PATH"))
			_, r = w.isolated(mode, []map[string]any{{"task": commandTask("echo done > work")}})
			assert.Equal(t, task.Failed, r[0].Status)
			assert.Contains(t, r[0].Err(), "its changes were not joined: ask git")
			kept(r[0].Err())
			kept(first) // the second run did not remove it
			w.noCopies()
			assert.Equal(t, before, w.sh("git status --porcelain; sha256sum src/*"))
		})
	}
}

// TestApartObeyed: a command cannot make or change a file that programs obey through its copy.
func TestApartObeyed(t *testing.T) {
	for _, mode := range []string{"overlay", "worktree"} {
		t.Run(mode, func(t *testing.T) {
			w := newTree(t)
			w.file(".github/workflows/ci.yml", "on: push\n")
			const look = "find . -path ./.git/worktrees -prune -o -print; sha256sum .github/*/ci.yml .git/config"
			before := w.sh(look)
			_, r := w.isolated(mode, []map[string]any{
				{"task": commandTask("echo evil > .envrc; mkdir -p .vscode; echo evil > .vscode/tasks.json;" +
					"echo evil >> .github/workflows/ci.yml; echo evil > .git/hooks/pre-commit; echo ok > plain; true")},
			})
			assert.Equal(t, task.Completed, r[0].Status)
			assert.Equal(t, []string{"plain"}, r[0].ChangedFiles, "%q", r[0].Warnings)
			w.sh("rm plain")
			assert.Equal(t, before, w.sh(look))
			w.noCopies()
		})
	}
}

// TestApartRefused: where no copy can be had, the batch starts nothing and says so. The folder stays as it is.
func TestApartRefused(t *testing.T) {
	w, _ := newServedWorld(t, standin.Reply(callTools))
	w.set("QQ_APPROVE=auto")
	w.file("a", "1\n")
	before := w.sh("stat -c '%n %y %z' . a")
	file := w.tasksFile(map[string]any{"task": commandTask("echo 2 > a")})
	refused := func(words ...string) {
		t.Helper()
		e := w.run("batch", "-a", "coder", "--isolate", "worktree", "--no-bar", file)
		assert.Equal(t, 2, e.code, "nothing was started")
		assert.Empty(t, e.out)
		for _, word := range append(words, "\n  hint: ") {
			assert.Contains(t, e.errors, word)
		}
		assert.Equal(t, before, w.sh("stat -c '%n %y %z' . a"))
		w.noCopies()
	}
	refused("the folder belongs to no repository of git", "hint: try --isolate auto: an overlay of this folder can be ")
	e := w.run("batch", "-a", "coder", "--isolate", "everywhere", "--no-bar", file)
	assert.Equal(t, 2, e.code)
	assert.Contains(t, e.errors, "auto")
	e = w.run("-a", "default", "--isolate", "worktree", "--json", "-m", delegateTask(commandTask("echo 2 > a")))
	assert.Contains(t, e.document(t).Output, "no repository of git", "a delegated task is refused")
	e = w.run("batch", "-a", "explorer", "--isolate", "worktree", "--no-bar",
		w.tasksFile(map[string]any{"task": `read_file {"path": "a"}`}))
	assert.Zero(t, e.code, "who only reads needs no copy: %s", e.errors)
	assert.Equal(t, before, w.sh("stat -c '%n %y %z' . a"))
}

// TestStrictTargets: with --strict-targets neither a tool nor a command changes what is no target. Who is kept from it
// is told why, and what to do instead; the result has warnings. What the task starts is kept to the same.
func TestStrictTargets(t *testing.T) {
	w, server := newServedWorld(t, standin.Reply(callTools))
	w.set("QQ_APPROVE=auto", "QQ_ALLOW=none")
	w.file("src/a.txt", "a\n")
	w.file("src/b.txt", "b\n")
	w.file("doc/d.txt", "d\n")
	w.file("lib/l", "l\n")
	script := []string{
		`write_file {"path": "new.txt", "content": "new\n"}`,
		commandTask("echo more >> new.txt; echo more >> src/b.txt; echo l2 > lib/l2"),
		delegateTask(commandTask("echo inner >> src/b.txt; touch doc/x src/y; true")),
		`write_file {"path": "src/z.txt", "content": "bad\n"}`,
		commandTask("touch other; mv src/a.txt src/c.txt; rm doc/d.txt; mkdir made; echo > src/n; " +
			"sed -i s/b/B/ src/b.txt; ls"),
	}
	_, r := w.isolated("off", []map[string]any{{"task": strings.Join(script, "\n"),
		"targets": []string{"src/b.txt", "doc/*.md", "new.txt", "lib/**", "made/x", "src/n"}}}, "--strict-targets")
	assert.Equal(t, task.Completed, r[0].Status)
	assert.Equal(t, "doc/d.txt\nlib/l\nlib/l2\nnew.txt\nsrc/a.txt\nsrc/b.txt\n",
		w.sh("find doc lib new.txt src other made -type f 2>/dev/null | sort"))
	assert.Equal(t, "b\nmore\ninner\nnew\nmore\n", w.sh("cat src/b.txt new.txt"))
	const all = "src/b.txt, doc/*.md, new.txt, lib/**, made/x, src/n"
	assert.Contains(t, r[0].Output, "[exit code 0] [--strict-targets: commands can change only targets that exist "+
		"(of "+all+"). To make or replace a target, use write_file or edit_file: commands such as mkdir, mv and "+
		"sed -i cannot. No command writes .git")
	assert.NotContains(t, r[0].Output, "QQ_WRITABLE")
	assert.Len(t, r[0].Warnings, 4)
	warnings := strings.Join(r[0].Warnings, "\n")
	for _, words := range []string{
		"sub-agent coder: --strict-targets: commands could not write: touch: cannot touch 'doc/x': Read-only file",
		"--strict-targets: refused to change src/z.txt\n",
		"\n--strict-targets: commands could not write: touch: cannot touch 'other': Read-only file system | ",
		"Read-only file system and 1 more\n",
		"--strict-targets: targets that were not made: made/x, src/n; commands can make one only in a copy",
	} {
		assert.Contains(t, warnings, words)
	}
	var asked strings.Builder
	for _, r := range server.Requests("/api/chat") {
		asked.Write(r.Body)
	}
	assert.Contains(t, asked.String(), "Commands can write only in: targets that exist (of "+all+"), $TMPDIR. "+
		"A refusal elsewhere is intended. To make or replace a target, use write_file or edit_file: ")
	assert.Contains(t, asked.String(), "src/z.txt is not among the targets of the task ("+all+"), "+
		"and --strict-targets lets it change nothing else: who gives the task can add it to its targets")

	_, r = w.isolated("off", []map[string]any{{"task": commandTask("echo more >> new.txt"),
		"targets": []string{"new.txt"}}}, "--strict-targets")
	assert.Empty(t, r[0].Warnings)
}

// TestStrictCopies: in a copy a command sees the whole folder and can write in it, so that it can make and replace
// targets. What they do not cover is not joined. A task that works in the copy of another one is kept to its own
// targets by the sandbox.
func TestStrictCopies(t *testing.T) {
	for _, mode := range []string{"overlay", "worktree"} {
		t.Run(mode, func(t *testing.T) {
			w := newTree(t)
			w.sh("mkdir lib doc; echo l > lib/l; echo m > lib/m; git add lib; git commit -qm lib")
			inner, err := json.Marshal(map[string]any{"agent": "coder", "targets": []string{"lib/l"},
				"task": commandTask("grep -c dirty src/b.txt >> lib/l; echo bad >> lib/m; true")})
			require.NoError(t, err)
			_, r := w.isolated(mode, []map[string]any{{
				"task": commandTask("ls -A; cat src/a.txt; sed -i s/b/B/ src/b.txt && mkdir -p doc new/deep empty && "+
					"echo x > new/deep/x && echo n > doc/n.md && touch other src/y && rm src/a.txt") + "\n" +
					`grep_file {"path": "src/b.txt", "pattern": "dirty"}` + "\n" + "delegate_task " + string(inner) + "\n" +
					`edit_file {"path": "lib/m", "old_text": "m", "new_text": "M"}`,
				"targets": []string{"src/b.txt", "new/deep/x", "doc/*.md", "lib/**"},
			}}, "--strict-targets")
			assert.Equal(t, task.Completed, r[0].Status, r[0].Err())
			assert.Equal(t, []string{"doc/n.md", "lib/l", "lib/m", "new/deep/x", "src/b.txt"}, r[0].ChangedFiles)
			assert.Equal(t, "B\ndirty\nx\nn\nl\n1\nM\n", w.sh("cat src/b.txt new/deep/x doc/n.md lib/l lib/m"))
			w.sh("test ! -e other && test ! -e src/y && test ! -e empty && test -e src/a.txt")
			_, patch, ok := strings.Cut(strings.Join(r[0].Warnings, "\n"), "not joined, because it is outside of the "+
				"targets (--strict-targets): empty, other, src/a.txt, src/y: it is kept in ")
			require.True(t, ok, r[0].Warnings)
			w.sh("git apply --include=other " + patch + " && test -e other && rm other")
			w.noCopies()

			_, r = w.isolated(mode, []map[string]any{
				{"task": commandTask("touch other"), "targets": []string{"src/b.txt"}},
				{"task": commandTask("ls src; cat .gitignore; exit 1"), "targets": []string{"no/such"}},
				{"task": commandTask("echo c > src/b.txt; echo c > src/c.txt"), "targets": []string{"src/b.txt"},
					"check": "cmp src/b.txt src/c.txt"},
				{"task": commandTask("mkdir d; echo d > d/d"), "targets": []string{"d/**"}, "check": "cat d/d"},
			}, "--strict-targets", "--require-change", "--halt", "never")
			assert.Equal(t, task.CheckFailed, r[0].Status, "what is not joined is no change: %s", r[0].Output)
			assert.Contains(t, r[1].Output+r[1].Err(), "a.txt b.txt out/")
			assert.Equal(t, task.CheckFailed, r[2].Status, "the check was of something else")
			assert.Contains(t, r[2].Err(), "the check was not run, because files were changed outside of the targets "+
				"(--strict-targets): src/c.txt")
			assert.Contains(t, r[2].Warnings[0], "nothing was joined, because it was not completed; to take what it ")
			assert.Equal(t, task.Completed, r[3].Status, r[3].Err())
			assert.Equal(t, "B\ndirty\nd\n", w.sh("cat src/b.txt d/d; test ! -e src/c.txt"))
		})
	}
}

// TestStrictChecks: what a check itself makes outside of the targets is not joined, and is no fault, nor is what it
// made when it ran before, nor what others have made in the folder. What the agent made goes back to it.
func TestStrictChecks(t *testing.T) {
	long(t)
	for _, mode := range []string{"overlay", "worktree"} {
		t.Run(mode, func(t *testing.T) {
			repairs := strings.NewReplacer("Take these back", commandTask("rm stray; echo a > src/a")+"\n",
				"Repair the work", commandTask("echo 2 >> src/b")+"\n")
			w, server := newServedWorld(t, standin.Reply(func(p standin.Prompt) string {
				for i, m := range p.Messages {
					if m.Role == "user" {
						p.Messages[i].Content = repairs.Replace(strings.ReplaceAll(m.Content, ". ", "\n"))
					}
				}
				return callTools(p)
			}))
			w.set("QQ_APPROVE=auto", "QQ_ALLOW=none", "GIT_CONFIG_NOSYSTEM=1")
			w.sh("mkdir src; echo a > src/a; echo b > src/b; git init -q -b main .; git config user.name n; " +
				"git config user.email n@localhost; git add -A; git commit -qm first")
			_, r := w.isolated(mode, []map[string]any{
				{"task": commandTask("echo 1 >> src/b"), "targets": []string{"src/b"},
					"check": "echo >> report; echo >> src/a; grep 2 src/b"},
				{"task": commandTask("echo c > src/c; echo > stray; echo >> src/a"), "targets": []string{"src/c"},
					"check": "echo > report; grep c src/c"},
			}, "--strict-targets", "--halt", "never")
			for i := range r {
				assert.Equal(t, task.Completed, r[i].Status, r[i].Err())
				assert.Contains(t, strings.Join(r[i].Warnings, "\n"),
					"not joined, because it is outside of the targets (--strict-targets): report")
			}
			assert.Equal(t, "a\nb\n1\n2\nc\nsrc\n", w.sh("cat src/a src/b src/c; ls"))
			var asked strings.Builder
			for _, r := range server.Requests("/api/chat") {
				asked.Write(r.Body)
			}
			assert.Contains(t, asked.String(), "you have changed files outside of the targets of the task: src/a, "+
				"stray\\nThe targets are: src/c\\n")

			_, r = w.isolated(mode, []map[string]any{
				{"task": commandTask("i=0; until ls | grep -q new || test $i = 40; do sleep .1; i=$((i+1)); done"),
					"targets": []string{"src/b"}, "check": "true"},
				{"task": commandTask("mkdir new; echo > new/other"), "targets": []string{"new/**"}, "check": "true"},
			}, "--strict-targets", "--halt", "never", "--repair", "0")
			for i := range r {
				assert.Equal(t, task.Completed, r[i].Status, r[i].Err())
			}
		})
	}
}

// TestStrictReader: a task that may only read works with --strict-targets as without.
func TestStrictReader(t *testing.T) {
	w := newTree(t)
	_, r := w.isolated("off", []map[string]any{
		{"task": commandTask("cat src/b.txt"), "targets": []string{"src/b.txt"}, "read_only": true},
	}, "--strict-targets")
	assert.Equal(t, task.Completed, r[0].Status, r[0].Err())
}

// TestUndeclared: what a command of an isolated task changes outside of the targets is reported.
func TestUndeclared(t *testing.T) {
	w := newTree(t)
	_, r := w.isolated("overlay", []map[string]any{
		{"task": commandTask("echo x >> src/a.txt; echo y > src/new; rm src/b.txt"), "targets": []string{"src/b.txt"}},
	})
	assert.Equal(t, task.Completed, r[0].Status)
	assert.Equal(t, []string{"src/a.txt", "src/b.txt", "src/new"}, r[0].ChangedFiles)
	assert.Equal(t, []string{"files were changed outside of the targets: src/a.txt, src/new"}, r[0].Warnings)
}

// TestHomeInTree: what qq itself writes below the folder is no change of a task, not even where QQ_HOME is in it.
func TestHomeInTree(t *testing.T) {
	for _, home := range []string{"sub/qq", ".."} {
		w, _ := newServedWorld(t, standin.Reply(callTools))
		w.file("a", "a\n")
		w.set("QQ_APPROVE=auto", "QQ_HOME="+filepath.Join(w.dir, home))
		_, r := w.isolated("off", []map[string]any{
			{"task": commandTask("cat a"), "targets": []string{"b"}},
			{"task": commandTask("echo x > c"), "targets": []string{"c"}},
		}, "--require-change", "--strict-targets", "--halt", "never")
		assert.Equal(t, task.CheckFailed, r[0].Status)
		assert.Equal(t, []string{"--strict-targets: targets that were not made: b; commands can make one only in a " +
			"copy of their own (--isolate auto)"}, r[0].Warnings)
		_, r = w.isolated("off", []map[string]any{{"task": commandTask("echo x > c"), "targets": []string{"c"}}},
			"--require-change")
		assert.Equal(t, task.Completed, r[0].Status, "%s: %s", home, r[0].Err())
	}
}

// TestApartOrder: patches are joined in input order, behind a slow first task too, and a task that waits for that lends
// its slot. A patch that the targets of its task cover does not wait.
func TestApartOrder(t *testing.T) {
	w := newTree(t)
	slow := commandTask("sleep 1.5; echo slow > order")
	fast := commandTask("echo fast > order")
	listed := []map[string]any{{"task": slow}, {"task": fast}, {"task": fast}, {"task": fast}}
	e, r := w.isolated("overlay", listed, "-j", "2")
	assert.Equal(t, 4, e.code)
	assert.Equal(t, task.Completed, r[0].Status)
	for _, late := range r[1:] {
		assert.Equal(t, task.Conflict, late.Status, "the later one is in conflict, though it was ready first")
		assert.Greater(t, late.DurationMS+late.QueuedMS, int64(1000))
		assert.Less(t, late.QueuedMS, int64(1400), "it had the slot of one that waits")
	}
	assert.Equal(t, "slow\n", w.sh("cat order"))
	_, r = w.isolated("overlay", []map[string]any{
		{"task": slow, "targets": []string{"order"}},
		{"task": commandTask("echo x >> src/b.txt"), "targets": []string{"src"}},
		{"task": commandTask("echo y >> order"), "targets": []string{"order"}, "id": "z"},
	}, "-j", "2")
	assert.Equal(t, task.Completed, r[1].Status)
	assert.Less(t, r[1].DurationMS, int64(1400), "it does not wait for the slow one")
}

// TestApartBound: behind a slow task only so many others wait to be joined, each with its copy.
func TestApartBound(t *testing.T) {
	long(t)
	w := newTree(t)
	tasks := []map[string]any{{"task": commandTask("sleep 4; echo slow > slow")}}
	for i := range 30 {
		tasks = append(tasks, map[string]any{"task": commandTask(fmt.Sprintf("echo %d > f%d", i, i))})
	}
	ended := make(chan struct{})
	most := make(chan int)
	go func() {
		n := 0
		for {
			copies, _ := filepath.Glob(filepath.Join(w.home, "qq/copies/*/*"))
			n = max(n, len(copies))
			select {
			case <-ended:
				most <- n
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	_, r := w.isolated("overlay", tasks, "-j", "2")
	close(ended)
	n := <-most
	assert.Greater(t, n, 4*2)
	assert.LessOrEqual(t, n, 4*2+4)
	for _, one := range r {
		assert.Equal(t, task.Completed, one.Status, one.Err())
	}
}

// TestApartPhases: with --phases a task waits for one behind it, which is joined first.
func TestApartPhases(t *testing.T) {
	w := newTree(t)
	_, r := w.isolated("overlay", []map[string]any{
		{"task": commandTask("cat found > a")},
		{"task": commandTask("echo found > found"), "role": "information-gathering"},
	}, "--phases")
	for _, one := range r {
		assert.Equal(t, task.Completed, one.Status, one.Err())
	}
	assert.Equal(t, "found\n", w.sh("cat a"))
}

// TestApartNoDeadlock: a task that waits to be joined lends its lease. A child of a task before it may need that.
func TestApartNoDeadlock(t *testing.T) {
	w := newTree(t)
	e, r := w.isolated("overlay", []map[string]any{
		{"task": commandTask("sleep 1") + "\n" + delegateTask(commandTask("echo child > child"))},
		{"task": commandTask("echo two > two")},
		{"task": delegateTask(commandTask("echo three > three")), "agent": "default"},
	}, "-j", "3", "--timeout", "30")
	assert.Zero(t, e.code, e.errors)
	assert.Equal(t, "child\ntwo\nthree\n", w.sh("cat child two three"))
	assert.Less(t, r[0].DurationMS, int64(20_000))
}

// TestApartFullDisk: with no room for copies nothing is started; if the disk fills up meanwhile, nothing is joined. The
// folder stays as it is to the bit.
func TestApartFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a disk")
	}
	if out, err := exec.CommandContext(t.Context(), "unshare", "-m", "true").CombinedOutput(); err != nil {
		t.Skip(string(out))
	}
	w := newTree(t)
	self, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(w.home, "bin"), 0o700))
	require.NoError(t, os.Symlink(self, filepath.Join(w.home, "bin/qq")))
	copies := filepath.Join(w.home, "qq/copies")
	require.NoError(t, os.MkdirAll(copies, 0o700))
	file := w.tasksFile(map[string]any{"task": commandTask("head -c 3000000 /dev/zero > big")})
	const look = "find . -printf '%p %m %T@ %C@\\n' | sort; sha256sum .git/index src/*"
	before := w.sh(look)
	for _, c := range []struct{ disk, at, want string }{
		{"nr_inodes=2", copies, "make a folder for copies: .*no space left"},
		{"size=1m", copies, "No space left on device"},
	} {
		script := "mount -t tmpfs -o " + c.disk + " none " + c.at + " && cd " + w.dir + " && exec " + w.home +
			"/bin/qq batch -a coder --isolate overlay --no-bar --output-format json " + file
		cmd := exec.CommandContext(t.Context(), "unshare", "-m", "sh", "-c", script)
		cmd.Env = append(w.env, "QQ_FAULT_WAIT=1")
		out, _ := cmd.CombinedOutput()
		assert.Regexp(t, c.want, string(out))
		assert.Equal(t, before, w.sh(look))
	}
}

// Of a task that a limit kept from doing all nothing is joined, and what it changed is kept.
func TestNothingIsJoinedAfterALimit(t *testing.T) {
	w := newTree(t)
	w.set("QQ_MAX_CHILDREN=0")
	_, r := w.isolated("worktree", []map[string]any{
		{"id": "a", "task": commandTask("echo a > a") + "\n" + delegateTask("x")},
		{"id": "b", "task": "nothing", "needs": []string{"a"}},
	})
	assert.Equal(t, task.Limit, r[0].Status)
	assert.Empty(t, r[0].ChangedFiles)
	assert.Contains(t, strings.Join(r[0].Warnings, "\n"), "nothing was joined, because it was not completed")
	assert.Equal(t, task.Skipped, r[1].Status)
	assert.NoFileExists(t, filepath.Join(w.dir, "a"))
}
