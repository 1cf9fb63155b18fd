package prose

import (
	"path"
	"strings"
)

// comments says how a family of programming languages writes them.
type comments struct {
	line  string // begins one that lasts to the end of the line
	open  string // begins one of several lines
	close string
}

// language returns how comments look in the file of that name, and false for
// files that are prose.
func language(name string) (comments, bool) {
	ext := strings.ToLower(path.Ext(name))
	if ext == "" || strings.HasPrefix(path.Base(name), ".") {
		ext = strings.ToLower(path.Base(name))
	}
	const (
		slashes = " .go .c .h .cc .cpp .hpp .cxx .java .js .mjs .cjs .jsx .ts .tsx .rs .swift .kt .kts .scala .cs .php .dart .proto .css" +
			" .scss .less .zig .m .mm .v .groovy .gradle .sol "
		hashes = " .sh .bash .zsh .fish .rb .pl .pm .r .yaml .yml .toml .cfg .conf .ini .env .tf .nix .jl .ex .exs .cmake .mk makefile" +
			" dockerfile .gitignore .dockerignore .ps1 go.mod .mod "
		dashes = " .sql .lua .hs .elm .ada .vhdl "
		semis  = " .lisp .el .clj .cljs .scm .asm .s "
	)
	ext = " " + ext + " "
	switch {
	case strings.Contains(slashes, ext):
		return comments{"//", "/*", "*/"}, true
	case ext == " .py " || ext == " .pyi ":
		return comments{"#", `"""`, `"""`}, true
	case strings.Contains(hashes, ext):
		return comments{line: "#"}, true
	case strings.Contains(dashes, ext):
		return comments{line: "--"}, true
	case strings.Contains(semis, ext):
		return comments{line: ";"}, true
	}
	return comments{}, false
}

// looksLikeCode guesses whether a text is source code, and which comments it
// has: by the share of its lines that look like statements.
func looksLikeCode(text string) (comments, bool) {
	if line, _, _ := strings.Cut(text, "\n"); strings.HasPrefix(line, "#!") {
		return comments{line: "#"}, true
	}
	lines, code := 0, 0
	marks := map[string]int{}
	for line := range strings.Lines(text[:min(len(text), 64<<10)]) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "```") {
			return comments{}, false // Markdown
		}
		if line == "" || strings.HasPrefix(line, "* ") {
			continue
		}
		mark := ""
		for _, m := range [...]string{"//", "/*", "# ", "##", "-- ", ";;", "; ", "% "} {
			if strings.HasPrefix(line+" ", m) {
				mark = m[:1]
			}
		}
		if marks[mark]++; mark != "" {
			continue
		}
		lines++
		if codeLine(line) {
			code++
		}
	}
	if lines < 5 || code*3 < lines {
		return comments{}, false
	}
	best := comments{"//", "/*", "*/"}
	for _, c := range [...]comments{{line: "#"}, {line: "--"}, {line: ";"}, {line: "%"}} {
		if marks[c.line[:1]] > marks[best.line[:1]] {
			best = c
		}
	}
	return best, true
}

// sourceScanner reads a program line by line.
type sourceScanner struct {
	comments
	blocks []Block
	open   []string // lines of the open comment
	inside bool     // a comment of several lines goes on
	column int      // where it begins
	within bool     // the open comment stands inside of a function
	above  string   // the last declaration, where comments stand below theirs
}

// source returns the comments of a program as blocks, each under the
// declaration that it explains.
func source(text string, c comments) []Block {
	s := sourceScanner{comments: c}
	for raw := range strings.Lines(text) {
		line := strings.TrimRight(raw, " \t\r\n")
		comment, ok := s.comment(line)
		switch {
		case ok && codeLine(comment) && !reads(comment): // commented out
			s.open = append(s.open, "")
		case ok && !directive(comment):
			s.open = append(s.open, comment)
		case ok:
		case strings.TrimSpace(line) == "":
			s.flush("")
		default:
			s.flush(declared(line))
		}
	}
	s.flush("")
	return s.blocks
}

// comment returns the text of a line that belongs to a comment.
func (s *sourceScanner) comment(line string) (text string, ok bool) {
	if s.inside {
		text, s.inside = s.body(line, s.column)
		return text, true
	}
	text, ok, s.inside = s.begins(line)
	s.column = len(line) - len(strings.TrimLeft(line, " \t"))
	if ok {
		s.within = s.column > 0 && !s.inside && s.comments.open != s.close
	}
	return text, ok
}

// flush closes the open comment; the line behind it may be a declaration.
func (s *sourceScanner) flush(declaration string) {
	blocks := Markdown(strings.Join(s.open, "\n"))
	if boilerplate(s.open) {
		blocks = nil
	}
	s.open = nil
	if s.comments.open == s.close { // the comment stands below its declaration
		declaration, s.above = s.above, declaration
	}
	if declaration != "" && (len(blocks) > 0 || len(s.blocks) == 0) {
		s.blocks = append(s.blocks, Block{Kind: Heading, Level: 2, Text: declaration})
	}
	for _, b := range blocks {
		if b.Kind == Heading {
			b.Level = min(b.Level+2, 6)
		} else if !reads(b.Text) { // code that is commented out
			continue
		}
		if s.within && declaration == "" && b.Kind == Paragraph {
			b.Kind = Quote
		}
		s.blocks = append(s.blocks, b)
	}
}

// begins returns the comment that a line consists of, and whether it goes on.
func (c comments) begins(line string) (comment string, ok, inside bool) {
	text := strings.TrimSpace(line)
	if strings.HasPrefix(text, c.line) && !strings.HasPrefix(text, "#!") {
		text = strings.TrimLeft(text[len(c.line):], "/!#-;")
		return strings.TrimPrefix(text, " "), true, false
	}
	if c.open == "" || !strings.HasPrefix(text, c.open) {
		return "", false, false
	}
	text, inside = c.body(strings.TrimLeft(text[len(c.open):], "*!"), 0)
	return strings.TrimSpace(text), true, inside
}

// body returns the text of a line inside a comment of several lines, which
// begins at a column. Deeper indentation stays: it marks code.
func (c comments) body(line string, column int) (comment string, inside bool) {
	line, _, ended := strings.Cut(line, c.close)
	text := strings.TrimSpace(line)
	if star, ok := strings.CutPrefix(text, "*"); ok {
		return strings.TrimPrefix(star, " "), !ended
	}
	indent := len(line) - len(strings.TrimLeft(line, " \t"))
	return line[min(indent, column):], !ended
}

// directive reports whether a comment speaks to a tool.
func directive(s string) bool {
	word, _, _ := strings.Cut(s, " ")
	return strings.Contains(word, ":") && len(word) > 3 && !strings.HasSuffix(word, ":") ||
		strings.HasPrefix(s, "+build") || strings.HasPrefix(s, "-*-") || strings.HasPrefix(s, "nolint") ||
		strings.HasPrefix(s, "eslint") || strings.HasPrefix(s, "@ts-") || strings.HasPrefix(s, "pylint")
}

// boilerplate reports whether a comment is a licence or generated, and says
// nothing about the program.
func boilerplate(lines []string) bool {
	for _, line := range lines[:min(len(lines), 6)] {
		for _, sign := range [...]string{"Copyright", "SPDX-", "Licensed under", "DO NOT EDIT", "@license"} {
			if strings.Contains(line, sign) {
				return true
			}
		}
	}
	return false
}

// declared returns the name of what a line of a program declares, or "".
func declared(line string) string {
	line = strings.TrimSpace(line)
	for _, word := range [...]string{"export ", "default ", "pub ", "public ", "private ", "protected ", "static ", "abstract ", "final ", "async "} {
		line = strings.TrimPrefix(line, word)
	}
	for _, word := range [...]string{"package ", "func ", "type ", "class ", "def ", "fn ", "struct ", "enum ", "trait ", "interface ", "function ", "module ", "message ", "service "} {
		rest, ok := strings.CutPrefix(line, word)
		if !ok {
			continue
		}
		if strings.HasPrefix(rest, "(") { // the receiver of a method
			_, rest, _ = strings.Cut(rest, ")")
			rest = strings.TrimSpace(rest)
		}
		if n := wordLen(rest); n > 0 {
			return word + rest[:n]
		}
	}
	return ""
}
