package engine

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/agents"
)

// TestPromptIsShared: all tasks of an agent have the same system prompt, so that
// the model server reads it once. What differs is told after the task.
func TestPromptIsShared(t *testing.T) {
	agent, err := agents.Load(nil).Lookup("executor")
	require.NoError(t, err)
	one := work{toolmaker: toolmaker{agent: agent, dir: "/work", limits: ceiling{confined: true}}}
	two := one
	one.setup.TempDir, two.setup.TempDir = "/scratch/1.tmp", "/scratch/2.tmp"
	two.targets, two.references = []string{"docs"}, true
	assert.Equal(t, one.prompt("", one.shell()), two.prompt("", two.shell()))
	assert.Contains(t, one.prompt("", one.shell()), "Commands can write only in: the working directory, $TMPDIR.")
	assert.Empty(t, one.closing())
	assert.Equal(t, "\n\nTargets of the task: docs. Change nothing else."+
		"\n\nSupport each claim with a reference path:line to a line that you have read.", two.closing())
}
