package values

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/task"
)

// TestStatuses: whatever can stand in the ledger can be asked for.
func TestStatuses(t *testing.T) {
	final := 0
	for _, s := range task.Statuses() {
		got, err := ParseStatuses("--status", string(s))
		require.NoError(t, err)
		assert.Equal(t, []task.Status{s}, got)
		if s.Final() {
			final++
		}
	}
	assert.Equal(t, 22, final, "as many as Final knows")
	_, err := ParseStatuses("--status", "completed, faild")
	_, hint := task.Explain(err)
	assert.Regexp(t, "^did you mean failed\\? accepted is, with commas between them: ", hint)
}
