package markdown

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"qq/pkg/tool"
)

// cleaner spells out what a terminal would obey and what a reader would not see.
type cleaner struct {
	rest  string // the beginning of a character, or CR
	marks int    // on the last letter
}

// maxMarks is how many marks a letter may have. More of them cover the lines around.
const maxMarks = 4

func (c *cleaner) clean(text string) string {
	if c.rest == "" && !strings.ContainsFunc(text, func(r rune) bool { return (r < ' ' || r > '~') && r != '\n' }) {
		if text != "" {
			c.marks = 0
		}
		return text
	}
	text, c.rest = c.rest+text, ""
	var b strings.Builder
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		left := text[i+n:]
		switch {
		case r == utf8.RuneError && !utf8.FullRuneInString(text[i:]), r == '\r' && left == "":
			c.rest = text[i:]
			return b.String()
		case r == '\r' && left[0] == '\n':
		default:
			c.put(&b, r)
		}
		i += n
	}
	return b.String()
}

// end returns what is left of a text that has ended.
func (c *cleaner) end() string {
	var b strings.Builder
	for _, r := range c.rest {
		c.put(&b, r)
	}
	*c = cleaner{}
	return b.String()
}

func (c *cleaner) put(b *strings.Builder, r rune) {
	c.marks++
	if r < 0x300 || !unicode.Is(unicode.M, r) && r != '\u200c' && r != '\u200d' {
		c.marks = 0
	}
	switch {
	case r == '\n', r == '\t', ' ' <= r && r <= '~':
		b.WriteRune(r)
	case r < ' ':
		b.WriteRune('\u2400' + r) // the picture of the control character
	case c.marks > maxMarks, unseen(r):
		fmt.Fprintf(b, "<U+%04X>", r)
	default:
		b.WriteRune(r)
	}
}

// unseen reports whether a terminal obeys r or a reader does not see it. What joins letters and emoji is no such
// character.
func unseen(r rune) bool {
	switch r {
	case '\u200c', '\u200d', '\ufe0e', '\ufe0f':
		return false
	case '\u2800': // Braille without dots
		return true
	}
	return tool.Obeyed(r) || !unicode.IsGraphic(r) ||
		unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}
