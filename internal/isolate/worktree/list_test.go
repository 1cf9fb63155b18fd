package worktree

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestListedWhileOthersGo: the folder of all worktrees goes with the last one, also while another one is about to come.
func TestListedWhileOthersGo(t *testing.T) {
	common := t.TempDir()
	var others sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		others.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					assert.NoError(t, Remove(common, "other"))
				}
			}
		})
	}
	for i := range 300 {
		name := fmt.Sprint("one", i)
		beside, own := filepath.Join(common, name+unlisted), filepath.Join(common, "worktrees", name)
		require.NoError(t, os.Mkdir(beside, 0o755))
		require.NoError(t, list(beside, own))
		require.DirExists(t, own)
		require.NoError(t, Remove(common, name))
	}
	close(stop)
	others.Wait()
}
