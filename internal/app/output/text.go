package output

import (
	"fmt"
	"strings"

	"qq/internal/app/columns"
	"qq/internal/app/command"
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
