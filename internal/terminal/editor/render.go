package editor

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"qq/internal/app/columns"
	"qq/pkg/tool"
)

// View is an editor as it is shown.
type View struct {
	Lines       []string // none is wider than the width, and none has a character that a terminal obeys
	Row, Column int      // of the cursor
}

// Frame says how an editor is shown.
type Frame struct {
	Width, Rows int    // at most
	Prompt      string // before the first line; the others are as far in
}

// minWidth is the width of a text below which a prompt is left out.
const minWidth = 8

// row is a line of the screen: the pieces from, up to and without to.
type row struct{ from, to int }

// wrap returns the rows of the text at that many columns. There is always one. A row that is full at the end of the
// text is followed by an empty one, for the cursor.
func (e *Editor) wrap(wide int) []row {
	rows := []row{{}}
	used := 0
	for i, p := range e.pieces {
		last := &rows[len(rows)-1]
		if p == newline {
			last.to = i
			rows, used = append(rows, row{i + 1, i + 1}), 0
			continue
		}
		n := min(p.width(), wide)
		if used+n > wide {
			last.to = i
			rows, used = append(rows, row{i, i}), 0
		}
		used += n
		rows[len(rows)-1].to = i + 1
	}
	if used >= wide {
		rows = append(rows, row{len(e.pieces), len(e.pieces)})
	}
	return rows
}

// tab is how many columns a tab takes.
const tab = 4

// width returns how many columns p takes.
func (p piece) width() int {
	switch {
	case p.label != "":
		return columns.Of(p.label)
	case p.text == "\t":
		return tab
	}
	r, _ := utf8.DecodeRuneInString(p.text)
	if unshown(p.text, r) {
		return 1
	}
	_, wide := columns.Cluster(p.text)
	return max(wide, 1)
}

// unshown reports whether a character is shown as a box: the terminal would obey it, or show nothing.
func unshown(text string, first rune) bool {
	if first == utf8.RuneError || unicode.In(first, unicode.M, unicode.Cf) {
		return true
	}
	return strings.ContainsFunc(text, tool.Obeyed)
}

// drawn returns p as it is shown in at most that many columns.
func (p piece) drawn(wide int) string {
	switch {
	case p.label != "":
		return columns.First(p.label, wide)
	case p.text == "\t":
		return strings.Repeat(" ", min(tab, wide))
	}
	if r, _ := utf8.DecodeRuneInString(p.text); unshown(p.text, r) || p.width() > wide {
		return "\ufffd"
	}
	return p.text
}

// room returns how many columns the text has, and the prompt as far as there is room for it.
func room(f Frame) (wide int, prompt string) {
	wide = max(1, f.Width-columns.Of(f.Prompt))
	if wide < minWidth {
		return max(1, f.Width), ""
	}
	return wide, f.Prompt
}

// Render returns the text in at most f.Rows rows, those around the cursor, with what is searched or offered below it.
func (e *Editor) Render(f Frame) View {
	wide, prompt := room(f)
	e.width = wide
	rows := e.wrap(wide)
	at := e.rowOf(rows)
	below := e.below(f)
	most := max(1, f.Rows-len(below))
	first := max(0, min(at-most/2, len(rows)-most))
	indent := strings.Repeat(" ", columns.Of(prompt))
	var v View
	for i := first; i < min(len(rows), first+most); i++ {
		var b strings.Builder
		if i == 0 {
			b.WriteString(prompt)
		} else {
			b.WriteString(indent)
		}
		for _, p := range e.pieces[rows[i].from:rows[i].to] {
			b.WriteString(p.drawn(wide))
		}
		v.Lines = append(v.Lines, b.String())
	}
	v.Row = at - first
	v.Column = min(columns.Of(prompt)+e.columnIn(rows[at], wide), max(0, f.Width-1))
	v.Lines = append(v.Lines, below...)
	return v
}

// below returns the lines below the text.
func (e *Editor) below(f Frame) (lines []string) {
	switch {
	case e.search != nil:
		word := "search"
		if e.search.found < 0 && e.search.query != "" {
			word = "not found"
		}
		lines = []string{word + ": " + e.search.query}
	case e.offers != nil:
		lines = e.offers.lines()
	}
	lines = lines[:min(len(lines), max(0, f.Rows-1))]
	for i, line := range lines {
		lines[i] = columns.First(clean(line), f.Width)
	}
	return lines
}

// clean returns a line without what a terminal would obey.
func clean(line string) string {
	return strings.Map(func(r rune) rune {
		if tool.Obeyed(r) {
			return utf8.RuneError
		}
		return r
	}, line)
}

// rowOf returns the row of the cursor: at the end of a full row it is in the next one.
func (e *Editor) rowOf(rows []row) int {
	for i := len(rows) - 1; i > 0; i-- {
		if e.at >= rows[i].from {
			return i
		}
	}
	return 0
}

// columnIn returns the column of the cursor in its row.
func (e *Editor) columnIn(r row, wide int) int {
	n := 0
	for _, p := range e.pieces[r.from:min(e.at, r.to)] {
		n += min(p.width(), wide)
	}
	return n
}

// up moves the cursor one row up, or shows the entry of the history before this one.
func (e *Editor) up() { e.vertical(-1) }

// down moves the cursor one row down, or shows the entry of the history after this one.
func (e *Editor) down() { e.vertical(1) }

func (e *Editor) vertical(by int) {
	rows := e.wrap(e.width)
	at := e.rowOf(rows)
	if e.goal < 0 {
		e.goal = e.columnIn(rows[at], e.width)
	}
	to := at + by
	if to < 0 || to >= len(rows) {
		e.recall(by)
		e.goal = -1
		return
	}
	r, n := rows[to], 0
	for e.at = r.from; e.at < r.to; e.at++ {
		if n += e.pieces[e.at].width(); n > e.goal {
			break
		}
	}
	// The end of a row that is wrapped is the beginning of the next one.
	if e.at == r.to && to+1 < len(rows) && rows[to+1].from == r.to && e.at > r.from {
		e.at--
	}
}
