package markdown

import "strings"

// block is what a line is.
type block int

const (
	paragraph block = iota
	heading
	item      // the beginning of an item of a list
	fence     // the beginning of code
	rule      // a line across
	underline // the mark of a heading in the line before
	row       // of a table
	indented  // code
)

// blockOf returns what a line is whose text, after its space, begins with s, and how many bytes its mark has. ok is
// false if that depends on what follows. whole says that nothing follows.
func blockOf(s string, whole bool) (b block, n int, ok bool) {
	if s == "" {
		return paragraph, 0, whole
	}
	if s[0] == '|' {
		isRow := whole && len(s) < maxRow
		if isRow {
			b = row
		}
		return b, 0, isRow || len(s) >= maxRow
	}
	more := !whole && len(s) < maxHeld // what follows can be waited for
	s = s[:min(len(s), maxHeld)]
	switch c := s[0]; c {
	case '#':
		n = run(s)
		if n == len(s) && more {
			return 0, 0, false
		}
		if n <= 6 && (n == len(s) || isSpace(s[n])) {
			return heading, n, true
		}
	case '`', '~':
		n = run(s)
		if n == len(s) && more || n >= 3 && more {
			return 0, 0, false
		}
		if n >= 3 && (c == '~' || !strings.Contains(s[n:], "`")) {
			return fence, n, true
		}
	case '-', '*', '+', '_', '=':
		return lineOf(s, c, more)
	default:
		for n < len(s) && n < 9 && '0' <= s[n] && s[n] <= '9' {
			n++
		}
		if n > 0 {
			return numbered(s, n, more)
		}
	}
	return paragraph, 0, true
}

// lineOf tells rules and items of lists, which begin with c.
func lineOf(s string, c byte, more bool) (b block, n int, ok bool) {
	others := strings.TrimLeft(s, string(c)+" \t") // what is no part of a rule
	if others == "" && more {
		return 0, 0, false
	}
	count := strings.Count(s, string(c))
	switch {
	case others == "" && c == '=':
		return underline, len(s), true
	case others == "" && c != '+' && count >= 3:
		return rule, len(s), true
	case c != '_' && c != '=' && (len(s) == 1 || isSpace(s[1])):
		return item, 1, true
	}
	return paragraph, 0, true
}

// numbered tells items of lists that begin with a number of n digits.
func numbered(s string, n int, more bool) (block, int, bool) {
	switch {
	case len(s) <= n+1 && more && (len(s) == n || s[n] == '.' || s[n] == ')'):
		return 0, 0, false
	case len(s) == n || s[n] != '.' && s[n] != ')':
	case len(s) == n+1 || isSpace(s[n+1]):
		return item, n + 1, true
	}
	return paragraph, 0, true
}

// run returns how often the first byte of s is repeated at its beginning.
func run(s string) int { return len(s) - len(strings.TrimLeft(s, s[:1])) }

func isSpace(c byte) bool { return c == ' ' || c == '\t' }
