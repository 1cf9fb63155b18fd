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
			widths[i] = max(widths[i], Columns(c))
		}
	}
	before := 0 // the last cell
	for _, w := range widths {
		before += w + 2
	}
	own := width > 0 && before > max(width-narrow, 0)
	var lines []string
	add := func(line string) { lines = append(lines, strings.TrimRight(Cut(line, width), " ")) }
	for _, cells := range t {
		var b strings.Builder
		last := len(cells) - 1
		for i, c := range cells[:last] {
			b.WriteString(c + strings.Repeat(" ", widths[i]-Columns(c)+2))
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
	return first(s, n-len(dots)) + dots
}

// first returns the beginning of s that takes at most n columns.
func first(s string, n int) string {
	used := 0
	for i, r := range s {
		if used += columnsOf(r); used > n {
			return s[:i]
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
