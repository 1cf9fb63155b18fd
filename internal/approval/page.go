package approval

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"unicode"

	"qq/pkg/task"
	"qq/pkg/tool"
)

const (
	mostRows    = 40 // of a preview
	summaryRows = 3
	everything  = math.MaxInt // as a number of rows
	bar         = "  │ "
	barAgain    = "  ┆ " // of a line that did not fit the row above
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
}

// question returns the text above the choice of answers. If whole is set, the text is complete. Otherwise the
// middle of a long text is left out, and cut says that it was.
func (p page) question(q tool.Question, whole bool) (text string, cut bool) {
	in := q.Intent
	chain := make([]string, len(q.Chain))
	for i, agent := range q.Chain {
		chain[i] = brief(agent)
	}
	who := cmp.Or(strings.Join(chain, " › "), "the agent")
	if q.Dir != "" {
		who += " in " + brief(q.Dir)
	}
	head := p.paint(bold, who+" asks:")
	risk := p.paint(riskColour(in.Risk), brief(cmp.Or(string(in.Risk), "unknown"))+" risk")
	if in.Special {
		risk += ", " + p.paint(red, "special: asked about each time")
	}
	// This leaves room for the other rows of the question and for the choice.
	summary, preview := summaryRows, max(min(mostRows, p.size.rows-8), 5)
	if whole {
		summary, preview = everything, everything
	}
	var b strings.Builder
	effect := brief(cmp.Or(string(in.Effect), "effect unknown"))
	fmt.Fprintf(&b, "\n%s %s (%s, %s)\n", head, brief(in.Tool), effect, risk)
	cut = p.write(&b, p.rows(strings.Join(strings.Fields(in.Summary), " "), indent, indent), summary)
	cut = p.write(&b, p.rows(strings.TrimRight(in.Preview, "\n"), bar, barAgain), preview) || cut
	return b.String(), cut
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
			fmt.Fprintf(b, "%s%s\n", indent, p.paint(yellow, fmt.Sprintf("… %d rows are left out here …", left)))
		}
	}
	return left > 0
}

// rows breaks text into rows. first is the prefix of each line, more the prefix of its further
// rows.
func (p page) rows(text, first, more string) (rows []string) {
	if text == "" {
		return nil
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
		for row := range broken(visible(line), max(p.columns-barWidth, leastWidth)) {
			rows = append(rows, before+p.paint(colour, row))
			before = more
		}
	}
	return rows
}

func (p page) paint(colour, text string) string {
	if !p.colour || colour == "" {
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

// visible spells out control characters, which a terminal would obey, and invisible ones.
func visible(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\t':
			b.WriteString("    ")
		case r < ' ':
			b.WriteRune('\u2400' + r) // the picture of the control character
		case !unicode.IsGraphic(r),
			unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point):
			fmt.Fprintf(&b, "<U+%04X>", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
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

// columns returns how many columns a terminal needs for r at most.
func columns(r rune) int {
	if r < 0x1100 { // the first of the wide ones
		return 1
	}
	return 2
}
