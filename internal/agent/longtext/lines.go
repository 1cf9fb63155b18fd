package longtext

import (
	"strings"
	"unicode/utf8"
)

// kind is the role of a line in the structure of a text.
type kind uint8

const (
	plain kind = iota
	blank
	heading
	underline  // of the heading above it
	fenceOpen  // the first line of a code fence
	fenced     // a line in a code fence or in the front matter
	fenceClose // the last line of a code fence
)

// line is one line of a text, including its line break.
type line struct {
	start, end int // offsets in bytes
	kind       kind
	level      int    // of a heading, 1 to 6
	title      string // of a heading, as it is written
}

// lineScanner reads the lines of a text in order.
type lineScanner struct {
	text    string
	at      int
	front   int    // offset of the end of the front matter; 0 means none
	fence   string // the marks that opened the current code fence; empty outside
	broken  bool   // the previous line is blank, a heading or an underline, or there is none
	heading bool   // the previous line is a heading, and the next one is its underline
}

func newLineScanner(text string) *lineScanner {
	return &lineScanner{text: text, front: frontMatter(text), broken: true}
}

// frontMatter returns the offset of the end of the front matter: a block of settings at the
// start of text, between two lines "---". It returns 0 if there is none.
func frontMatter(text string) int {
	const longest = 8 << 10
	head := text[:min(len(text), longest)]
	second, ok := strings.CutPrefix(strings.Replace(head, "\r", "", 1), "---\n")
	if !ok || strings.TrimLeft(second, "\r\n") != second { // a horizontal line
		return 0
	}
	at := strings.Index(head, "\n---")
	if at < 0 {
		return 0
	}
	return at + len("\n---")
}

// next returns the next line. It returns false at the end of the text.
func (s *lineScanner) next() (line, bool) {
	if s.at >= len(s.text) {
		return line{}, false
	}
	l := line{start: s.at, end: lineEnd(s.text, s.at)}
	s.at = l.end
	s.classify(&l, withoutEnd(s.text[l.start:l.end]))
	s.broken = l.kind == blank || l.kind == heading || l.kind == underline
	return l, true
}

// lineEnd returns the offset after the line that begins at from, with its line break.
func lineEnd(text string, from int) int {
	if from < len(text) && text[from] == '\n' { // there may be millions of them
		return from + 1
	}
	if n := strings.IndexByte(text[from:], '\n'); n >= 0 {
		return from + n + 1
	}
	return len(text)
}

// withoutEnd returns line without its line break.
func withoutEnd(line string) string {
	for line != "" && (line[len(line)-1] == '\n' || line[len(line)-1] == '\r') {
		line = line[:len(line)-1]
	}
	return line
}

// classify sets the kind of l, and the level and title of a heading. raw is the text of l
// without its line break.
func (s *lineScanner) classify(l *line, raw string) {
	bare := raw
	for bare != "" && (bare[0] == ' ' || bare[0] == '\t') {
		bare = bare[1:]
	}
	switch {
	case l.start < s.front:
		l.kind = fenced
	case s.fence != "":
		l.kind = fenced
		if strings.HasPrefix(bare, s.fence) && strings.Trim(bare, s.fence[:1]+" \t") == "" {
			l.kind, s.fence = fenceClose, ""
		}
	case s.heading:
		l.kind, s.heading = underline, false
	case bare == "":
		l.kind = blank
	default:
		if s.fence = fenceOf(bare); s.fence != "" {
			l.kind = fenceOpen
			return
		}
		if len(raw)-len(bare) > 3 {
			return
		}
		if l.level, l.title = hashes(bare); l.level > 0 {
			l.kind = heading
		} else if level := s.underlined(bare); level > 0 {
			l.kind, l.level, l.title, s.heading = heading, level, bare, true
		}
	}
}

// fenceOf returns the marks with which a line opens a code fence, such as ```; "" means
// that it opens none. bare is the line without its indentation.
func fenceOf(bare string) string {
	if !strings.HasPrefix(bare, "```") && !strings.HasPrefix(bare, "~~~") {
		return ""
	}
	rest := strings.TrimLeft(bare, bare[:1])
	if bare[0] == '`' && strings.IndexByte(rest, '`') >= 0 {
		return "" // a code span
	}
	return bare[:len(bare)-len(rest)]
}

// hashes returns the level and title of a heading such as "## Install ##". The level is 0
// if bare is no such heading.
func hashes(bare string) (level int, title string) {
	for level < len(bare) && bare[level] == '#' {
		level++
	}
	if level == 0 || level > 6 {
		return 0, ""
	}
	rest := bare[level:]
	if rest != "" && rest[0] != ' ' && rest[0] != '\t' {
		return 0, ""
	}
	return level, strings.TrimRight(rest, "# \t")
}

// underlined returns 1 if the next line underlines bare with "===", 2 with "---", and 0 if
// bare is no heading of that kind. Such a heading must follow a blank line, a heading or
// the start of the text, because logs and tables have such lines too.
func (s *lineScanner) underlined(bare string) int {
	const longest = 200
	if !s.broken || len(bare) > longest || s.at == len(s.text) || s.text[s.at] != '-' && s.text[s.at] != '=' ||
		strings.ContainsRune(bare, '|') || strings.Trim(bare, "-=") == "" {
		return 0
	}
	below := strings.TrimRight(s.text[s.at:lineEnd(s.text, s.at)], " \t\r\n")
	if len(below) < 3 {
		return 0
	}
	switch {
	case strings.Trim(below, "=") == "":
		return 1
	case strings.Trim(below, "-") == "":
		return 2
	}
	return 0
}

// breakIn returns the best place in s[lo:hi] to cut s: after the last line there, else
// after the last sentence, word or character. It returns 0 if s is a single character. The
// caller makes sure that 0 < lo <= hi < len(s).
func breakIn(s string, lo, hi int) (at int, r rank) {
	sentence, word := 0, 0
	for i := hi; i >= lo; i-- {
		if s[i-1] == '\n' {
			return i, rankLine
		}
		if sentence > 0 {
			continue
		}
		wide := wideEnd(s[:i])
		if !wide && (!isSpace(s[i-1]) || isSpace(s[i])) {
			continue
		}
		if word == 0 {
			word = i
		}
		if wide || sentenceEnd(s[:i]) {
			sentence = i
		}
	}
	switch {
	case sentence > 0:
		return sentence, rankSentence
	case word > 0:
		return word, rankWord
	}
	return characterBreak(s, hi), rankCharacter
}

// isSpace reports whether b is ASCII white space.
func isSpace(b byte) bool { return b == ' ' || b == '\t' || b == '\n' || b == '\r' }

// wideEnd reports whether s ends with 。, ！ or ？. These end a sentence without a space after
// them.
func wideEnd(s string) bool {
	if len(s) < 3 || s[len(s)-3] < 0xE3 {
		return false
	}
	switch s[len(s)-3:] {
	case "。", "！", "？":
		return true
	}
	return false
}

// sentenceEnd reports whether s ends with a sentence: with '.', '!' or '?'. Closing quotes
// or brackets and then white space may follow that.
func sentenceEnd(s string) bool {
	for n := 0; n < 4 && s != "" && isSpace(s[len(s)-1]); n++ {
		s = s[:len(s)-1]
	}
	for n := 0; n < 3 && s != "" && strings.IndexByte("\"')]*_", s[len(s)-1]) >= 0; n++ {
		s = s[:len(s)-1]
	}
	return s != "" && strings.IndexByte(".!?", s[len(s)-1]) >= 0
}

// characterBreak returns the offset nearest to at that splits neither a character nor a
// CRLF. It returns 0 if s cannot be split.
func characterBreak(s string, at int) int {
	start := at
	for start > 0 && at-start < utf8.UTFMax && !utf8.RuneStart(s[start]) {
		start--
	}
	if _, size := utf8.DecodeRuneInString(s[start:]); start+size > at {
		if at = start; at == 0 {
			at = size
		}
	}
	if at < len(s) && s[at] == '\n' && at > 0 && s[at-1] == '\r' {
		if at--; at == 0 {
			at = 2
		}
	}
	if at >= len(s) {
		return 0
	}
	return at
}
