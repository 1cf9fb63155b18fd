package scope

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/supervisor/targets"
)

// overlap reports whether what two tasks touch overlaps.
func overlap(a, b []targets.Target) bool {
	for _, one := range a {
		for _, other := range b {
			if targets.Overlap(one, other) {
				return true
			}
		}
	}
	return false
}

func TestTargets(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "src"), 0o700))
	synctest.Test(t, func(t *testing.T) {
		p := New(dir)
		file := p.Targets("", []string{"src/a"})
		for _, row := range []struct {
			dir, text string
			same      bool
		}{
			{"", "./src//a", true}, {"src", "a", true}, {"src", "../src/a", true}, {"", "src", true},
			{"src", ".", true}, {"", filepath.Join(dir, "src/a"), true}, {filepath.Join(dir, "src"), "*", true},
			{"", "src/b", false}, {"", "a", false}, {"src", "src/a", false},
		} {
			assert.Equal(t, row.same, overlap(file, p.Targets(row.dir, []string{row.text})), row)
		}
		// A task makes a link, and a later one writes through it.
		require.NoError(t, os.Symlink("src", filepath.Join(dir, "link")))
		time.Sleep(keepLinks + time.Second)
		assert.True(t, overlap(file, p.Targets("", []string{"link/a"})))
		assert.Empty(t, p.Targets("", nil))
		// A file may be called like a glob. It is a glob all the same.
		require.NoError(t, os.WriteFile(filepath.Join(dir, "src/*"), nil, 0o600))
		assert.True(t, overlap(file, p.Targets("", []string{"src/*"})))
	})
}

func TestTargetsAtOnce(t *testing.T) {
	p := New(t.TempDir())
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { assert.NotEmpty(t, p.Targets("", []string{"a", "b/*"})) })
	}
	wg.Wait()
}
