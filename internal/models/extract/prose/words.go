package prose

import (
	"iter"
	"unicode"
	"unicode/utf8"
)

// Words yields the words of s in their order, each with its place: runs of letters, digits and
// underscores with single apostrophes or dots inside. Of a script without
// spaces it yields overlapping pairs of characters, which carry meaning where a
// single character does not.
func Words(s string) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		for i := 0; i < len(s); {
			r, size := utf8.DecodeRuneInString(s[i:])
			switch {
			case Wide(r) && unicode.IsLetter(r):
				next, more := utf8.DecodeRuneInString(s[i+size:])
				if Wide(next) && unicode.IsLetter(next) && !yield(i, s[i:i+size+more]) {
					return
				}
				i += size
			case inWord(r):
				n := wordLen(s[i:])
				if !yield(i, s[i:i+n]) {
					return
				}
				i += n
			default:
				i += size
			}
		}
	}
}

func inWord(r rune) bool {
	return r == '_' || r != utf8.RuneError && !Wide(r) && (unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r))
}

// wordLen is the length of the word that s begins with.
func wordLen(s string) int {
	n := 0
	for n < len(s) {
		r, size := utf8.DecodeRuneInString(s[n:])
		if !inWord(r) {
			if n == 0 || r != '\'' && r != '’' && r != '.' {
				return n
			}
			if after, _ := utf8.DecodeRuneInString(s[n+size:]); !inWord(after) {
				return n
			}
		}
		n += size
	}
	return n
}

// Count is how many words a reader would count in s; two characters of a
// script without spaces are about one.
func Count(s string) int {
	n := 0
	for range Words(s) {
		n++
	}
	wides := 0
	for _, r := range s {
		if Wide(r) {
			wides++
		}
	}
	return n - wides/2
}

// Wide reports whether r belongs to a script that is written without spaces, or
// is an emoji.
func Wide(r rune) bool { return r > 0x2E80 }
