package dialog

import (
	"cmp"
	"fmt"
	"strings"

	"qq/pkg/task"
	"qq/pkg/tool"
)

// Control sequences of a list.
const (
	wipeRow   = "\x1b[2K"
	wipeBelow = "\x1b[J"
)

const (
	leastListed = 3 // questions, if there are so many
	mark        = "› "
	help        = "arrows or a number choose, Enter shows all, Escape leaves it to others"
)

// anchor returns who asks: the last agent of the chain, and the id of a child.
func anchor(q tool.Question) string {
	who := "the agent"
	if n := len(q.Chain); n > 0 {
		who = cmp.Or(brief(q.Chain[n-1]), who)
	}
	if q.Depth > 0 && q.ExecutionID != "" {
		who += " " + brief(task.ShortID(q.ExecutionID))
	}
	return who
}

// row returns one row about q: who asks for what. before and after are shown whole.
func (p page) row(q tool.Question, before, after string) string {
	summary := visible(strings.Join(strings.Fields(q.Intent.Summary), " "))
	row := before + anchor(q) + " asks: " + brief(q.Intent.Tool) + ` "` + summary + `"`
	return fitting(row, p.columns-width(after)) + after
}

// told returns a row about q and what became of it, on a narrow terminal in rows of their own.
func (p page) told(q tool.Question, fate string) string {
	if p.columns < width(fate)+50 {
		rows := wrapped(fate, max(p.columns-barWidth, leastWidth))
		return p.row(q, "", "") + "\n" + indent + strings.Join(rows, "\n"+barAgain)
	}
	return p.row(q, "", " "+fate)
}

// fitting returns row if it fits into most columns. Else it is shortened, with an ellipsis at its end.
func fitting(row string, most int) string {
	if width(row) <= most {
		return row
	}
	return shortened(row, most)
}

// shortened returns as much of row as fits into most columns, with an ellipsis at its end.
func shortened(row string, most int) string {
	used, n := columns('…'), 0
	for i, r := range row {
		if used += columns(r); used > most && n >= barWidth {
			return row[:i] + "…"
		}
		n++
	}
	return row + "…"
}

// window returns which questions are listed: at most so many, the chosen one among them.
func (l *list) window(most int) (from, to int) {
	from = min(max(l.index(l.listed.chosen)-most/2, 0), max(len(l.open)-most, 0))
	return from, min(from+most, len(l.open))
}

// rows returns the rows of the list, and sets unseen.
func (l *list) rows(p page) []string {
	from, to := l.window(max(p.size.rows/4, leastListed))
	var b strings.Builder
	head := fmt.Sprintf("%d questions wait for an answer:", len(l.open))
	if to-from < len(l.open) {
		head = fmt.Sprintf("%d questions wait for an answer, %d to %d of them:", len(l.open), from+1, to)
	}
	b.WriteString(p.paint(bold, fitting(head, p.columns)) + "\n")
	for _, q := range l.open[from:to] {
		before, colour := indent, ""
		if q.ID == l.listed.chosen {
			before, colour = mark, bold
		}
		before += fmt.Sprint(l.listed.numbers[q.ID]) + " "
		b.WriteString(p.paint(colour, p.row(q, before, "")) + "\n")
	}
	q := l.open[l.index(l.listed.chosen)]
	room := p
	room.size.rows -= to - from + 6
	text, cut := room.question(q, false)
	l.unseen = cut && !l.listed.whole[q.ID]
	b.WriteString(text)
	for _, row := range wrapped(help, p.columns-len(indent)) {
		b.WriteString(indent + row + "\n")
	}
	if l.note != "" {
		for _, row := range wrapped(l.note, p.columns-len(indent)) {
			b.WriteString(p.paint(yellow, indent+row) + "\n")
		}
	}
	offered := offers(q, l.unseen)
	if l.unseen {
		offered[0] = "[Enter] shows all of it first"
	}
	b.WriteString(page{size: p.size}.choices(offered))
	return strings.Split(b.String(), "\n")
}

// frame returns what draws the rows of the list, below the rows for above it.
func (l *list) frame(rows []string) string {
	if l.drawn == 0 {
		return "\n" + l.above + strings.Join(rows, "\n")
	}
	if l.above != "" {
		return l.erase() + l.above + strings.Join(rows, "\n")
	}
	return l.top() + wipeRow + strings.Join(rows, "\n"+wipeRow) + wipeBelow
}

// top returns what moves the cursor to the beginning of the list.
func (l *list) top() string {
	if l.drawn < 2 {
		return "\r"
	}
	return fmt.Sprintf("\r\x1b[%dA", l.drawn-1)
}

// erase returns what removes the list from the screen.
func (l *list) erase() string {
	if l.drawn == 0 {
		return "\n"
	}
	return l.top() + wipeBelow
}
