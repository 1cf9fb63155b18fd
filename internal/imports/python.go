package imports

import (
	"path"
	"slices"
	"strings"
)

// pyImport is one module that a file of Python imports.
type pyImport struct {
	level int      // dots in front of it: 0 for an absolute one
	parts []string // of its name
	names []string // what is imported from it, but for *
}

// pyKeys returns the files that i may mean in file. An absolute name is looked for in each folder above file, and in
// the folders src there: which of them is on the path is not known.
func (p *project) pyKeys(file string, i pyImport) (keys []string) {
	dir := path.Dir(file)
	if i.level > 0 {
		for range i.level - 1 {
			if dir == "." {
				return nil // above the tree
			}
			dir = path.Dir(dir)
		}
		return p.pyFiles(nil, dir, i)
	}
	for ; ; dir = path.Dir(dir) {
		keys = p.pyFiles(keys, dir, i)
		keys = p.pyFiles(keys, path.Join(dir, "src"), i)
		if dir == "." {
			return keys
		}
	}
}

// pyFiles appends the files below dir that the import runs: its module, those of the packages around it, and the
// modules that it takes from it.
func (p *project) pyFiles(keys []string, dir string, i pyImport) []string {
	add := func(files ...string) {
		for _, f := range files {
			if p.has[f] {
				keys = append(keys, f)
			}
		}
	}
	if len(i.parts) == 0 || i.level > 0 {
		add(path.Join(dir, "__init__.py"), path.Join(dir, "__init__.pyi"))
	}
	for k, part := range i.parts {
		dir = path.Join(dir, part)
		add(path.Join(dir, "__init__.py"), path.Join(dir, "__init__.pyi"))
		if k == len(i.parts)-1 {
			add(dir+".py", dir+".pyi")
		}
	}
	for _, name := range i.names {
		sub := path.Join(dir, name)
		add(sub+".py", sub+".pyi", path.Join(sub, "__init__.py"), path.Join(sub, "__init__.pyi"))
	}
	return keys
}

// pyImports returns the imports of a file. ok is false if a string or a bracket does not end.
func pyImports(text []byte) (all []pyImport, ok bool) {
	s := pyScanner{text: strings.TrimPrefix(string(text), mark)}
	start := true // of a statement
	for {
		t := s.next()
		switch {
		case t == "":
			return all, !s.broken && s.depth == 0
		case start && t == "import":
			all = s.imports(all)
		case start && t == "from":
			all = s.from(all)
		}
		start = s.depth == 0 && (s.last == "\n" || s.last == ";" || s.last == ":")
	}
}

// imports reads what follows the word import: names with commas, and what they are called here.
func (s *pyScanner) imports(all []pyImport) []pyImport {
	for {
		i := pyImport{}
		t := s.next()
		if i.parts, t = s.dotted(t); len(i.parts) == 0 {
			return all
		}
		all = append(all, i)
		if t == "as" {
			s.next()
			t = s.next()
		}
		if t != "," {
			return all
		}
	}
}

// from reads what follows the word from.
func (s *pyScanner) from(all []pyImport) []pyImport {
	i := pyImport{}
	t := s.next()
	for ; t == "."; t = s.next() {
		i.level++
	}
	if i.parts, t = s.dotted(t); t != "import" || i.level == 0 && len(i.parts) == 0 {
		return all
	}
	for {
		t = s.next()
		if t == "(" || t == "," {
			continue
		}
		if t == "as" {
			s.next()
			continue
		}
		if t != "*" && !isName(t) {
			return append(all, i)
		}
		if t != "*" {
			i.names = append(i.names, t)
		}
	}
}

// dotted reads a name with dots that begins with the token t. It returns its parts and the token behind it.
func (s *pyScanner) dotted(t string) (parts []string, next string) {
	for isName(t) && t != "import" {
		parts = append(parts, t)
		if t = s.next(); t != "." {
			return parts, t
		}
		t = s.next()
	}
	return parts, t
}

// pyScanner splits a file of Python into tokens: names, single characters, "\n" at the end of a logical line, and `"`
// for any string.
type pyScanner struct {
	text   string
	at     int
	depth  int    // of brackets
	last   string // token
	broken bool   // a string does not end
}

// next returns the next token, and "" at the end.
func (s *pyScanner) next() string {
	s.last = s.scan()
	return s.last
}

func (s *pyScanner) scan() string {
	for s.at < len(s.text) {
		c := s.text[s.at]
		switch {
		case c == '\\':
			s.at++
			if strings.HasPrefix(s.text[s.at:], "\r\n") {
				s.at++
			}
			s.at++
		case c == '#':
			s.at += lineEnd(s.text[s.at:])
		case c == '\n':
			s.at++
			if s.depth == 0 {
				return "\n"
			}
		case c == ' ' || c == '\t' || c == '\r' || c == '\f':
			s.at++
		case c == '"' || c == '\'':
			s.str(false)
			return `"`
		case isNameByte(c):
			return s.word()
		default:
			s.at++
			switch c {
			case '(', '[', '{':
				s.depth++
			case ')', ']', '}':
				s.depth = max(s.depth-1, 0)
			}
			return s.text[s.at-1 : s.at]
		}
	}
	s.at = len(s.text)
	return ""
}

// word reads a name, a number, or a string that has a prefix.
func (s *pyScanner) word() string {
	begin := s.at
	for s.at < len(s.text) && isNameByte(s.text[s.at]) {
		s.at++
	}
	word := s.text[begin:s.at]
	if s.at < len(s.text) && (s.text[s.at] == '"' || s.text[s.at] == '\'') && len(word) <= 2 {
		if prefix := strings.ToLower(word); strings.Trim(prefix, "rbuft") == "" {
			s.str(strings.ContainsAny(prefix, "ft"))
			return `"`
		}
	}
	return word
}

// str reads a string. Between the braces of a formatted one is code, which may have strings of its own.
func (s *pyScanner) str(formatted bool) {
	quote := s.text[s.at : s.at+1]
	if strings.HasPrefix(s.text[s.at:], strings.Repeat(quote, 3)) {
		quote = strings.Repeat(quote, 3)
	}
	s.at += len(quote)
	for s.at < len(s.text) {
		switch c := s.text[s.at]; {
		case c == '\\':
			s.at += 2
		case strings.HasPrefix(s.text[s.at:], quote):
			s.at += len(quote)
			return
		case c == '\n' && len(quote) == 1:
			s.broken = true
			return
		case formatted && strings.HasPrefix(s.text[s.at:], "{{"):
			s.at += 2
		case formatted && c == '{':
			s.at++
			s.field(len(quote) == 3)
		default:
			s.at++
		}
	}
	s.broken, s.at = true, len(s.text)
}

// field reads the code of a formatted string up to the brace that ends it, or to the end of the line of a string that
// has one. Behind a colon is a format, in which quotes are characters.
func (s *pyScanner) field(lines bool) {
	open, format := 1, 0 // braces and brackets, and the depth at which a format began
	for s.at < len(s.text) {
		switch c := s.text[s.at]; {
		case c == '\n' && !lines:
			return // str says that it is broken
		case (c == '"' || c == '\'') && format == 0:
			if s.depth++; s.depth > maxNested {
				s.broken, s.at = true, len(s.text)
				return
			}
			before := s.at
			s.str(before > 0 && strings.ContainsRune("fFtT", rune(s.text[before-1])))
			s.depth--
			continue
		case c == '{' || c == '(' || c == '[':
			open++
			if c == '{' && format > 0 {
				s.at++
				s.nested(lines)
				open--
				continue
			}
		case c == '}' || c == ')' || c == ']':
			if open--; open == 0 {
				s.at++
				return
			}
		case c == ':' && open == 1 && format == 0:
			format = 1
		}
		s.at++
	}
}

// nested reads a field within the format of another one.
func (s *pyScanner) nested(lines bool) {
	if s.depth++; s.depth > maxNested {
		s.broken, s.at = true, len(s.text)
		return
	}
	s.field(lines)
	s.depth--
}

// mark is the byte order mark that a text may begin with.
const mark = "\ufeff"

// maxNested is how deep strings and brackets may be nested, where a level takes a call.
const maxNested = 200

// lineEnd returns the length of the first line of text without its end.
func lineEnd(text string) int {
	if i := strings.IndexByte(text, '\n'); i >= 0 {
		return i
	}
	return len(text)
}

// isNameByte reports whether c may be in a name, at any place.
func isNameByte(c byte) bool {
	return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c >= 0x80
}

// isName reports whether a token is a name.
func isName(t string) bool {
	return t != "" && isNameByte(t[0]) && (t[0] < '0' || t[0] > '9') && !slices.Contains([]string{"as", "from"}, t)
}
