package tool

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Obeyed reports whether a terminal may obey r instead of showing it: a control character (C0, DEL,
// C1; also tab and newline), a line separator, or a character that changes the direction of text.
func Obeyed(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp)
}

// hidden reports whether a reader cannot see r: the terminal obeys it, or shows nothing for it.
func hidden(r rune) bool {
	return Obeyed(r) || !unicode.IsGraphic(r) ||
		unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

// longestGap is how many spaces in a row [Visible] leaves as they are.
const longestGap = 40

// Visible returns text so that a person who decides about it sees all of it: each character that a
// terminal would obey or not show, each byte that is not UTF-8, and each long run of spaces is
// spelled out. Newlines and tabs stay.
func Visible(text string) string {
	var b strings.Builder
	gap := 0
	endGap := func() {
		if gap > longestGap {
			fmt.Fprintf(&b, "<%d spaces>", gap)
		} else {
			b.WriteString(strings.Repeat(" ", gap))
		}
		gap = 0
	}
	for i, r := range text {
		if r == ' ' {
			gap++
			continue
		}
		endGap()
		switch {
		case r == '\n' || r == '\t':
			b.WriteRune(r)
		case r < ' ':
			b.WriteRune('\u2400' + r) // the picture of the control character
		case r == utf8.RuneError && !strings.HasPrefix(text[i:], string(utf8.RuneError)):
			fmt.Fprintf(&b, "<0x%02X>", text[i])
		case hidden(r):
			fmt.Fprintf(&b, "<U+%04X>", r)
		default:
			b.WriteRune(r)
		}
	}
	endGap()
	return b.String()
}
