package box

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/sandbox"
)

// newRepository is a yard with a repository that has one commit and one changed file.
func newRepository(t *testing.T, change ...func(*Config)) *yard {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip(err)
	}
	y := newYard(t, map[string]string{"f": "one\n"}, change...)
	y.git("init", "-q")
	y.git("add", "f")
	y.git("commit", "-q", "-m", "first")
	y.write("f", "two\n")
	return y
}

func allowed(names ...string) func(*Config) {
	return func(c *Config) {
		for _, n := range names {
			c.Writable = append(c.Writable, filepath.Join(c.Dir, n))
		}
	}
}

// TestGitReads: what only reads works in a repository that is read-only.
func TestGitReads(t *testing.T) {
	y := newRepository(t)
	y.needsViews()
	out, o := y.run("git status --short && git diff --stat && git log --oneline | cut -d' ' -f2 && " +
		"git show HEAD:f && git branch && git ls-files && git grep one HEAD -- f")
	assert.Zero(t, o.Code, out)
	for _, want := range []string{" M f\n", "1 file changed", "first\n", "one\n", "* main\n", "HEAD:f:one"} {
		assert.Contains(t, out, want)
	}
	assert.NotContains(t, out, "Read-only")
	for _, text := range []string{"git add f", "git commit -qam x", "git config core.fsmonitor ./x", "git stash",
		"git gc", "git checkout -b new", "git init", "git config --worktree core.hooksPath .",
		"git worktree add ../w"} {
		before := y.git("rev-parse", "HEAD")
		_, o := y.run(text)
		if text != "git gc" && text != "git init" {
			assert.NotZero(t, o.Code, text)
		}
		assert.Equal(t, before, y.git("rev-parse", "HEAD"), text)
		assert.NotContains(t, y.read(".git/config"), "fsmonitor")
		assert.Empty(t, o.Notes, text)
	}
}

// TestGitCommit: where a person allows it, commands commit, and yet change nothing of what git runs.
func TestGitCommit(t *testing.T) {
	views(t, func(t *testing.T, view bool) {
		y := newRepository(t, viewed(view), allowed(".git"))
		out, o := y.run("git add f && git commit -qm second && git tag v1 && git checkout -q -b new && " +
			"git stash list && git log --oneline | wc -l")
		assert.Zero(t, o.Code, out)
		assert.Equal(t, "2\n", out)
		assert.Empty(t, o.Notes)
		for _, text := range []string{
			"git config core.fsmonitor ./x", "echo x > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit",
			"mv .git/hooks .git/h; mkdir .git/hooks; echo x > .git/hooks/pre-commit", "echo x > .git/info/attributes",
			"mv .git away; mkdir -p .git/hooks; echo x > .git/hooks/pre-commit",
			"echo /tmp > .git/commondir", "mkdir -p .git/modules/m; echo x > .git/modules/m/config",
			"mkdir -p .git/worktrees/w; echo /tmp > .git/worktrees/w/commondir", "echo x > .git/config.worktree",
			"rm .git/config; echo x > .git/config",
		} {
			if !view && strings.HasPrefix(text, "mv .git away") {
				continue // a repository cannot be put back
			}
			before := y.read(".git/config")
			_, o := y.run(text)
			assert.Equal(t, before, y.read(".git/config"), text)
			for _, name := range []string{"hooks/pre-commit", "commondir", "modules/m/config", "worktrees/w/commondir",
				"config.worktree"} {
				assert.NoFileExists(t, y.path(".git/"+name), text)
			}
			assert.NotContains(t, y.read(".git/info/attributes"), "x\n")
			if !view {
				assert.NotEmpty(t, o.Notes, text)
			}
			_ = os.RemoveAll(y.path(".git/h"))
		}
		assert.Contains(t, y.git("log", "--oneline"), "second")
		y.git("status")
	})
}

// TestGitWorktree: of a worktree, commands may write what a commit needs, in the repository outside.
func TestGitWorktree(t *testing.T) {
	y := newRepository(t)
	y.needsViews()
	tree := filepath.Join(t.TempDir(), "tree")
	y.git("worktree", "add", "-q", tree)
	tree, err := filepath.EvalSymlinks(tree)
	require.NoError(t, err)
	in := func(writable ...string) *yard {
		cfg := y.Config
		cfg.Dir, cfg.Rules, cfg.Writable = tree, sandbox.Rules{Write: []string{tree}}, writable
		return &yard{New(cfg), t}
	}
	commit := "echo three > f && git commit -qam third"
	for _, text := range []string{
		commit, "echo gitdir: /tmp > .git", "rm .git", "mv .git x", "git config core.fsmonitor x",
	} {
		_, o := in().run(text)
		assert.NotZero(t, o.Code, text)
	}
	allow := in(filepath.Join(tree, ".git"))
	out, o := allow.run("git status --short && " + commit + " && git log --oneline | wc -l")
	assert.Zero(t, o.Code, out)
	assert.Contains(t, out, "2\n")
	shared := y.path(".git")
	for _, text := range []string{
		"git config core.fsmonitor x", "git config --worktree core.fsmonitor x", "echo gitdir: /tmp > .git",
		"echo x > " + shared + "/hooks/pre-commit", "echo x > " + shared + "/config", "echo x > " + shared + "/HEAD",
		"echo /tmp > " + shared + "/worktrees/tree/commondir", "echo x > " + shared + "/worktrees/tree/gitdir",
		"mkdir " + shared + "/worktrees/other",
	} {
		before := y.read(".git/config") + y.read(".git/HEAD") + y.read(".git/worktrees/tree/commondir")
		_, o := allow.run(text)
		assert.NotZero(t, o.Code, text)
		assert.Equal(t, before, y.read(".git/config")+y.read(".git/HEAD")+y.read(".git/worktrees/tree/commondir"), text)
		assert.NoFileExists(t, y.path(".git/hooks/pre-commit"))
	}
}

// TestWorktreeSettings: commands that commit in a worktree cannot change what git runs there or in its submodules.
func TestWorktreeSettings(t *testing.T) {
	y := newRepository(t)
	y.needsViews()
	lib := newRepository(t)
	y.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", lib.Dir, "lib")
	y.git("commit", "-qm", "second")
	y.git("config", "extensions.worktreeConfig", "true")
	for _, modules := range []bool{false, true} {
		tree := filepath.Join(t.TempDir(), "tree")
		y.git("worktree", "add", "-q", "--detach", tree)
		cfg := y.Config
		cfg.Dir, cfg.Rules, cfg.Writable = tree, sandbox.Rules{Write: []string{tree}}, []string{tree + "/.git"}
		in := &yard{New(cfg), t}
		if modules {
			in.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init")
		}
		mark := filepath.Join(t.TempDir(), "ran")
		for _, file := range []string{"config.worktree", "modules/lib/config", "hooks/pre-commit", "info/attributes"} {
			out, o := in.run("cd $(git rev-parse --git-dir); mkdir -p $(dirname " + file + "); " +
				"printf '[core]\n\tfsmonitor = \"touch " + mark + "; false\"\n' >> " + file)
			assert.NotZero(t, o.Code, "%s: %s", file, out)
		}
		in.git("status")
		assert.NoFileExists(t, mark)
		out, o := in.run("echo three > f && git commit -qam third && git log --oneline | wc -l")
		assert.Zero(t, o.Code, out)
		assert.Equal(t, "3\n", out)
		in.git("config", "--worktree", "user.name", "x")
	}
}

// TestWorktreeOfAStranger: a .git file that came with a checkout can name any folder; commands get no right there.
func TestWorktreeOfAStranger(t *testing.T) {
	victim := t.TempDir()
	for _, name := range []string{"objects", "refs", "worktrees/x"} {
		require.NoError(t, os.MkdirAll(filepath.Join(victim, name), 0o755))
	}
	own := filepath.Join(victim, "worktrees/x")
	y := newYard(t, map[string]string{".git": "gitdir: " + own + "\n"}, allowed(".git"))
	_, _, ok := worktree(y.path(".git"), y.Dir)
	assert.False(t, ok, "it does not name the file in turn")
	require.NoError(t, os.WriteFile(filepath.Join(own, "gitdir"), []byte(y.path(".git")+"\n"), 0o600))
	_, shared, ok := worktree(y.path(".git"), y.Dir)
	assert.True(t, ok)
	assert.Equal(t, victim, shared)
	_, _, ok = worktree(y.path(".git"), victim)
	assert.False(t, ok, "commands can write there")
	out, o := y.run("echo x > " + victim + "/x || echo x > " + victim + "/config")
	assert.NotZero(t, o.Code, out)
}

// TestNoRepository: in a folder without a repository none can be made, and git and go build do not mind how.
func TestNoRepository(t *testing.T) {
	views(t, func(t *testing.T, view bool) {
		for _, text := range []string{
			"git init -q .", "mkdir .git", "mkdir x; touch x/config; mv x .git", "echo gitdir: /x > .git",
		} {
			y := newYard(t, map[string]string{"f": ""}, viewed(view))
			_, o := y.run(text)
			assert.NoFileExists(t, y.path(".git"), text)
			if view {
				assert.NotZero(t, o.Code, text)
				assert.Empty(t, o.Notes)
			} else {
				assert.Len(t, o.Notes, 1)
			}
		}
	})
	y := newYard(t, map[string]string{"f": ""}, allowed(".git"))
	out, o := y.run("git init -q . && git add f && git commit -qm first && git log --oneline | wc -l")
	assert.Zero(t, o.Code, out)
	assert.Equal(t, "1\n", out)
}
