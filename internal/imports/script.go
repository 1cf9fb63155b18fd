package imports

import (
	"slices"
	"strconv"
	"strings"
)

// kind is what a token of JavaScript is.
type kind uint8

const (
	word  kind = iota // a name or a keyword
	text              // a string, or a template without values
	value             // a number, a regular expression, or a template with values
	sign              // any other character
)

// jsToken is one token. The text of a string is its value.
type jsToken struct {
	kind kind
	text string
}

func (t jsToken) is(sign string) bool { return t.kind != text && t.text == sign }

// scriptImports returns the names of the modules that a file of JavaScript or TypeScript imports. ok is false if a
// comment or a template does not end.
func scriptImports(source []byte) (names []string, ok bool) {
	s := jsScanner{text: strings.TrimPrefix(string(source), mark), fails: map[byte]int{}}
	tokens := s.all()
	at := func(i int) jsToken {
		if i < 0 || i >= len(tokens) {
			return jsToken{kind: sign}
		}
		return tokens[i]
	}
	for i, t := range tokens {
		if t.kind != word || at(i-1).is(".") {
			continue
		}
		name := -1
		switch t.text {
		case "import":
			switch next := at(i + 1); {
			case next.kind == text:
				name = i + 1
			case next.is("("):
				name = argument(at, i+1)
			case !next.is("."):
				name = clause(at, i+1)
			}
		case "export":
			if next := at(i + 1); next.is("*") || next.is("{") || next.is("type") {
				name = clause(at, i+1)
			}
		case "require":
			if at(i + 1).is("(") {
				name = argument(at, i+1)
			} else if at(i+1).is(".") && at(i+2).is("resolve") && at(i+3).is("(") {
				name = argument(at, i+3)
			}
		}
		if name >= 0 {
			names = append(names, at(name).text)
		}
	}
	return names, !s.broken
}

// argument returns the index of the string that is the first argument of a call, whose parenthesis is at i; -1 if it is
// no plain string.
func argument(at func(int) jsToken, i int) int {
	if at(i+1).kind == text && (at(i+2).is(")") || at(i+2).is(",")) {
		return i + 1
	}
	return -1
}

// clause returns the index of the module's name behind the names that are imported or exported, which begin at i; -1 if
// there is none. The next statement that imports or exports ends the search.
func clause(at func(int) jsToken, i int) int {
	for ; ; i++ {
		switch t := at(i); {
		case t.is("import"), t.is("export"):
			return -1
		case t.is("from") && at(i+1).kind == text:
			return i + 1
		case t.kind == word, t.kind == text, t.is("{"), t.is("}"), t.is(","), t.is("*"):
		default:
			return -1
		}
	}
}

// jsScanner splits a file into tokens. It does not know the syntax of JSX: text between tags is split as code. A quote
// there that does not end on its line is no string.
type jsScanner struct {
	text   string
	at     int
	tokens []jsToken
	// open are the braces that are open: true for one of a template.
	open   []bool
	broken bool // a comment or a template does not end
	// fails has, for a quote and a slash, the end of the line on which one begins nothing: another one is not tried
	// there, so that the time stays linear.
	fails map[byte]int
}

func (s *jsScanner) add(k kind, text string) { s.tokens = append(s.tokens, jsToken{k, text}) }

// all returns the tokens of the file.
func (s *jsScanner) all() []jsToken {
	if strings.HasPrefix(s.text, "#!") {
		s.at = lineEnd(s.text)
	}
	for s.at < len(s.text) {
		c, rest := s.text[s.at], s.text[s.at:]
		switch {
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
			s.at++
		case strings.HasPrefix(rest, "//"):
			s.at += lineEnd(rest)
		case strings.HasPrefix(rest, "/*"):
			end := strings.Index(rest[2:], "*/")
			if end < 0 {
				s.broken = true
				return s.tokens
			}
			s.at += end + 4
		case c == '\'' || c == '"':
			s.str(c)
		case c == '`':
			s.at++
			s.template(true)
		case c == '/' && s.beginsValue() && s.regex():
		case isNameByte(c) || c == '$':
			s.name()
		default:
			s.sign(c)
		}
	}
	s.broken = s.broken || slices.Contains(s.open, true)
	return s.tokens
}

// sign adds a character that is a token. A brace may end the value of a template.
func (s *jsScanner) sign(c byte) {
	s.at++
	switch c {
	case '{':
		s.open = append(s.open, false)
	case '}':
		if n := len(s.open) - 1; n >= 0 {
			ofTemplate := s.open[n]
			if s.open = s.open[:n]; ofTemplate {
				s.template(false)
				return
			}
		}
	}
	s.add(sign, s.text[s.at-1:s.at])
}

// name adds a name, a keyword or a number.
func (s *jsScanner) name() {
	begin := s.at
	for s.at < len(s.text) && (isNameByte(s.text[s.at]) || s.text[s.at] == '$') {
		s.at++
	}
	k, name := word, s.text[begin:s.at]
	if '0' <= name[0] && name[0] <= '9' {
		k = value
	}
	s.add(k, name)
}

// str adds a string, or its quote if it does not end on its line.
func (s *jsScanner) str(quote byte) {
	if s.at < s.fails[quote] {
		s.sign(quote)
		return
	}
	i := s.at + 1
	for ; i < len(s.text) && s.text[i] != '\n'; i++ {
		switch s.text[i] {
		case '\\':
			i++ // a line may end behind it
		case quote:
			s.add(text, unescape(s.text[s.at+1:i]))
			s.at = i + 1
			return
		}
	}
	s.fails[quote] = i
	s.sign(quote)
}

// template reads a template up to its end, or to a value in it. begins says that it is the first part.
func (s *jsScanner) template(begins bool) {
	for i := s.at; i < len(s.text); i++ {
		switch {
		case s.text[i] == '\\':
			i++
		case s.text[i] == '`':
			if begins {
				s.add(text, unescape(s.text[s.at:i]))
			} else {
				s.add(value, "")
			}
			s.at = i + 1
			return
		case strings.HasPrefix(s.text[i:], "${"):
			s.open = append(s.open, true)
			s.add(sign, "${")
			s.at = i + 2
			return
		}
	}
	s.broken, s.at = true, len(s.text)
}

// regex adds a regular expression, and reports whether there is one: it ends on its line.
func (s *jsScanner) regex() bool {
	class, i := false, s.at+1
	if s.at < s.fails['/'] {
		return false
	}
	for ; i < len(s.text) && s.text[i] != '\n'; i++ {
		switch s.text[i] {
		case '\\':
			i++
		case '[':
			class = true
		case ']':
			class = false
		case '/':
			if !class {
				s.add(value, "")
				s.at = i + 1
				return true
			}
		}
	}
	s.fails['/'] = i
	return false
}

// beginsValue reports whether a slash that is next begins a regular expression, and divides nothing.
func (s *jsScanner) beginsValue() bool {
	if len(s.tokens) == 0 {
		return true
	}
	switch last := s.tokens[len(s.tokens)-1]; last.kind {
	case word:
		switch last.text {
		case "return", "typeof", "case", "in", "of", "delete", "void", "instanceof", "new", "do", "else", "yield",
			"await", "throw":
			return true
		}
		return false
	case text, value:
		return false
	default:
		return last.text != ")" && last.text != "]" && last.text != "}"
	}
}

// unescape returns the value of a string. An escape that is not valid is what follows its backslash.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		if hex, rest, ok := strings.Cut(strings.TrimPrefix(s, `\u{`), "}"); ok && strings.HasPrefix(s, `\u{`) {
			n, _ := strconv.ParseUint(hex, 16, 31)
			b.WriteRune(rune(n))
			s = rest
			continue
		}
		r, _, rest, err := strconv.UnquoteChar(s, 0)
		if err != nil {
			rest = s[1:]
			if s[0] != '\\' {
				b.WriteByte(s[0])
			}
		} else {
			b.WriteRune(r)
		}
		s = rest
	}
	return b.String()
}
