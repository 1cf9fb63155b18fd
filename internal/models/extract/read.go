package extract

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

const (
	pageLines = 2000 // asked for in one call of read_file
	mostReads = 50   // calls for one file
)

// span are the arguments of a call that reads a part of a file. People see them in this order.
type span struct {
	Path  string `json:"path"`
	Start int    `json:"start_line"`
	End   int    `json:"end_line"`
}

// read returns the text of the file p.path. The first page tells the number of lines; then all other pages are
// requested at once. If calls are added to t.wanted, the text is not complete yet. A problem is stored in p, even
// if part of the text was read.
func (t *talk) read(p *part) string {
	var b strings.Builder
	step, total, reads := pageLines, 1, 0
	for start := 1; start <= total; start += step {
		end := start + step - 1
		if start > 1 {
			end = min(end, total)
		}
		for from := start; from > 0 && from <= end; { // a page may come in pieces
			if reads++; reads > mostReads {
				p.problem = fmt.Sprintf("only the first %d of %d lines were read", from-1, total)
				return b.String()
			}
			text, problem, ok := t.call(readFile, span{p.path, from, end})
			text, next, lines := cutNotes(text)
			if problem != "" {
				p.problem = problem
				return b.String()
			}
			b.WriteString(text)
			if !ok || next <= from {
				next = 0
			}
			if from == 1 && next > 0 {
				step, total, end = next-1, lines, 0
			}
			from = next
		}
	}
	return b.String()
}

// notePattern matches a note that read_file adds below a text. One kind of note names the next
// line and the total number of lines.
var notePattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^\[(?:lines \d+-\d+ of (\d+): read on with start_line=(\d+)|the file is empty` +
		`|not UTF-8: .*|line \d+ is cut after .*)\]\n?\z`)
})

// cutNotes removes the notes of read_file from the end of a text. If the file continues, next is
// the number of the next line and total the number of lines.
func cutNotes(text string) (rest string, next, total int) {
	for {
		note := notePattern().FindStringSubmatch(text)
		if note == nil {
			return text, next, total
		}
		if note[1] != "" {
			total, _ = strconv.Atoi(note[1])
			next, _ = strconv.Atoi(note[2])
		}
		text = strings.TrimSuffix(text, note[0])
	}
}
