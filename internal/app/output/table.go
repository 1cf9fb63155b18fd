package output

import (
	"strings"
	"unicode"

	"golang.org/x/text/width"

	"qq/internal/app/command"
)

// Table is a list of rows whose cells are printed in aligned columns. Each row has at least
// one cell.
type Table [][]string

// Lines returns the rows as aligned text. The last cell of a row is cut so that the line
// has at most width columns; a width of 0 means no limit.
func (t Table) Lines(width int) []string {
	var widths []int
	for _, cells := range t {
		for i, c := range cells[:len(cells)-1] {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], Columns(c))
		}
	}
	lines := make([]string, len(t))
	for n, cells := range t {
		var b strings.Builder
		for i, c := range cells[:len(cells)-1] {
			b.WriteString(c + strings.Repeat(" ", widths[i]-Columns(c)+2))
		}
		lines[n] = strings.TrimRight(Cut(b.String()+cells[len(cells)-1], width), " ")
	}
	return lines
}

// Cut returns s in at most n columns, with "..." at the end when s is longer. An n of
// 0 means no limit.
func Cut(s string, n int) string {
	if n <= 0 || Columns(s) <= n {
		return s
	}
	const dots = "..."
	if n <= len(dots) {
		return dots[:n]
	}
	used := 0
	for i, r := range s {
		if used += columnsOf(r); used > n-len(dots) {
			return s[:i] + dots
		}
	}
	return s
}

// Columns returns how many terminal columns s takes: a Chinese character takes two.
func Columns(s string) int {
	n := 0
	for _, r := range s {
		n += columnsOf(r)
	}
	return n
}

func columnsOf(r rune) int {
	if r < 0x300 { // the first combining character
		return 1
	}
	if unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// OneLine returns s on one line, without characters that could control a terminal.
func OneLine(s string) string {
	return command.Printable(strings.Join(strings.Fields(s), " "))
}
