package tool

import (
	"slices"
	"unicode/utf8"
)

// Excerpt keeps the beginning and the end of a text of any length, in limited memory. The caller
// sets Max, writes the text to it and then calls Cut.
type Excerpt struct {
	Max int // characters that are kept, beginning and end together

	head    []byte
	inHead  int    // characters in head
	dropped int    // characters between head and tail
	tail    []byte // the end of the text so far; Cut shortens it
}

// Write adds a piece of the text. A piece may end in the middle of a character. The error is always
// nil.
func (e *Excerpt) Write(piece []byte) (int, error) {
	most := 2 * utf8.UTFMax * (e.Max/2 + utf8.UTFMax)
	if e.inHead == (e.Max+1)/2 {
		e.tail = slices.Grow(e.tail, max(0, most+len(piece)-len(e.tail)))
	}
	e.tail = append(e.tail, piece...)
	n := 0
	for ; e.inHead < (e.Max+1)/2 && utf8.FullRune(e.tail[n:]); e.inHead++ {
		_, size := utf8.DecodeRune(e.tail[n:])
		n += size
	}
	if n > 0 {
		e.head = append(e.head, e.tail[:n]...)
		e.tail = append(e.tail[:0], e.tail[n:]...)
	}
	if len(e.tail) > most {
		// The last character may be incomplete.
		at := LastRunes(e.tail, e.Max/2+utf8.UTFMax)
		e.dropped += runes(e.tail[:at])
		e.tail = append(e.tail[:0], e.tail[at:]...)
	}
	return len(piece), nil
}

// Cut returns the beginning and the end of the text, and how many characters between them were left
// out. If the text has at most Max characters, head is the whole text.
func (e *Excerpt) Cut() (head, tail string, left int) {
	left = e.inHead + e.dropped + runes(e.tail) - e.Max
	if left <= 0 {
		return string(e.head) + string(e.tail), "", 0
	}
	return string(e.head), string(e.tail[LastRunes(e.tail, e.Max/2):]), left
}

// runes returns how many characters text has. The function of the standard library for strings
// would need a copy of text.
func runes(text []byte) (n int) {
	for at := 0; at < len(text); n++ {
		_, size := utf8.DecodeRune(text[at:])
		at += size
	}
	return n
}

// LastRunes returns the index in bytes at which the last n characters of text begin.
func LastRunes(text []byte, n int) int {
	at := len(text)
	for ; n > 0 && at > 0; n-- {
		_, size := utf8.DecodeLastRune(text[:at])
		at -= size
	}
	return at
}

// First returns the first n characters of text, followed by mark if there are more.
func First(text string, n int, mark string) string {
	if end := FirstRunes(text, n); end < len(text) {
		return text[:end] + mark
	}
	return text
}

// FirstRunes returns the index in bytes at which the first n characters of text end.
func FirstRunes[T string | []byte](text T, n int) int {
	at := 0
	for ; n > 0 && at < len(text); n-- {
		_, size := utf8.DecodeRuneInString(string(text[at:min(at+utf8.UTFMax, len(text))]))
		at += size
	}
	return at
}

// WholeRunes returns text without an incomplete character at its end.
func WholeRunes(text []byte) []byte {
	for i := len(text) - 1; i >= max(0, len(text)-utf8.UTFMax); i-- {
		if utf8.RuneStart(text[i]) {
			if !utf8.FullRune(text[i:]) {
				return text[:i]
			}
			break
		}
	}
	return text
}
