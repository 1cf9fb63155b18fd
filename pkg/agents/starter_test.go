package agents

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestStarterWorks: what qq agents new writes is a definition without a remark,
// whatever the name and the description.
func TestStarterWorks(t *testing.T) {
	names := rapid.OneOf(rapid.StringMatching(`[a-z][a-z0-9_-]{0,20}`),
		rapid.SampledFrom([]string{"1", "007", "1e3", "true", "null", "No", "-", "---", "2020-01-01", "_", "käfer"}))
	descriptions := rapid.OneOf(rapid.String(), rapid.StringMatching(`[ -~]{0,300}`),
		rapid.SampledFrom([]string{"", "{name}", "a: b # c", "- x", "'\"\\n", "---\nname: x"}))
	rapid.Check(t, func(t *rapid.T) {
		name, description := names.Draw(t, "name"), descriptions.Draw(t, "description")
		file, text, err := Starter(name, description)
		if err != nil {
			t.Fatal(err)
		}
		a, err := Parse("another", text)
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		one := strings.Join(strings.Fields(description), " ")
		if file != name+".md" || a.Name != name || one != "" && a.Description != one || len(a.Warnings) > 0 {
			t.Fatalf("%q %q %q %q", file, a.Name, a.Description, a.Warnings)
		}
		if !a.Gathers() || a.MaxTurns != 20 || len(a.Tools) != 4 || a.Prompt == "" {
			t.Fatalf("%+v", a)
		}
	})
}

func TestStarterNamesEveryTool(t *testing.T) {
	_, text, err := Starter("x", "")
	require.NoError(t, err)
	for _, k := range known {
		assert.Contains(t, string(text), k.name)
	}
}

func TestStarterRefuses(t *testing.T) {
	for _, name := range []string{"", "../x", "a b", "a.b", ".x", "x/y", strings.Repeat("x", 65)} {
		_, _, err := Starter(name, "d")
		assert.ErrorContains(t, err, "is no name for an agent: use letters", name)
	}
	_, _, err := Starter("ReadMe", "d")
	assert.ErrorContains(t, err, "ReadMe.md is not read as one")
}

func TestCreate(t *testing.T) {
	work, config := tree(t, nil)
	dirs := Dirs(work, config, nil)
	for _, d := range []Dir{dirs[0], dirs[3]} {
		path, err := d.Create("new.md", []byte(says("one")))
		require.NoError(t, err)
		assert.Equal(t, filepath.Join(d.String(), "new.md"), path)
		a, err := Read(path)
		require.NoError(t, err)
		assert.Equal(t, "one", a.Description)
		assert.Equal(t, path, a.Source)
		_, err = d.Create("new.md", []byte(says("two")))
		assert.ErrorIs(t, err, fs.ErrExist)
		assert.ErrorContains(t, err, "create "+path+": ")
		a, err = Load([]Dir{d}).Lookup("new")
		require.NoError(t, err)
		assert.Equal(t, "one", a.Description)
	}
	_, err := Dir{Path: "agents", Within: filepath.Join(work, "gone")}.Create("new.md", nil)
	assert.ErrorIs(t, err, fs.ErrNotExist)
}

// TestCreateStaysInside: a checkout cannot have a link that leads what is written
// out of it.
func TestCreateStaysInside(t *testing.T) {
	work, _ := tree(t, map[string]string{"elsewhere/keep": "x"})
	elsewhere := filepath.Join(filepath.Dir(work), "elsewhere")
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(work, ".qq")))
	_, err := Dirs(work, "", nil)[0].Create("new.md", []byte("x"))
	assert.Error(t, err)
	assert.NoFileExists(t, filepath.Join(elsewhere, "agents", "new.md"))
	assert.NoDirExists(t, filepath.Join(elsewhere, "agents"))
}

func TestRead(t *testing.T) {
	work, _ := tree(t, map[string]string{"work/a.txt": "---\nname: a\ndescription: d\n---\nx",
		"work/bad.md": "---\nname: x\ntools: 3\n---\n"})
	a, err := Read(filepath.Join(work, "a.txt"))
	require.NoError(t, err)
	assert.Equal(t, "d", a.Description)
	for name, want := range map[string]string{"bad.md": `bad.md:3: "tools" must be`, "gone.md": "no such file",
		".": "is not a regular file"} {
		_, err := Read(filepath.Join(work, name))
		assert.ErrorContains(t, err, "read agent file")
		assert.ErrorContains(t, err, want)
	}
}
