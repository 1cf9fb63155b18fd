package block

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"qq/internal/app/columns"
)

// Change returns what makes a row that shows old show text, from any column of the row: not more than what has changed.
func Change(old, text string) string {
	at := prefix(old, text)
	used := columns.Of(text[:at])
	move := "\r"
	if used > 0 {
		move = fmt.Sprintf("\x1b[%dG", used+1)
	}
	old, text = old[at:], text[at:]
	end := 0
	if columns.Of(old) == columns.Of(text) {
		end = suffix(old, text)
	}
	if text = text[:len(text)-end]; end > 0 {
		return move + text
	}
	return move + text + clear
}

// sure reports whether all terminals agree about the columns of r. They do not about emoji, for example.
func sure(r rune) bool {
	switch {
	case r < 0x300:
		return true
	case r >= 0x3041 && r < 0x3100, r >= 0x4e00 && r < 0xa000, r >= 0xac00 && r < 0xd7a4: // kana, Chinese, Korean
		return columns.Rune(r) == 2
	}
	return strings.ContainsRune(marks, r)
}

// marks are characters of qq itself.
const marks = "●◦✓✗›▸▾…─│█░"

// prefix returns how many bytes at the beginning of a and b are the same, and are of a width that is sure. The
// character after them combines with none of them.
func prefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) {
		r, size := utf8.DecodeRuneInString(a[n:])
		if !strings.HasPrefix(b[n:], a[n:n+size]) || !sure(r) {
			break
		}
		n += size
	}
	for n > 0 && (combines(a[n:]) || combines(b[n:])) {
		_, size := utf8.DecodeLastRuneInString(a[:n])
		n -= size
	}
	return n
}

// suffix returns how many bytes at the end of a and b are the same. What is before them in both must be of a width that
// is sure.
func suffix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) {
		_, size := utf8.DecodeLastRuneInString(a[:len(a)-n])
		if !strings.HasSuffix(b[:len(b)-n], a[len(a)-n-size:len(a)-n]) {
			break
		}
		n += size
	}
	unsure := func(r rune) bool { return !sure(r) }
	if strings.ContainsFunc(a[:len(a)-n]+b[:len(b)-n], unsure) || combines(a[len(a)-n:]) {
		return 0
	}
	return n
}

// combines reports whether the first character of text takes no column.
func combines(text string) bool {
	r, _ := utf8.DecodeRuneInString(text)
	return text != "" && columns.Rune(r) == 0
}
