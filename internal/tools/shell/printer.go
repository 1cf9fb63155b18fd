package shell

import "unicode/utf8"

const (
	// maxLine is how many characters of a line can still be overwritten.
	maxLine = 8 << 10
	// maxString is how many characters a sequence may have that carries a text or
	// a picture. When it has more, its end was lost: what follows is shown.
	maxString = 64 << 10
	// maxCount bounds the numbers in a sequence.
	maxCount = 1 << 16
)

// printer makes text of what programs send to a terminal. It gives out lines of
// printable characters, tabs and ends of lines, in valid UTF-8: a byte that is
// not UTF-8 becomes a U+FFFD. On one line it does what a terminal does: carriage
// return, backspace, erasing, moving the cursor. What moves the cursor to
// another line begins a new one. All other control characters and sequences are
// dropped, also those that are cut or never end.
//
// The result does not depend on how the input is cut into pieces, and printing
// it again changes nothing.
type printer struct {
	emit func(text []byte) // gets whole characters; text is valid until it returns

	in     []byte // not yet decoded
	out    []byte // not yet emitted
	line   []rune // the line so far
	at     int    // where the next character goes, at most len(line)
	edited bool   // something on the line was overwritten

	parse  func(p *printer, r rune) // what the next character is part of
	count  int                      // first number of a sequence
	fixed  bool                     // count is complete
	length int                      // of a string so far
	titled bool                     // the string is one that ends with a line, or BEL
}

// write prints a piece of the input.
func (p *printer) write(piece []byte) {
	p.in = append(p.in, piece...)
	n := p.decode(p.in, false)
	p.in = append(p.in[:0], p.in[n:]...)
	p.flush()
}

// close prints what is left at the end of the input.
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

// decode prints the characters of input, and returns how many bytes they are:
// all but the beginning of a character at the end, unless the input is final.
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

// put puts a character where the cursor is.
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

// putLine gives out the line, without its end.
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

// leaveLine is for what moves the cursor to another line.
func (p *printer) leaveLine() {
	if len(p.line) > 0 {
		p.newLine()
	}
}

const escape = 0x1b

// control obeys a control character. Those from 128 on are sequences to some
// terminals; in what programs print they come from text that was decoded twice,
// and none but the end of a line is obeyed.
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

// again ends a sequence at a character that is no part of it.
func (p *printer) again(r rune) {
	p.parse = nil
	if isControl(r) {
		p.control(r)
		return
	}
	p.put(r)
}

func isControl(r rune) bool { return r < ' ' || r >= 0x7f && r <= 0x9f }

// nothing reports whether a terminal takes no notice of r, wherever it stands.
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

// afterIntermediate reads the rest of what chooses a character set and the like.
func (p *printer) afterIntermediate(r rune) {
	switch {
	case nothing(r), r >= ' ' && r <= '/':
	case r >= '0' && r <= '~':
		p.parse = nil
	default:
		p.again(r)
	}
}

// inSequence reads a sequence that began with ESC [.
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

// obey executes the sequences that concern the line.
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

// erase clears the line from the cursor on, up to it, or all of it. Of a whole
// screen only the first is about the line.
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

// inString reads a text for the terminal itself: a title, a picture.
func (p *printer) inString(r rune) {
	p.length++
	switch {
	case r == escape:
		p.parse = (*printer).afterEscape // with the \ that ends a string, or another sequence
	case r == 0x18, r == 0x1a, // which cancel a sequence
		r == 0x9c, p.titled && r == '\a':
		p.parse = nil
	case p.titled && r == '\n':
		p.again(r)
	case p.length == maxString:
		p.parse = nil
	}
}
