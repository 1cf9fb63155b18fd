package output

import (
	"strings"

	"qq/internal/app/columns"
	"qq/internal/app/command"
)

// Table is a list of rows whose cells are printed in aligned columns. Each row has at least
// one cell.
type Table [][]string

// narrow is how many columns the last cell of a row gets at least, or else a line of its own.
const narrow = 12

// Lines returns the rows as aligned text in at most width columns; 0 means no limit. The last cell of a
// row is cut. If the others leave too little room for it, it has a line of its own below them.
func (t Table) Lines(width int) []string {
	var widths []int
	for _, cells := range t {
		for i, c := range cells[:len(cells)-1] {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], columns.Of(c))
		}
	}
	before := 0 // the last cell
	for _, w := range widths {
		before += w + 2
	}
	own := width > 0 && before > max(width-narrow, 0)
	var lines []string
	add := func(line string) { lines = append(lines, strings.TrimRight(columns.Cut(line, width), " ")) }
	for _, cells := range t {
		var b strings.Builder
		last := len(cells) - 1
		for i, c := range cells[:last] {
			b.WriteString(c + strings.Repeat(" ", widths[i]-columns.Of(c)+2))
		}
		if !own {
			add(b.String() + cells[last])
			continue
		}
		add(strings.TrimRight(b.String(), " "))
		add("  " + cells[last])
	}
	return lines
}

// Wrapped returns the rows as aligned text in at most width columns; 0 means no limit. All rows have the same number of
// cells. The last cell of a row is broken between words. Where the cells of a row have no room side by side, all rows
// continue at the same cell on a line below, and a cell or a word that is wider than the line stays whole.
func (t Table) Wrapped(width int) []string {
	offsets, below, next := make([]int, len(t[0])), make([]bool, len(t[0])), 0
	last := len(offsets) - 1
	for i := range offsets {
		wide, word := 0, 0 // the widest cell, the widest word
		for _, cells := range t {
			wide = max(wide, columns.Of(cells[i]))
			for w := range strings.FieldsSeq(cells[i]) {
				word = max(word, columns.Of(w))
			}
		}
		least := wide
		if i == last {
			least = max(word, min(wide, width/3))
		}
		if width > 0 && i > 0 && next+least > width {
			next, below[i] = 2, true
		}
		offsets[i] = next
		next += wide + 2
	}
	var lines []string
	for _, cells := range t {
		line := ""
		for i, cell := range cells {
			rows := []string{cell}
			if i == last && width > 0 {
				rows = columns.Rows(cell, width-offsets[i])
			}
			for j, row := range rows {
				if j > 0 || below[i] {
					lines, line = append(lines, strings.TrimRight(line, " ")), ""
				}
				line += strings.Repeat(" ", offsets[i]-columns.Of(line)) + row
			}
		}
		lines = append(lines, strings.TrimRight(line, " "))
	}
	return lines
}

// OneLine returns s on one line, without characters that could control a terminal.
func OneLine(s string) string {
	return command.Printable(strings.Join(strings.Fields(s), " "))
}
