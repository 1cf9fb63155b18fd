package changes

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestBounds(t *testing.T) {
	dir := t.TempDir()
	for _, f := range []string{"src/a.go", "src/lib/b.go", "src/lib/c.txt", "docs/[id]/d.md", "e"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(f)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, f), nil, 0o600))
	}
	require.NoError(t, os.Symlink("src", filepath.Join(dir, "link")))
	open := func(at string, b Bounds) (names []string) {
		for _, name := range b.Open(filepath.Join(dir, at)) {
			names = append(names, filepath.Join(at, name))
		}
		return names
	}
	of := func(targets ...string) Bounds { return Bounds{}.In("", targets) }
	assert.Nil(t, of().Bar("x"), "without targets, everything may be changed")
	for _, c := range []struct {
		bounds   Bounds
		at       string
		open     []string
		may, not []string
	}{
		{of("."), "", []string{"."}, []string{"x", "src/x"}, nil},
		{of("src"), "", []string{"src"}, []string{"src/x", "src/lib/new"}, []string{"src2/x", "e"}},
		{of("./src/a.go", "new"), "", []string{"src/a.go"}, []string{"src/a.go", "new"}, []string{"src/b.go"}},
		{of("src/**"), "", []string{"src"}, []string{"src/x"}, []string{"e"}},
		{of("src/**").In("", []string{"**/*.go"}), "", []string{"src/a.go", "src/lib/b.go"}, []string{"src/x.go"},
			[]string{"src/x", "e.go"}},
		{of("src/**").In("", []string{"src/lib/**"}), "", []string{"src/lib"}, []string{"src/lib/x"},
			[]string{"src/x"}},
		{of("src/*"), "", []string{"src/a.go"}, []string{"src/x"}, []string{"src/lib/b.go"}},
		{of("docs/[id]"), "", []string{"docs/[id]"}, []string{"docs/[id]/d.md", "docs/i"}, []string{"docs/x/d.md"}},
		{of("link", "link/a.go"), "", nil, nil, []string{"src/a.go"}},
		{of("src").In("", []string{"src/a.go", "e"}), "", []string{"src/a.go"}, []string{"src/a.go"},
			[]string{"e", "src/x"}},
		{of("src/*").In("", []string{"src/lib"}), "", nil, nil, []string{"src/lib/b.go"}},
		{of("src").In("src/lib", nil), "src/lib", []string{"src/lib"}, []string{"x"}, nil},
		{of("src/lib/*.go", "e").In("src", nil), "src", []string{"src/lib/b.go"}, []string{"lib/x.go"},
			[]string{"a.go"}},
		{of("src/lib").In("src", []string{"lib/b.go"}), "src", []string{"src/lib/b.go"}, []string{"lib/b.go"},
			[]string{"lib/c.txt"}},
	} {
		assert.Equal(t, c.open, open(c.at, c.bounds), "%v", c.bounds)
		for _, file := range c.may {
			assert.Nil(t, c.bounds.Bar(file), "%v: %s", c.bounds, file)
		}
		for _, file := range c.not {
			assert.NotNil(t, c.bounds.Bar(file), "%v: %s", c.bounds, file)
		}
	}
}

// TestHardGlobs: whatever a model writes as targets, looking for what they cover ends. Without a bound it does not end
// before the time of all tests is up.
func TestHardGlobs(t *testing.T) {
	if testing.Short() {
		t.Skip("long, and of one goroutine")
	}
	dir := t.TempDir()
	name := "src/" + strings.Repeat("a", 200) + "c"
	require.NoError(t, os.Mkdir(filepath.Join(dir, "src"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	for _, glob := range []string{
		"src/" + strings.Repeat("{a*,b*}", 6) + "b", strings.Repeat("**/", 60) + "x",
		"src/" + strings.Repeat("*a", 150) + "b",
		"src/" + strings.Repeat("{a*,b*}", 30) + "b", // refused before, but who knows
	} {
		all := make([]string, 1000)
		for i := range all {
			all[i] = glob
		}
		b := Bounds{}.In("", all[:20])
		assert.Empty(t, b.Open(dir), "%s", glob)
		assert.NotNil(t, b.Bar(name), "%s", glob)
	}
}

// TestManyFiles: many files that all match one of many globs are all inside.
func TestManyFiles(t *testing.T) {
	var globs, changed []string
	for i := range 40 {
		globs = append(globs, fmt.Sprintf("**/*.{x%d,y%d}", i, i))
	}
	for i := range 20_000 {
		changed = append(changed, fmt.Sprintf("some/folder%d/of/many/file%d.y%d", i%100, i, i%40))
	}
	assert.Empty(t, Outside(globs, changed))
	assert.Equal(t, []string{"a/b.z"}, Outside(globs, append(changed, "a/b.z")))
}
