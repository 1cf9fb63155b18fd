package app

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/task"
)

// TestChecksApart: the check of a task in a copy of the tree sees that copy, is repaired there, and decides whether
// anything is joined. It is a command that may write, so its task gets a copy whatever tools its agent has.
func TestChecksApart(t *testing.T) {
	for _, mode := range []string{"overlay", "worktree"} {
		t.Run(mode, func(t *testing.T) {
			w := newTree(t)
			before := w.gitState()
			mend := strings.ReplaceAll(commandTask("echo b > b.new"), `"`, `\"`)
			_, r := w.isolated(mode, []map[string]any{
				{"task": commandTask("sed -i s/one/A/ src/a.txt"), "check": "grep -q A src/a.txt && test ! -e b.new"},
				{"task": commandTask("echo x > x.new"), "check": fmt.Sprintf(`test -e b.new || { echo "%s"; exit 1; }`, mend)},
				{"task": commandTask("echo lost > lost.new"), "check": "echo more > more.new; exit 7"},
				{"task": "nothing", "agent": "default", "check": "echo d > d.new"},
				{"task": commandTask("echo x > big.new"), "check": "cat src/b.txt", "agent": "executor"},
			}, "-j", "5", "--require-change")
			for i, want := range []task.Status{
				task.Completed, task.Completed, task.CheckFailed, task.CheckFailed, task.Completed,
			} {
				assert.Equal(t, want, r[i].Status, "%d: %s %s", i, r[i].Output, r[i].Err())
			}
			require.NotNil(t, r[1].Did)
			assert.Len(t, r[1].Did.Commands, 4, "two of the agent, two checks")
			assert.Contains(t, r[2].Err(), "exit code 7")
			assert.Contains(t, strings.Join(r[2].Warnings, "\n"), "nothing was joined")
			assert.Contains(t, r[3].Err(), "nothing was changed", "a check is not its work")
			assert.Equal(t, "A\nb\n", w.sh("head -n 1 src/a.txt; cat b.new; test ! -e lost.new; test ! -e more.new"))
			assert.Equal(t, before, w.gitState())
			w.noCopies()
		})
	}
}

// TestCheckOfAnAgentWithoutTools: the check that a person gave may write in the copy, and what it wrote is joined.
func TestCheckOfAnAgentWithoutTools(t *testing.T) {
	w := newTree(t)
	_, r := w.isolated("worktree", []map[string]any{
		{"task": "nothing", "agent": "default", "check": "pwd > where; test ! -e ../never"},
	})
	require.Equal(t, task.Completed, r[0].Status, r[0].Err())
	assert.Equal(t, []string{"where"}, r[0].ChangedFiles)
	assert.NotContains(t, w.sh("cat where"), w.dir, "it worked in a copy")
}
