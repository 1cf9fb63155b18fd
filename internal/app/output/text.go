package output

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"qq/internal/app/columns"
	"qq/internal/app/command"
	"qq/pkg/task"
)

// Bounds of a message in a log for people. Of a longer one the beginning and the end are shown.
const (
	maxLines = 200
	maxBytes = 32 << 10
)

// Bounded returns text, or its beginning and its end if it is long.
func Bounded(text string) string {
	join := func(head string, left int, what, tail string) string {
		return fmt.Sprintf("%s\n[%d %s left out: --json has all]\n%s", head, left, what, tail)
	}
	if all := strings.Split(text, "\n"); len(all) > maxLines {
		head, tail := all[:maxLines/2], all[len(all)-maxLines/2:]
		text = join(strings.Join(head, "\n"), len(all)-maxLines, "lines", strings.Join(tail, "\n"))
	}
	if left := len(text) - maxBytes; left > 0 {
		head, tail := text[:maxBytes/2], text[len(text)-maxBytes/2:]
		text = join(strings.ToValidUTF8(head, ""), left, "bytes", strings.ToValidUTF8(tail, ""))
	}
	return text
}

// Rows returns text in rows of at most wide columns, without characters that could control the terminal. A word that is
// wider is broken.
func Rows(text string, wide int) (all []string) {
	for _, line := range strings.Split(strings.Trim(command.Printable(text), "\n"), "\n") {
		for _, row := range columns.Rows(strings.ReplaceAll(line, "\t", "  "), wide) {
			for columns.Of(row) > wide {
				head := columns.First(row, wide)
				all, row = append(all, head), row[len(head):]
			}
			all = append(all, row)
		}
	}
	return all
}

// sideBySide is how many columns two answers take where there is no terminal.
const sideBySide = 120

// maxAnswer is how many rows of an answer are shown beside another one.
const maxAnswer = 20

// Beside shows two answers side by side, each below its heading, in width columns; 0 means no terminal. The texts need
// not be clean.
func Beside(headA, headB, a, b string, width int) string {
	if width <= 0 {
		width = sideBySide
	}
	wide := (max(width, 40) - 3) / 2
	side := func(head, answer string) []string {
		rows := Rows(head, wide)
		if answer == "" {
			return rows
		}
		body := Rows(answer, wide)
		if more := len(body) - maxAnswer; more > 0 {
			body = append(body[:maxAnswer], fmt.Sprintf("(%d more lines: --json has all)", more))
		}
		return append(append(rows, ""), body...)
	}
	left, right := side(headA, a), side(headB, b)
	var text strings.Builder
	for i := range max(len(left), len(right)) {
		var row [2]string
		for k, rows := range [][]string{left, right} {
			if i < len(rows) {
				row[k] = rows[i]
			}
		}
		line := row[0] + strings.Repeat(" ", max(wide-columns.Of(row[0]), 0)) + " │ " + row[1]
		text.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return text.String()
}

// Calls says how often an agent called each tool; "" if it called none.
func Calls(did *task.Did) string {
	if did == nil {
		return ""
	}
	var calls []string
	for _, name := range slices.Sorted(maps.Keys(did.Calls)) {
		calls = append(calls, fmt.Sprintf("%s %d", OneLine(name), did.Calls[name]))
	}
	return strings.Join(calls, ", ")
}
