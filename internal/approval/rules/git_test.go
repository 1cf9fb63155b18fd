package rules

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// git runs git as a person would, in dir.
func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "git %q: %s", args, out)
	return string(out)
}

// checkout is a repository with one commit and a change, in the folder work. Its traps leave the file sprung.
type checkout struct {
	t                *testing.T
	dir, trap, spoor string
}

func newCheckout(t *testing.T) checkout {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	top, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	c := checkout{t, filepath.Join(top, "work"), filepath.Join(top, "trap.sh"), filepath.Join(top, "sprung")}
	require.NoError(t, os.Mkdir(c.dir, 0o700))
	c.write("../trap.sh", "#!/bin/sh\necho sprung >>"+c.spoor+"\ncat\n", 0o700)
	git(t, c.dir, "init", "-q")
	c.write("a.txt", "one\n", 0o600)
	c.write("b.txt", "same\n", 0o600)
	git(t, c.dir, "add", "-A")
	git(t, c.dir, "commit", "-qm", "first")
	hour := time.Now().Add(-time.Hour) // git refreshes the index
	require.NoError(t, os.Chtimes(filepath.Join(c.dir, "b.txt"), hour, hour))
	c.write("a.txt", "one\ntwo\n", 0o600)
	return c
}

func (c checkout) write(name, text string, mode os.FileMode) {
	c.t.Helper()
	path := filepath.Join(c.dir, name)
	require.NoError(c.t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(c.t, os.WriteFile(path, []byte(text), mode))
}

func (c checkout) place() Place {
	return Place{Dir: c.dir, Root: c.dir, Untrusted: []string{c.dir}, Env: []string{"PATH=" + os.Getenv("PATH"),
		"HOME=" + c.dir + "/..",
		"GIT_EXTERNAL_DIFF=" + c.trap, "GIT_PAGER=" + c.trap, "GIT_DIR=/nowhere", "PAGER=" + c.trap, "LANG=C", "ENV=/x",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=core.fsmonitor", "GIT_CONFIG_VALUE_0=" + c.trap, "LD_PRELOAD=/x",
		"BASH_FUNC_git%%=() { :; }", "GOFLAGS=-toolexec=x"}}
}

// run runs a command as a rule would. The error is that of Prepare.
func (c checkout) run(command string) (string, error) {
	c.t.Helper()
	call, err := Prepare(command, c.place())
	if err != nil {
		return "", err
	}
	cmd := exec.Cmd{Path: call.Path, Args: call.Args, Env: call.Env, Dir: c.dir}
	out, err := cmd.CombinedOutput()
	require.NoError(c.t, err, "%s: %s", command, out)
	return string(out), nil
}

var readings = []string{"git log", "git log -p --stat", "git status", "git diff", "git show HEAD", "git blame a.txt",
	"git shortlog HEAD", "git grep one", "git ls-files", "git branch", "git describe --all", "git rev-parse HEAD",
	"git rev-list HEAD", "git ls-tree HEAD", "git tag"}

func TestPreparedGit(t *testing.T) {
	c := newCheckout(t)
	for _, command := range readings {
		out, err := c.run(command)
		require.NoError(t, err, command)
		assert.Equal(t, command == "git tag", out == "", command)
	}
	out, err := c.run("git log -p --format=%s")
	require.NoError(t, err)
	assert.Contains(t, out, "first\n\ndiff --git a/a.txt b/a.txt")
	assert.NoFileExists(t, c.spoor)

	sub := c.place()
	sub.Dir = filepath.Join(c.dir, "sub")
	require.NoError(t, os.Mkdir(sub.Dir, 0o700))
	call, err := Prepare("git log", sub)
	require.NoError(t, err)
	assert.Contains(t, call.Env, "GIT_DIR="+filepath.Join(c.dir, ".git"))
	for _, entry := range call.Env {
		assert.NotRegexp(t, `^(LD_|BASH_|ENV=|PAGER=|GIT_PAGER|GIT_EXT|GIT_CONFIG|GOFLAGS)`, entry)
	}

	git(t, c.dir, "worktree", "add", "-q", "../tree")
	tree := c
	tree.dir = filepath.Join(c.dir, "../tree")
	out, err = tree.run("git log --format=%s")
	require.NoError(t, err)
	assert.Equal(t, "first\n", out)
	_, err = c.run("git add -A")
	require.NoError(t, err)
}

// Each trap works on a person who runs git there, and not on a rule.
func TestTraps(t *testing.T) {
	for name, trap := range map[string]struct {
		set    func(c checkout)
		refuse string // the error for what would spring it; empty means that it is switched off
	}{
		"pager":     {func(c checkout) { git(t, c.dir, "config", "core.pager", c.trap) }, "config sets core.pager"},
		"log pager": {func(c checkout) { git(t, c.dir, "config", "pager.log", c.trap) }, "config sets pager.log"},
		"fsmonitor": {func(c checkout) { git(t, c.dir, "config", "core.fsmonitor", c.trap) }, "sets core.fsmonitor"},
		"external diff": {func(c checkout) { git(t, c.dir, "config", "diff.external", c.trap) },
			"config sets diff.external"},
		"textconv": {func(c checkout) {
			c.write(".gitattributes", "*.txt diff=x\n", 0o600)
			git(t, c.dir, "config", "diff.x.textconv", c.trap)
		}, "config sets diff.textconv"},
		"filter": {func(c checkout) {
			c.write(".gitattributes", "*.txt filter=x\n", 0o600)
			git(t, c.dir, "config", "filter.x.clean", c.trap)
		}, "config sets filter.clean"},
		"alias": {func(c checkout) { git(t, c.dir, "config", "alias.lg", "!"+c.trap) }, "config sets alias.lg"},
		"include": {func(c checkout) {
			c.write("more", "[core]\n\tpager = "+c.trap+"\n", 0o600)
			git(t, c.dir, "config", "include.path", "../more")
		}, "config sets include.path"},
		"hooks path": {func(c checkout) { git(t, c.dir, "config", "core.hooksPath", "x") },
			"config sets core.hookspath"},
		"worktree config": {func(c checkout) {
			git(t, c.dir, "config", "extensions.worktreeConfig", "true")
			git(t, c.dir, "config", "--worktree", "core.pager", c.trap)
		}, "config.worktree sets core.pager"},
		"hook": {func(c checkout) {
			c.write(".git/hooks/post-index-change", "#!/bin/sh\n"+c.trap+" </dev/null\n", 0o700)
		}, ""},
		"submodule": {func(c checkout) {
			git(t, c.dir, "init", "-q", "sub")
			git(t, filepath.Join(c.dir, "sub"), "commit", "--allow-empty", "-qm", "x")
			git(t, c.dir, "add", "sub")
			git(t, filepath.Join(c.dir, "sub"), "config", "core.fsmonitor", c.trap)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCheckout(t)
			trap.set(c)
			for _, command := range readings {
				_, err := c.run(command)
				if changes := command == "git branch" || command == "git tag"; changes && name == "hook" {
					require.ErrorContains(t, err, "hooks has the hook post-index-change")
				} else if trap.refuse == "" {
					require.NoError(t, err, command)
				} else {
					require.ErrorContains(t, err, trap.refuse, command)
				}
			}
			assert.NoFileExists(t, c.spoor)
			if strings.Contains("fsmonitor, external diff, textconv, filter, hook, submodule",
				name) { // others need a terminal
				now := time.Now()
				require.NoError(t, os.Chtimes(filepath.Join(c.dir, "b.txt"), now, now)) // so that git writes its index
				git(t, c.dir, "status")
				git(t, c.dir, "diff")
				assert.FileExists(t, c.spoor, "it is a trap")
			}
		})
	}
}

func TestNotPrepared(t *testing.T) {
	c := newCheckout(t)
	c.write(".git/hooks/pre-commit", "#!/bin/sh\n", 0o700)
	c.write("bin/git", "#!/bin/sh\n", 0o700)
	c.write("bin/tool", "#!/bin/sh\n", 0o700)
	outside := t.TempDir()
	require.NoError(t, os.Symlink(filepath.Join(c.dir, "bin/tool"), filepath.Join(outside, "tool")))
	require.NoError(t, os.Symlink("/bin/sh", filepath.Join(c.dir, "bin/link")))
	bare := filepath.Join(c.dir, "bare") // in a checkout it is a repository with a configuration of its own
	git(t, c.dir, "init", "-q", "--bare", bare)
	path := func(folders ...string) func(*Place) {
		return func(p *Place) { p.Env = append(p.Env, "PATH="+strings.Join(folders, ":")) }
	}
	for _, test := range []struct {
		command string
		change  func(*Place)
		want    string
	}{
		{"git commit -m x", nil, "hooks has the hook pre-commit"},
		{"git push", nil, "hooks has the hook pre-commit"},
		{"git", nil, "git gets an option before its subcommand"},
		{"git -C x log", nil, "git gets an option before its subcommand"},
		{"git log; ls", nil, "it is not one command"},
		{"no-such-program", nil, "no program no-such-program is found"},
		{"git log", path(c.dir+"/bin", "/usr/bin"),
			"git would be started from " + c.dir + "/bin, which agents may change"},
		{"git log", path("bin", "/usr/bin"), "git would be started from bin, which agents may change"},
		{"git log", func(p *Place) { p.Dir = c.dir + "/bin"; path("", "/usr/bin")(p) }, "which agents may change"},
		{"tool", path(outside), "tool would be started from " + outside + ", which agents may change"},
		{"link", path(c.dir + "/bin"), "which agents may change"},
		{"git log", func(p *Place) { p.Dir = outside }, "the folder belongs to no repository of git"},
		{"git log", func(p *Place) { p.Dir = c.dir + "/.git" }, "is a repository without files"},
		{"git log", func(p *Place) { p.Dir = bare }, "is a repository without files"},
		{"git log", func(p *Place) { p.Env = nil }, "no program git is found"},
	} {
		at := c.place()
		if test.change != nil {
			test.change(&at)
		}
		_, err := Prepare(test.command, at)
		assert.ErrorContains(t, err, test.want, test.command)
	}
	at := c.place()
	path("/usr/bin", "relative", c.dir+"/bin", "/bin")(&at)
	call, err := Prepare("ls", at)
	require.NoError(t, err)
	assert.Contains(t, call.Env, "PATH=/usr/bin:/bin")
	call, err = Prepare("./bin/tool x", at)
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(c.dir, "bin/tool"), call.Path)
	call, err = Prepare("go version",
		func() Place { p := at; p.Env = []string{"PATH=" + os.Getenv("PATH")}; return p }())
	if err == nil {
		assert.Contains(t, call.Env, "GOFLAGS=-buildvcs=false")
	}
}
