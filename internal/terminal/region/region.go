// Package region draws lines at the end of a terminal, with a cursor in them, and changes them in place. It makes the
// bytes and writes none.
//
// Above the lines is text that stays and scrolls away: whole lines, which are written once. A [Region] moves to the
// first of its lines, writes such text, and draws the lines below it again. Without such text only the lines that
// differ are drawn. Nobody else may write to the terminal meanwhile.
//
// After a resize the terminal has broken the lines anew. The region counts how many rows they take now, as terminals do
// that wrap them. On one that cuts them off instead, rows of the text above may be overwritten.
package region

import (
	"fmt"
	"strings"

	"qq/internal/app/columns"
)

// Control sequences of terminals.
const (
	below  = "\x1b[J" // erases from the cursor to the end of the screen
	behind = "\x1b[K" // erases from the cursor to the end of its row
	reset  = "\x1b[0m"
)

// Region is the region of one terminal. The zero value is empty, and the cursor is in an empty row.
type Region struct {
	lines []string // that are drawn
	row   int      // of the cursor
	wide  int      // columns of the terminal when they were drawn
}

// View is what a region shows.
type View struct {
	Lines       []string // with colours
	Row, Column int      // of the cursor
}

// Draw returns what writes text, which ends with a newline or is empty, and shows v below it, on a terminal of that
// many columns and rows. A line that is too wide is cut. Of too many lines those around the cursor are shown.
func (r *Region) Draw(text string, v View, wide, high int) string {
	v = fit(v, wide, high)
	old := r.lines
	var b strings.Builder
	r.home(&b, wide)
	if text != "" || wide != r.wide {
		b.WriteString(below + text)
		old = nil
	}
	n := len(v.Lines)
	for i, line := range v.Lines {
		if i > 0 {
			b.WriteString("\r\n")
		}
		if i < len(old) && old[i] == line && (i < n-1 || n == len(old)) {
			continue
		}
		b.WriteString(line + behind)
		if i == n-1 && n < len(old) {
			b.WriteString(below)
		}
	}
	if up := n - 1 - v.Row; up > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", up)
	}
	b.WriteString("\r")
	if v.Column > 0 {
		fmt.Fprintf(&b, "\x1b[%dC", v.Column)
	}
	r.lines, r.row, r.wide = v.Lines, v.Row, wide
	return b.String()
}

// Erase returns what removes the lines. The cursor is then in an empty row.
func (r *Region) Erase(wide int) string {
	if len(r.lines) == 0 {
		return ""
	}
	var b strings.Builder
	r.home(&b, wide)
	b.WriteString(below)
	r.Forget()
	return b.String()
}

// Forget forgets what is on the screen: the cursor is in an empty row.
func (r *Region) Forget() { *r = Region{wide: r.wide} }

// home moves the cursor to the beginning of the first line.
func (r *Region) home(b *strings.Builder, wide int) {
	b.WriteString("\r")
	up := r.row
	if wide != r.wide && wide > 0 {
		up = 0
		for _, line := range r.lines[:min(r.row, len(r.lines))] {
			up += max(1, (Width(line)+wide-1)/wide)
		}
	}
	if up > 0 {
		fmt.Fprintf(b, "\x1b[%dA", up)
	}
}

// fit returns v as it fits into the terminal. The last column stays free, because some terminals wrap after it.
func fit(v View, wide, high int) View {
	wide = max(wide-1, 1)
	if len(v.Lines) == 0 {
		v.Lines = []string{""}
	}
	v.Row = max(0, min(v.Row, len(v.Lines)-1))
	if most := max(high-1, 1); len(v.Lines) > most {
		first := max(0, min(v.Row-most/2, len(v.Lines)-most))
		v.Lines, v.Row = v.Lines[first:first+most], v.Row-first
	}
	lines := make([]string, len(v.Lines))
	for i, line := range v.Lines {
		lines[i] = line
		if Width(line) > wide {
			lines[i] = Rows(line, wide)[0]
		}
	}
	v.Lines, v.Column = lines, max(0, min(v.Column, wide))
	return v
}

// Width returns how many columns a line takes, which may have colours.
func Width(line string) int {
	n := 0
	for line != "" {
		if skip := sequence(line); skip > 0 {
			line = line[skip:]
			continue
		}
		length, wide := columns.Cluster(line)
		n, line = n+wide, line[length:]
	}
	return n
}

// Rows returns a line, which may have colours, as rows of at most that many columns. There is always one. No row is
// coloured by the one before it.
func Rows(line string, wide int) []string {
	var rows []string
	var b strings.Builder
	used, colour := 0, ""
	for line != "" {
		if skip := sequence(line); skip > 0 {
			if colour += line[:skip]; line[:skip] == reset {
				colour = ""
			}
			b.WriteString(line[:skip])
			line = line[skip:]
			continue
		}
		length, n := columns.Cluster(line)
		if used+n > wide && used > 0 {
			if colour != "" {
				b.WriteString(reset)
			}
			rows = append(rows, b.String())
			b.Reset()
			b.WriteString(colour)
			used = 0
		}
		b.WriteString(line[:length])
		used, line = used+n, line[length:]
	}
	return append(rows, b.String())
}

// sequence returns the length of the colour that text begins with; 0 if it begins with none.
func sequence(text string) int {
	if !strings.HasPrefix(text, "\x1b[") {
		return 0
	}
	for i := 2; i < len(text); i++ {
		if c := text[i]; c >= 0x40 && c <= 0x7e {
			return i + 1
		}
	}
	return len(text)
}
