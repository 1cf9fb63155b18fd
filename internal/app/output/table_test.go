package output

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// Where the last cell of a row would have no room, it has a line of its own.
func TestNarrowTable(t *testing.T) {
	table := Table{{"RUN", "STATUS", "TASK"}, {"6ef2f920", "interrupted", "Summarize the first of all files"}}
	assert.Equal(t, []string{
		"RUN       STATUS       TASK",
		"6ef2f920  interrupted  Summarize the...",
	}, table.Lines(39))
	assert.Equal(t, []string{
		"RUN       STATUS",
		"  TASK",
		"6ef2f920  interrupted",
		"  Summarize the first of all f...",
	}, table.Lines(33))
	assert.Equal(t, []string{"one", "two"}, Table{{"one"}, {"two"}}.Lines(10))
}
