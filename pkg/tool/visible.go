package tool

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Obeyed reports whether a terminal may obey r instead of showing it: a control character (C0, DEL,
// C1; also tab and newline), a line separator, or a character that changes the direction of text. Characters that are
// never shown, and so can only hide something, count too. Those that join letters or emoji do not.
func Obeyed(r rune) bool {
	switch {
	// Spaces, joiners and tags.
	case r == '\u200b', r == '\u2060', r == '\ufeff', '\U000e0000' <= r && r <= '\U000e007f':
		return true
	}
	return unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp)
}

// hidden reports whether a reader cannot see r: the terminal obeys it, or shows nothing for it, or a gap that is no
// space.
func hidden(r rune) bool {
	return Obeyed(r) || !unicode.IsGraphic(r) || r == blankBraille || r != ' ' && unicode.Is(unicode.Zs, r) ||
		unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

// blankBraille is a pattern of Braille without dots.
const blankBraille = '\u2800'

const (
	// longestGap is how many spaces in a row [Visible] leaves as they are.
	longestGap = 40
	// mostMarks is how many marks on one letter it leaves as they are. More of them cover the lines around. It is
	// also how often a character that is spelled out is repeated before it is counted.
	mostMarks = 4
)

// Visible returns text so that a person who decides about it sees all of it: each character that a
// terminal would obey or not show, each byte that is not UTF-8, each long run of spaces, and marks
// that are piled up on one letter are spelled out. Newlines and tabs stay.
func Visible(text string) string {
	var b strings.Builder
	var last rune // the space or the hidden character that the last run characters are
	run, marks := 0, 0
	end := func() {
		spell(&b, last, run)
		run = 0
	}
	for i, r := range text {
		marks++
		if !unicode.Is(unicode.M, r) {
			marks = 0
		}
		if r >= ' ' && r != utf8.RuneError && (r == ' ' || hidden(r) || marks > mostMarks) {
			if r != last {
				end()
			}
			last = r
			run++
			continue
		}
		end()
		switch {
		case r == '\n' || r == '\t':
			b.WriteRune(r)
		case r < ' ':
			b.WriteRune('\u2400' + r) // the picture of the control character
		case r == utf8.RuneError && !strings.HasPrefix(text[i:], string(utf8.RuneError)):
			fmt.Fprintf(&b, "<0x%02X>", text[i])
		default:
			b.WriteRune(r)
		}
	}
	end()
	return b.String()
}

// spell writes a run of n spaces, or n times the hidden character r.
func spell(b *strings.Builder, r rune, n int) {
	switch {
	case r == ' ' && n > longestGap:
		fmt.Fprintf(b, "<%d spaces>", n)
	case r == ' ':
		b.WriteString(strings.Repeat(" ", n))
	case n > mostMarks:
		fmt.Fprintf(b, "<%d U+%04X>", n, r)
	default:
		b.WriteString(strings.Repeat(fmt.Sprintf("<U+%04X>", r), n))
	}
}
