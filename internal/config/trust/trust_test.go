package trust

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	one = "1111111111111111111111111111111111111111111111111111111111111111"
	two = "2222222222222222222222222222222222222222222222222222222222222222"
)

func TestStates(t *testing.T) {
	s, dir := In(t.TempDir()), t.TempDir()
	assert.Equal(t, Unknown, s.Folder(dir).State(".env", one))
	f := s.Folder(dir)
	require.NoError(t, f.Decide(map[string]string{".env": one, "x.md": two}, true))
	for _, f := range []*Folder{f, s.Folder(dir), s.Folder(dir + "/.")} { // at once, and the next time
		assert.Equal(t, Trusted, f.State(".env", one))
		assert.Equal(t, Changed, f.State(".env", two))
		assert.Equal(t, Unknown, f.State("y.md", two))
		assert.Equal(t, one, f.Sum(".env"))
		assert.Equal(t, []string{two, ""}, []string{f.Sum("x.md"), f.Sum("y.md")})
	}
	require.NoError(t, s.Folder(dir).Decide(map[string]string{".env": two}, false))
	f = s.Folder(dir)
	assert.Equal(t, Refused, f.State(".env", two))
	assert.Equal(t, Unknown, f.State(".env", one))
	assert.Equal(t, []string{"", two}, []string{f.Sum(".env"), f.Sum("x.md")})
	assert.Equal(t, Unknown, s.Folder(t.TempDir()).State("x.md", two), "another folder")
}

// TestFolderByRealPath: a folder is known by its real path, whatever link leads there.
func TestFolderByRealPath(t *testing.T) {
	s, dir := In(t.TempDir()), t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(dir, link))
	require.NoError(t, s.Folder(link).Decide(map[string]string{".env": one}, true))
	assert.Equal(t, Trusted, s.Folder(dir).State(".env", one))
	records, err := s.List()
	require.NoError(t, err)
	require.Len(t, records, 1)
	assert.Equal(t, real(dir), records[0].Dir)
	require.NoError(t, s.Remove(link))
	assert.Equal(t, Unknown, s.Folder(dir).State(".env", one))
	assert.ErrorIs(t, s.Remove(dir), fs.ErrNotExist)
}

// TestPrivate: nobody else can read or write what is decided, and nothing else is left.
func TestPrivate(t *testing.T) {
	home, dir := t.TempDir(), t.TempDir()
	s := In(home)
	require.NoError(t, s.Folder(dir).Decide(map[string]string{".env": one}, true))
	info, err := os.Stat(filepath.Join(home, "trust"))
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o700), info.Mode().Perm())
	entries, err := os.ReadDir(filepath.Join(home, "trust"))
	require.NoError(t, err)
	require.Len(t, entries, 1)
	info, err = entries[0].Info()
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o600), info.Mode().Perm())
}

// TestDamaged: with a record that cannot be read nothing is trusted, and that is said; a decision
// counts in this run, and does not replace it.
func TestDamaged(t *testing.T) {
	dir := real(t.TempDir())
	valid := fmt.Sprintf(`{"version":1,"dir":%q,"files":{".env":{"sha256":%q,"trusted":true,`+
		`"time":"2026-01-01T00:00:00Z"}}}`, dir, one)
	for name, text := range map[string]string{
		"empty": "", "cut": valid[:50], "more": valid + "{}", "version": strings.Replace(valid, `n":1`, `n":2`, 1),
		"folder":  strings.Replace(valid, dir, "/elsewhere", 1),
		"unknown": strings.Replace(valid, `"files"`, `"all":true,"files"`, 1),
		"sum":     strings.Replace(valid, one, "11", 1),
		"path":    strings.Replace(valid, `".env"`, `"../.env"`, 1),
		"large":   valid + strings.Repeat(" ", maxRecord),
	} {
		s := In(t.TempDir())
		require.NoError(t, os.MkdirAll(s.dir, 0o700))
		require.NoError(t, os.WriteFile(s.path(dir), []byte(text), 0o600))
		f := s.Folder(dir)
		assert.Error(t, f.Err(), name)
		assert.Equal(t, Unknown, f.State(".env", one), name)
		records, err := s.List()
		assert.Empty(t, records, name)
		assert.Error(t, err, name)
		assert.Error(t, f.Decide(map[string]string{".env": two}, true), name)
		assert.Equal(t, two, f.Sum(".env"), name)
		kept, err := os.ReadFile(s.path(dir))
		require.NoError(t, err)
		assert.Equal(t, text, string(kept), name)
	}
	s := In(t.TempDir())
	require.NoError(t, os.MkdirAll(s.dir, 0o700))
	require.NoError(t, os.WriteFile(s.path(dir), []byte(valid), 0o600))
	assert.Equal(t, Trusted, s.Folder(dir).State(".env", one))
	require.NoError(t, os.Remove(s.path(dir)))
	require.NoError(t, syscall.Mkfifo(s.path(dir), 0o600))
	assert.ErrorContains(t, s.Folder(dir).Err(), "not a regular file", "and it does not hang")
}

// TestDecideWithoutStore: a decision counts in this run also if it cannot be kept.
func TestDecideWithoutStore(t *testing.T) {
	home := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(home, nil, 0o600))
	f := In(home).Folder(t.TempDir())
	assert.Error(t, f.Decide(map[string]string{".env": one}, true))
	assert.Equal(t, Trusted, f.State(".env", one))
}

// FuzzParse: whatever is in a record, it is refused, or all of it can be used.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"version":1,"dir":"/a","files":{".env":{"sha256":"` + one + `","trusted":true,"time":` +
		`"2026-01-01T00:00:00Z"}}}`))
	f.Add([]byte(`{"version":1,"dir":"/a"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := parse(data)
		if err != nil {
			return
		}
		assert.True(t, filepath.IsAbs(r.Dir))
		for name, d := range r.Files {
			assert.True(t, filepath.IsLocal(name))
			assert.Len(t, d.Sum, 64)
		}
	})
}
