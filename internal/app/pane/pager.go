package pane

import (
	"strings"

	"qq/internal/app/columns"
	"qq/internal/app/command/block"
	"qq/internal/terminal/keys"
)

// Pager shows a text that is longer than the screen. At its end it stays there when the text grows.
type Pager struct {
	Title string
	Hint  string // what keys there are

	lines []string
	first int  // the first one that is shown
	away  bool // the person has left the end
	rows  int  // for lines, as drawn last
	wide  int
	text  string
}

// Set sets the text.
func (g *Pager) Set(text string) {
	if text != g.text {
		g.text, g.wide = text, 0
	}
}

// Rows returns the rows for a screen of that size.
func (g *Pager) Rows(size block.Size) []Row {
	if g.wide != size.Columns {
		g.wide, g.lines = size.Columns, nil
		for line := range strings.Lines(g.text) {
			g.lines = append(g.lines, broken(strings.TrimRight(line, "\n"), max(size.Columns-1, 1))...)
		}
	}
	g.rows = max(size.Rows-2, 1)
	last := max(len(g.lines)-g.rows, 0)
	if !g.away || g.first >= last {
		g.first, g.away = last, false
	}
	rows := []Row{{g.Title, Head}}
	for _, line := range g.lines[g.first:min(g.first+g.rows, len(g.lines))] {
		rows = append(rows, Row{Text: line})
	}
	for len(rows) < size.Rows-1 {
		rows = append(rows, Row{})
	}
	return append(rows, Row{g.Hint, Faint})
}

// bar begins each row of a text that somebody else has written.
const bar = "│ "

// broken returns line in rows of at most that many columns. What follows a bar follows one in each row.
func broken(line string, wide int) []string {
	line = strings.ReplaceAll(line, "\t", "    ")
	before := ""
	if strings.HasPrefix(line, bar) && wide > 2*columns.Of(bar) {
		before = bar
	}
	var rows []string
	for columns.Of(line) > wide {
		row := columns.First(line, wide)
		if row == "" { // a wide character in one column
			break
		}
		if at := strings.LastIndexByte(row, ' '); at > len(row)/2 {
			row = row[:at+1]
		}
		rows, line = append(rows, row), before+line[len(row):]
	}
	return append(rows, line)
}

// Press handles a key and reports whether the pager knows it.
func (g *Pager) Press(k keys.Key) bool {
	move := 0
	switch {
	case k.Code == keys.Up || k.Rune == 'k' && !k.Ctrl:
		move = -1
	case k.Code == keys.Down || k.Code == keys.Enter || k.Rune == 'j' && !k.Ctrl:
		move = 1
	case k.Code == keys.PageUp || k.Rune == 'b':
		move = -g.rows
	case k.Code == keys.PageDown || k.Rune == ' ' && !k.Ctrl:
		move = g.rows
	case k.Code == keys.Home || k.Rune == 'g' && !k.Ctrl:
		move = -len(g.lines)
	case k.Code == keys.End || k.Rune == 'G':
		move = len(g.lines)
	default:
		return false
	}
	g.first, g.away = max(g.first+move, 0), true // Rows looks whether it is the end
	return true
}
