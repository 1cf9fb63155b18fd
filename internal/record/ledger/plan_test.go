package ledger

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/record/ledger/selection"
)

// The list that qq runs prints reads neither all executions nor sorts them.
func TestPromptsAreIndexed(t *testing.T) {
	l := open(t, t.TempDir())
	w := Filter{Roots: true}.runs("[]")
	query := "EXPLAIN QUERY PLAN SELECT " + runColumns + " FROM runs" + w.String() + " ORDER BY n DESC LIMIT 21"
	plan, err := selection.Collect(l.db, query, w.Args, func(rows *sql.Rows, one *string) error {
		var id, parent, unused int
		return rows.Scan(&id, &parent, &unused, one)
	})
	require.NoError(t, err)
	text := strings.Join(plan, "\n")
	assert.Contains(t, text, "executions_prompts")
	assert.NotContains(t, text, "TEMP B-TREE")
}
