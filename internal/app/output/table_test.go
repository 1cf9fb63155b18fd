package output

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"qq/internal/app/columns"
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

func TestWrappedTable(t *testing.T) {
	table := Table{{"AGENT", "FROM", "DESCRIPTION"}, {"coder", "built-in", "Writes and changes files"}}
	assert.Equal(t, []string{
		"AGENT  FROM      DESCRIPTION",
		"coder  built-in  Writes and changes files",
	}, table.Wrapped(0))
	assert.Equal(t, table.Wrapped(0), table.Wrapped(41))
	assert.Equal(t, []string{
		"AGENT  FROM      DESCRIPTION",
		"coder  built-in  Writes and",
		"                 changes files",
	}, table.Wrapped(30))
	assert.Equal(t, []string{
		"AGENT  FROM",
		"  DESCRIPTION",
		"coder  built-in",
		"  Writes and changes",
		"  files",
	}, table.Wrapped(20))
	assert.Equal(t, []string{"one", "two", "three"}, Table{{"one"}, {"two three"}}.Wrapped(6))
}

// Each width ends and keeps each word, and a line is wider only where one cell or one word is.
func TestWrappedTableWidths(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cell := rapid.StringMatching(`[a-z漢]{1,20}( [a-z漢]{1,20}){0,6}`)
		cells := rapid.IntRange(1, 4).Draw(t, "cells")
		table := Table(rapid.SliceOfN(rapid.SliceOfN(cell, cells, cells), 1, 4).Draw(t, "table"))
		var words []string
		for _, row := range table {
			words = append(words, strings.Fields(strings.Join(row, " "))...)
		}
		for width := 1; width <= 200; width++ {
			lines := table.Wrapped(width)
			assert.Equal(t, words, strings.Fields(strings.Join(lines, "\n")), width)
			for _, line := range lines {
				alone := strings.TrimLeft(line, " ")
				single := slices.Contains(words, alone) ||
					slices.ContainsFunc(table, func(row []string) bool { return slices.Contains(row, alone) })
				assert.True(t, columns.Of(line) <= width || single, "%d columns: %q", width, line)
			}
		}
	})
}
