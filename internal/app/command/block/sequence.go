package block

import "unicode/utf8"

// decode returns the first character of text, and its length.
func decode(text string) (rune, int) { return utf8.DecodeRuneInString(text) }

// sequence returns the length of the control sequence that text begins with; 0 if it begins with none. Only those are
// known that qq itself writes: colours.
func sequence(text string) int {
	if len(text) < 2 || text[0] != '\x1b' || text[1] != '[' {
		return 0
	}
	for i := 2; i < len(text); i++ {
		if c := text[i]; c >= 0x40 && c <= 0x7e {
			return i + 1
		}
	}
	return len(text)
}
