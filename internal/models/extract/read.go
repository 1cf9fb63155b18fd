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

// read returns the text of a file. The first page says how many lines there
// are; the other pages are then asked for all at once. What went wrong is the
// problem of the part, though some text may have been read.
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
			text, problem, ok := t.call(readFile, map[string]any{"path": p.path, "start_line": from, "end_line": end})
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

// notePattern matches the last note of read_file below a text. One kind of note
// says which line comes next, and how many lines there are.
var notePattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^\[(?:lines \d+-\d+ of (\d+): read on with start_line=(\d+)|the file is empty` +
		`|not UTF-8: .*|line \d+ is cut after .*)\]\n?\z`)
})

// cutNotes takes the notes of read_file off the end of a text. If the file goes
// on, next is the line where, and total is the number of its lines.
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
