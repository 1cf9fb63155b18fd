package prose

import (
	"html"
	"strings"
	"unicode"
	"unicode/utf8"
)

// plain strips inline Markdown and HTML from a paragraph: a link is its text, a
// picture and a footnote mark are nothing, emphasis is what it emphasises. Code
// spans stay, with their backticks. The time is linear in the length of s.
func plain(s string) string {
	if !strings.ContainsAny(s, "\\`![]<*_~&:") {
		return strings.Join(strings.Fields(s), " ")
	}
	p := stripper{s: s, pair: brackets(s)}
	p.strip(0, len(s))
	return tidy(html.UnescapeString(p.out.String()))
}

// tidy collapses white space, also before punctuation where a picture or a
// mark went away, but not in code.
func tidy(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if !strings.Contains(s, " .") && !strings.Contains(s, " ,") && !strings.Contains(s, "( ") && !strings.Contains(s, " )") {
		return s
	}
	var b strings.Builder
	code := false
	for i := range len(s) {
		if s[i] == '`' {
			code = !code
		}
		if s[i] == ' ' && !code && i > 0 && i+1 < len(s) {
			ends := i+2 == len(s) || s[i+2] == ' '
			if s[i-1] == '(' || s[i+1] == ')' || ends && (s[i+1] == '.' || s[i+1] == ',') {
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

type stripper struct {
	s    string
	pair []int32 // for an opening bracket where its partner is, else 0
	out  strings.Builder
	dead [33]bool // no closing run of that many backticks is left
	deep int      // how many links the text is inside of
}

// brackets pairs the square and round brackets of s in one pass.
func brackets(s string) []int32 {
	pair := make([]int32, len(s))
	var square, round []int32
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '[':
			square = append(square, int32(i))
		case '(':
			round = append(round, int32(i))
		case ']':
			square = closeBracket(pair, square, i)
		case ')':
			round = closeBracket(pair, round, i)
		}
	}
	return pair
}

func closeBracket(pair, open []int32, i int) []int32 {
	if len(open) == 0 {
		return open
	}
	pair[open[len(open)-1]] = int32(i)
	return open[:len(open)-1]
}

// strip writes s[from:to] without markup.
func (p *stripper) strip(from, to int) {
	for i := from; i < to; {
		i += p.next(i, to)
	}
}

// next handles what begins at i and returns its length.
func (p *stripper) next(i, to int) int {
	s := p.s[i:to]
	switch s[0] {
	case '\\':
		if len(s) > 1 && unicode.IsPunct(rune(s[1])) {
			p.out.WriteByte(s[1])
			return 2
		}
	case '`':
		return p.code(s)
	case '!':
		if len(s) > 1 && s[1] == '[' {
			if end := p.target(i+1, to); end > i+1 {
				return end - i
			}
		}
	case '[':
		if n := p.link(i, to); n > 0 {
			return n
		}
	case '<':
		if n := p.tag(s, i); n > 0 {
			return n
		}
	case '*', '_', '~':
		return p.emphasis(i, to)
	case ':':
		if n := shortcode(s); n > 0 && !p.wordBefore(i) {
			return n
		}
	}
	_, size := utf8.DecodeRuneInString(s)
	p.out.WriteString(s[:size])
	return size
}

// code writes a code span as `text`, whatever fence it had.
func (p *stripper) code(s string) int {
	n := leading(s, "`")
	if n < len(p.dead) && !p.dead[n] {
		for at := n; at < len(s); {
			next := strings.IndexByte(s[at:], '`')
			if next < 0 {
				break
			}
			at += next
			run := leading(s[at:], "`")
			if run == n {
				p.out.WriteString("`" + html.EscapeString(strings.TrimSpace(s[n:at])) + "`")
				return at + run
			}
			at += run
		}
		p.dead[n] = true
	}
	p.out.WriteString(s[:n])
	return n
}

// link writes the text of a link that begins at i; 0 when it is none.
func (p *stripper) link(i, to int) int {
	end := p.target(i, to)
	if end == 0 || p.deep > 4 {
		return 0
	}
	inner := p.s[i+1 : p.pair[i]]
	bare := end == int(p.pair[i])+1
	switch {
	case strings.HasPrefix(inner, "^"), bare && strings.Trim(inner, "0123456789") == "" && inner != "": // a footnote mark
		return end - i
	case bare && (p.wordBefore(i) || strings.TrimSpace(inner) == ""): // an index, a box
		return 0
	}
	p.deep++
	p.strip(i+1, int(p.pair[i]))
	p.deep--
	return end - i
}

// target is the end of the link or picture whose text begins at i, with its
// address or label; 0 when the bracket is not closed.
func (p *stripper) target(i, to int) int {
	end := int(p.pair[i]) + 1
	if end == 1 || end > to {
		return 0
	}
	if end < to && (p.s[end] == '(' || p.s[end] == '[') {
		if far := int(p.pair[end]) + 1; far > 1 && far <= min(to, end+2000) {
			return far
		}
	}
	return end
}

// tag drops an HTML tag or writes the address of an autolink.
func (p *stripper) tag(s string, i int) int {
	if strings.HasPrefix(s, "<!--") {
		if end := strings.Index(s[:min(len(s), 4000)], "-->"); end > 0 {
			return end + 3
		}
		return 0
	}
	end := strings.IndexByte(s[:min(len(s), 1000)], '>')
	if end < 0 {
		return 0
	}
	if inner := s[1:end]; strings.Contains(inner, "://") && !strings.ContainsAny(inner, " \"=") {
		p.out.WriteString(inner)
		return end + 1
	}
	name, closing := tagName(s)
	if !htmlTag(name) || !closing && p.wordBefore(i) && len(name) == 1 {
		return 0
	}
	if name == "br" || name == "li" || name == "p" {
		p.out.WriteByte(' ')
	}
	return end + 1
}

// emphasis drops a run of * _ or ~ where it marks something and keeps it where
// it is a sign of its own.
func (p *stripper) emphasis(i, to int) int {
	n := leading(p.s[i:to], "*_~")
	mark := p.s[i]
	before, _ := utf8.DecodeLastRuneInString(p.s[:i])
	after, _ := utf8.DecodeRuneInString(p.s[i+n:])
	left, right := i == 0 || unicode.IsSpace(before), i+n == len(p.s) || unicode.IsSpace(after)
	inWord := isWord(before) && isWord(after)
	keep := left && right || mark == '_' && inWord || mark == '~' && n != 2
	if keep {
		p.out.WriteString(p.s[i : i+n])
	}
	return n
}

// wordBefore reports whether a letter or digit stands directly before i.
func (p *stripper) wordBefore(i int) bool {
	r, _ := utf8.DecodeLastRuneInString(p.s[:i])
	return isWord(r)
}

func isWord(r rune) bool {
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r))
}

// shortcode is the length of an emoji written as :name:, or 0.
func shortcode(s string) int {
	end := strings.IndexByte(s[1:min(len(s), 34)], ':')
	if end < 2 {
		return 0
	}
	for _, c := range []byte(s[1 : end+1]) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' && c != '+' {
			return 0
		}
	}
	if strings.Trim(s[1:end+1], "0123456789") == "" { // a time such as 12:30:00
		return 0
	}
	return end + 2
}

// tagName is the name of the HTML tag that s begins with, in lower case.
func tagName(s string) (name string, closing bool) {
	if !strings.HasPrefix(s, "<") {
		return "", false
	}
	s, closing = strings.CutPrefix(s[1:], "/")
	n := 0
	for n < len(s) && n < 12 && (s[n]|0x20 >= 'a' && s[n]|0x20 <= 'z' || n > 0 && s[n] >= '0' && s[n] <= '9') {
		n++
	}
	if n == len(s) || strings.IndexByte(" />\t", s[n]) < 0 {
		return "", closing
	}
	return strings.ToLower(s[:n]), closing
}

// htmlTag tells the tags of HTML from placeholders such as <path>.
func htmlTag(name string) bool {
	const known = " a abbr b big blockquote br center cite code dd del details div dl dt em font h1 h2 h3 h4 h5 h6 hr i iframe img" +
		" input ins kbd li mark ol p picture q s samp section small source span strike strong sub summary sup tt u ul var video "
	return name != "" && strings.Contains(known, " "+name+" ")
}
