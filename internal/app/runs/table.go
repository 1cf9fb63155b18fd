package runs

import (
	"strings"
	"unicode"

	"golang.org/x/text/width"

	"qq/internal/app/output"
)

// table is lines of cells that stand below each other.
type table [][]string

// lines lays t out. The last cell of a line is cut so that the line fits width
// columns, unless that is 0.
func (t table) lines(width int) []string {
	var widths []int
	for _, cells := range t {
		for i, c := range cells[:len(cells)-1] {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], columns(c))
		}
	}
	lines := make([]string, len(t))
	for n, cells := range t {
		var b strings.Builder
		for i, c := range cells[:len(cells)-1] {
			b.WriteString(c + strings.Repeat(" ", widths[i]-columns(c)+2))
		}
		lines[n] = strings.TrimRight(cut(b.String()+cells[len(cells)-1], width), " ")
	}
	return lines
}

// cut returns s in at most n columns, with "..." at the end when that is not all of
// it. 0 is no limit.
func cut(s string, n int) string {
	if n <= 0 || columns(s) <= n {
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

// columns is how many columns s takes on a terminal.
func columns(s string) int {
	n := 0
	for _, r := range s {
		n += columnsOf(r)
	}
	return n
}

func columnsOf(r rune) int {
	if r < 0x300 { // the first that stands on another one
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

// oneLine is s for one line of a terminal.
func oneLine(s string) string {
	return output.Printable(strings.Join(strings.Fields(s), " "))
}
