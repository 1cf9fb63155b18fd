package rulefile

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/approval/rules"
)

func TestStore(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "a", "qq")
	s := Open(folder)
	entries, err := s.List()
	require.NoError(t, err)
	assert.Empty(t, entries)
	assert.NoDirExists(t, folder, "reading makes nothing")

	log, edit := rules.Rule{Tool: "run_pty_cmd", Pattern: "git log"}, rules.Rule{Tool: "edit_file", Pattern: "a.go"}
	for range 2 {
		require.NoError(t, s.Add("/work", log))
	}
	require.NoError(t, s.Add("/other", log))
	require.NoError(t, s.Add("/work", edit))
	info, err := os.Stat(filepath.Join(folder, "permissions.json"))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode())

	found, err := s.Rules("/work")
	require.NoError(t, err)
	assert.Equal(t, []rules.Rule{log, edit}, found)
	found, err = s.Rules("/work/sub")
	require.NoError(t, err)
	assert.Empty(t, found)
	entries, err = s.List()
	require.NoError(t, err)
	require.Len(t, entries, 3)
	assert.Equal(t, "/other", entries[2].Folder, "those of a folder are together")
	require.NoError(t, s.Remove(entries[:1]))
	require.NoError(t, s.Remove(entries[:1]))
	found, err = s.Rules("/work")
	require.NoError(t, err)
	assert.Equal(t, []rules.Rule{edit}, found)
}

func TestStoreByMany(t *testing.T) {
	s := Open(t.TempDir())
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			assert.NoError(t, s.Add("/work", rules.Rule{Tool: "edit_file", Pattern: fmt.Sprintf("%d", i)}))
		})
	}
	wg.Wait()
	found, err := s.Rules("/work")
	require.NoError(t, err)
	assert.Len(t, found, 20)
}

func TestStoreRefuses(t *testing.T) {
	folder := t.TempDir()
	s, path := Open(folder), filepath.Join(folder, "permissions.json")
	for text, want := range map[string]string{
		"{": "is damaged: no lasting rule counts\nhint: mend it, or remove it",
		`{"rules":[{"folder":"/w","rule":"run_pty_cmd(git log; rm x)"}]}`: "it is not one command",
		`{"rules":[{"folder":"/w","rule":"fly"}]}`:                        `names "fly", which is no tool` + "\nhint: qq permissions rm removes it",
	} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		found, err := s.Rules("/w")
		require.ErrorContains(t, err, want)
		assert.Empty(t, found)
	}
	require.NoError(t, os.WriteFile(path, []byte(`{"rules":[{"folder":"/w","rule":"run_pty_cmd"}]}`), 0o600))
	require.NoError(t, os.Chmod(path, 0o620))
	_, err := s.Rules("/w")
	require.ErrorContains(t, err, "is not a file that only you can write: no lasting rule counts")
	require.ErrorContains(t, s.Add("/w", rules.Rule{Tool: "run_pty_cmd", Pattern: "ls"}),
		"no lasting rule counts", "it is not replaced")
}

func FuzzStore(f *testing.F) {
	f.Add([]byte(`{"rules":[{"folder":"/w","rule":"run_pty_cmd(git log)","added":"2026-01-01T00:00:00Z"}]}`))
	s := Open(f.TempDir())
	f.Fuzz(func(t *testing.T, data []byte) {
		require.NoError(t, os.WriteFile(s.path, data, 0o600))
		if entries, err := s.List(); err == nil && len(entries) > 0 {
			_, _ = s.Rules(entries[0].Folder)
		}
	})
}
