package columns

import (
	"unicode"
	"unicode/utf8"
)

// Characters that join others.
const (
	joiner   = '\u200d'
	emojiful = '\ufe0f' // makes an emoji of the character before it
)

// Cluster returns the first character of s as a person sees it, with all marks, joined emoji and the second half of a
// flag, and the columns that it takes. Of an empty s it is empty.
//
// The rules are those of extended grapheme clusters (UAX 29) for what people type. Rare scripts, whose letters join in
// other ways, are split.
func Cluster(s string) (cluster string, wide int) {
	first, end := utf8.DecodeRuneInString(s)
	if end == 0 {
		return "", 0
	}
	wide = Rune(first)
	if first < 0x20 {
		if first == '\r' && len(s) > 1 && s[1] == '\n' {
			return s[:2], 0
		}
		return s[:1], wide
	}
	if flag(first) {
		wide = 1
		if second, n := utf8.DecodeRuneInString(s[end:]); flag(second) {
			end, wide = end+n, 2
		}
	}
	for last := first; end < len(s); {
		r, n := utf8.DecodeRuneInString(s[end:])
		switch {
		case r < 0x300 && r != utf8.RuneError:
			return s[:end], wide
		case last == joiner && unicode.Is(unicode.So, r):
		case unicode.In(r, unicode.M, unicode.Join_Control) || tone(r) || tag(r):
		case jamo(last) && jamo(r) && r >= 0x1160:
		default:
			return s[:end], wide
		}
		if r == emojiful && wide == 1 {
			wide = 2
		}
		last, end = r, end+n
	}
	return s, wide
}

// flag reports whether r is one of the two letters that are shown as a flag.
func flag(r rune) bool { return r >= 0x1f1e6 && r <= 0x1f1ff }

// tone reports whether r colours the skin of the emoji before it.
func tone(r rune) bool { return r >= 0x1f3fb && r <= 0x1f3ff }

// tag reports whether r is one of the letters that name the flag of a region.
func tag(r rune) bool { return r >= 0xe0020 && r <= 0xe007f }

// jamo reports whether r is a part of a Korean syllable.
func jamo(r rune) bool { return r >= 0x1100 && r <= 0x11ff }
