package realpath

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/supervisor/targets"
)

// tree is a folder with some files and links.
func tree(t *testing.T) string {
	dir := t.TempDir()
	for _, name := range []string{"src/a.go", "src/app/x.go", "lib/z.go", "app/[id]/page.tsx", "other/deep/b"} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, nil, 0o600))
	}
	for name, to := range map[string]string{
		"link": "src", "src/l.go": "../lib/z.go", "far": "other/deep", "loop": "loop", "abs": filepath.Join(dir, "lib"),
		"new": "not/yet",
	} {
		require.NoError(t, os.Symlink(to, filepath.Join(dir, name)))
	}
	return dir
}

func TestTargets(t *testing.T) {
	dir := tree(t)
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"./src/a.go", "src//a.go", true},
		{"src/app/../a.go", "src/a.go", true},
		{filepath.Join(dir, "src/a.go"), "src/a.go", true},
		{"link/a.go", "src/a.go", true},
		{"link/new.go", "src/new.go", true}, // does not exist yet
		{"link/*.go", "src/a.go", true},
		{"link", "link/a.go", true},
		{"abs/z.go", "lib/z.go", true},
		{"new/x", "not/yet/x", true},
		{"far/../b", "b", true},       // as files are named
		{"far/../b", "other/b", true}, // as the kernel finds them
		{"src/l.go", "lib/z.go", true},
		{"src/*.go", "lib/z.go", true}, // through src/l.go
		{"src", "lib/z.go", true},      // through src/l.go
		{"src/app", "lib", false},
		{"src/a.go", "lib/z.go", false},
		{"src/app/*.go", "lib/z.go", false},
		{"src/a.go", "src/**/x.go", false}, // a file, not a folder
		{"src/b.go", "src/**/x.go", true},  // may become a folder
		{"loop/a", "loop/a", true},
		{"loop/a", "src", false},
		{"app/[id]", "app/[id]/page.tsx", true},
		{"app/[id]/page.tsx", "app/[slug]/page.tsx", false},
		{".", "src/app", true},
		{"/", "src", true},
		{"..", "src", true},
	} {
		r, err := New(dir, false)
		require.NoError(t, err)
		got := false
		for _, x := range r.Targets("", c.a) {
			for _, y := range r.Targets("", c.b) {
				got = got || targets.Overlap(x, y)
			}
		}
		assert.Equal(t, c.want, got, "%s and %s", c.a, c.b)
	}
	r, err := New(dir, false)
	require.NoError(t, err)
	assert.Equal(t, r.Targets("src", "a.go"), r.Targets("", "src/a.go"))
}

func TestFolds(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "Folder")
	require.NoError(t, os.Mkdir(dir, 0o700))
	if exists(filepath.Join(filepath.Dir(dir), "fOLDER")) {
		t.Skip("this file system folds case")
	}
	assert.False(t, Folds(dir))
	require.NoError(t, os.Symlink(dir, filepath.Join(filepath.Dir(dir), "fOLDER")))
	assert.True(t, Folds(dir))
	assert.False(t, Folds("/"))
}

// A folder with very many links that lead elsewhere may be anything. Links do not slow down those that have none.
func TestManyLinks(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "links"), 0o755))
	for i := range 2000 {
		require.NoError(t, os.Symlink(filepath.Join(other, fmt.Sprint(i)), filepath.Join(dir, "links", fmt.Sprint(i))))
	}
	r, err := New(dir, false)
	require.NoError(t, err)
	assert.Equal(t, []targets.Target{{}}, r.Targets("", "links"))
	assert.Len(t, r.Targets("", "links/1"), 2, "the link and where it leads to")
	plain, err := New(other, false)
	require.NoError(t, err)
	var took [2]time.Duration
	for i, one := range []*Resolver{plain, r} {
		began := time.Now()
		for k := range 10_000 {
			require.Len(t, one.Targets("", fmt.Sprintf("src/%d/f", k)), 1)
		}
		took[i] = time.Since(began)
	}
	assert.Less(t, took[1], 5*took[0], "as in a folder without links")
}
