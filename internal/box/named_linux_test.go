package box

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// evil is a setting with which git runs a program.
const evil = `'\n[core]\n\tfsmonitor = "touch ran; false"\n'`

// TestGitFolderElsewhere: the folder of git keeps its protection under another name in the working directory.
func TestGitFolderElsewhere(t *testing.T) {
	link := func(y *yard) {
		require.NoError(t, os.Rename(y.path(".git"), y.path("realgit")))
		require.NoError(t, os.Symlink("realgit", y.path(".git")))
	}
	file := func(y *yard) {
		require.NoError(t, os.Mkdir(y.path("meta"), 0o755))
		require.NoError(t, os.Rename(y.path(".git"), y.path("meta/realgit")))
		y.write(".git", "gitdir: meta/realgit\n")
	}
	commit := "git add f && git commit -qm second && git log --oneline | wc -l"
	views(t, func(t *testing.T, view bool) {
		for name, move := range map[string]func(*yard){"realgit": link, "meta/realgit": file} {
			y := newRepository(t, viewed(view))
			move(y)
			config := y.read(name + "/config")
			for _, text := range []string{
				"printf " + evil + " >> " + name + "/config", "git config core.fsmonitor 'touch ran'",
				"echo touch ran > " + name + "/hooks/post-checkout", "echo x > " + name + "/info/attributes",
				"rm " + name + "/HEAD; printf " + evil + " >> " + name + "/config",
			} {
				head := y.read(name + "/HEAD")
				_, o := y.run(text)
				assert.Equal(t, config, y.read(name+"/config"), text)
				assert.Equal(t, "gone", y.read(name+"/hooks/post-checkout"), text)
				assert.NotContains(t, y.read(name+"/info/attributes"), "x\n", text)
				if view {
					assert.NotZero(t, o.Code, text)
					assert.Empty(t, o.Notes, text)
				} else {
					assert.NotEmpty(t, o.Notes, text)
				}
				y.write(name+"/HEAD", head)
			}
			if view {
				for _, text := range []string{"mv " + name + " away", "mv meta away && false", commit} {
					_, o := y.run(text)
					assert.NotZero(t, o.Code, text)
				}
			}
			y.git("status")

			cfg := y.Config
			allowed(".git")(&cfg)
			allow := &yard{New(cfg), t}
			out, o := allow.run(commit)
			assert.Equal(t, "2\n", out)
			assert.Empty(t, o.Notes)
			_, o = allow.run("printf " + evil + " >> " + name + "/config; echo x > " + name + "/hooks/post-checkout")
			assert.Equal(t, config, y.read(name+"/config"))
			assert.Equal(t, "gone", y.read(name+"/hooks/post-checkout"))
			assert.Equal(t, view, len(o.Notes) == 0)
		}
	})
}

// TestBareRepository: a folder that git takes for a repository by what is in it has the protection of one that is
// named .git.
func TestBareRepository(t *testing.T) {
	views(t, func(t *testing.T, view bool) {
		y := newRepository(t, viewed(view))
		y.git("init", "-q", "--bare", "src/proj.git")
		y.write("src/lib/x", "")
		config := y.read("src/proj.git/config")
		for _, text := range []string{
			"printf " + evil + " >> src/proj.git/config", "git -C src/proj.git config core.pager x",
			"echo x > src/proj.git/hooks/pre-receive", "echo x > src/proj.git/config.worktree",
			"rm src/proj.git/HEAD; printf " + evil + " >> src/proj.git/config",
		} {
			_, o := y.run(text)
			assert.Equal(t, config, y.read("src/proj.git/config"), text)
			assert.Equal(t, "gone", y.read("src/proj.git/hooks/pre-receive"), text)
			assert.Equal(t, "gone", y.read("src/proj.git/config.worktree"), text)
			assert.Equal(t, view, len(o.Notes) == 0, text)
		}
		if view {
			_, o := y.run("mv src/proj.git away")
			assert.NotZero(t, o.Code)
			_, o = y.run("mv src away")
			assert.NotZero(t, o.Code)
		}

		_, o := y.run("git init -q --bare made.git && git push -q made.git HEAD:x")
		assert.Zero(t, o.Code)
		require.Len(t, o.Notes, 1)
		assert.Contains(t, o.Notes[0], "made.git is a new repository of git since the command began")
		assert.Equal(t, []string{"made.git"}, o.Changed)
		_, o = y.run("git push -q made.git HEAD:y")
		assert.Zero(t, o.Code, "it is theirs")
		assert.Empty(t, o.Notes)
		_, o = y.run("printf " + evil + " >> made.git/config")
		assert.Equal(t, []string{"made.git/config"}, o.Changed)
		assert.Contains(t, y.read("made.git/config"), "fsmonitor", "it is only reported")

		_, o = y.run("cd src/lib; mkdir objects refs; echo ref: refs/heads/x > HEAD; echo x > config")
		require.Len(t, o.Notes, 1)
		assert.Contains(t, o.Notes[0], "src/lib is a new repository of git since the command began")
	})
}

// TestBareAtTheTop: a command does not make the working directory a repository, nor change what git runs in one.
func TestBareAtTheTop(t *testing.T) {
	views(t, func(t *testing.T, view bool) {
		y := newYard(t, map[string]string{"config": "mine\n"}, viewed(view))
		_, o := y.run("mkdir objects refs; echo ref: refs/heads/x > HEAD; printf " + evil + " > config")
		assert.Equal(t, "gone", y.read("HEAD"))
		assert.Contains(t, y.read("config"), "fsmonitor", "it is a file like others")
		assert.NotEmpty(t, o.Notes)
		y.assertNoGit()

		y = newRepository(t, viewed(view))
		bare := newYard(t, nil, viewed(view))
		y.git("clone", "-q", "--bare", y.Dir, bare.path("."))
		config := bare.read("config")
		for _, text := range []string{"printf " + evil + " >> config", "echo x > hooks/post-checkout",
			"echo x > config.worktree", "mv hooks x; mkdir hooks; echo x > hooks/post-checkout"} {
			_, o = bare.run(text)
			assert.Equal(t, config, bare.read("config"), text)
			assert.Equal(t, "gone", bare.read("hooks/post-checkout"), text)
			assert.Equal(t, "gone", bare.read("config.worktree"), text)
		}
		out, _ := bare.run("git log --oneline | wc -l")
		assert.Equal(t, "1\n", out)
	})
}

// assertNoGit asserts that git takes the working directory for no repository.
func (y *yard) assertNoGit() {
	y.t.Helper()
	_, err := os.Stat(y.path("HEAD"))
	assert.ErrorIs(y.t, err, os.ErrNotExist)
}

// TestNamedBySettings: what the settings of a repository include, and the folder of its hooks, are obeyed too.
func TestNamedBySettings(t *testing.T) {
	views(t, func(t *testing.T, view bool) {
		y := newRepository(t, viewed(view))
		y.write("tools/hooks/pre-commit", "good\n")
		y.write(".gitconfig.shared", "[include]\n\tpath = deep/more.cfg # another one\n")
		y.write("deep/more.cfg", "[core]\n")
		y.write("deep/real", "[core]\n")
		require.NoError(t, os.Symlink("real", y.path("deep/link")))
		y.git("config", "core.hooksPath", "tools/hooks")
		y.git("config", "include.path", "../.gitconfig.shared")
		y.git("config", "includeIf.onbranch:x.path", y.path("late.cfg"))
		y.git("config", "--add", "include.path", "../deep/link")
		files := []string{".gitconfig.shared", "deep/more.cfg", "deep/real", "tools/hooks/pre-commit"}
		before := map[string]string{}
		for _, name := range files {
			before[name] = y.read(name)
		}
		for _, text := range []string{
			"printf " + evil + " >> .gitconfig.shared", "printf " + evil + " > deep/more.cfg",
			"rm deep/more.cfg; echo x > deep/more.cfg", "printf " + evil + " > deep/real",
			"echo x > deep/y; mv deep/y deep/link",
			"echo evil > tools/hooks/pre-commit", "echo evil > tools/hooks/post-checkout", "rm -r tools/hooks",
			"mv tools old; mkdir -p tools/hooks; echo evil > tools/hooks/pre-commit", "echo x > late.cfg",
		} {
			_, o := y.run(text)
			for name, want := range before {
				assert.Equal(t, want, y.read(name), "%s: %s", text, name)
			}
			assert.Equal(t, "gone", y.read("late.cfg"), text)
			assert.Equal(t, "gone", y.read("tools/hooks/post-checkout"), text)
			target, err := os.Readlink(y.path("deep/link"))
			assert.NoError(t, err, text)
			assert.Equal(t, "real", target, text)
			if !view {
				assert.NotEmpty(t, o.Notes, text)
			}
			_ = os.RemoveAll(y.path("old"))
		}
		_, o := y.run("echo x > deep/other; echo x > tools/x; echo three > f")
		assert.Zero(t, o.Code)
		assert.Empty(t, o.Notes)
	})
}

// TestNamedByWorktree: the settings of a worktree are in a repository outside, and name files in the worktree.
func TestNamedByWorktree(t *testing.T) {
	y := newRepository(t)
	tree := filepath.Join(t.TempDir(), "tree")
	y.git("worktree", "add", "-q", tree)
	y.git("config", "extensions.worktreeConfig", "true")
	y.git("config", "core.hooksPath", ".githooks")
	tree, err := filepath.EvalSymlinks(tree)
	require.NoError(t, err)
	cfg := y.Config
	cfg.Dir, cfg.Rules.Write = tree, []string{tree}
	in := &yard{New(cfg), t}
	in.git("config", "--worktree", "include.path", in.path("own.cfg"))
	in.write("own.cfg", "good\n")
	in.write(".githooks/pre-commit", "good\n")
	in.run("echo evil > .githooks/pre-commit; echo evil > own.cfg")
	assert.Equal(t, "good\n", in.read(".githooks/pre-commit"))
	assert.Equal(t, "good\n", in.read("own.cfg"))
}

// TestSettingsOfTheMainWorktree: where git reads config.worktree, a command that may commit cannot make it, not even
// for as long as it runs. Elsewhere no such file is made.
func TestSettingsOfTheMainWorktree(t *testing.T) {
	y := newRepository(t, allowed(".git"))
	y.needsViews()
	y.run("true")
	assert.Equal(t, "gone", y.read(".git/config.worktree"))
	y.git("config", "extensions.worktreeConfig", "true")
	out, o := y.run("printf " + evil + " > .git/config.worktree; git add f && git commit -qm second && ls ran")
	assert.NotZero(t, o.Code, out)
	assert.Contains(t, out, "Read-only file system")
	assert.Contains(t, y.git("log", "--oneline"), "second")
	assert.Empty(t, y.read(".git/config.worktree"))
	assert.Empty(t, o.Notes)
}

// TestFolderBecomesLink: a link in place of a folder that held an obeyed file does not stop the commands after it.
func TestFolderBecomesLink(t *testing.T) {
	views(t, func(t *testing.T, view bool) {
		y := newRepository(t, viewed(view))
		y.write("sub/.env", "A=1\n")
		y.write("tools/hooks/pre-commit", "good\n")
		y.git("config", "core.hooksPath", "tools/hooks")
		_, o := y.run("mv sub old; ln -s old sub; mv tools x; ln -s x tools")
		assert.NotEmpty(t, o.Notes)
		for range 2 {
			out, o := y.run("echo yes; ls .git/config")
			assert.Equal(t, "yes\n.git/config\n", out)
			assert.Zero(t, o.Code)
		}
		_, o = y.run("mv tools x2; cp -r x2 y; ln -s y tools; echo evil > y/hooks/post-checkout")
		assert.NotEmpty(t, o.Notes)
		assert.Equal(t, "good\n", y.read("tools/hooks/pre-commit"))
		assert.Equal(t, "gone", y.read("tools/hooks/post-checkout"))
	})
}

// TestLinkOfKnownName: programs obey what a link with a name that they know leads to.
func TestLinkOfKnownName(t *testing.T) {
	views(t, func(t *testing.T, view bool) {
		y := newYard(t, map[string]string{"etc/dev": "good\n", "conf/tasks.json": "good\n", "README": "x\n"},
			viewed(view))
		require.NoError(t, os.Symlink("etc/dev", y.path(".envrc")))
		require.NoError(t, os.Symlink("conf", y.path(".vscode")))
		_, o := y.run("echo evil > etc/dev; echo evil > conf/tasks.json; echo evil > conf/launch.json")
		assert.Equal(t, "good\n", y.read("etc/dev"))
		assert.Equal(t, "good\n", y.read("conf/tasks.json"))
		assert.Equal(t, "gone", y.read("conf/launch.json"))
		assert.Equal(t, view, len(o.Notes) == 0)
		_, o = y.run("ln -sf README .envrc")
		assert.Len(t, o.Notes, 1)
		assert.Equal(t, "good\n", y.read(".envrc"))
		assert.Equal(t, "x\n", y.read("README"), "what a command has named stays where it is")
	})
}

// TestNamedElsewhere: settings that name the working directory itself, what is outside, or nonsense stop no command.
func TestNamedElsewhere(t *testing.T) {
	views(t, func(t *testing.T, view bool) {
		y := newRepository(t, viewed(view))
		outside := filepath.Join(t.TempDir(), "x")
		y.git("config", "core.hooksPath", ".")
		text := y.read(".git/config") + "[include]\n"
		for _, path := range []string{outside, "~/x", "~nobody/x", "config", "../..", "..", "\x01", "../f/g",
			"../out/x"} {
			text += "path = " + path + "\n"
		}
		y.write(".git/config", text)
		require.NoError(t, os.Symlink(filepath.Dir(outside), y.path("out")))
		out, o := y.run("echo x > new && cat new && rm new")
		assert.Equal(t, "x\n", out)
		assert.Zero(t, o.Code)
		assert.Empty(t, o.Notes)
	})
}
