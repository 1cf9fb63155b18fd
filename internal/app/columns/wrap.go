package columns

import "strings"

// Wrap returns text with lines of at most width columns; 0 means no limit. Lines are broken between words only, so a
// word that is wider stays whole. A gap of two spaces begins the second column of a line: what is broken off stays in
// it. If the second column begins right of the middle, it begins a line of its own instead.
func Wrap(text string, width int) string {
	if width <= 0 {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		line, ended := strings.CutSuffix(line, "\n")
		wrapLine(&b, line, width)
		if ended {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// deep is how far at most a second column is indented that has a line of its own.
const deep = 6

func wrapLine(b *strings.Builder, line string, width int) {
	below := min(deep, width/4)
	words := strings.TrimLeft(line, " ")
	indent := len(line) - len(words)
	if first, second, found := strings.Cut(words, "  "); found {
		second = strings.TrimLeft(second, " ")
		at := Of(line) - Of(second)
		if at <= width/2 {
			b.WriteString(line[:len(line)-len(second)])
			writeRows(b, Rows(second, width-at), at)
			return
		}
		wrapLine(b, line[:indent]+first, width)
		b.WriteByte('\n')
		words, indent = second, below
	}
	if indent > width/2 {
		indent = below
	}
	b.WriteString(strings.Repeat(" ", indent))
	writeRows(b, Rows(words, width-indent), indent)
}

func writeRows(b *strings.Builder, rows []string, indent int) {
	b.WriteString(strings.Join(rows, "\n"+strings.Repeat(" ", indent)))
}

// Rows returns text as rows of at most width columns. It is broken between words only.
func Rows(text string, width int) []string {
	if Of(text) <= width {
		return []string{text}
	}
	var rows []string
	used := 0 // columns of the last row
	for word := range strings.FieldsSeq(text) {
		wide := Of(word)
		if n := len(rows); n > 0 && used+1+wide <= width {
			rows[n-1] += " " + word
			used += 1 + wide
			continue
		}
		rows, used = append(rows, word), wide
	}
	return rows
}
