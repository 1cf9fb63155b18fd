package columns

import (
	"unicode"
	"unicode/utf8"
)

// maxCluster is how many bytes a cluster has at most: marks can be piled up without end.
const maxCluster = 64

// Cluster returns the length in bytes of the first character of s as a reader sees it, and how many columns it takes:
// a letter with its marks, a flag of two letters, or emoji that are joined to one. A terminal moves it as a whole.
// The length is 0 if s is empty.
func Cluster(s string) (length, wide int) {
	first, n := utf8.DecodeRuneInString(s)
	if n == 0 {
		return 0, 0
	}
	length, wide = n, Rune(first)
	if len(s) > n && first < 0x300 && s[n] < utf8.RuneSelf {
		return length, wide // ASCII follows: nothing joins
	}
	joined, pair := false, regional(first)
	for length < len(s) {
		r, n := utf8.DecodeRuneInString(s[length:])
		switch {
		case r == '\ufe0f': // shown as an emoji
			wide = 2
		case joined && Rune(r) == 2, wide == 2 && skinTone(r):
		case pair && regional(r):
			pair, wide = false, 2
		case first >= 0x1100 && jamo(r):
		case !unicode.In(r, unicode.M, unicode.Cf):
			return length, wide
		}
		if length+n > maxCluster {
			return length, wide
		}
		joined = r == '\u200d'
		length += n
	}
	return length, wide
}

// regional reports whether r is one of the letters of which two make a flag.
func regional(r rune) bool { return '\U0001f1e6' <= r && r <= '\U0001f1ff' }

// skinTone reports whether r colours the emoji before it.
func skinTone(r rune) bool { return '\U0001f3fb' <= r && r <= '\U0001f3ff' }

// jamo reports whether r is a vowel or a last consonant of a Korean syllable.
func jamo(r rune) bool { return '\u1160' <= r && r <= '\u11ff' }
