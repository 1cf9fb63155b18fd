package gitconfig

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// plant writes a file below dir and returns its path.
func plant(t *testing.T, dir, name, text string) string {
	path := filepath.Join(dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestNamed(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	t.Setenv("HOME", "/home/me")
	plant(t, top, "main/config", "[Include] path = ../a\n[include]path\n[includeIf \"onbranch:x\"]\npath = /b # b\n"+
		"path = ../a\n[core]hooksPath=.githooks\nworktree = ../../other\n[core \"x\"]\nhooksPath=\npath=no\n")
	plant(t, top, "main/worktrees/w/commondir", "../..\n")
	plant(t, top, "main/worktrees/w/config.worktree", "[include]\npath=~/c\npath=~you/d\n")
	plant(t, top, "a", "[include] path = a\n[include] path = deep/e\n[core] hooksPath = ~/hooks\n")
	plant(t, top, "deep/e", "[include] path = ../a\n")
	in := func(name string) string { return filepath.Join(top, name) }
	w := in("main/worktrees/w")
	assert.ElementsMatch(t, []string{
		in("a"), "/b", "/home/me/c", w + "/~you/d", in("deep/e"),
		"/top/.githooks", filepath.Join(w, "../../other/.githooks"), "/home/me/hooks", "/home/me/hooks",
	}, new(Finder).Named("/top", w))

	plant(t, top, "many/config", "[include]\n"+strings.Repeat("path = ../x\n", 1000)+
		"[core]\n"+strings.Repeat("hooksPath = y\n", 1000))
	plant(t, top, "x", "[core]\nhooksPath = a\nhooksPath = b\n")
	var f Finder
	assert.Equal(t, []string{in("x"), "/top/y", "/top/b"}, f.Named("/top", in("many")))
	assert.Empty(t, f.Named(top, in("gone")))
	plant(t, top, "more/config", "[include]\npath = /a\n"+strings.Repeat("#\n", 2*maxFile)+"path = /late\n")
	for range maxBytes/maxFile - 1 {
		assert.Equal(t, []string{"/a"}, f.Named(top, in("more")))
	}
	f.Named(top, in("more"))
	assert.Empty(t, f.Named(top, in("more")), "that were too many bytes")
	f = Finder{}
	for range maxRepositories {
		f.Named(top, in("gone"))
	}
	assert.Empty(t, f.Named(top, in("main")), "that were too many repositories")
}

func TestFolder(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	plant(t, top, "real/HEAD", "")
	in := func(name string) string { return filepath.Join(top, name) }
	require.NoError(t, os.Symlink("real", in("link")))
	for text, want := range map[string]string{
		"gitdir: real\n": in("real"), "gitdir: link": in("real"), "gitdir: " + in("real") + "\n": in("real"),
		"gitdir: gone": "", "real": "", "gitdir: ": "",
	} {
		file := plant(t, top, "file", text)
		dir, ok := Folder(file, file)
		assert.Equal(t, want != "", ok, text)
		if ok {
			assert.Equal(t, want, dir, text)
		}
	}
	dir, ok := Folder(in("link"), in("real"))
	assert.True(t, ok)
	assert.Equal(t, in("real"), dir)
}

func FuzzGitDir(f *testing.F) {
	f.Add([]byte("gitdir: /a/b\n"))
	f.Add([]byte("gitdir: ../x\r\n"))
	f.Add([]byte("gitdir: "))
	f.Fuzz(func(t *testing.T, text []byte) {
		if dir, ok := named(text); ok {
			require.NotEmpty(t, dir)
			require.NotContains(t, dir, "\n")
			require.NotContains(t, dir, "\x00")
		}
	})
}
