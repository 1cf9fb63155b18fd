package extract

import (
	"fmt"
	"strings"
)

// page is the arguments of read_file.
type page struct {
	Path  string `json:"path"`
	Start int    `json:"start_line"`
	End   int    `json:"end_line"`
}

// read returns the text of a file. The first page says how many lines there
// are; the others are then asked for all at once. What went wrong is the
// problem of the part, though some text may have been read.
func (t *talk) read(p *part) string {
	reads := 1
	text, next, total, problem, ok := t.page(page{p.path, 1, pageLines})
	if !ok || problem != "" {
		p.problem = problem
		return ""
	}
	if next == 0 {
		return text
	}
	var b strings.Builder
	b.WriteString(text)
	step, missing := next-1, ""
	for start := next; start <= total; start += step {
		for from, end := start, min(start+step-1, total); from > 0 && from <= end; {
			if reads++; reads > mostReads {
				missing = fmt.Sprintf("only the first %d of %d lines were read", from-1, total)
				break
			}
			text, next, _, problem, ok := t.page(page{p.path, from, end})
			if problem != "" {
				missing = fmt.Sprintf("line %d and on: %s", from, problem)
			}
			if !ok || next <= from {
				next = 0
			}
			b.WriteString(text)
			from = next
		}
		if missing != "" {
			break
		}
	}
	if missing != "" {
		p.problem = missing
	}
	return b.String()
}

// page reads some lines of a file. When the file goes on behind them, next is
// the line where, and total how many there are.
func (t *talk) page(args page) (text string, next, total int, problem string, ok bool) {
	text, ok = t.call(readFile, args)
	if !ok {
		return "", 0, 0, "", false
	}
	if problem, isFailure := failed(text); isFailure {
		return "", 0, 0, problem, true
	}
	text, next, total = cutNotes(text)
	if next <= args.Start {
		next = 0
	}
	return text, next, total, "", true
}

// cutNotes takes the notes of the tool off the end of a text. One of them may
// say that the file goes on.
func cutNotes(text string) (rest string, next, total int) {
	for {
		body := strings.TrimRight(text, "\n")
		at := strings.LastIndexByte(body, '\n') + 1
		note := body[at:]
		var first, last int
		switch {
		case strings.HasPrefix(note, "[lines ") && next == 0:
			if n, _ := fmt.Sscanf(note, "[lines %d-%d of %d: read on with start_line=%d]", &first, &last, &total, &next); n != 4 {
				return text, 0, 0
			}
		case !strings.HasSuffix(note, "]"), note != "[the file is empty]" &&
			!strings.HasPrefix(note, "[not UTF-8: ") && !(strings.HasPrefix(note, "[line ") && strings.Contains(note, " is cut after ")):
			return text, next, total
		}
		text = body[:at]
	}
}
