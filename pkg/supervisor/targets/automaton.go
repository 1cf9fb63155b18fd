package targets

import (
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// inst is one instruction of the automaton of a target.
type inst struct {
	op   op
	set  []rune // of class: pairs, first and last character of each range
	r    rune   // of char
	x, y int32  // of split: both are followed
	not  bool   // of class: characters that are in no range
}

type op uint8

const (
	match op = iota // the end
	char            // the character r
	class           // a character of set, but no /
	one             // any character but /
	every           // any character
	split           // no character
)

// program appends to in the automaton of the paths of t without their first from bytes. ok is false
// if the text of t is no glob, or one that is too hard.
func program(in []inst, t Target, from int) (prog []inst, ok bool) {
	c := compiler{prog: in, fold: t.fold, plain: t.plain}
	if t.kind == glob {
		if c.sequence(t.text, from, 0) < 0 {
			return in, false
		}
	} else {
		for _, r := range t.text[min(from, len(t.text)):] {
			c.emit(inst{op: char, r: r})
		}
	}
	switch t.kind {
	case folder:
		c.below()
	case loose:
		c.repeat(func() { c.emit(inst{op: every}) })
	}
	c.emit(inst{op: match})
	return c.prog, true
}

type compiler struct {
	prog        []inst
	fold, plain bool // see Target
}

func (c *compiler) emit(i inst) { c.prog = append(c.prog, i) }

// repeat emits what body emits, any number of times.
func (c *compiler) repeat(body func()) {
	start := int32(len(c.prog))
	c.emit(inst{op: split, x: start + 1})
	body()
	c.jump(start)
	c.prog[start].y = int32(len(c.prog))
}

func (c *compiler) jump(to int32) { c.emit(inst{op: split, x: to, y: to}) }

// name emits a name: one character or more, but no /.
func (c *compiler) name() {
	c.emit(inst{op: one})
	c.repeat(func() { c.emit(inst{op: one}) })
}

// below emits any number of names, each after a /.
func (c *compiler) below() {
	c.repeat(func() {
		c.emit(inst{op: char, r: '/'})
		c.name()
	})
}

// sequence emits the glob s from i on. It returns where the glob ends: at the end of s or, with depth > 0, at
// the comma or the brace after it. Like the methods below it returns -1 if s is no glob, or one that is too hard.
func (c *compiler) sequence(s string, i, depth int) int {
	for i >= 0 && i < len(s) {
		switch b := s[i]; {
		case c.plain && strings.IndexByte(spelled+"}", b) >= 0:
			i = c.char(s, i)
		case depth > 0 && (b == ',' || b == '}'):
			return i
		case b == '}':
			return -1
		case b == '*':
			i = c.stars(s, i, depth)
		case b == '[':
			i = c.class(s, i+1)
		case b == '{':
			i = c.braces(s, i+1, depth+1)
		case b == '?':
			c.emit(inst{op: one})
			i++
		case b == '/' && len(s) > i+2 && strings.Trim(s[i+1:], "*") == "": // the last of a/**
			c.below()
			return len(s)
		default:
			i = c.char(s, i)
		}
	}
	return i
}

// char emits the character of s at i, or the one after a backslash.
func (c *compiler) char(s string, i int) int {
	if s[i] == '\\' && !c.plain {
		if i++; i == len(s) {
			return -1
		}
	}
	r, n := utf8.DecodeRuneInString(s[i:])
	c.emit(inst{op: char, r: r})
	return i + n
}

// stars emits the stars of s at i.
func (c *compiler) stars(s string, i, depth int) int {
	before, start := byte('/'), i
	if i > 0 {
		before = s[i-1]
	}
	for i < len(s) && s[i] == '*' {
		i++
	}
	after := byte('/')
	if i < len(s) {
		after = s[i]
	}
	whole := before == '/' && after == '/' // all of a name
	switch {
	case i-start > 1 && (depth > 0 || before == '}' || after == '{') && !c.plain:
		return -1 // it depends on the alternative whether it is a whole name
	case i-start > 1 && whole && i < len(s):
		c.repeat(func() {
			c.name()
			c.emit(inst{op: char, r: '/'})
		})
		return i + 1
	case whole && depth == 0:
		c.name()
	default:
		c.repeat(func() { c.emit(inst{op: one}) })
	}
	return i
}

// class emits the class of s whose [ is before i.
func (c *compiler) class(s string, i int) int {
	in := inst{op: class}
	if i < len(s) && (s[i] == '!' || s[i] == '^') {
		in.not = true
		i++
	}
	for first := i; i < len(s) && (s[i] != ']' || i == first); {
		low, next := classChar(s, i)
		high := low
		if next > 0 && next+1 < len(s) && s[next] == '-' && s[next+1] != ']' {
			high, next = classChar(s, next+1)
		}
		if next < 0 || low == '/' || high < low {
			return -1
		}
		in.set = append(in.set, low, high)
		i = next
	}
	if i >= len(s) {
		return -1
	}
	if c.fold { // a range of characters is another one in the other case
		in = inst{op: one}
	}
	c.emit(in)
	return i + 1
}

// classChar returns the character of a class at i, and where the next one is.
func classChar(s string, i int) (rune, int) {
	if s[i] == '\\' {
		i++
	}
	r, n := utf8.DecodeRuneInString(s[i:])
	if n == 0 {
		return 0, -1
	}
	return r, i + n
}

// braces emits the alternatives of s whose { is before i.
func (c *compiler) braces(s string, i, depth int) int {
	var ends []int
	for {
		start := len(c.prog)
		c.emit(inst{op: split, x: int32(start + 1)})
		if i = c.sequence(s, i, depth); i < 0 || i == len(s) {
			return -1
		}
		ends = append(ends, len(c.prog))
		c.emit(inst{op: split})
		last := s[i] == '}'
		c.prog[start].y = int32(len(c.prog))
		if i++; last {
			c.prog[start].y = int32(start + 1) // there is no other alternative
			break
		}
	}
	for _, at := range ends {
		c.prog[at].x, c.prog[at].y = int32(len(c.prog)), int32(len(c.prog))
	}
	return i
}

// scratch is the memory of one comparison. It is used again for the next one.
type scratch struct {
	a, b []inst
	seen []uint64   // pairs of states, a bit for each
	todo [][2]int32 // pairs that are still to be followed
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// push adds a pair of states, unless it was added before.
func (s *scratch) push(x, y int32) {
	at := int(x)*len(s.b) + int(y)
	if bit := uint64(1) << (at % 64); s.seen[at/64]&bit == 0 {
		s.seen[at/64] |= bit
		s.todo = append(s.todo, [2]int32{x, y})
	}
}

// intersect reports whether some path is in x and in y. Both begin with the same n bytes. It follows all
// pairs of states that the two automata can be in at once, as long as the budget lasts.
func (w *Budget) intersect(x, y Target, n int) bool {
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	var okX, okY bool
	s.a, okX = program(s.a[:0], x, n)
	s.b, okY = program(s.b[:0], y, n)
	if !okX || !okY || !w.take(len(s.a)+len(s.b)) {
		return true
	}
	words := (len(s.a)*len(s.b) + 63) / 64
	s.seen = slices.Grow(s.seen[:0], words)[:words]
	clear(s.seen)
	s.todo = append(s.todo[:0], [2]int32{})
	steps := 0
	for ; len(s.todo) > 0; steps++ {
		x, y := s.todo[len(s.todo)-1][0], s.todo[len(s.todo)-1][1]
		s.todo = s.todo[:len(s.todo)-1]
		switch p, q := &s.a[x], &s.b[y]; {
		case p.op == split:
			s.push(p.x, y)
			s.push(p.y, y)
		case q.op == split:
			s.push(x, q.x)
			s.push(x, q.y)
		case p.op == match || q.op == match:
			if p.op == q.op {
				w.take(steps)
				return true
			}
		case common(p, q):
			s.push(x+1, y+1)
		}
	}
	return !w.take(steps)
}

// common reports whether a character is in both p and q.
func common(p, q *inst) bool {
	if p.op > q.op {
		p, q = q, p
	}
	switch {
	case p.op == char:
		return q.has(p.r)
	case p.op != class || q.op != class:
		return true
	}
	// If there is one, then so is one at the edge of a range.
	for _, edges := range [...][]rune{p.set, q.set} {
		for _, r := range edges {
			for d := rune(-1); d <= 1; d++ {
				if p.has(r+d) && q.has(r+d) {
					return true
				}
			}
		}
	}
	return false
}

func (i *inst) has(r rune) bool {
	switch i.op {
	case char:
		return i.r == r
	case one:
		return r != '/'
	case class:
		if r == '/' || r < 0 || r > utf8.MaxRune {
			return false
		}
		for k := 0; k < len(i.set); k += 2 {
			if i.set[k] <= r && r <= i.set[k+1] {
				return !i.not
			}
		}
		return i.not
	}
	return i.op == every
}
