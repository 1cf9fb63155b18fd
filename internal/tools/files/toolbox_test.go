package files

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"qq/internal/standin"
	"qq/pkg/tool"
)

// roleKey is the variable that makes a child of the test binary: it names the
// folder that the child works in.
const roleKey = "QQ_FILES_TEST_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(roleKey); dir != "" {
		os.Exit(compete(dir))
	}
	goleak.VerifyTestMain(m)
}

// plant writes files below a new folder and returns the folder and its tools.
func plant(t testing.TB, files map[string]string) (string, tool.Set) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "work")
	require.NoError(t, os.Mkdir(dir, 0o700))
	for name, text := range files {
		p := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o700))
		require.NoError(t, os.WriteFile(p, []byte(text), 0o600))
	}
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	t.Cleanup(func() { root.Close() })
	return dir, Open(root).Reading()
}

func TestArguments(t *testing.T) {
	_, set := plant(t, map[string]string{"a": "1\n2\n3\n"})
	for args, want := range map[string]string{
		`{"path":"a","start_line":2,"end_line":2}`:       "2\n[lines 2-2 of 3: read on with start_line=3]",
		`{"path":"a","start_line":"2","end_line":" 3 "}`: "2\n3\n",
		`{"path":"a","start_line":2.0,"end_line":null}`:  "2\n3\n",
		`"{\"path\":\"a\",\"start_line\":3}"`:            "3\n",
		`{"path":"a","start_line":0}`:                    "1\n2\n3\n",
		`{"path":"a","lines":3}`: `Error: unknown argument "lines" (accepted: end_line, path,` +
			` start_line)`,
		`{"path":["a"]}`: `Error: argument "path" must be text (accepted: end_line, ` +
			`path, start_line)`,
		`{"path":"a","start_line":"two"}`: `Error: argument "start_line" must be a whole number ` +
			`(accepted: end_line, path, start_line)`,
		`{"path":"a","start_line":1.5}`: `Error: argument "start_line" must be a whole number ` +
			`(accepted: end_line, path, start_line)`,
		`{"path":"a","start_line":1e300}`: `Error: argument "start_line" must be a whole number ` +
			`(accepted: end_line, path, start_line)`,
		`{"path":"a","start_line":{}}`: `Error: argument "start_line" must be a whole number ` +
			`(accepted: end_line, path, start_line)`,
		`{}`:       `Error: argument "path" is missing`,
		``:         `Error: argument "path" is missing`,
		`null`:     `Error: argument "path" is missing`,
		`[1]`:      `Error: the arguments must be a JSON object`,
		`"path"`:   `Error: the arguments must be a JSON object`,
		`{"path":`: `Error: the arguments must be a JSON object`,
		`{"path":"a","start_line":3,"end_line":2}`: `Error: end_line 2 is before start_line 3`,
		`{"path":"a","start_line":9}`:              `Error: a has 3 lines: start_line 9 is after its end`,
	} {
		assert.Equal(t, want, standin.CallTool(t, set, "read_file", args).Content, args)
	}
	assert.Equal(t, "a:1: 1", standin.CallTool(t, set, "grep_file", `{"pattern":"1","ignore_case":"True"}`).Content)
	assert.Equal(t,
		`Error: argument "ignore_case" must be true or false (accepted: context, glob, ignore_case, limit, path, `+
			`pattern)`,
		standin.CallTool(t, set, "grep_file", `{"pattern":"1","ignore_case":"maybe"}`).Content)
}

func FuzzArguments(f *testing.F) {
	for _, s := range []string{`{"path":"a"}`, `{"path":"../x","start_line":"9"}`, `"{}"`,
		`{"pattern":"(","glob":"{"}`} {
		f.Add(s)
	}
	_, set := plant(f, map[string]string{"a": "1\n", "b/c": "2\n"})
	f.Fuzz(func(t *testing.T, args string) {
		for _, name := range set.Names() {
			standin.CallTool(t, set, name, args)
		}
	})
}

// A plan of a call that writes changes nothing, whatever the arguments are.
func FuzzPlans(f *testing.F) {
	for _, s := range []string{`{"path":"a","old_text":"1","new_text":""}`, `{"path":"b/../d/e","content":"\r\n"}`,
		`{"path":"b/c","content":null}`, `{"path":".env"}`} {
		f.Add(s)
	}
	dir, set := plantAll(f, map[string]string{"a": "1\n", "b/c": "2\r\n", ".env": "3"})
	f.Fuzz(func(t *testing.T, args string) {
		for _, name := range set.Names() {
			in, err := intent(t, set, name, args)
			if err == nil {
				assert.NotEmpty(t, in.Summary)
			}
		}
		var found []string
		require.NoError(t, filepath.WalkDir(dir, func(p string, _ fs.DirEntry, err error) error {
			found = append(found, strings.TrimPrefix(p, dir))
			return err
		}))
		assert.Equal(t, []string{"", "/.env", "/a", "/b", "/b/c"}, found)
	})
}

func TestPathsStayInside(t *testing.T) {
	dir, set := plant(t, map[string]string{"a/x": "inside\n", "b": "b\n"})
	outside := filepath.Join(filepath.Dir(dir), "outside")
	require.NoError(t, os.Mkdir(outside, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(outside, "x"), []byte("SECRET"), 0o600))
	for link, target := range map[string]string{
		"up": "..", "abs": outside, "file": "../outside/x", "in": "a", "deep": "in/../in/x",
		"absin": filepath.Join(dir, "a"),
		"loop":  "loop", "dangling": "a/none", "twice": "up/outside",
	} {
		require.NoError(t, os.Symlink(target, filepath.Join(dir, link)))
	}
	for path, want := range map[string]string{
		"a/x": "inside\n", "./a//x": "inside\n", "a/../a/x": "inside\n", "in/x": "inside\n", "deep": "inside\n",
		"absin/x":                 "inside\n",
		filepath.Join(dir, "a/x"): "inside\n",
		"../outside/x": "Error: ../outside/x is outside the working directory: use a path inside it, " +
			"relative to it",
		"a/../../outside/x": "Error: a/../../outside/x is outside the working directory: use a path inside it, " +
			"relative to it",
		"/etc/passwd": "Error: /etc/passwd is outside the working directory: use a path inside it, " +
			"relative to it",
		dir + "/../outside/x": "Error: " + dir +
			"/../outside/x is outside the working directory: use a path inside it, relative to it",
		dir + "x": "Error: " + dir +
			"x is outside the working directory: use a path inside it, relative to it",
		"up/outside/x": "Error: up/outside/x is a link that leads out of the working directory",
		"abs/x":        "Error: abs/x is a link that leads out of the working directory",
		"file":         "Error: file is a link that leads out of the working directory",
		"twice/x":      "Error: twice/x is a link that leads out of the working directory",
		"loop":         "Error: loop leads through too many links",
		"a":            "Error: a is a folder: use list_files",
		"b/x":          "Error: b/x does not exist: b is not a folder",
		"a\x00":        "Error: the path contains a NUL character",
		"dangling":     "Error: dangling does not exist: look with list_files at a",
	} {
		assert.Equal(t, want, standin.CallTool(t, set, "read_file", standin.Args("path", path)).Content, path)
	}
	for _, name := range []string{"list_files", "list_directory", "grep_file"} {
		for _, path := range []string{"up", "abs", "..", "/", "up/outside"} {
			args := standin.Args("path", path)
			if name == "grep_file" {
				args = standin.Args("path", path, "pattern", "S")
			}
			r := standin.CallTool(t, set, name, args)
			assert.True(t, r.Failed, "%s %s: %s", name, path, r.Content)
		}
	}
	assert.Equal(t, "a/x", standin.CallTool(t, set, "list_files", standin.Args("path", "in")).Content)
	assert.Equal(t, "a/x:1: inside", standin.CallTool(t, set, "grep_file",
		standin.Args("path", "absin", "pattern", "i")).Content)
}

func TestMissingFileNamesTheNearest(t *testing.T) {
	_, set := plant(t, map[string]string{"src/main.go": "", "src/main_test.go": "", "src/other.txt": "",
		"docs/x.md": ""})
	for path, want := range map[string]string{
		"src/mian.go":   "Error: src/mian.go does not exist. Similar: src/main.go",
		"src/Main":      "Error: src/Main does not exist. Similar: src/main.go",
		"scr/main.go":   "Error: scr/main.go does not exist",
		"src/zzz":       "Error: src/zzz does not exist: look with list_files at src",
		"doc/x.md":      "Error: doc/x.md does not exist. Similar: docs",
		"src/a/b/c/d.x": "Error: src/a/b/c/d.x does not exist: look with list_files at src",
	} {
		got := standin.CallTool(t, set, "read_file", standin.Args("path", path)).Content
		assert.True(t, strings.HasPrefix(got, want), got)
	}
}

func TestSecrets(t *testing.T) {
	secret := []string{".env", ".env.local", "a/.ENV", "x.pem", "x.key", "id_rsa", "sub/id_ed25519", ".netrc",
		".aws/credentials", ".ssh/config",
		"x.p12", ".npmrc", ".pgpass", "credentials.json", ".docker/config.json", ".git-credentials", "credentials"}
	open := []string{".env.example", "id_rsa.pub", "config.json", "keys.go", "environment", "ssh/config",
		"monkey"}
	files := map[string]string{}
	for _, f := range append(secret, open...) {
		files[f] = "token\n"
	}
	dir, set := plant(t, files)
	require.NoError(t, os.Symlink(".env", filepath.Join(dir, "innocent.txt")))
	for _, f := range append(secret, "innocent.txt") {
		want := fmt.Sprintf("Error: %s looks like a file of secrets and is not read", f)
		assert.Equal(t, want+" without an approval", standin.CallTool(t, set, "read_file",
			standin.Args("path", f)).Content)
		assert.Equal(t, want,
			standin.CallTool(t, set, "grep_file", standin.Args("path", f, "pattern", "token")).Content)
	}
	for _, f := range open {
		assert.Equal(t, "token\n", standin.CallTool(t, set, "read_file", standin.Args("path", f)).Content, f)
	}
	found := standin.CallTool(t, set, "grep_file", standin.Args("pattern", "token")).Content
	assert.Equal(t, len(open), strings.Count(found, ": token"))
	assert.True(t, strings.HasSuffix(found, fmt.Sprintf("\n[%d files that look like secrets were skipped]",
		len(secret))), found)
	listed := standin.CallTool(t, set, "list_files", "{}").Content
	for _, f := range secret {
		assert.Contains(t, listed, f)
	}
}

// A folder of secrets does not become harmless by working in it.
func TestSecretsInTheRootItself(t *testing.T) {
	dir := filepath.Join(t.TempDir(), ".ssh")
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config"), []byte("x"), 0o600))
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	assert.True(t, standin.CallTool(t, Open(root).Reading(), "read_file", standin.Args("path", "config")).Failed)
}
