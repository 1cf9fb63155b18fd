package shell

import "unicode/utf8"

const (
	// maxLine is how many characters of a line can still be overwritten.
	maxLine = 8 << 10
	// maxString bounds an escape sequence that carries a text or an image, in characters. A
	// longer one has lost its end: the text that follows is shown again.
	maxString = 64 << 10
	// maxCount bounds the numbers in an escape sequence.
	maxCount = 1 << 16
)

// printer converts terminal output to plain text: lines of printable characters and tabs, in
// valid UTF-8. It replaces an invalid byte by U+FFFD. Within a line it acts as a terminal does:
// carriage return, backspace, erasing, moving the cursor. A move to another line starts a new
// line. It drops all other control characters and escape sequences, unfinished ones too.
//
// The result does not depend on how the input is split into pieces. To convert the result once
// more does not change it.
type printer struct {
	emit func(text []byte) // gets whole characters; text is valid until it returns

	in     []byte // not yet decoded
	out    []byte // not yet emitted
	line   []rune // the line so far
	at     int    // where the next character goes, at most len(line)
	edited bool   // something on the line was overwritten

	parse  func(p *printer, r rune) // what the next character is part of
	count  int                      // first number of the sequence
	fixed  bool                     // count is complete
	length int                      // of a string so far
	titled bool                     // the string may also end with the line, or with BEL
}

// write processes a piece of the input.
func (p *printer) write(piece []byte) {
	p.in = append(p.in, piece...)
	n := p.decode(p.in, false)
	p.in = append(p.in[:0], p.in[n:]...)
	p.flush()
}

// close processes the rest at the end of the input.
func (p *printer) close() {
	p.decode(p.in, true)
	p.in = nil
	p.putLine()
	p.flush()
}

func (p *printer) flush() {
	if len(p.out) > 0 {
		p.emit(p.out)
		p.out = p.out[:0]
	}
}

// decode processes the characters of input and returns how many bytes it used: all, except an
// incomplete character at the end unless final is set.
func (p *printer) decode(input []byte, final bool) (n int) {
	for n < len(input) {
		r, size := rune(input[n]), 1
		if r >= utf8.RuneSelf {
			if !final && !utf8.FullRune(input[n:]) {
				break
			}
			r, size = utf8.DecodeRune(input[n:])
		}
		n += size
		switch {
		case p.parse != nil:
			p.parse(p, r)
		case r >= ' ' && r < 0x7f || r > 0x9f:
			p.put(r)
		default:
			p.control(r)
		}
	}
	return n
}

// put writes a character at the cursor.
func (p *printer) put(r rune) {
	if p.at < len(p.line) {
		p.line[p.at], p.edited = r, true
		p.at++
		return
	}
	if len(p.line) == maxLine {
		p.putLine()
	}
	p.line = append(p.line, r)
	p.at++
}

// putLine emits the line without a newline, and starts an empty one.
func (p *printer) putLine() {
	if p.edited { // what was erased are spaces now
		for len(p.line) > 0 && p.line[len(p.line)-1] == ' ' {
			p.line = p.line[:len(p.line)-1]
		}
	}
	for _, r := range p.line {
		p.out = utf8.AppendRune(p.out, r)
	}
	p.line, p.at, p.edited = p.line[:0], 0, false
}

func (p *printer) newLine() {
	p.putLine()
	p.out = append(p.out, '\n')
}

// leaveLine starts a new line after a move of the cursor to another one.
func (p *printer) leaveLine() {
	if len(p.line) > 0 {
		p.newLine()
	}
}

const escape = 0x1b

// control obeys a control character. Those above 127 start escape sequences on some terminals. In
// output of programs they come from text decoded twice, so only the end of a line is obeyed.
func (p *printer) control(r rune) {
	switch {
	case r == '\n', r == '\v', r == '\f', r == 0x85:
		p.newLine()
	case r == '\r':
		p.at = 0
	case r == '\b':
		p.at = max(p.at-1, 0)
	case r == '\t':
		p.put(r)
	case r == escape:
		p.parse = (*printer).afterEscape
	}
}

// again ends an escape sequence that breaks off before r, and processes r as a character of its own.
func (p *printer) again(r rune) {
	p.parse = nil
	if isControl(r) {
		p.control(r)
		return
	}
	p.put(r)
}

func isControl(r rune) bool { return r < ' ' || r >= 0x7f && r <= 0x9f }

// nothing reports whether terminals ignore r everywhere.
func nothing(r rune) bool { return r == 0 || r == 0x7f }

func (p *printer) afterEscape(r rune) {
	switch {
	case nothing(r):
	case r == '[':
		p.parse, p.count, p.fixed = (*printer).inSequence, 0, false
	case r == ']', r == 'k', r == 'P', r == 'X', r == '^', r == '_':
		p.parse, p.length, p.titled = (*printer).inString, 0, r == ']' || r == 'k'
	case r >= ' ' && r <= '/':
		p.parse = (*printer).afterIntermediate
	case r == 'D', r == 'E', r == 'M':
		p.parse = nil
		p.leaveLine()
	case r >= '0' && r <= '~':
		p.parse = nil
	default:
		p.again(r)
	}
}

// afterIntermediate reads the rest of a sequence that selects a character set.
func (p *printer) afterIntermediate(r rune) {
	switch {
	case nothing(r), r >= ' ' && r <= '/':
	case r >= '0' && r <= '~':
		p.parse = nil
	default:
		p.again(r)
	}
}

// inSequence reads a control sequence, which began with ESC [.
func (p *printer) inSequence(r rune) {
	switch {
	case nothing(r):
	case r >= '0' && r <= '9':
		if !p.fixed {
			p.count = min(10*p.count+int(r-'0'), maxCount)
		}
	case r >= ' ' && r <= '?':
		p.fixed = true
	case r >= '@' && r <= '~':
		p.parse = nil
		p.obey(r)
	default:
		p.again(r)
	}
}

// obey executes a control sequence, of which letter is the last character. Sequences that do not affect the current
// line are ignored.
func (p *printer) obey(letter rune) {
	n := max(p.count, 1)
	switch letter {
	case 'A', 'B', 'E', 'F', 'H', 'd', 'f':
		p.leaveLine()
	case 'C':
		if p.at+n > len(p.line) { // columns that nobody wrote to: one stands for all
			p.at = len(p.line)
			p.put(' ')
			return
		}
		p.at += n
	case 'D':
		p.at = max(p.at-n, 0)
	case 'G':
		p.at = min(n-1, len(p.line))
	case 'J', 'K':
		p.erase(letter == 'K')
	}
}

// erase clears the line after the cursor, before it, or all of it, as p.count says (0, 1, 2). With line false the
// sequence would erase the screen; then only 0 has an effect.
func (p *printer) erase(line bool) {
	switch {
	case p.count == 0:
		p.edited = p.edited || p.at < len(p.line)
		p.line = p.line[:p.at]
	case line && p.count <= 2:
		blank := p.line[:min(p.at+1, len(p.line))]
		if p.count == 2 {
			p.line = p.line[:p.at]
			blank = p.line
		}
		for i := range blank {
			blank[i] = ' '
		}
		p.edited = true
	}
}

// inString reads a text for the terminal itself, such as a title or an image, and drops it.
func (p *printer) inString(r rune) {
	p.length++
	switch {
	case r == escape:
		p.parse = (*printer).afterEscape // \ follows, or another sequence begins
	case r == 0x18, r == 0x1a, // which cancel a sequence
		r == 0x9c, p.titled && r == '\a':
		p.parse = nil
	case p.titled && r == '\n':
		p.again(r)
	case p.length == maxString:
		p.parse = nil
	}
}
