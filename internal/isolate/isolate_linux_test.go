package isolate

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/sandbox"
	"qq/pkg/proc"
	"qq/pkg/task"
)

// TestJoinIsLikeInPlace: what a script does in a copy is joined, and the tree is then as if the script had run there.
// Before, the tree, the index, HEAD and the stash are untouched to the bit.
func TestJoinIsLikeInPlace(t *testing.T) {
	modes(t, func(t *testing.T, mode Mode) {
		for name, script := range map[string]string{
			"nothing":           `cat src/a >/dev/null`,
			"touched only":      `touch src/a src/deep/b; cp src/a x; cp x src/a; rm x; chmod 755 src; mv src/deep s; mv s src/deep`,
			"edited":            `sed -i s/one/ONE/ src/a`,
			"appended":          `echo more >> src/a`,
			"new":               `echo n > src/new; mkdir -p p/q; echo n > p/q/r`,
			"removed":           `rm src/a untracked`,
			"folder removed":    `rm -r src`,
			"folder renamed":    `mv src other`,
			"folder made again": `rm -r src; mkdir src; echo z > src/z`,
			"deep folder again": `rm -r src/deep; mkdir -p src/deep/deep; echo z > src/deep/deep/b`,
			"exec bits":         `chmod -x src/deep/b; chmod +x src/a`,
			"permissions":       `chmod 600 src/a; chmod 700 src/deep`,
			"binary":            `printf 'z\0\377' > bin; head -c 3000000 /dev/zero > large`,
			"link to file":      `rm link; echo f > link`,
			"file to link":      `rm src/a; ln -s /nowhere src/a`,
			"other link":        `ln -sfn src/deep link`,
			"file to folder":    `rm bin; mkdir bin; echo in > bin/in`,
			"folder to file":    `rm -r src/deep; echo f > src/deep`,
			"folder to link":    `rm -r src/deep; ln -s .. src/deep`,
			"link to folder":    `rm link; mkdir link; echo in > link/a`,
			"empty folders":     `mkdir -p e/f; rmdir empty2 2>/dev/null || true`,
			"names":             `printf 1 > "$(printf 'not\377utf8')"; printf 1 > 'sp ace "q" \ :,'; printf 2 > "$(printf 'nl\nx')"`,
			"unreadable":        `echo s > s; chmod 000 s; chmod 400 s; mkdir closed; echo i > closed/i; chmod 555 closed`,
			"swapped":           `mv src/a t; mv bin src/a; mv t bin`,
			"hard links":        `ln src/a src/hard; echo more >> src/hard`,
			"emptied":           `: > src/a`,
			"case and dots":     `echo 1 > ..x; echo 2 > SRC; echo 3 > src/A`,
			"from dirty":        `echo more >> bin; echo more >> untracked`,
			"committed is lost": `echo c >> src/a; git add -A; git commit -qm second; git stash list`,
		} {
			t.Run(name, func(t *testing.T) {
				y := newYard(t, repository)
				y.shell(".", "cp -a tree twin; git -C tree stash list")
				before := sum(t, y.path("tree"), true)
				c := y.make(mode)
				y.run(c, script)
				p := y.patch(c)
				if mode == Worktree && strings.HasPrefix(name, "committed") { // its object is in the repository
					assert.Equal(t, gitFiles(before), gitFiles(sum(t, y.path("tree"), true)))
				} else {
					assert.Equal(t, before, sum(t, y.path("tree"), true), "untouched before the join")
				}
				out := y.join(p)
				assert.Empty(t, out[0].Conflicts)
				assert.Empty(t, out[0].Kept)
				y.shell("twin", script)
				want := sum(t, y.path("twin"), false)
				if mode == Worktree && name == "empty folders" { // git knows none, so the worktree has none
					y.shell("twin", "mkdir -p empty2")
					want = sum(t, y.path("twin"), false)
				}
				assert.Equal(t, want, sum(t, y.path("tree"), false), "%v", p.Changes)
				if name == "nothing" || name == "touched only" {
					assert.Empty(t, p.Changes)
				}
				assert.Equal(t, gitFiles(before), gitFiles(sum(t, y.path("tree"), true)))
				require.NoError(t, c.Remove())
			})
		}
	})
}

// gitFiles returns the lines about the files of git: HEAD, the index, branches and the stash. An object that nobody
// names is none of them.
func gitFiles(text string) (lines []string) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, `".git/`) && !strings.HasPrefix(line, `".git/objects`) {
			lines = append(lines, line)
		}
	}
	return lines
}

// TestJoinMerges: two tasks that change one file in different lines are joined, in the same lines they are in conflict.
// The patch of a conflict is kept, git can apply it, and the tree has nothing of it.
func TestJoinMerges(t *testing.T) {
	modes(t, func(t *testing.T, mode Mode) {
		y := newYard(t, repository)
		base := y.shell("tree", "cat src/a")
		a, b, c, d, e := y.make(mode), y.make(mode), y.make(mode), y.make(mode), y.make(mode)
		y.run(a, "sed -i s/one/A/ src/a; chmod +x src/a")
		y.run(b, "sed -i s/seven/B/ src/a; echo b > fromb")
		y.run(c, "sed -i s/one/C/ src/a; echo c > fromc")
		y.run(d, "rm src/a")
		y.run(e, "mv src s2")
		out := y.join(y.patch(a), y.patch(b), y.patch(c), y.patch(d), y.patch(e))
		assert.Equal(t, []string{"src/a"}, out[0].Files)
		assert.Equal(t, []string{"fromb", "src/a"}, out[1].Files)
		merged := strings.NewReplacer("one", "A", "seven", "B").Replace(base)
		assert.Equal(t, merged, y.shell("tree", "cat src/a"))
		y.shell("tree", "test -x src/a; test -e fromb; test ! -e fromc; test ! -e s2")
		for i, o := range out[2:] {
			require.Len(t, o.Conflicts, 1, i)
			assert.Equal(t, "src/a", o.Conflicts[0].Path)
			assert.Empty(t, o.Files)
		}
		assert.Contains(t, out[2].Conflicts[0].Reason, "in the same lines")
		assert.Equal(t, y.path("patches/"+c.ID+".patch"), out[2].File)
		y.shell(".", "mkdir theirs; cd theirs; git init -q .; mkdir src; "+
			"cp ../tree/src/deep -a src/; cp ../tree/link -P .")
		require.NoError(t, os.WriteFile(y.path("theirs/src/a"), []byte(base), 0o644))
		y.shell("theirs", "git apply "+out[2].File+"; grep -q C src/a; grep -q c fromc; git apply -R "+out[2].File+
			"; git apply "+out[4].File+"; test -e s2/a; test ! -e src/a")
		for _, c := range []*Copy{a, b, c, d, e} {
			require.NoError(t, c.Remove())
		}
		f := y.make(mode) // it is made after the joins, and sees them
		y.run(f, "grep -q A src/a; sed -i s/two/F/ src/a; rm fromb")
		assert.Empty(t, y.join(y.patch(f))[0].Conflicts)
		assert.Contains(t, y.shell("tree", "cat src/a; test ! -e fromb"), "A\nF\n")
	})
}

// TestUnreadable: a file that nobody may read is joined as one, and later changes of it are joined too.
func TestUnreadable(t *testing.T) {
	modes(t, func(t *testing.T, mode Mode) {
		y := newYard(t, repository)
		a, b, c := y.make(mode), y.make(mode), y.make(mode)
		y.run(a, "chmod 000 src/a; echo 1 > new; chmod 000 new")
		y.run(b, "sed -i s/seven/B/ src/a")
		y.run(c, "rm src/a")
		out := y.join(y.patch(a), y.patch(b), y.patch(c))
		assert.Equal(t, []string{"new", "src/a"}, out[0].Files)
		assert.Equal(t, "0\n0\n", y.shell("tree", "stat -c %a src/a new"))
		assert.Equal(t, os.Geteuid() != 0, len(out[1].Conflicts) > 0, "who can read the file can merge it")
		assert.Len(t, out[2].Conflicts, 1)
		if mode == Worktree && os.Geteuid() != 0 {
			return // its files could not be copied
		}
		d := y.make(mode)
		y.run(d, "chmod 644 new; test ! -s new || echo 2 > new; rm -f src/a")
		assert.Empty(t, y.join(y.patch(d))[0].Conflicts)
		assert.Equal(t, "2\n644\n", y.shell("tree", "cat new; stat -c %a new; test ! -e src/a"))
	})
}

// TestCopyStays: a copy does not change when another one is joined.
func TestCopyStays(t *testing.T) {
	modes(t, func(t *testing.T, mode Mode) {
		y := newYard(t, repository)
		a, b, c := y.make(mode), y.make(mode), y.make(mode)
		y.run(a, "sed -i s/one/A/ src/a; rm -r src/deep link; chmod 600 bin; mkdir link; echo 1 > link/in")
		y.run(b, "ls src/deep >/dev/null; rm untracked")
		const look = "ls . src; stat -c '%a %F' bin link src src/a src/deep src/deep/b; cat src/a src/deep/b"
		before := y.run(b, look)
		y.join(y.patch(a))
		assert.Equal(t, before, y.run(b, look))
		y.run(c, "test -L link; test -e src/deep/b; cat src/a > copied; sed -i s/seven/C/ src/a")
		for _, o := range y.join(y.patch(b), y.patch(c)) {
			assert.Empty(t, o.Conflicts)
		}
		y.shell("tree", "test -d link; test ! -e src/deep; test ! -e untracked; grep -q one copied")
		y.shell("tree", "grep -q A src/a; grep -q C src/a")
	})
}

// TestSomebodyElse: a file that a person changes while a task changes it is in conflict; others are not.
func TestSomebodyElse(t *testing.T) {
	modes(t, func(t *testing.T, mode Mode) {
		y := newYard(t, repository)
		a, b := y.make(mode), y.make(mode)
		y.run(a, "sed -i s/one/A/ src/a; echo a > made")
		y.run(b, "sed -i s/one/A/ src/deep/b; rm bin")
		y.shell("tree", "echo person >> src/a; echo person > made")
		before := sum(t, y.path("tree"), true)
		out := y.join(y.patch(a))
		require.Len(t, out[0].Conflicts, 2)
		assert.Contains(t, out[0].Conflicts[0].Reason, "somebody else")
		assert.Equal(t, before, sum(t, y.path("tree"), true))
		assert.Empty(t, y.join(y.patch(b))[0].Conflicts)
		y.shell("tree", "test ! -e bin; grep -q person src/a")
	})
}

// TestCommandInView: a command of an agent sees the copy in its view, can write there and nowhere else, cannot undo the
// mounts, and finds read-only what stays so.
func TestCommandInView(t *testing.T) {
	y := newYard(t, repository)
	c, err := y.Make(context.Background(), "v", Overlay)
	if err != nil {
		t.Skip(err)
	}
	before := sum(t, y.path("tree"), true)
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer read.Close()
	dir := y.path("tree")
	o := sandbox.Order{Path: "/bin/sh", Overlay: &sandbox.Overlay{File: 3, Dir: dir}, Report: 4, Mountable: true,
		Rules: sandbox.Rules{Write: []string{dir}, Real: true},
		View:  &sandbox.View{ReadOnly: []string{dir + "/.git"}}}
	path, args, env := sandbox.Wrap(self(), o, []string{"sh", "-c", `echo in >> src/a; rm -r src/deep; cd .; pwd
touch .git/x ` + y.path("outside") + `; umount . || echo kept; ls -d /proc/self/fd/3; test -e ` + dir + `/src/deep || echo gone`})
	out, err := output(proc.Command{Path: path, Args: args, Env: append(gitEnv(y.top), env), Dir: dir,
		Extra: []*os.File{c.File(), write}, Namespace: true, Mounts: true})
	require.NoError(t, err)
	write.Close()
	said, err := io.ReadAll(read)
	require.NoError(t, err)
	assert.Equal(t, sandbox.Viewed+"\n", string(said))
	for _, words := range []string{dir + "\n", "kept", "gone", "Read-only file system", "'/proc/self/fd/3'"} {
		assert.Contains(t, out, words)
	}
	assert.NoFileExists(t, y.path("outside"))
	assert.Equal(t, before, sum(t, dir, true))
	p := y.patch(c)
	require.Len(t, p.Changes, 3)
	assert.Equal(t, "src/a", p.Changes[0].Path)
	y.join(p)
	y.shell("tree", "grep -q in src/a; test ! -e src/deep")
}

// TestOwner: a file that root joins keeps its owner.
func TestOwner(t *testing.T) {
	nobody(t)
	modes(t, func(t *testing.T, mode Mode) {
		y := newYard(t, repository)
		require.NoError(t, os.Lchown(y.path("tree/src/a"), 65534, 65534))
		c := y.make(mode)
		y.run(c, "echo more >> src/a; mkdir -p sub/.GIT; echo 1 > sub/.GIT/hook")
		p := y.patch(c)
		y.join(p)
		assert.Equal(t, "65534 65534\n", y.shell("tree", "grep -q more src/a; stat -c '%u %g' src/a"))
		y.shell("tree", "test -d sub; test ! -e sub/.GIT")
	})
}

// TestIgnored: what git ignores is no change, and is named. A file that is tracked all the same is one.
func TestIgnored(t *testing.T) {
	modes(t, func(t *testing.T, mode Mode) {
		y := newYard(t, repository+"echo 1 > forced.log; git add -f forced.log; git commit -qm forced; "+
			"mkdir sub; git -C sub init -q .; git -C sub commit -q --allow-empty -m x; git add sub; git commit -qm sub")
		c := y.make(mode)
		y.run(c, "mkdir -p out; echo built > out/built; echo 2 > forced.log; echo 3 > my.log; "+
			"echo 4 > src/c; echo 5 > sub/s")
		p := y.patch(c)
		assert.Contains(t, p.Ignored, "out/built")
		assert.Contains(t, p.Ignored, "my.log")
		y.join(p)
		y.shell("tree", "test ! -e out/built; test ! -e my.log; grep -q ig out/kept")
		y.shell("tree", "grep -q 2 forced.log; test -e src/c; test -e sub/s")
	})
}

// TestForeignPaths: a path about which git says nothing but an error counts as not ignored, however many there are: one
// in a submodule, one below a link that became a folder, and one that begins as a pattern of git does.
func TestForeignPaths(t *testing.T) {
	modes(t, func(t *testing.T, mode Mode) {
		y := newYard(t, repository+"mkdir sub; git -C sub init -q .; git -C sub commit -q --allow-empty -m x; "+
			"git add sub; git commit -qm sub; ln -s src dir")
		c := y.make(mode)
		y.run(c, "rm dir; mkdir dir sub/d; for i in $(seq 60); do echo 1 > sub/$i; echo 1 > sub/d/$i; "+
			"echo 1 > dir/$i; echo 1 > \":(x)$i\"; done; echo 1 > my.log")
		p := y.patch(c)
		assert.Equal(t, []string{"my.log"}, p.Ignored)
		y.join(p)
		assert.Equal(t, "240\n", y.shell("tree", "ls sub/?* dir/?* :* | grep -c '[0-9]$'"))
	})
}

// TestWorktreeInclude: a worktree has the ignored files that .worktreeinclude names, and an overlay all.
func TestWorktreeInclude(t *testing.T) {
	modes(t, func(t *testing.T, mode Mode) {
		y := newYard(t, repository+"echo key > my.log; echo my.log > .worktreeinclude")
		c := y.make(mode)
		y.run(c, "grep -q key my.log; test -e untracked; grep -q dirty bin; test -x src/deep/b; test -L link")
		if mode == Worktree {
			y.run(c, "test ! -e out; test -z \"$(git status --porcelain -- src)\"")
			y.run(c, "git status --porcelain | grep -q ' M bin'")
		} else {
			y.run(c, "test -e out/kept")
		}
	})
}

// TestSubfolder: a copy of a folder in a repository, with a name that needs care.
func TestSubfolder(t *testing.T) {
	modes(t, func(t *testing.T, mode Mode) {
		y := newYard(t, repository)
		y.shell("tree", `mkdir -p 'a:b,c\d e/f'; echo 1 > 'a:b,c\d e/f/g'; git add -A; git commit -qm two`)
		cfg := y.config()
		cfg.Dir += `/a:b,c\d e`
		sub, err := Open(cfg)
		require.NoError(t, err)
		defer sub.Close()
		c, err := sub.Make(context.Background(), "s", mode)
		require.NoError(t, err)
		assert.Contains(t, y.run(c, "pwd; echo 2 >> f/g; rm -f f/h; echo 3 > f/h"), `/a:b,c\d e`)
		p := y.patch(c)
		require.Len(t, p.Changes, 2)
		out, err := sub.Join(context.Background(), p)
		require.NoError(t, err)
		assert.Equal(t, []string{"f/g", "f/h"}, out[0].Files)
		y.shell("tree", `grep -q 2 'a:b,c\d e/f/g'; test -e 'a:b,c\d e/f/h'`)
	})
}

// TestHostileRepository: no hook, filter, monitor, diff or pager of a checkout runs.
func TestHostileRepository(t *testing.T) {
	y := newYard(t, repository)
	marker := y.path("marker")
	y.shell("tree", `m='touch `+marker+`'
for h in post-checkout post-index-change reference-transaction pre-commit post-merge post-rewrite fsmonitor-watchman; do
  printf '#!/bin/sh\n%s-%s\n' "$m" $h > .git/hooks/$h; chmod +x .git/hooks/$h
done
printf '* filter=evil diff=evil merge=evil\n' > .gitattributes
for k in filter.evil.clean filter.evil.smudge filter.evil.process diff.evil.command diff.evil.textconv diff.external \
  core.fsmonitor core.pager core.editor core.sshCommand core.alternateRefsCommand merge.evil.driver gpg.program; do
  git config $k "$m-$k"
done
git config filter.evil.required true
git config core.worktree `+y.path("elsewhere")+`
mkdir `+y.path("elsewhere"))
	for _, mode := range []Mode{Overlay, Worktree} {
		c, err := y.Make(context.Background(), "h"+string(mode), mode)
		if err != nil {
			t.Log(err)
			continue
		}
		y.run(c, "echo h"+string(mode)+" >> src/a; echo 1 > x.log")
		p := y.patch(c)
		assert.Equal(t, []string{"x.log"}, p.Ignored)
		assert.Len(t, p.Changes, 1)
		require.NoError(t, c.Remove())
	}
	left, err := filepath.Glob(marker + "*")
	require.NoError(t, err)
	assert.Empty(t, left)
	y.shell("tree", "rm .git/hooks/*; git config --unset core.worktree; git config --unset core.fsmonitor") // for clean
}

// TestRefused: without overlays and git no copy is made, the tree stays as it is to the bit, and the error says why.
func TestRefused(t *testing.T) {
	y := newYard(t, "echo 1 > a; mkdir d")
	before := sum(t, y.path("tree"), true)
	refused := func(mode Mode, words ...string) {
		_, err := y.Make(context.Background(), "r", mode)
		require.Error(t, err)
		problem, hint := task.Explain(err)
		for _, w := range words {
			assert.Contains(t, problem, w)
		}
		assert.NotEmpty(t, hint)
		assert.NotContains(t, problem, "\n")
		assert.Equal(t, before, sum(t, y.path("tree"), true))
		entries, err := os.ReadDir(filepath.Join(y.State, y.id))
		require.NoError(t, err)
		assert.Empty(t, entries)
	}
	refused(Worktree, "no repository of git")
	refused("inplace", "none of auto")
	y.shell("tree", "git init -q .")
	before = sum(t, y.path("tree"), true)
	reopened, err := Open(y.config())
	require.NoError(t, err)
	_, err = reopened.Make(context.Background(), "r", Worktree) // no commit
	assert.ErrorContains(t, err, "HEAD")
	require.NoError(t, reopened.Close())
	assert.Equal(t, before, sum(t, y.path("tree"), true))
	y.shell("tree", "rm -r .git")
	cfg := y.config()
	cfg.State = y.path("tree/state")
	_, err = Open(cfg)
	assert.ErrorContains(t, err, "one is in the other")
	y.shell("tree", "rmdir state")
}

// inner runs a test of this binary in a process of its own, which tells by a variable that it is inside.
func inner(t *testing.T, test, script string, attr *syscall.SysProcAttr) {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "isolate")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	exe := filepath.Join(dir, "test")
	require.NoError(t, exec.Command("cp", self(), exe).Run())
	require.NoError(t, os.Chmod(dir, 0o755))
	tmp := filepath.Join(dir, "tmp")
	require.NoError(t, os.Mkdir(tmp, 0o777))
	require.NoError(t, os.Chmod(tmp, 0o777))
	cmd := exec.Command("/bin/sh", "-ec", script+` "$0" -test.run="`+test+`" -test.v`, exe)
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp, innerEnv+"=1")
	cmd.SysProcAttr = attr
	cmd.Dir = tmp
	host.Close() // it would take the process for one that another left behind
	host = proc.NewHost()
	out, err := cmd.CombinedOutput()
	if strings.Contains(string(out), "cannot be had") {
		t.Skip(string(out))
	}
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS", "%s", out)
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "--- ") {
			t.Log(strings.TrimSuffix(line, "\n")) // also what is skipped there
		}
	}
}

const innerEnv = "ISOLATE_TEST_INNER"

// nobody is an ordinary user.
func nobody(t *testing.T) *syscall.SysProcAttr {
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
}

// TestAsUser runs the tests of copies as an ordinary user, in user namespaces.
func TestAsUser(t *testing.T) {
	if os.Getenv(innerEnv) != "" {
		t.Skip("inside")
	}
	inner(t, "^TestJoinIsLikeInPlace$|^TestJoinMerges$|^TestUnreadable$|^TestCopyStays$|^TestIgnored$|"+
		"^TestCommandInView$|^TestSubfolder$", "exec", nobody(t))
}

// TestOneMounter: one process mounts all copies of a user. If it is killed, the next copy gets another one.
func TestOneMounter(t *testing.T) {
	if os.Getenv(innerEnv) == "" {
		inner(t, "^TestOneMounter$", "exec", nobody(t))
		return
	}
	y := newYard(t, "echo 1 > a")
	mounters := func() (pids []int) {
		lists, err := filepath.Glob("/proc/self/task/*/children")
		require.NoError(t, err)
		for _, list := range lists {
			text, _ := os.ReadFile(list) // the thread may have ended
			for _, field := range strings.Fields(string(text)) {
				pid, err := strconv.Atoi(field)
				require.NoError(t, err)
				pids = append(pids, pid)
			}
		}
		return pids
	}
	_, err := y.Make(t.Context(), "first", Overlay)
	if err != nil {
		t.Skip(err)
	}
	first := mounters()
	require.Len(t, first, 1)
	_, err = y.Make(t.Context(), "second", Overlay)
	require.NoError(t, err)
	require.Equal(t, first, mounters())
	require.NoError(t, syscall.Kill(first[0], syscall.SIGKILL))
	c, err := y.Make(t.Context(), "third", Overlay)
	require.NoError(t, err)
	y.mounter.Close()
	require.Empty(t, mounters())
	y.run(c, "test -f a")
}

// TestForeignFile: a user gets no overlay of a folder with files of others, because the kernel could not copy them.
func TestForeignFile(t *testing.T) {
	if os.Getenv(innerEnv) == "" {
		nobody(t)
		inner(t, "^TestForeignFile$", `mkdir -m 777 "$TMPDIR/tree"; mkdir "$TMPDIR/tree/d"; echo 1 > "$TMPDIR/tree/d/f"
exec setpriv --reuid 65534 --regid 65534 --clear-groups`, nil)
		return
	}
	y := newYard(t, "echo 1 > a")
	cfg := y.config()
	cfg.Dir = filepath.Join(os.Getenv("TMPDIR"), "tree")
	tree, err := Open(cfg)
	require.NoError(t, err)
	_, err = tree.Make(context.Background(), "f", Overlay)
	assert.ErrorContains(t, err, "belongs to another user or group")
	require.NoError(t, tree.Close())
}

// TestWithoutNamespaces: a user who can make no namespaces gets worktrees, and elsewhere no copy at all.
func TestWithoutNamespaces(t *testing.T) {
	if os.Getenv(innerEnv) == "" {
		attr := nobody(t)
		ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 65534, Size: 1}, {ContainerID: 1000, HostID: 1, Size: 1}}
		*attr = syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: ids, GidMappings: ids,
			GidMappingsEnableSetgroups: true, Credential: &syscall.Credential{}}
		inner(t, "^TestWithoutNamespaces$", `echo 0 > /proc/sys/user/max_user_namespaces || { echo cannot be had; exit 1; }
setpriv --reuid 1000 --regid 1000 --clear-groups true || { echo cannot be had; exit 1; }
exec setpriv --reuid 1000 --regid 1000 --clear-groups`, attr)
		return
	}
	y := newYard(t, repository)
	before := sum(t, y.path("tree"), true)
	c, err := y.Make(context.Background(), "w", Auto)
	require.NoError(t, err)
	assert.Equal(t, Worktree, c.Mode)
	assert.NotEmpty(t, c.Why)
	require.NoError(t, c.Remove())
	assert.Equal(t, before, sum(t, y.path("tree"), true))
	z := newYard(t, "echo 1 > a")
	before = sum(t, z.path("tree"), true)
	_, err = z.Make(context.Background(), "w", Auto)
	assert.ErrorContains(t, err, "no overlay")
	assert.ErrorContains(t, err, "no worktree")
	assert.Equal(t, before, sum(t, z.path("tree"), true))
}

// TestFullDisk: with no room for copies, or for what is joined, the tree stays as it is to the bit.
func TestFullDisk(t *testing.T) {
	if os.Getenv(innerEnv) == "" {
		if os.Geteuid() != 0 {
			t.Skip("only root can mount a disk")
		}
		inner(t, "^TestFullDisk$", "exec", &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS})
		return
	}
	y := newYard(t, repository)
	require.NoError(t, y.Close())
	small := func(name, size string) {
		require.NoError(t, os.MkdirAll(y.path(name), 0o700))
		require.NoError(t, syscall.Mount("none", y.path(name), "tmpfs", 0, "size="+size))
		t.Cleanup(func() { assert.NoError(t, syscall.Unmount(y.path(name), syscall.MNT_DETACH)) })
	}
	small("disk", "64k,nr_inodes=14")
	before := sum(t, y.path("tree"), true)
	cfg := y.config()
	cfg.State = y.path("disk")
	full, err := Open(cfg)
	require.NoError(t, err)
	y.shell("disk", "i=0; while echo > f$i 2>/dev/null; do i=$((i+1)); done; true")
	for _, mode := range []Mode{Auto, Overlay, Worktree} {
		_, err = full.Make(context.Background(), "f", mode)
		assert.ErrorContains(t, err, "no space left")
	}
	y.shell("disk", "rm f?; head -c 100000 /dev/zero > fill || true")
	_, err = full.Make(context.Background(), "g", Worktree)
	assert.ErrorContains(t, err, "no space left")
	require.NoError(t, full.Close())
	assert.Equal(t, before, sum(t, y.path("tree"), true))

	small("live", "64k") // the tree itself is on the full disk
	y.shell("live", "printf '1\\n' > a; mkdir d; echo 2 > d/b")
	cfg = y.config()
	cfg.Dir = y.path("live")
	tree, err := Open(cfg)
	require.NoError(t, err)
	c, err := tree.Make(context.Background(), "l", Overlay)
	require.NoError(t, err)
	y.run(c, "echo more >> a; rm -r d; head -c 40000 /dev/zero > large; echo z > z")
	y.shell("live", "head -c 20000 /dev/zero > filler")
	before = sum(t, y.path("live"), true)
	_, err = tree.Join(context.Background(), y.patch(c))
	assert.ErrorContains(t, err, "no space left")
	assert.Equal(t, before, sum(t, y.path("live"), true))
	y.shell("live", "rm filler")
	out, err := tree.Join(context.Background(), y.patch(c))
	require.NoError(t, err)
	assert.Empty(t, out[0].Conflicts)
	assert.Equal(t, "1\nmore\nz\n", y.shell("live", "cat a z; test ! -e d"))
	require.NoError(t, tree.Close())
}

// TestWhoIsForgotten: it is known who changed a file after the oldest copy was made, and no longer than that.
func TestWhoIsForgotten(t *testing.T) {
	modes(t, func(t *testing.T, mode Mode) {
		y := newYard(t, repository)
		join := func(name string) {
			c := y.make(mode)
			c.Task = name
			y.run(c, "echo "+name+" >> src/a")
			require.Empty(t, y.join(y.patch(c))[0].Conflicts)
			require.NoError(t, c.Remove())
		}
		for range 5 {
			join("before")
			assert.Len(t, y.history.marks["src/a"].by, 1)
		}
		slow := y.make(mode)
		join("first")
		join("second")
		assert.Len(t, y.history.marks["src/a"].by, 2)
		y.run(slow, "echo slow > src/a")
		assert.Equal(t, []Conflict{{"src/a", "it was changed by first, second, in the same lines"}},
			y.join(y.patch(slow))[0].Conflicts)
	})
}
