package llm

import (
	"strings"
	"unicode"

	"qq/pkg/task"
)

// OneLine prepares a server's text for an error message: one line of bounded length, without
// control characters.
func OneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
	return task.Shorten(strings.ToValidUTF8(s, "�"), 300)
}
