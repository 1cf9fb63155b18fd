package loop

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// References in words: "a.go line 2", "lines 2-5 of a.go", "In a.go, the port is set in line 2.". The
// file stands on the same line of the text.

// maxWords is how many words before "line 2" are looked at for the name of its file.
const maxWords = 16

// maxWorded is how many references in words are looked at in one answer. Further ones are ignored.
const maxWorded = 1000

// inWords returns the reference by the word line at the offset at, and the length of the words. The
// length is 0 if they are not there.
func (f *refFinder) inWords(at int) (ref fileRef, length int, found bool) {
	if r, _ := utf8.DecodeLastRuneInString(f.text[:at]); at > 0 && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
		return ref, 0, false
	}
	p, ok := parseWords(f.text[at:])
	if !ok || f.worded == maxWorded {
		return ref, 0, false
	}
	f.worded++
	length = len(p.text)
	path, found := f.after(f.text[at+length:])
	before, whole := lineBefore(f.text[:at])
	before = strings.TrimRight(before, " \t,;:([")
	if !found {
		path, found = f.file(before, whole)
	}
	sure := found
	if !found { // words are between the file and its line, so it may be the line of something else
		path, found = f.nearest(before)
	}
	ref = fileRef{path, " " + p.text, p.first, p.last, f.known[path]}
	return ref, length, found && (sure || ref.fault() == "")
}

// after returns the file that text names after "of" or "in".
func (f *refFinder) after(text string) (path string, found bool) {
	text, _, _ = strings.Cut(text[:min(len(text), maxRefPath)], "\n")
	words := strings.Fields(text)
	if len(words) < 2 || words[0] != "of" && words[0] != "in" {
		return "", false
	}
	words = words[1:]
	for len(words) > 1 && (words[0] == "the" || words[0] == "file") {
		words = words[1:]
	}
	return f.named(words[0])
}

// nearest returns the last file that a word of before names.
func (f *refFinder) nearest(before string) (path string, found bool) {
	words := strings.Fields(before)
	for i := len(words) - 1; i >= max(0, len(words)-maxWords); i-- {
		if path, found = f.named(words[i]); found {
			return path, true
		}
	}
	return "", false
}

// named returns the file that word names, alone or in quotes or brackets, with punctuation after it.
func (f *refFinder) named(word string) (path string, found bool) {
	for _, path := range []string{word, strings.Trim(word, "`'\"*_()[]{}<>,;:.!?“”„‘’«»")} {
		if f.exists(path) {
			return path, true
		}
	}
	return "", false
}

// parseWords reads "line 2", "lines 2-5", "lines 2 to 5" or "lines 2 and 5" from the beginning of s.
func parseWords(s string) (place, bool) {
	const word = "line"
	if len(s) < len(word) || !strings.EqualFold(s[:len(word)], word) {
		return place{}, false
	}
	rest := strings.TrimPrefix(s[len(word):], "s")
	number := strings.TrimLeft(rest, " \u00a0")
	n := digits(number)
	if n == 0 || number == rest || !endsNumber(number[n:]) {
		return place{}, false
	}
	end := len(s) - len(number) + n
	p := place{text: s[:end], first: lineNumber(number[:n]), last: lineNumber(number[:n])}
	for _, sep := range []string{"-", "–", " - ", " – ", " to ", " and "} {
		rest, ok := strings.CutPrefix(s[end:], sep)
		if n := digits(rest); ok && n > 0 && endsNumber(rest[n:]) {
			p.text, p.last = s[:end+len(sep)+n], lineNumber(rest[:n])
			break
		}
	}
	return p, true
}
