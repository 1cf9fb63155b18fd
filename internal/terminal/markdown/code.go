package markdown

import "strings"

// code is code of several lines that has begun.
type code struct {
	mark   byte   // of the fence; 0 for code that is only indented
	long   int    // how many marks the fence has
	indent int    // columns before the fence, in the text
	depth  int    // of the quote
	margin string // before each line
	begun  bool   // a part of the current line was shown
	empty  int    // empty lines that are due, of code that is indented
	lexer  lexer
}

// openCode begins code, with a fence of n marks or, if n is 0, with the current line.
func (r *Renderer) openCode(n int) {
	first, others := r.margins()
	if r.mark != "" { // code right in an item
		r.startRow()
		r.out.WriteString(strings.TrimRight(first, " ") + "\n")
	}
	r.code = &code{indent: r.lead, depth: r.depth, long: n, margin: others + "  ", begun: n == 0}
	if r.width >= 40 {
		r.code.margin += "  "
	}
	if n == 0 {
		r.startRow()
		r.out.WriteString(r.code.margin)
		return
	}
	r.code.mark = r.rest[0]
	info := r.rest[n:min(len(r.rest), n+maxInfo)]
	info, _, _ = strings.Cut(strings.TrimSpace(info), " ")
	r.code.lexer = newLexer(info)
}

// inCode shows the current line, or the next part of it, as code. It returns false if the code ends before the line.
func (r *Renderer) inCode(whole bool) (shown bool) {
	c := r.code
	n := len(r.rest)
	if !whole && n < maxRow {
		return true
	}
	if n > maxRow { // more of it comes
		for n = maxRow; r.rest[n]&0xc0 == 0x80; n-- {
		}
		whole = false
	}
	line := r.rest[:n]
	if !c.begun {
		var ends, goesOn bool
		if line, ends, goesOn = c.line(line, whole); !goesOn {
			if r.code, r.text = nil, false; ends {
				r.skip()
			}
			r.gap, r.bars = r.gap || c.empty > 0, 0
			return ends
		}
		if c.mark == 0 && line == "" && whole {
			c.empty++
			r.skip()
			return true
		}
		for ; c.empty > 0; c.empty-- {
			r.out.WriteString("\n")
		}
		r.startRow()
		if line != "" {
			r.out.WriteString(c.margin)
		}
	}
	c.begun = !whole
	for _, p := range c.lexer.line(expand(line), whole) {
		write(&r.out, p.text, p.style.when(r.coloured))
	}
	if r.rest = r.rest[n:]; whole {
		r.out.WriteByte('\n')
		r.skip()
	}
	return r.rest == ""
}

// line returns a line of the text without what comes before the code. ends says that the line is the end of the code,
// goesOn that it is a part of it.
func (c *code) line(s string, whole bool) (line string, ends, goesOn bool) {
	for range c.depth {
		if trimmed := strings.TrimLeft(s, " "); strings.HasPrefix(trimmed, ">") {
			s = strings.TrimPrefix(trimmed[1:], " ")
		} else {
			return "", false, false
		}
	}
	text := strings.TrimSpace(s)
	if c.mark == 0 {
		space := expand(s[:len(s)-len(strings.TrimLeft(s, " \t"))])
		switch {
		case text == "":
			return "", false, true
		case len(space) < 4:
			return "", false, false
		}
		return space[4:] + strings.TrimLeft(s, " \t"), false, true
	}
	if whole && text != "" && text[0] == c.mark && run(text) == len(text) && len(text) >= c.long {
		return "", true, false
	}
	for n := c.indent; n > 0 && strings.HasPrefix(s, " "); n-- {
		s = s[1:]
	}
	return s, false, true
}

// expand replaces tabs with spaces.
func expand(s string) string {
	if !strings.Contains(s, "\t") {
		return s
	}
	var b strings.Builder
	column := 0
	for _, r := range s {
		if r == '\t' {
			n := 4 - column%4
			b.WriteString("    "[:n])
			column += n
			continue
		}
		b.WriteRune(r)
		column++
	}
	return b.String()
}
