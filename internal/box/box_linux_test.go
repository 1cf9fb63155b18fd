package box

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/sandbox"
	"qq/internal/tools/tree"
)

// TestObeyedFiles: whatever a command does to files that programs obey, they are as before when it has ended; what
// it wrote is kept under another name where the kernel did not keep it from writing.
func TestObeyedFiles(t *testing.T) {
	files := map[string]string{".git/config": "[core]\n", ".git/HEAD": "ref: refs/heads/main\n", ".env": "old\n",
		".vscode/tasks.json": "old\n", "lib/.git/config": "old\n", "lib/.envrc": "old\n", "src/main.c": "old\n",
		".git/hooks/pre-push": "old\n"}
	views(t, func(t *testing.T, view bool) {
		for _, text := range []string{
			"echo x > .env", "rm .env", "chmod 777 .env", "mv .env away", "ln -sf /etc/passwd .env",
			"echo x > n && mv n .env", "echo x >> .git/config", "rm .git/config", "echo x > .git/hooks/pre-commit",
			"chmod +x .git/hooks/pre-push", "echo x > .git/commondir", "rm -r .vscode", "echo x > .vscode/new.json",
			"echo x > .vscode/tasks.json", "echo x > lib/.git/config", "rm lib/.envrc",
			"mkdir .husky && echo x > .husky/x",
			"echo x > .mcp.json", "echo x > .envrc", "mkdir -p .github/workflows", "ln -s / .qq", "mkfifo .claude",
			"echo x > .env.local",
		} {
			y := newYard(t, files, viewed(view))
			_, o := y.run(text)
			for name, want := range files {
				assert.Equal(t, want, y.read(name), "%s: %s", text, name)
			}
			info, err := os.Lstat(y.path(".git/hooks/pre-push"))
			require.NoError(t, err)
			assert.Zero(t, info.Mode()&0o111, text)
			for _, name := range append(tree.ObeyedNames(), ".env.local", ".git/commondir") {
				if _, ok := files[name]; !ok && name != ".git" && name != ".vscode" {
					assert.NoFileExists(t, y.path(name), text)
				}
			}
			if !view || text == "echo x > .env.local" {
				many := map[bool]int{false: 1, true: 2}[text == "rm -r .vscode"]
				require.Len(t, o.Notes, many, "%s: %q", text, o.Notes)
				assert.Len(t, o.Changed, many, text)
				const put = `put back$|is not for commands to write: it is as before, and what the command wrote is \S+\.ref`
				assert.Regexp(t, put, o.Notes[0], text)
			} else if text != "rm -r .vscode" {
				assert.NotZero(t, o.Code, text)
				assert.Empty(t, o.Notes, text)
				assert.Empty(t, o.Changed, text)
			}
		}
	})
}

// TestWhatCommandsMayDo: everything else is as ever.
func TestWhatCommandsMayDo(t *testing.T) {
	views(t, func(t *testing.T, view bool) {
		files := map[string]string{".git/config": "[core]\n", "lib/.git/config": "x\n", "src/a": "a\n"}
		y := newYard(t, files, viewed(view))
		out, o := y.run("echo b > src/a && mkdir -p new/sub && mv src new/ && rm -r new && echo x > lib/f && " +
			"rm lib/f && echo x > .env.example && touch -d 2001-01-01 .env.example && cat .git/config && pwd")
		assert.Zero(t, o.Code, out)
		assert.Empty(t, append(o.Notes, o.Changed...))
		assert.Equal(t, "[core]\n"+y.Dir+"\n", out)
		y.assertOnly(".git", ".env.example", "lib")
	})
}

// TestMovedAway: commands do not run in another folder that got the name of the working directory.
func TestMovedAway(t *testing.T) {
	views(t, func(t *testing.T, view bool) {
		y := newYard(t, map[string]string{"f": "mine\n"}, viewed(view))
		out, _ := y.run("cat f")
		assert.Equal(t, "mine\n", out)
		require.NoError(t, os.Rename(y.Dir, y.Dir+".old"))
		_, err := y.Start(y.shell("cat f"), nil)
		assert.ErrorContains(t, err, "find the working directory")
		require.NoError(t, os.Mkdir(y.Dir, 0o755))
		_, err = y.Start(y.shell("cat f"), nil)
		assert.ErrorContains(t, err, "is another folder than when the agent began")
		require.NoError(t, os.Remove(y.Dir))
		require.NoError(t, os.Rename(y.Dir+".old", y.Dir))
		out, _ = y.run("cat f")
		assert.Equal(t, "mine\n", out)
	})
}

// TestMovedFolder: a folder with a repository cannot be moved away and made anew.
func TestMovedFolder(t *testing.T) {
	y := newYard(t, map[string]string{"lib/deep/.git/config": "old\n", "lib/deep/f": "f\n"})
	y.needsViews()
	for _, text := range []string{"mv lib away", "mv lib/deep away", "rm -r lib", "mv lib/deep lib/other"} {
		_, o := y.run(text + "; mkdir -p lib/deep/.git && echo x > lib/deep/.git/config")
		assert.NotZero(t, o.Code, text)
		assert.Equal(t, "old\n", y.read("lib/deep/.git/config"), text)
	}
}

// TestMovedFile: a folder with another obeyed file can be moved, and what is at its place is put back. Programs may
// rename files across such folders.
func TestMovedFile(t *testing.T) {
	y := newYard(t, map[string]string{"apps/a/.env": "old\n", "apps/a/f": "f\n", "apps/b/g": "g\n"})
	y.needsViews()
	_, o := y.run("mkdir other && mv apps/a other/a && mkdir apps/a && echo x > apps/a/.env")
	assert.Zero(t, o.Code)
	assert.Equal(t, "old\n", y.read("apps/a/.env"))
	require.Len(t, o.Notes, 2)
	assert.Contains(t, o.Notes[0], "apps/a/.env is not for commands to write")
	assert.Contains(t, o.Notes[1], "other/a/.env is new")
	y = newYard(t, map[string]string{"apps/a/.env": "old\n", "apps/a/f": "f\n", "apps/b/g": "g\n"})
	r, err := y.Start(y.shell("while [ ! -e go ]; do sleep 0.01; done"), nil)
	require.NoError(t, err)
	y.write("n", "edited\n") // by an editor of the user, which renames
	require.NoError(t, os.Rename(y.path("n"), y.path("apps/a/.env")))
	y.write("go", "")
	assert.Equal(t, []string{"apps/a/.env"}, r.Wait().Changed)
	assert.Equal(t, "edited\n", y.read("apps/a/.env"))
	out, o := y.run("python3 -c 'import os; os.rename(\"apps/a/f\", \"apps/b/f\"); os.link(\"apps/b/g\", \"g\")' || " +
		"exit 9")
	if o.Code != 9 || !strings.Contains(out, "not found") {
		assert.Zero(t, o.Code, out)
	}
}

// TestBelow: an obeyed file that a command makes in a folder below stays, and is reported. The agent that made it may
// change and remove it; for the next one it is as others.
func TestBelow(t *testing.T) {
	views(t, func(t *testing.T, view bool) {
		y := newYard(t, map[string]string{"a": ""}, viewed(view))
		_, o := y.run("mkdir -p sub/.git && echo x > sub/.git/config && mkdir -p node_modules/m/.github")
		assert.Equal(t, []string{"sub/.git"}, o.Changed)
		const note = "sub/.git is new since the command began, and programs obey it: look at it first"
		assert.Equal(t, []string{note}, o.Notes)
		_, o = y.run("echo y > sub/.git/config")
		assert.Equal(t, []string{"sub/.git/config"}, o.Changed)
		assert.Equal(t, "y\n", y.read("sub/.git/config"))
		if view {
			next := &yard{New(y.Config), t}
			_, o = next.run("echo z > sub/.git/config")
			assert.NotZero(t, o.Code)
		}
		_, o = y.run("rm -r sub")
		assert.Zero(t, o.Code)
		y.assertOnly("a", "node_modules")
	})
}

// TestOutside: what somebody else changes while the command runs is reported and stays; so is a change by another
// name of the file, which the kernel cannot hold.
func TestOutside(t *testing.T) {
	y := newYard(t, map[string]string{".env": "old\n", "f": ""})
	y.needsViews()
	require.NoError(t, os.Link(y.path(".env"), y.path("hard")))
	_, o := y.run("echo x > hard")
	assert.Equal(t, []string{".env"}, o.Changed)
	assert.Contains(t, o.Notes[0], ".env is changed since the command began")
	assert.Equal(t, "x\n", y.read(".env"))
	c := y.shell("while [ ! -e go ]; do sleep 0.01; done")
	r, err := y.Start(c, nil)
	require.NoError(t, err)
	y.write("n", "edited\n")
	require.NoError(t, os.Rename(y.path("n"), y.path(".env")))
	y.write("go", "")
	o = r.Wait()
	assert.Equal(t, []string{".env"}, o.Changed)
	assert.Equal(t, "edited\n", y.read(".env"))
}

// TestManyAtOnce: commands of several agents in one folder do not trip over each other's placeholders, and leave none.
func TestManyAtOnce(t *testing.T) {
	y := newYard(t, map[string]string{"f": "", ".env": "old\n"})
	y.needsViews()
	var wg sync.WaitGroup
	for range 6 {
		other := &yard{New(y.Config), t}
		wg.Go(func() {
			for range 5 {
				_, o := other.run("mkdir .husky .x; echo x > .envrc; echo y > .env; ls -A | grep -c vscode")
				assert.Zero(t, o.Code)
				assert.Empty(t, o.Notes)
			}
		})
	}
	wg.Wait()
	y.assertOnly(".env", ".x", "f")
}

// TestHidden: commands see nothing in the folders of qq but what was named to them, and where they may write.
func TestHidden(t *testing.T) {
	home, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	for _, name := range []string{"ledger/x", "outputs/mine", "outputs/other", "run/1/tmp/t"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(home, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(home, name), []byte("secret\n"), 0o644))
	}
	y := newYard(t, map[string]string{"f": ""}, func(c *Config) {
		c.Hidden = []string{home, c.Dir + "/config/qq"}
		c.Rules.Write = append(c.Rules.Write, home+"/run/1/tmp")
	})
	y.needsViews()
	out, o := y.run("find "+home+" -type f | sort; cat "+home+"/outputs/mine; echo x > "+home+"/run/1/tmp/new; "+
		"echo x > "+home+"/new || mkdir -p config/qq && echo x > config/qq/.env",
		home+"/outputs/mine", home+"/outputs/gone")
	assert.NotZero(t, o.Code)
	assert.True(t, strings.HasPrefix(out, home+"/outputs/mine\n"+home+"/run/1/tmp/t\nsecret\n"), out)
	assert.FileExists(t, home+"/run/1/tmp/new")
	assert.NoFileExists(t, home+"/new")
	assert.NoFileExists(t, y.path("config/qq/.env"))

	reader := newYard(t, map[string]string{"f": "text\n"}, func(c *Config) {
		c.Rules = sandbox.Rules{}
		c.Hidden = []string{filepath.Dir(c.Dir)}
	})
	out, o = reader.run("cat f; cd ..; ls; echo x > f")
	assert.NotZero(t, o.Code)
	assert.True(t, strings.HasPrefix(out, "text\n"+filepath.Base(reader.Dir)+"\n"), out)
	reader.assertOnly("f")
}

// TestLog: where placeholders are made is noted.
func TestLog(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	y := newYard(t, nil, func(c *Config) { c.Log = log })
	y.run("true")
	y.run("true")
	text, err := os.ReadFile(log)
	require.NoError(t, err)
	assert.Equal(t, y.Dir+"\x00", string(text))
}

func TestCannotStart(t *testing.T) {
	y := newYard(t, nil)
	c := y.shell("true")
	c.Dir = y.path("gone")
	_, err := y.Start(c, nil)
	require.Error(t, err)
	y.assertOnly()
	gone := newYard(t, nil, func(c *Config) { c.Dir += "/gone" })
	_, err = gone.Start(c, nil)
	require.ErrorContains(t, err, "find the working directory")
}

// Long paths of many files that stay read-only, and many files that are shown, do not keep commands from starting.
func TestManyObeyedFiles(t *testing.T) {
	newYard(t, nil).needsViews()
	y := newYard(t, nil)
	deep := strings.Repeat("d", 200) + "/" + strings.Repeat("e", 200) + "/" + strings.Repeat("f", 200)
	for i := range maxMounts {
		y.write(fmt.Sprintf("%s/%03d/.env", deep, i), "x")
	}
	said, o := y.run("echo > " + deep + "/000/.env; ls -l /proc/self/fd; echo hi")
	assert.True(t, o.Viewed)
	assert.Contains(t, said, "hi\n")
	assert.Equal(t, "x", y.read(deep+"/000/.env"))
	assert.NotContains(t, said, "memfd", "the command inherits no order")

	hidden := t.TempDir()
	y = newYard(t, nil, func(c *Config) { c.Hidden = []string{hidden} })
	var show []string
	for i := range 1100 {
		show = append(show, filepath.Join(hidden, fmt.Sprintf("out-%060d", i)))
		require.NoError(t, os.WriteFile(show[i], []byte("shown\n"), 0o600))
	}
	said, o = y.run("cat "+show[1099], show...)
	assert.True(t, o.Viewed)
	assert.Equal(t, "shown\n", said)
}

// A command does not run without its view when something is short for the moment, and later ones get theirs.
func TestShortage(t *testing.T) {
	y := newYard(t, nil)
	y.needsViews()
	for i := range 30 {
		y.write(fmt.Sprintf("%02d/.env", i), "x")
	}
	was := canView.Load()
	t.Cleanup(func() { canView.Store(was) })
	short, whole := y.Config, y.Config
	short.Exe = filepath.Join(t.TempDir(), "short")
	script := "#!/bin/sh\nulimit -n 20\nexec '" + y.Exe + "' \"$@\"\n"
	require.NoError(t, os.WriteFile(short.Exe, []byte(script), 0o755))
	for _, can := range []int32{unknown, known} {
		canView.Store(can)
		y.Box = New(short)
		said, o := y.run("echo ran")
		assert.Equal(t, 126, o.Code, said)
		assert.Contains(t, said, "qq: sandbox: give the command its view of the files: ")
		assert.Contains(t, said, "too many open files\n")
		assert.NotContains(t, said, "ran")
		assert.Equal(t, can, canView.Load())
		y.Box = New(whole)
		said, o = y.run("echo ran")
		assert.Equal(t, "ran\n", said)
		assert.True(t, o.Viewed)
	}
}

// TestViewStaysOn: a first command that cannot be shown a path does not run, and later ones have a view.
func TestViewStaysOn(t *testing.T) {
	y := newYard(t, map[string]string{".env": "old\n"})
	y.needsViews()
	was := canView.Swap(unknown)
	t.Cleanup(func() { canView.Store(was) })
	write := y.Rules.Write
	y.Rules.Write = append(slices.Clip(write), "/x\x00")
	said, o := y.run("echo ran")
	assert.Equal(t, 126, o.Code)
	assert.Contains(t, said, "copy the mount of")
	y.Rules.Write = write
	_, o = y.run("echo x > .env")
	assert.True(t, o.Viewed)
	assert.Equal(t, "old\n", y.read(".env"))
}
