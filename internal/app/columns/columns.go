// Package columns counts the columns that a text takes on a terminal, and makes text fit into them.
package columns

import (
	"unicode"

	"golang.org/x/text/width"
)

// Cut returns s in at most n columns, with "..." at the end when s is longer. An n of
// 0 means no limit.
func Cut(s string, n int) string {
	if n <= 0 || Of(s) <= n {
		return s
	}
	const dots = "..."
	if n <= len(dots) {
		return dots[:n]
	}
	return First(s, n-len(dots)) + dots
}

// First returns the beginning of s that takes at most n columns.
func First(s string, n int) string {
	used := 0
	for i, r := range s {
		if used += Rune(r); used > n {
			return s[:i]
		}
	}
	return s
}

// Of returns how many columns s takes: a Chinese character takes two.
func Of(s string) int {
	n := 0
	for _, r := range s {
		n += Rune(r)
	}
	return n
}

// Rune returns how many columns r takes.
func Rune(r rune) int {
	if r < 0x300 { // the first combining character
		return 1
	}
	if unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}
