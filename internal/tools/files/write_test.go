package files

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/standin"
	"qq/internal/tools/store"
	"qq/internal/tools/tree"
	"qq/pkg/tool"
)

// plantAll is plant with all tools of one workspace.
func plantAll(t testing.TB, files map[string]string) (string, tool.Set) {
	t.Helper()
	dir, _ := plant(t, files)
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	t.Cleanup(func() { root.Close() })
	return dir, allTools(root)
}

func allTools(root *os.Root) tool.Set {
	w := Open(root)
	return append(w.Reading(), w.Writing()...)
}

func onDisk(t testing.TB, dir, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	require.NoError(t, err)
	return string(data)
}

// intent plans a call.
func intent(t testing.TB, set tool.Set, name, args string) (tool.Intent, error) {
	t.Helper()
	f, ok := set.Lookup(name)
	require.True(t, ok, name)
	return tool.Plan(context.Background(), f, json.RawMessage(args))
}

// approve plans a call and runs it as one that was allowed.
func approve(t testing.TB, set tool.Set, name, args string) tool.Result {
	t.Helper()
	in, err := intent(t, set, name, args)
	require.NoError(t, err)
	return standin.CallToolContext(tool.WithGrant(context.Background(), in), t, set, name, args)
}

func TestWritingSpecs(t *testing.T) {
	dir, _ := plant(t, nil)
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	set := Open(root).Writing()
	assert.Equal(t, []string{"write_file", "create_file", "edit_file", "delete_file"}, set.Names())
}

func TestWritingArguments(t *testing.T) {
	_, set := plantAll(t, map[string]string{"a": "text\n"})
	for _, c := range []struct{ name, args, want string }{
		{"write_file", `{}`, `Error: argument "path" is missing`},
		{"write_file", `{"path":"a"}`, `Error: argument "content" is missing`},
		{"write_file", `{"path":"a","content":null}`, `Error: argument "content" is missing`},
		{"write_file", `{"path":"a","content":7}`, `Error: argument "content" must be text (accepted: content, path)`},
		{"create_file", `{"path":"b"}`, `Error: argument "content" is missing`},
		{"edit_file", `{"old_text":"a","new_text":"b"}`, `Error: argument "path" is missing`},
		{"edit_file", `{"path":"a","old_text":"text"}`, `Error: argument "new_text" is missing`},
		{"edit_file", `{"path":"a","old_text":"text","new_text":[]}`,
			`Error: argument "new_text" must be text (accepted: new_text, old_text, path)`},
		{"edit_file", `{"path":"a","new_text":"text"}`,
			`Error: old_text is empty: give the text to replace, or use create_file or write_file`},
		{"edit_file", `{"path":"a","old_text":"x","new_text":"x"}`,
			`Error: old_text and new_text are the same: nothing would change`},
		{"delete_file", `{}`, `Error: argument "path" is missing`},
	} {
		refused(t, set, c.name, c.args, c.want)
	}
}

// refused checks that a call fails with a text, changes nothing, and that nobody
// would be asked about it.
func refused(t testing.TB, set tool.Set, name, args, want string) {
	t.Helper()
	r := standin.CallTool(t, set, name, args)
	assert.Equal(t, want, r.Content, args)
	assert.Empty(t, r.Changed, args)
	_, err := intent(t, set, name, args)
	if assert.Error(t, err, args) {
		assert.Equal(t, want, "Error: "+err.Error(), args)
	}
}

func TestCreateFile(t *testing.T) {
	dir, set := plantAll(t, map[string]string{"a": "a\n"})
	args := standin.Args("path", "./new/deep/x.md", "content", "one\ntwo")
	in, err := intent(t, set, "create_file", args)
	require.NoError(t, err)
	assert.Equal(t, tool.Intent{Tool: "create_file", Effect: tool.Writes, Risk: tool.Medium,
		Paths:   []string{"new/deep/x.md"},
		Summary: "create new/deep/x.md", Sums: map[string]string{"new/deep/x.md": ""},
		Preview: "--- new/deep/x.md\n+++ new/deep/x.md\n@@ -0,0 +1,2 @@\n+one\n+two\n\\ No newline at end of file"},
		in)
	assert.NoDirExists(t, filepath.Join(dir, "new"), "a plan changes nothing")
	assert.Equal(t, tool.Result{Content: "created new/deep/x.md: 2 lines", Changed: []string{"new/deep/x.md"}},
		standin.CallTool(t, set, "create_file", args))
	assert.Equal(t, "one\ntwo", onDisk(t, dir, "new/deep/x.md"))
	refused(t, set, "create_file", args,
		"Error: ./new/deep/x.md exists: change it with edit_file, or read it and overwrite it with write_file")
	refused(t, set, "create_file", standin.Args("path", "a/b", "content", ""),
		"Error: a/b does not exist: a is not a folder")
	refused(t, set, "create_file", standin.Args("path", "new/", "content", ""),
		"Error: new/ is a folder: give the path of a file")
	refused(t, set, "create_file", standin.Args("path", "b/", "content", ""),
		"Error: b/ names a folder: give the path of a file")
	assert.Equal(t, "created empty: 0 lines", standin.CallTool(t, set, "create_file",
		standin.Args("path", "empty", "content", "")).Content)
	// What one has written oneself is known.
	assert.False(t, standin.CallTool(t, set, "write_file", standin.Args("path", "new/deep/x.md", "content",
		"three\n")).Failed)
}

func TestWriteFile(t *testing.T) {
	dir, set := plantAll(t, map[string]string{"x.md": "one\ntwo\n", "win": "\ufeffa\r\nb\r\n", "bin": "a\x00"})
	args := standin.Args("path", "x.md", "content", "one\n2\n")
	refused(t, set, "write_file", args, "Error: x.md exists: read it before you overwrite it")
	standin.CallTool(t, set, "read_file", `{"path":"x.md","end_line":1}`)
	in, err := intent(t, set, "write_file", args)
	require.NoError(t, err)
	assert.Equal(t, tool.Intent{Tool: "write_file", Effect: tool.Writes, Risk: tool.Medium, Paths: []string{"x.md"},
		Summary: "overwrite x.md", Preview: "--- x.md\n+++ x.md\n@@ -1,2 +1,2 @@\n one\n-two\n+2",
		Sums: map[string]string{"x.md": store.Sum([]byte(onDisk(t, dir, "x.md")))}}, in)
	assert.Equal(t, tool.Result{Content: "wrote x.md: 2 lines", Changed: []string{"x.md"}},
		standin.CallTool(t, set, "write_file", args))
	assert.Equal(t, tool.Result{Content: "x.md has this content already: nothing was changed"},
		standin.CallTool(t, set, "write_file", args))
	// Its own edit is known as well, a change by another is not.
	standin.CallTool(t, set, "edit_file", standin.Args("path", "x.md", "old_text", "2", "new_text", "zwei"))
	assert.False(t, standin.CallTool(t, set, "write_file", args).Failed)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "x.md"), []byte("other\n"), 0o600))
	refused(t, set, "write_file", args, "Error: x.md changed since you read it: read it again")
	standin.CallTool(t, set, "edit_file", standin.Args("path", "x.md", "old_text", "other", "new_text", "mine"))
	refused(t, set, "write_file", args, "Error: x.md changed since you read it: read it again")
	standin.CallTool(t, set, "read_file", `{"path":"x.md"}`)
	assert.False(t, standin.CallTool(t, set, "write_file", args).Failed)
	assert.Equal(t, "one\n2\n", onDisk(t, dir, "x.md"))

	standin.CallTool(t, set, "read_file", `{"path":"win"}`)
	standin.CallTool(t, set, "write_file", standin.Args("path", "win", "content", "a\nc"))
	assert.Equal(t, "\ufeffa\r\nc", onDisk(t, dir, "win"))
	refused(t, set, "write_file", standin.Args("path", "bin", "content", ""),
		"Error: bin is a binary file of 2 bytes and is not overwritten")
	assert.Equal(t, "created new: 1 line", standin.CallTool(t, set, "write_file",
		standin.Args("path", "new", "content", "x")).Content)
	// A file that was deleted and made anew by another is not known.
	standin.CallTool(t, set, "delete_file", `{"path":"new"}`)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "new"), []byte("x"), 0o600))
	refused(t, set, "write_file", standin.Args("path", "new", "content", "y"),
		"Error: new exists: read it before you overwrite it")
}

func TestEditFile(t *testing.T) {
	dir, set := plantAll(t, map[string]string{"a.go": "func a() {\n\treturn\n}\n\nfunc b() {}\n", "bin": "a\x00",
		"ro": "a\n"})
	args := standin.Args("path", "a.go", "old_text", "\treturn\n", "new_text", "\tx := 1\n\treturn x\n")
	in, err := intent(t, set, "edit_file", args)
	require.NoError(t, err)
	assert.Equal(t, tool.Intent{Tool: "edit_file", Effect: tool.Writes, Risk: tool.Medium, Paths: []string{"a.go"},
		Summary: "edit a.go", Sums: map[string]string{"a.go": store.Sum([]byte(onDisk(t, dir, "a.go")))},
		Preview: "--- a.go\n+++ a.go\n@@ -1,5 +1,6 @@\n func a() {\n-\treturn\n+\tx := 1\n+\treturn x\n }\n \n" +
			" func b() {}"}, in)
	require.NoError(t, os.Chmod(filepath.Join(dir, "a.go"), 0o640))
	assert.Equal(t, tool.Result{Content: "edited a.go, lines 2-3", Changed: []string{"a.go"}},
		standin.CallTool(t, set, "edit_file", args))
	assert.Equal(t, "func a() {\n\tx := 1\n\treturn x\n}\n\nfunc b() {}\n", onDisk(t, dir, "a.go"))
	info, err := os.Stat(filepath.Join(dir, "a.go"))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o640), info.Mode())

	for old, want := range map[string]string{
		"    x := 1\n": "Error: a.go: old_text is not there: only the white space differs, line 2:\n\tx := 1",
		"return y":     "Error: a.go: old_text is not there: the nearest is line 3:\n\treturn x",
		"SELECT":       "Error: a.go: old_text is not there: nothing is like it: read the file again",
		"func ": "Error: a.go: old_text is there 2 times, at lines 1, 6: give more of the text around it, so " +
			"that it is there once",
	} {
		refused(t, set, "edit_file", standin.Args("path", "a.go", "old_text", old, "new_text", "z"), want)
	}
	refused(t, set, "edit_file", standin.Args("path", "a.og", "old_text", "a", "new_text", "z"),
		"Error: a.og does not exist. Similar: a.go")
	refused(t, set, "edit_file", standin.Args("path", ".", "old_text", "a", "new_text", "z"),
		"Error: . is a folder: give the path of a file")
	refused(t, set, "edit_file", standin.Args("path", "bin", "old_text", "a", "new_text", "z"),
		"Error: bin is a binary file of 2 bytes and is not edited")
	require.NoError(t, os.Chmod(filepath.Join(dir, "ro"), 0o444))
	assert.Equal(t, "Error: ro is read-only: its permissions do not allow to change it",
		standin.CallTool(t, set, "edit_file", standin.Args("path", "ro", "old_text", "a", "new_text", "z")).Content)
}

func TestDeleteFile(t *testing.T) {
	dir, set := plantAll(t, map[string]string{"a/x": "x"})
	require.NoError(t, os.Symlink("a/x", filepath.Join(dir, "link")))
	require.NoError(t, os.Symlink("a", filepath.Join(dir, "in")))
	refused(t, set, "delete_file", `{"path":"a"}`, "Error: a is a folder: give the path of a file")
	refused(t, set, "delete_file", `{"path":"link"}`, "Error: link is a link to a/x: links are not deleted, only files")
	refused(t, set, "delete_file", `{"path":"a/y"}`, "Error: a/y does not exist: look with list_files at a")
	in, err := intent(t, set, "delete_file", `{"path":"in/x"}`)
	require.NoError(t, err)
	assert.Equal(t, tool.Intent{Tool: "delete_file", Effect: tool.Writes, Risk: tool.High, Paths: []string{"a/x"},
		Summary: "delete a/x", Sums: map[string]string{"a/x": store.Sum([]byte("x"))}}, in)
	assert.Equal(t, tool.Result{Content: "deleted a/x", Changed: []string{"a/x"}},
		standin.CallTool(t, set, "delete_file", `{"path":"in/x"}`))
	assert.NoFileExists(t, filepath.Join(dir, "a/x"))
	assert.DirExists(t, filepath.Join(dir, "a"))
}

// A link is followed to the file that it leads to, as long as that is inside.
func TestWritingThroughLinks(t *testing.T) {
	dir, set := plantAll(t, map[string]string{"a/x": "old\n", "a/.env": "KEY=1\n"})
	outside := filepath.Join(filepath.Dir(dir), "outside")
	require.NoError(t, os.WriteFile(outside, []byte("outside\n"), 0o600))
	for link, target := range map[string]string{"link": "a/x", "in": "a", "out": "../outside", "up": "..",
		"gone": "none", "gone2": "a/none/x",
		"env": "a/.env", "abs": filepath.Join(dir, "a")} {
		require.NoError(t, os.Symlink(target, filepath.Join(dir, link)))
	}
	r := standin.CallTool(t, set, "edit_file", standin.Args("path", "link", "old_text", "old", "new_text", "new"))
	assert.Equal(t, []string{"a/x"}, r.Changed)
	assert.Equal(t, "new\n", onDisk(t, dir, "a/x"))
	assert.Equal(t, []string{"a/y/z"}, standin.CallTool(t, set, "create_file",
		standin.Args("path", "in/y/z", "content", "")).Changed)
	assert.Equal(t, []string{"a/abs"}, standin.CallTool(t, set, "write_file",
		standin.Args("path", "abs/abs", "content", "")).Changed)
	for path, want := range map[string]string{
		"gone": "gone does not exist", "gone2": "gone2 does not exist",
		"out":          "out is a link that leads out of the working directory",
		"up/new":       "up/new is a link that leads out of the working directory",
		"../new":       "../new is outside the working directory",
		"/new":         "/new is outside the working directory",
		"up/../../new": "up/../../new is outside the working directory", "a\x00": "the path contains a NUL",
	} {
		for name, args := range map[string]string{
			"write_file":  standin.Args("path", path, "content", "x"),
			"create_file": standin.Args("path", path, "content", "x"),
			"edit_file":   standin.Args("path", path, "old_text", "outside", "new_text", "x"),
		} {
			r := standin.CallTool(t, set, name, args)
			assert.True(t, strings.HasPrefix(r.Content, "Error: "+want), "%s: %s", name, r.Content)
		}
	}
	in, err := intent(t, set, "edit_file", standin.Args("path", "env", "old_text", "KEY", "new_text", "x"))
	require.NoError(t, err)
	assert.Equal(t, []string{"a/.env"}, in.Paths, "the real path is what is decided about")
	assert.Equal(t, tool.High, in.Risk)
	assert.Equal(t, "outside\n", onDisk(t, filepath.Dir(dir), "outside"))
	left, err := os.ReadDir(filepath.Dir(dir))
	require.NoError(t, err)
	assert.Len(t, left, 2)
}

func TestSecretsAreReadWithAnApproval(t *testing.T) {
	dir, set := plantAll(t, map[string]string{".env": "KEY=1\n", "b.key": "two\n", "x": "x\n"})
	in, err := intent(t, set, "read_file", `{"path":"./.env"}`)
	require.NoError(t, err)
	assert.Equal(t, tool.Intent{Tool: "read_file", Effect: tool.Reads, Risk: tool.High, Special: true,
		Paths:   []string{".env"},
		Summary: "read .env, which looks like a file of secrets"}, in)
	ctx := tool.WithGrant(t.Context(), in)
	assert.Equal(t, "KEY=1\n", standin.CallToolContext(ctx, t, set, "read_file", `{"path":".env"}`).Content)
	assert.True(t, standin.CallToolContext(ctx, t, set, "read_file", `{"path":"b.key"}`).Failed,
		"another file was allowed")
	in.Special = false
	assert.True(t, standin.CallToolContext(tool.WithGrant(t.Context(), in), t, set, "read_file",
		`{"path":".env"}`).Failed)

	in, err = intent(t, set, "read_file", `{"path":"x"}`)
	require.NoError(t, err)
	assert.Equal(t, tool.Intent{Tool: "read_file", Effect: tool.Reads, Risk: tool.Low, Paths: []string{"x"},
		Summary: "read x"}, in)
	refused(t, set, "read_file", `{"path":"nope"}`, "Error: nope does not exist: look with list_files at .")

	// The link led to a harmless file when it was decided about.
	require.NoError(t, os.Symlink(".env", filepath.Join(dir, "l")))
	assert.True(t, standin.CallToolContext(tool.WithGrant(t.Context(), in), t, set, "read_file", `{"path":"l"}`).Failed)
}

// What other programs obey and what looks like secrets is changed only when just
// that was allowed, and a plan tells nothing of a content that nobody allowed to
// be read.
func TestDelicateFiles(t *testing.T) {
	files := map[string]string{".env": "KEY=hunter2\n", ".git/hooks/pre-commit": "x\n", ".Git/config": "x\n",
		"sub/.git/config": "x\n",
		".qq/agents/a.md": "x\n", ".claude/agents/deep/a.md": "x\n", ".agents/agents/a.md": "x\n", "s.pem": "x\n",
		".claude/settings.json": "x\n", ".github/workflows/ci.yml": "x\n", "sub/.vscode/tasks.json": "x\n",
		".husky/pre-commit": "x\n", ".envrc": "x\n", ".mcp.json": "x\n", "sub/.bashrc": "x\n", ".profile": "x\n",
		".gitconfig": "x\n", ".gitattributes": "x\n", ".gitmodules": "x\n", ".config/autostart/a.desktop": "x\n",
		".config/systemd/user/a.service": "x\n"}
	dir, set := plantAll(t, files)
	for name, text := range files {
		old := text[:1]
		args := standin.Args("path", name, "old_text", old, "new_text", "new")
		in, err := intent(t, set, "edit_file", args)
		require.NoError(t, err, name)
		assert.Equal(t, tool.High, in.Risk, name)
		assert.True(t, in.Special, name)
		assert.NotEmpty(t, tree.Concern(name), name)
		r := standin.CallTool(t, set, "edit_file", args)
		assert.True(t, r.Failed && strings.HasSuffix(r.Content, " and is not changed without an approval"), "%s: %s",
			name, r.Content)
		assert.True(t, standin.CallTool(t, set, "delete_file", standin.Args("path", name)).Failed, name)
		assert.Equal(t, text, onDisk(t, dir, name))
		assert.Equal(t, []string{name}, approve(t, set, "edit_file", args).Changed)
		assert.Equal(t, []string{name}, approve(t, set, "delete_file", standin.Args("path", name)).Changed)
		assert.Equal(t, []string{name}, approve(t, set, "create_file",
			standin.Args("path", name, "content", text)).Changed)
	}
	in, err := intent(t, set, "delete_file", `{"path":"sub/.git/config"}`)
	require.NoError(t, err)
	assert.Equal(t, "delete sub/.git/config, which belongs to git", in.Summary)
	in, err = intent(t, set, "edit_file", standin.Args("path", ".qq/agents/a.md", "old_text", "x", "new_text", "y"))
	require.NoError(t, err)
	assert.Equal(t, "edit .qq/agents/a.md, which is an agent definition", in.Summary)

	wrong := standin.Args("path", ".env", "old_text", "KEY=hunter1", "new_text", "x")
	in, err = intent(t, set, "edit_file", wrong)
	require.NoError(t, err, "a plan does not tell whether a guess is right")
	assert.NotContains(t, in.Preview, "hunter2")
	r := approve(t, set, "edit_file", wrong)
	assert.Equal(t, "Error: .env: old_text is not there", r.Content)
	for _, name := range []string{".gitignore", "github/x", "agents/a.md", "claude/a.md", "git/x", ".env.example",
		"systemd.md", "env", "bashrc"} {
		assert.False(t, standin.CallTool(t, set, "write_file", standin.Args("path", name, "content", "")).Failed, name)
		assert.Empty(t, tree.Concern(name), name)
		in, err := intent(t, set, "delete_file", standin.Args("path", name))
		require.NoError(t, err)
		assert.False(t, in.Special, name)
	}
}

// What was allowed for one file is not for another that the path leads to by now.
func TestApprovalIsForTheRealPath(t *testing.T) {
	dir, set := plantAll(t, map[string]string{"a": "a\n", "b": "a\n"})
	link := filepath.Join(dir, "l")
	require.NoError(t, os.Symlink("a", link))
	args := standin.Args("path", "l", "old_text", "a", "new_text", "z")
	in, err := intent(t, set, "edit_file", args)
	require.NoError(t, err)
	require.NoError(t, os.Remove(link))
	require.NoError(t, os.Symlink("b", link))
	assert.Equal(t, "Error: l leads to b now, which is not what was approved: try again",
		standin.CallToolContext(tool.WithGrant(t.Context(), in), t, set, "edit_file", args).Content)
	assert.Equal(t, "a\n", onDisk(t, dir, "b"))
}

// What a person was shown is what is done: not to a file that changed, came or went since.
func TestApprovalIsForWhatWasShown(t *testing.T) {
	const was = "Error: %s was %s after this call was shown to the user, who allowed another change: " +
		"nothing was done to it; read it and call again"
	for name, c := range map[string]struct {
		tool, file string // of the call
		now        string // the content when it runs; "" for no file
		want       string
	}{
		"edit, elsewhere":  {"edit_file", "a", "a\nb\nmore\n", fmt.Sprintf(was, "a", "changed")},
		"edit, the place":  {"edit_file", "a", "other\n", fmt.Sprintf(was, "a", "changed")},
		"edit, gone":       {"edit_file", "a", "", "Error: a does not exist: look with list_files at ."},
		"edit, the same":   {"edit_file", "a", "a\nb\n", ""},
		"secret":           {"edit_file", ".env", "a\nc\n", fmt.Sprintf(was, ".env", "changed")},
		"overwrite":        {"write_file", "a", "other\n", fmt.Sprintf(was, "a", "changed")},
		"overwrite, gone":  {"write_file", "a", "", fmt.Sprintf(was, "a", "deleted")},
		"create":           {"write_file", "new", "a\nb\n", fmt.Sprintf(was, "new", "created")},
		"create, the same": {"write_file", "new", "", ""},
		"delete":           {"delete_file", "a", "other\n", fmt.Sprintf(was, "a", "changed")},
		"delete, the same": {"delete_file", "a", "a\nb\n", ""},
	} {
		dir, set := plantAll(t, map[string]string{"a": "a\nb\n", ".env": "a\nb\n"})
		standin.CallTool(t, set, "read_file", `{"path":"a"}`)
		args := map[string]string{
			"edit_file":   standin.Args("path", c.file, "old_text", "a", "new_text", "z"),
			"write_file":  standin.Args("path", c.file, "content", "z"),
			"delete_file": standin.Args("path", c.file),
		}[c.tool]
		in, err := intent(t, set, c.tool, args)
		require.NoError(t, err, name)
		if c.now == "" {
			_ = os.Remove(filepath.Join(dir, c.file)) // some were never there
		} else {
			require.NoError(t, os.WriteFile(filepath.Join(dir, c.file), []byte(c.now), 0o600))
			standin.CallTool(t, set, "read_file", standin.Args("path", c.file)) // the agent may know that
		}
		r := standin.CallToolContext(tool.WithGrant(t.Context(), in), t, set, c.tool, args)
		if c.want == "" {
			assert.False(t, r.Failed, "%s: %s", name, r.Content)
			continue
		}
		assert.Equal(t, c.want, r.Content, name)
		now, _ := os.ReadFile(filepath.Join(dir, c.file))
		assert.Equal(t, c.now, string(now), name)
	}
}

func TestWritingEndsWithContext(t *testing.T) {
	dir, set := plantAll(t, map[string]string{"a": "x\n"})
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	for name, args := range map[string]string{"write_file": `{"path":"b","content":""}`,
		"create_file": `{"path":"b","content":""}`,
		"edit_file":   `{"path":"a","old_text":"x","new_text":"y"}`, "delete_file": `{"path":"a"}`} {
		assert.Equal(t, "Error: enough", standin.CallToolContext(ctx, t, set, name, args).Content)
	}
	assert.Equal(t, "x\n", onDisk(t, dir, "a"))
	assert.NoFileExists(t, filepath.Join(dir, "b"))
}

// Of two agents that change one place exactly one succeeds; the other reads why.
func TestOneOfTwoEdits(t *testing.T) {
	dir, first := plantAll(t, map[string]string{"x": "begin\nplace 0\nend\n"})
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	agents := []tool.Set{first, allTools(root), first, allTools(root)}
	for round := range 100 {
		results := make(chan tool.Result, len(agents))
		for i, set := range agents {
			args := standin.Args("path", "x", "old_text", fmt.Sprintf("place %d\n", round), "new_text",
				fmt.Sprintf("place %d\nby %d\n", round+1, i))
			go func() { results <- standin.CallTool(t, set, "edit_file", args) }()
		}
		done := 0
		for range agents {
			if r := <-results; !r.Failed {
				done++
			} else if !strings.HasPrefix(r.Content, "Error: x: old_text is not there: the nearest is line") {
				t.Fatal(r.Content)
			}
		}
		require.Equal(t, 1, done, "round %d", round)
	}
	assert.Equal(t, 100, strings.Count(onDisk(t, dir, "x"), "by "))
}

func TestLines(t *testing.T) {
	dir, _ := plant(t, map[string]string{"two": "a\nb\n", "open": "a\nb\nc", "empty": "",
		"big": strings.Repeat("x\n", 100_000), "d/x": "", ".env": "a\n"})
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(dir, "out")))
	w := Open(root)
	for path, want := range map[string]int{"two": 2, "./open": 3, "empty": 0, "big": 100_000,
		filepath.Join(dir, "d/x"): 0, ".env": 1} {
		n, ok := w.Lines(path)
		assert.True(t, ok, path)
		assert.Equal(t, want, n, path)
	}
	for _, path := range []string{"none", "d", "out", "/etc/passwd", "../x", ""} {
		_, ok := w.Lines(path)
		assert.False(t, ok, path)
	}
}
