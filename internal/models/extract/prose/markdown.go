package prose

import (
	"strings"
	"unicode"
)

// scanner reads Markdown line by line. It accepts every text: what is no markup
// is a paragraph. It looks at each line once and at the next one for tables.
type scanner struct {
	blocks []Block
	lines  []string // of the open paragraph
	kind   Kind     // of the open paragraph
	until  string   // what ends the code, comment or HTML that is being skipped
	quoted bool     // what is being skipped began inside a block quote
	list   int      // column where the text of the current list item begins; 0 outside of lists
	blank  bool     // the line before was blank
}

// Markdown returns the blocks of text in their order.
func Markdown(text string) []Block {
	var s scanner
	lines := strings.Split(strings.TrimPrefix(text, "\ufeff"), "\n")
	for i := s.frontMatter(lines); i < len(lines); i++ {
		if n := s.table(lines[i:]); n > 0 {
			i += n - 1
			continue
		}
		s.line(strings.TrimRight(lines[i], " \t\r"))
	}
	s.flush()
	return s.blocks
}

// frontMatter returns the number of the first line behind YAML or TOML front
// matter. A title in it is the first heading.
func (s *scanner) frontMatter(lines []string) int {
	fence := strings.TrimSpace(lines[0])
	if fence != "---" && fence != "+++" {
		return 0
	}
	title := ""
	for i, line := range lines[1:min(len(lines), 200)] {
		line = strings.TrimSpace(line)
		if line == fence {
			s.heading(1, title)
			return i + 2
		}
		key, value, _ := strings.Cut(strings.Replace(line, "=", ":", 1), ":")
		if strings.TrimSpace(key) == "title" {
			title = strings.Trim(strings.TrimSpace(value), `"'`)
		}
	}
	return 0
}

// table returns how many of the lines are a table, which may be none.
func (s *scanner) table(lines []string) int {
	if s.until != "" || !strings.Contains(lines[0], "|") {
		return 0
	}
	if len(lines) < 2 || !delimiterRow(lines[1]) {
		return 0
	}
	s.flush()
	n := 2
	for n < len(lines) && strings.Contains(lines[n], "|") {
		n++
	}
	return n
}

// delimiterRow reports whether line is the one under the head of a table.
func delimiterRow(line string) bool {
	line = strings.TrimLeft(strings.TrimSpace(line), "> ")
	return strings.Contains(line, "-") && strings.Contains(line, "|") && strings.Trim(line, "|:- \t") == ""
}

func (s *scanner) line(line string) {
	column, rest := indentation(line)
	isQuoted := false
	for column < 4 && strings.HasPrefix(rest, ">") {
		isQuoted = true
		column, rest = indentation(strings.TrimPrefix(rest[1:], " "))
	}
	if s.until != "" && s.skip(rest, isQuoted) {
		return
	}
	if rest == "" {
		s.flush()
		s.blank = true
		return
	}
	wasBlank := s.blank
	s.blank = false
	if wasBlank && s.list > 0 && column < 2 && itemMarker(rest) == 0 {
		s.list = 0
	}
	if column >= s.list+4 && len(s.lines) == 0 {
		return // indented code
	}
	if s.opens(rest, isQuoted) || s.structure(column, rest) {
		return
	}
	if strings.HasPrefix(rest, "|") {
		s.flush() // a row that lost its table
		return
	}
	if len(s.lines) == 0 {
		s.kind = Paragraph
		if isQuoted {
			s.kind = Quote
			rest = trimAdmonition(rest)
		}
	}
	s.lines = append(s.lines, rest)
}

// skip drops a line of code, comment or HTML; it reports false when the line
// is no longer part of it.
func (s *scanner) skip(rest string, isQuoted bool) bool {
	if s.quoted && !isQuoted {
		s.until, s.quoted = "", false
		return false
	}
	ends := strings.Contains(strings.ToLower(rest), s.until)
	if s.until[0] == '`' || s.until[0] == '~' {
		ends = strings.HasPrefix(rest, s.until) && strings.Trim(rest, s.until[:1]) == ""
	}
	if ends {
		s.until, s.quoted = "", false
	}
	return true
}

// opens starts to skip at a code fence, a comment or an HTML block that is no
// prose.
func (s *scanner) opens(rest string, isQuoted bool) bool {
	if fence := leading(rest, "`~"); fence >= 3 && !strings.Contains(rest[fence:], "`") {
		s.flush()
		s.until, s.quoted = rest[:fence], isQuoted
		return true
	}
	if rest[0] != '<' {
		return false
	}
	low := strings.ToLower(rest)
	for _, pair := range [...][2]string{
		{"<!--", "-->"}, {"<pre", "</pre>"}, {"<script", "</script>"}, {"<style", "</style>"},
		{"<table", "</table>"}, {"<svg", "</svg>"},
	} {
		if strings.HasPrefix(low, pair[0]) {
			s.flush()
			if i := strings.Index(low, pair[1]); i < 0 {
				s.until, s.quoted = pair[1], isQuoted
			} else if after := strings.TrimSpace(rest[i+len(pair[1]):]); after != "" {
				s.line(after)
			}
			return true
		}
	}
	return false
}

// structure handles the lines that are not the text of a paragraph.
func (s *scanner) structure(column int, rest string) bool {
	if level := leading(rest, "#="); level > 0 && level <= 6 && len(rest) > level && rest[level] == ' ' {
		s.flush()
		s.heading(level, strings.TrimRight(rest[level:], rest[:1]+" "))
		return true
	}
	if only(rest, '=') || only(rest, '-') && len(rest) > 1 {
		if len(s.lines) == 1 && s.kind == Paragraph { // the line above is the heading
			text := s.lines[0]
			s.lines = nil
			s.heading(1+strings.Count(rest[:1], "-"), text)
		}
		s.flush()
		return true
	}
	if rule := strings.ReplaceAll(rest, " ", ""); len(rule) > 2 && (only(rule, '-') || only(rule, '*') || only(rule, '_')) {
		s.flush()
		return true
	}
	if n := itemMarker(rest); n > 0 && (len(s.lines) == 0 || s.kind == Item || rest[0] < '0' || rest[0] > '9' || rest[0] == '1') {
		s.flush()
		s.list, s.kind = column+n, Item
		if text := trimCheckbox(strings.TrimSpace(rest[n:])); text != "" && leading(text, "`~") < 3 {
			s.lines = append(s.lines, text)
		} else if fence := leading(text, "`~"); fence > 0 {
			s.until = text[:fence]
		}
		return true
	}
	return s.dropped(rest) || s.htmlLine(rest)
}

// dropped reports whether rest is a line without any prose: a link or footnote
// definition, a container fence, an import of MDX.
func (s *scanner) dropped(rest string) bool {
	if len(s.lines) > 0 {
		return false
	}
	if strings.HasPrefix(rest, "[") {
		if i := strings.Index(rest, "]:"); i > 0 && !strings.Contains(rest[:i], "](") {
			return true
		}
	}
	return strings.HasPrefix(rest, ":::") ||
		strings.HasPrefix(rest, "import ") && strings.Contains(rest, " from ")
}

// htmlLine handles a line that begins with a block-level tag: the tag ends the
// paragraph before it, and a heading element is a heading.
func (s *scanner) htmlLine(rest string) bool {
	name, _ := tagName(rest)
	switch name {
	case "h1", "h2", "h3", "h4", "h5", "h6":
		s.flush()
		s.heading(int(name[1]-'0'), rest)
		return true
	case "p", "div", "br", "hr", "details", "summary", "center", "ul", "ol", "li", "section", "blockquote":
		s.flush()
		s.kind = Paragraph
		s.lines = append(s.lines, rest)
		if strings.HasSuffix(rest, "</"+name+">") || strings.HasPrefix(rest, "</") {
			s.flush()
		}
		return true
	}
	return false
}

// flush closes the open paragraph.
func (s *scanner) flush() {
	if len(s.lines) == 0 {
		return
	}
	raw := strings.Join(s.lines, " ")
	s.lines = nil
	text := plain(raw)
	switch {
	case text == "":
	case s.kind == Paragraph && isTitle(raw, text):
		s.heading(6, text)
	default:
		s.blocks = append(s.blocks, Block{Kind: s.kind, Text: text})
	}
	s.kind = Paragraph
}

func (s *scanner) heading(level int, raw string) {
	text := strings.Trim(plain(trimAttributes(raw)), " #:")
	if text != "" {
		s.blocks = append(s.blocks, Block{Kind: Heading, Level: level, Text: text})
	}
}

// isTitle reports whether a whole paragraph serves as a heading: a short one in
// bold, or in capitals.
func isTitle(raw, text string) bool {
	if len(text) > 80 || strings.ContainsAny(text[len(text)-1:], ".!?;,") {
		return false
	}
	for _, mark := range [...]string{"**", "__"} {
		if strings.HasPrefix(raw, mark) && strings.HasSuffix(raw, mark) && strings.Count(raw, mark) == 2 {
			return true
		}
	}
	capitals := 0
	for _, r := range text {
		if unicode.IsLower(r) || unicode.IsLetter(r) && !unicode.IsUpper(r) {
			return false
		}
		if unicode.IsUpper(r) {
			capitals++
		}
	}
	return capitals > 3
}

// indentation splits a line into the column where its text begins and the text.
func indentation(line string) (column int, rest string) {
	for i := range len(line) {
		switch line[i] {
		case ' ':
			column++
		case '\t':
			column += 4 - column%4
		default:
			return column, line[i:]
		}
	}
	return column, ""
}

// itemMarker is the length of the list marker and the spaces that s begins
// with, or 0.
func itemMarker(s string) int {
	n := 0
	if strings.HasPrefix(s, "•") {
		n = len("•")
	} else if strings.ContainsAny(s[:1], "-*+") {
		n = 1
	} else {
		for n < len(s) && n < 9 && s[n] >= '0' && s[n] <= '9' {
			n++
		}
		if n == 0 || n == len(s) || s[n] != '.' && s[n] != ')' {
			return 0
		}
		n++
	}
	spaces := len(s[n:]) - len(strings.TrimLeft(s[n:], " \t"))
	if spaces == 0 && n < len(s) {
		return 0
	}
	return n + min(spaces, 4)
}

// leading counts how often the first byte of s repeats, if it is one of set.
func leading(s, set string) int {
	n := 0
	for n < len(s) && s[n] == s[0] && strings.IndexByte(set, s[0]) >= 0 {
		n++
	}
	return n
}

// only reports whether s consists of c.
func only(s string, c byte) bool { return s != "" && strings.Trim(s, string(c)) == "" }

// trimCheckbox drops the box of a task list item.
func trimCheckbox(s string) string {
	if len(s) > 3 && s[0] == '[' && s[2] == ']' && strings.IndexByte(" xX", s[1]) >= 0 {
		return strings.TrimSpace(s[3:])
	}
	return s
}

// trimAdmonition drops the "[!NOTE]" that some block quotes begin with.
func trimAdmonition(s string) string {
	if strings.HasPrefix(s, "[!") {
		if _, after, ok := strings.Cut(s, "]"); ok {
			return strings.TrimSpace(after)
		}
	}
	return s
}

// trimAttributes drops the "{#id}" behind a heading.
func trimAttributes(s string) string {
	if i := strings.LastIndex(s, "{"); i >= 0 && strings.HasSuffix(s, "}") && i+1 < len(s) && strings.IndexByte("#.:", s[i+1]) >= 0 {
		return s[:i]
	}
	return s
}
