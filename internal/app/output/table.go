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

// OneLine returns s on one line, without characters that could control a terminal.
func OneLine(s string) string {
	return command.Printable(strings.Join(strings.Fields(s), " "))
}
