package shell

import (
	"fmt"
	"unicode/utf8"
)

// maxChars is how many characters of an output the model reads: half of them
// from its beginning, where a program says what it does, half from its end,
// where it says what came of it.
const maxChars = 30_000

// excerpt keeps the beginning and the end of a text of any length.
type excerpt struct {
	head, tail []byte
	inHead     int // characters
	total      int
}

// add takes a piece of the text, in whole characters.
func (e *excerpt) add(text []byte) {
	e.total += chars(text)
	if room := maxChars/2 - e.inHead; room > 0 {
		n := 0
		for ; room > 0 && n < len(text); room-- {
			_, size := utf8.DecodeRune(text[n:])
			n += size
			e.inHead++
		}
		e.head = append(e.head, text[:n]...)
		text = text[n:]
	}
	e.tail = append(e.tail, text...)
	if len(e.tail) > 2*utf8.UTFMax*maxChars {
		e.tail = append(e.tail[:0], lastChars(e.tail, maxChars/2)...)
	}
}

// text is the whole text when it is short enough. Else where says where the
// whole is.
func (e *excerpt) text(where string) string {
	left := e.total - maxChars
	if left <= 0 {
		return string(e.head) + string(e.tail)
	}
	note := fmt.Sprintf("[%d characters are left out here; %s]\n", left, where)
	return onNewLine(string(e.head)) + note + string(lastChars(e.tail, maxChars/2))
}

// chars counts the characters of text, which is valid: each has one byte that
// does not continue another. The function of the library copies the text.
func chars(text []byte) (n int) {
	for _, b := range text {
		if b&0xc0 != 0x80 {
			n++
		}
	}
	return n
}

// lastChars are the last n characters of text.
func lastChars(text []byte, n int) []byte {
	begin := len(text)
	for ; n > 0 && begin > 0; n-- {
		_, size := utf8.DecodeLastRune(text[:begin])
		begin -= size
	}
	return text[begin:]
}
