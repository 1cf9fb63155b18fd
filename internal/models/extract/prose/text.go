package prose

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// textScanner reads text that is no Markdown: what stands between blank lines
// is a paragraph, a list item, a title or a row of records. Nothing is stripped
// from a line but the mark of a comment.
type textScanner struct {
	blocks []Block
	lines  []string // of the open group, without indentation
	kind   Kind
	column int // of the last line
	marked bool
}

// plainText returns the blocks of a text without markup.
func plainText(text string) []Block {
	var s textScanner
	lines := strings.Split(strings.TrimPrefix(text, "\ufeff"), "\n")
	for i, line := range lines {
		line = strings.TrimRight(line, " \t\r\f")
		column, rest := indentation(line)
		below := -1 // the column of the next line; -1 when it is blank
		if i+1 < len(lines) {
			if c, r := indentation(strings.TrimRight(lines[i+1], " \t\r")); r != "" {
				below = c
			}
		}
		s.line(column, rest, below)
	}
	s.flush()
	return s.blocks
}

func (s *textScanner) line(column int, rest string, below int) {
	bare, isMarked := trimMark(rest)
	if isMarked != s.marked {
		s.flush()
	}
	s.marked, rest = isMarked, strings.TrimSpace(bare)
	switch {
	case rest == "" || pageHead(rest) || isMarked && codeLine(rest) && !reads(rest):
		s.flush()
		return
	case len(rest) > 2 && strings.Trim(rest, rest[:1]) == "" && strings.Contains("=-~*_#+", rest[:1]):
		if len(s.lines) == 1 && s.kind == Paragraph && len(s.lines[0]) <= 80 {
			s.blocks = append(s.blocks, Block{Kind: Heading, Level: 1 + strings.Count("-~", rest[:1]), Text: s.lines[0]})
			s.lines = nil
		}
		s.flush()
		return
	case len(s.lines) == 0 && (below < 0 || below > column) && isTitle("", rest):
		s.blocks = append(s.blocks, Block{Kind: Heading, Level: 6, Text: rest})
		return
	case strings.HasPrefix(rest, "> "):
		if s.kind != Quote {
			s.flush()
		}
		s.kind, rest = Quote, strings.TrimSpace(strings.TrimLeft(rest, "> "))
	case itemMarker(rest) > 0 && itemMarker(rest) < len(rest):
		s.flush()
		s.kind, rest = Item, rest[itemMarker(rest):]
	case len(s.lines) > 0 && s.moves(column) && !continues(s.lines[len(s.lines)-1], rest):
		s.flush()
	}
	if rest = strings.TrimSpace(rest); rest != "" {
		s.lines, s.column = append(s.lines, rest), column
	}
}

// moves reports whether a line at a column begins another paragraph. The first
// line of a paragraph may stand further in than its others.
func (s *textScanner) moves(column int) bool {
	switch {
	case s.kind == Item && len(s.lines) == 1:
		return false
	case column >= s.column+3:
		return true
	}
	return s.column >= column+3 && (len(s.lines) > 1 || len(s.lines[0]) < 50)
}

// continues reports whether a sentence goes on from one line to the next.
func continues(line, next string) bool {
	switch line[strings.LastIndexAny(line, " \t")+1:] {
	case "the", "a", "an", "of", "to", "in", "for", "and", "or", "with", "by", "is", "are", "that":
		return true
	}
	last, _ := utf8.DecodeLastRuneInString(line)
	first, _ := utf8.DecodeRuneInString(next)
	return unicode.IsLower(first) && (unicode.IsLower(last) || last == ',')
}

func (s *textScanner) flush() {
	lines, kind := s.lines, s.kind
	s.lines, s.kind = nil, Paragraph
	if len(lines) == 0 {
		return
	}
	text := joinLines(lines)
	if reads(text) && !listing(lines) {
		s.blocks = append(s.blocks, Block{Kind: kind, Text: text})
		return
	}
	for _, line := range lines {
		if !codeLine(line) {
			s.blocks = append(s.blocks, Block{Kind: Record, Text: line})
		}
	}
}

// joinLines makes one line of the lines of a paragraph.
func joinLines(lines []string) string {
	var b strings.Builder
	for i, line := range lines {
		line = strings.Join(strings.Fields(line), " ")
		if base, ok := strings.CutSuffix(line, "\u2010"); ok && i+1 < len(lines) { // a hyphen of the typesetter
			b.WriteString(base)
			continue
		}
		b.WriteString(line)
		if i+1 < len(lines) && !strings.HasSuffix(line, "-") {
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// trimMark drops the mark that makes a line a comment of a configuration file.
func trimMark(line string) (string, bool) {
	for _, mark := range [...]string{"#", "//", ";", "%"} {
		if rest, ok := strings.CutPrefix(line, mark); ok {
			rest = strings.TrimLeft(rest, mark[:1])
			bare := strings.TrimLeft(rest, " \t")
			if mark == "#" {
				bare = strings.TrimLeft(rest, ">! \t")
			}
			if mark == "#" && bare != rest {
				bare = strings.TrimLeft(bare, "#>! \t")
			}
			if bare == "" || bare != rest || mark == "#" && codeLine(rest) {
				return bare, true
			}
		}
	}
	return line, false
}

// pageHead reports whether a line is the head or the foot of a manual page:
// "LS(1)   User Commands   LS(1)".
func pageHead(line string) bool {
	name := line[strings.LastIndexByte(line, ' ')+1:]
	open := strings.IndexByte(name, '(')
	return open > 0 && strings.HasSuffix(name, ")") && len(name)-open <= 6 && len(name) > open+2 && unicode.IsDigit(rune(name[open+1])) &&
		(strings.Contains(line, "   ") || strings.Contains(line, "\t") || strings.HasPrefix(line, name+" "))
}

// reads reports whether a text reads like prose in any language: most of what
// stands between its spaces is plain words.
func reads(s string) bool {
	plain, tokens := 0, 0
	code := false
	for w := range strings.FieldsSeq(s) {
		ticks := strings.Count(w, "`")
		if code || ticks > 0 {
			code = code != (ticks%2 == 1)
			continue
		}
		bare := strings.Trim(w, `"'“”‘’«»(),.;:!?…*_–—`)
		if bare == "" && strings.Trim(w, "–—") == "" || w == "-" || w == "&" || bare != "" && strings.Trim(bare, "0123456789.,%") == "" {
			continue
		}
		tokens++
		if plainWord(bare) {
			plain++
		}
	}
	if s == "" || strings.IndexByte(";{}", s[len(s)-1]) >= 0 {
		return false
	}
	return tokens > 0 && plain*10 >= tokens*7
}

// plainWord reports whether s consists of letters, or is of a script without spaces.
func plainWord(s string) bool {
	for i, r := range s {
		switch {
		case Wide(r):
			return true
		case unicode.IsLetter(r) || unicode.IsMark(r):
		case i == 0 || !strings.ContainsRune("'’-/", r):
			return false
		}
	}
	return s != ""
}

// listing reports whether lines are records of their own, which do not make a
// paragraph: of a log, a table or a list.
func listing(lines []string) bool {
	stamps, columns, ends, words := 0, 0, 0, 0
	for _, line := range lines {
		if stamped(line) {
			stamps++
		}
		if strings.Contains(line, "\t") || strings.Contains(line, "   ") || strings.Contains(line, " | ") {
			columns++
		}
		for w := range strings.FieldsSeq(line) {
			words++
			last, _ := utf8.DecodeLastRuneInString(strings.TrimRight(w, "\"'”’»)"))
			if unicode.Is(unicode.STerm, last) || last == ':' || Wide(last) {
				ends++
			}
		}
	}
	switch n := len(lines); {
	case stamps*2 > n:
		return true
	case n < 3:
		return false
	case ends*60 < words && words < 8*n && words > 12 && ends*4 < n, ends*100 < words && words > 100:
		return true
	default:
		return columns*2 > n
	}
}

// stamped reports whether a line begins as one of a log: with a time or a date,
// or with how grave it is.
func stamped(line string) bool {
	digit := func(c byte) bool { return c >= '0' && c <= '9' }
	head := line[:min(len(line), 40)]
	for i := 1; i+2 < len(head); i++ {
		if head[i] == ':' && digit(head[i-1]) && digit(head[i+1]) && digit(head[i+2]) ||
			i > 3 && head[i] == '-' && digit(head[i-4]) && digit(head[i-1]) && digit(head[i+1]) && digit(head[i+2]) {
			return true
		}
	}
	word, _, _ := strings.Cut(strings.TrimLeft(head, "[<"), " ")
	switch strings.TrimRight(word, "]>:") {
	case "TRACE", "DEBUG", "INFO", "NOTICE", "WARN", "WARNING", "ERROR", "FATAL", "CRITICAL":
		return true
	}
	return false
}

// codeLine reports whether a line is more likely a statement than a sentence.
func codeLine(line string) bool {
	line = strings.TrimSpace(line)
	if line == "" || strings.HasPrefix(line, `{"`) && strings.HasSuffix(line, "}") { // a record in JSON
		return false
	}
	if strings.IndexByte("{}[(;\\", line[len(line)-1]) >= 0 || strings.IndexByte("})|$<", line[0]) >= 0 {
		return true
	}
	switch last := line[strings.LastIndexByte(line, ' ')+1:]; last {
	case "then", "do", "fi", "done", "esac", "else", "endif", "end", "begin":
		return len(line) < 60 || last == "then" || last == "do"
	}
	for _, sign := range [...]string{" = ", "=>", "->", " == ", " != ", "&&", "||", "$(", "${", "();", "() ", "::=", ":=", "</", "/>", "#include", "#define", "#if", "#endif"} {
		if strings.Contains(line, sign) {
			return true
		}
	}
	n := 0
	for n < len(line) && (line[n] == '_' || line[n] == '.' || line[n] >= '0' && line[n] <= '9' || line[n]|0x20 >= 'a' && line[n]|0x20 <= 'z') {
		n++
	}
	return n > 0 && n < len(line) && (line[n] == '=' || line[n] == '(') // an assignment or a call
}

// looksLikeMarkdown reports whether a text has clear signs of Markdown.
func looksLikeMarkdown(text string) bool {
	if start := strings.ToLower(strings.TrimSpace(text[:min(len(text), 100)])); strings.HasPrefix(start, "<!doctype html") || strings.HasPrefix(start, "<html") {
		return true
	}
	headings, others, links := 0, 0, 0
	fences, blank := 0, true
	lines := strings.Split(text[:min(len(text), 64<<10)], "\n")
	for i, line := range lines {
		line = strings.TrimRight(line, " \t\r")
		level := 0
		if line != "" {
			level = leading(line, "#")
		}
		switch {
		case strings.HasPrefix(line, "```"):
			fences++
		case level > 0 && fences%2 == 0:
			isolated := (blank || i > 0 && leading(lines[i-1]+" ", "#") > 0) && (i+1 == len(lines) || !strings.HasPrefix(lines[i+1], "#"))
			if level <= 6 && len(line) > level+1 && line[level] == ' ' && isolated {
				headings++
			} else {
				others++
			}
		}
		links += strings.Count(line, "](") + strings.Count(line, "**")/2
		blank = line == ""
	}
	return others == 0 && (headings > 0 || fences > 1) || others*4 < headings || links > 2
}

// terminal drops what only a terminal understands: overstriking and colours.
func terminal(text string) string {
	if !strings.ContainsAny(text, "\b\x1b") {
		return text
	}
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\b':
			_, size := utf8.DecodeLastRune(out)
			out = out[:len(out)-size]
		case text[i] == 0x1b && i+1 < len(text) && text[i+1] == '[':
			for i += 2; i < len(text) && (text[i] < '@' || text[i] > '~'); {
				i++
			}
		default:
			out = append(out, text[i])
		}
	}
	return string(out)
}
