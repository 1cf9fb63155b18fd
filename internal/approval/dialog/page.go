package dialog

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"qq/pkg/task"
	"qq/pkg/tool"
)

const (
	mostRows    = 40 // of a preview
	summaryRows = 3
	aboutRows   = 2           // of a task
	everything  = math.MaxInt // as a number of rows
	bar         = "  │ "
	barAgain    = "  ┆ " // of a line that did not fit the row above: it cannot look like a row of the question
	barWidth    = 4
	indent      = "  "
	leastWidth  = 10
)

// Colours, as terminals understand them.
const (
	bold   = "\x1b[1m"
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	plain  = "\x1b[0m"
)

// page formats a question for a terminal.
type page struct {
	size
	colour bool
	fits   bool // no row may be wider, also on a narrow terminal
}

// question returns the text above the choice of answers. If whole is set, the text is complete. Otherwise the
// middle of a long text is left out, and cut says that it was.
func (p page) question(q tool.Question, whole bool) (text string, cut bool) {
	in := q.Intent
	about := p.about(q)
	// This leaves room for the other rows of the question and for the choice.
	summary, preview := summaryRows, max(min(mostRows, p.size.rows-8-len(about)), 5)
	if whole {
		summary, preview = everything, everything
	}
	var b strings.Builder
	b.WriteString("\n" + p.head(q) + "\n")
	p.write(&b, about, everything)
	cut = p.write(&b, p.rows(strings.Join(strings.Fields(in.Summary), " "), indent, barAgain), summary)
	cut = p.write(&b, p.rows(strings.TrimRight(in.Preview, "\n"), bar, barAgain), preview) || cut
	return b.String(), cut
}

// head returns who asks for what: the agents from the root on, the id of a child, and the tool.
func (p page) head(q tool.Question) string {
	in := q.Intent
	chain := make([]string, len(q.Chain))
	for i, agent := range q.Chain {
		chain[i] = brief(agent)
	}
	who := cmp.Or(strings.Join(chain, " › "), "the agent")
	if q.Depth > 0 && q.ExecutionID != "" {
		who += " " + brief(task.ShortID(q.ExecutionID))
	}
	if q.Dir != "" {
		who += " in " + folder(q.Dir)
	}
	who += " asks:"
	what := fmt.Sprintf(" %s (%s, ", brief(in.Tool), brief(cmp.Or(string(in.Effect), "effect unknown")))
	risk := brief(cmp.Or(string(in.Risk), "unknown")) + " risk"
	comma, special := "", ""
	if in.Special {
		comma, special = ", ", "special: asked each time"
	}
	if plain := who + what + risk + comma + special + ")"; width(plain) > p.columns {
		return strings.Join(p.rows(plain, "", barAgain), "\n")
	}
	return p.paint(bold, who) + what + p.paint(riskColour(in.Risk), risk) + comma + p.paint(red, special) + ")"
}

// about returns what the agent was asked to do, in few rows.
func (p page) about(q tool.Question) []string {
	var all []string
	add := func(label, text string) {
		rows := p.rows(strings.Join(strings.Fields(label+text), " "), indent, barAgain)
		if len(rows) > aboutRows {
			rows = rows[:aboutRows]
			rows[aboutRows-1] = shortened(rows[aboutRows-1], p.columns)
		}
		all = append(all, rows...)
	}
	if q.Number > 0 {
		add(fmt.Sprintf("task %d of the batch: ", q.Number), q.Input)
	}
	if q.Task != "" && (q.Number == 0 || q.Task != q.Input) {
		add("task: ", q.Task)
	}
	return all
}

// write writes at most most rows: the first and the last ones, and between them the number of
// rows left out. It reports whether it left any out.
func (p page) write(b *strings.Builder, rows []string, most int) (cut bool) {
	left, from := len(rows)-most, (most+1)/2
	if left <= 1 { // a row takes no more room than the remark about it
		left = 0
	}
	for i, row := range rows {
		switch {
		case left == 0 || i < from || i >= from+left:
			b.WriteString(row + "\n")
		case i == from:
			remark := fmt.Sprintf("… %d rows are left out here …", left)
			if p.fits {
				remark = fitting(remark, p.columns-len(indent))
			}
			b.WriteString(indent + p.paint(yellow, remark) + "\n")
		}
	}
	return left > 0
}

// rows breaks text into rows, after spaces if it is no preview. first is the prefix of each line, more the prefix of
// its further rows.
func (p page) rows(text, first, more string) (rows []string) {
	if text == "" {
		return nil
	}
	breaks := worded
	if first == bar {
		breaks = broken
	}
	for line := range strings.SplitSeq(text, "\n") {
		colour := ""
		switch {
		case first != bar:
		case strings.HasPrefix(line, "+"):
			colour = green
		case strings.HasPrefix(line, "-"):
			colour = red
		}
		before := first
		for row := range breaks(visible(line), max(p.columns-barWidth, leastWidth)) {
			rows = append(rows, before+p.paint(colour, row))
			before = more
		}
	}
	return rows
}

// choices returns the line of offered answers, behind which a person types one. On a narrow terminal it is broken
// between them, else between words. An offer may hold foreign text, so its further rows are marked, and the next offer
// begins a row.
func (p page) choices(offers []string) string {
	var b strings.Builder
	used := p.columns // of the last row
	for i, offer := range offers {
		end := ","
		if i == len(offers)-1 {
			end = ": "
		}
		if used+len(" ")+width(offer+end) <= p.columns {
			used += len(" ") + width(offer+end)
			b.WriteString(" " + offer + end)
			continue
		}
		rows := wrapped(offer+end, max(p.columns-barWidth, leastWidth))
		if used = width(offer + end); len(rows) > 1 {
			used = p.columns
		}
		if i > 0 {
			b.WriteString("\n")
		}
		b.WriteString(strings.Join(rows, "\n"+barAgain))
	}
	return b.String()
}

// wrapped returns the rows of a line, broken at spaces, or inside of a word that is longer than a row.
func wrapped(line string, most int) (rows []string) {
	for word := range strings.SplitSeq(line, " ") {
		if n := len(rows); n > 0 && width(rows[n-1])+1+width(word) <= most {
			rows[n-1] += " " + word
			continue
		}
		rows = slices.AppendSeq(rows, broken(word, most))
	}
	return rows
}

func (p page) paint(colour, text string) string {
	if !p.colour || colour == "" || text == "" {
		return text
	}
	return colour + text + plain
}

func riskColour(r tool.Risk) string {
	switch r {
	case tool.Low:
		return ""
	case tool.Medium:
		return yellow
	}
	return red
}

// brief returns a name on one line, with at most 60 characters.
func brief(s string) string { return visible(task.Shorten(s, 60)) }

// folder returns the name of a folder, in quotes if it could be read as words of the question.
func folder(name string) string {
	word := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("._-+@/", r)
	}
	if strings.ContainsFunc(name, func(r rune) bool { return !word(r) }) {
		if runes := []rune(name); len(runes) > 60 {
			name = string(runes[:57]) + "..."
		}
		return visible(strconv.Quote(name))
	}
	return brief(name)
}

// visible spells out what a person could not see, tabs too.
func visible(s string) string { return strings.ReplaceAll(tool.Visible(s), "\t", "␉   ") }

// width returns how many columns a line needs at most.
func width(line string) (n int) {
	for _, r := range line {
		n += columns(r)
	}
	return n
}

// broken yields the rows of a line, each at most width columns wide. An empty line is one row.
func broken(line string, width int) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		used, from := 0, 0
		for i, r := range line {
			w := columns(r)
			if used+w > width {
				if !yield(line[from:i]) {
					return
				}
				used, from = 0, i
			}
			used += w
		}
		yield(line[from:])
	}
}

// worded yields the rows of a line as broken does, but breaks it after a space where a row has one.
func worded(line string, most int) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for {
			row := line
			for row = range broken(line, most) {
				break
			}
			if len(row) == len(line) {
				break
			}
			if at := strings.LastIndexByte(row, ' ') + 1; at > 1 && line[len(row)] != ' ' {
				row = row[:at]
			}
			if line = line[len(row):]; !yield(row) {
				return
			}
		}
		yield(line)
	}
}

// columns returns how many columns a terminal needs for r at most.
func columns(r rune) int {
	if r < 0x1100 || 0x2400 <= r && r <= 0x2426 { // the first of the wide ones; control characters spelled out
		return 1
	}
	return 2
}
