package tree

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// plant writes files below a new folder and opens it.
func plant(t testing.TB, files map[string]string) *os.Root {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		p := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o700))
		require.NoError(t, os.WriteFile(p, []byte(text), 0o600))
	}
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	t.Cleanup(func() { root.Close() })
	return root
}

func walked(t testing.TB, root *os.Root, start string) (files []string) {
	t.Helper()
	unreadable, err := Walk(context.Background(), root, start,
		func(file string, _ fs.DirEntry) { files = append(files, file) })
	require.NoError(t, err)
	require.Zero(t, unreadable)
	return files
}

func TestWalkOrderIsThatOfPaths(t *testing.T) {
	root := plant(t, map[string]string{"a/x": "", "a-b": "", "a.go": "", "a0": "", "a/b/c": "", "a/b.x": "", "B": "",
		"é": ""})
	files := walked(t, root, ".")
	assert.Len(t, files, 8)
	assert.True(t, slices.IsSorted(files), "%v", files)
}

func TestWalkObeysRules(t *testing.T) {
	root := plant(t, map[string]string{
		".gitignore":     "*.log\n/build/\n!keep.log\n",
		"a.log":          "",
		"keep.log":       "",
		"build/x":        "",
		"sub/.gitignore": "!a.log\nlocal\n",
		"sub/a.log":      "",
		"sub/b.log":      "",
		"sub/local":      "",
		"sub/build/x":    "",
		"local":          "",
		".git/config":    "",
		"sub/.git":       "gitdir: elsewhere",
	})
	assert.Equal(t, []string{".gitignore", "keep.log", "local", "sub/.gitignore", "sub/a.log", "sub/build/x"},
		walked(t, root, "."))
	assert.Equal(t, []string{"sub/.gitignore", "sub/a.log", "sub/build/x"}, walked(t, root, "sub"),
		"rules above the start count")
	assert.Equal(t, []string{"build/x"}, walked(t, root, "build"), "a folder that is named is entered")
}

func TestWalkFollowsNoLinks(t *testing.T) {
	root := plant(t, map[string]string{"a/x": "", "rules": "x\n"})
	for link, target := range map[string]string{"a/up": "..", "loop": "loop", "a/.gitignore": "../rules", "out": "/"} {
		require.NoError(t, os.Symlink(target, filepath.Join(root.Name(), link)))
	}
	assert.Equal(t, []string{"a/.gitignore", "a/up", "a/x", "loop", "out", "rules"}, walked(t, root, "."))
}

func TestWalkEndsWithContext(t *testing.T) {
	root := plant(t, map[string]string{"a/x": "", "b/x": ""})
	stop := fmt.Errorf("enough")
	ctx, cancel := context.WithCancelCause(context.Background())
	var files []string
	_, err := Walk(ctx, root, ".", func(file string, _ fs.DirEntry) {
		files = append(files, file)
		cancel(stop)
	})
	assert.ErrorIs(t, err, stop)
	assert.Equal(t, []string{"a/x"}, files)
}

// The rules are what git makes of them: random trees with random rules at two
// levels, against git itself.
func TestRulesAgainstGit(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("no git")
	}
	rng := rand.New(rand.NewPCG(7, 7))
	pick := func(from []string) string { return from[rng.IntN(len(from))] }
	names := []string{"a", "b", "foo", "bar", "foo.txt", "a.log", "x.go", "node_modules", "build", "Foo", "a b", "[x]",
		"é", "{a,b}", "#c", "!d", "s "}
	patterns := []string{"*.log", "/foo", "foo/", "foo/*", "!a.log", "**/bar", "foo/**", "a/**/b", "/a/*", "*.txt",
		"!foo.txt", "b", "foo?",
		"[ab]", "[!a]*", "node_modules/", "/build/", "bar/", `\[x\]`, `a\ b`, "#c", `\#c`, "*/foo", "foo/bar", "!foo/",
		"**", "*", "!*/",
		"!*.go", "/**/b", "a b", "é", "f*o", "foo.*", "**/foo/bar", "/*", "!/foo", "!/a", "x.go ", "[a-f]oo*", "{a,b}",
		`\{a,b}`, "{*",
		`\!d`, `s\ `, "s ", "[", `foo\`, "", "!", "/", "a/b/", "*[", "f**o", "**a", "a/", "// ", "foo\r"}
	for range 40 {
		dir := t.TempDir()
		for range 40 {
			parts := []string{dir}
			for range 1 + rng.IntN(4) {
				parts = append(parts, pick(names))
			}
			p := filepath.Join(parts...)
			if os.MkdirAll(filepath.Dir(p), 0o700) == nil {
				_ = os.WriteFile(p, nil, 0o600) // a folder of that name may be there
			}
		}
		text := ""
		for _, at := range []string{".", "a", "foo"} {
			var lines []string
			for range 1 + rng.IntN(5) {
				lines = append(lines, pick(patterns))
			}
			rules := strings.Join(lines, "\n")
			if os.WriteFile(filepath.Join(dir, at, ".gitignore"), []byte(rules), 0o600) == nil {
				text += fmt.Sprintf("%s: %q\n", at, lines)
			}
		}
		run := func(args ...string) []byte {
			cmd := exec.CommandContext(t.Context(), git, append([]string{"-C", dir}, args...)...)
			cmd.Env = []string{"HOME=" + dir, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "PATH=" +
				os.Getenv("PATH")}
			out, err := cmd.Output()
			require.NoError(t, err)
			return out
		}
		run("init", "-q")
		var want []string
		for name := range bytes.SplitSeq(run("ls-files", "-z", "--others", "--exclude-standard"), []byte{0}) {
			if len(name) > 0 {
				want = append(want, string(name))
			}
		}
		slices.Sort(want)
		root, err := os.OpenRoot(dir)
		require.NoError(t, err)
		got := walked(t, root, ".")
		root.Close()
		require.Equal(t, want, got, text)
	}
}

func FuzzRules(f *testing.F) {
	f.Add("*.log\n!/a/**\n\\{x", "a/b.log")
	f.Add("[a-\n{a,b}\\", "x")
	f.Fuzz(func(t *testing.T, text, name string) {
		if name == "" || len(text) > 200 || len(name) > 200 {
			return
		}
		rs := parseIgnore(text)
		if v := rs.match(name, false); v < silent || v > kept {
			t.Fatal(v)
		}
	})
}
