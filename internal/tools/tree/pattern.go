package tree

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
)

const (
	maxPattern = 4096 // bytes
	maxNeedles = 8
)

// Pattern finds the lines that match a regular expression. If every match must contain one of a
// few texts, it searches the whole buffer for those texts, which is ten times faster, and runs
// the expression only on their lines. Else it runs the expression on every line.
type Pattern struct {
	re      *regexp.Regexp
	needles []needle // nil if none are known
	exact   bool     // every line that contains the needle matches
}

// needle is a text that every match contains. With fold set, text is lower-case ASCII and is
// searched without regard to case.
type needle struct {
	text string
	fold bool
}

// Compile compiles a regular expression in the syntax of RE2.
func Compile(pattern string, ignoreCase bool) (*Pattern, error) {
	if len(pattern) > maxPattern {
		return nil, fmt.Errorf("pattern is longer than %d bytes", maxPattern)
	}
	if ignoreCase {
		pattern = "(?i)" + pattern
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		why := err
		if se, ok := errors.AsType[*syntax.Error](err); ok {
			why = fmt.Errorf("%s: %s", se.Code, se.Expr)
		}
		return nil, fmt.Errorf("pattern is no RE2 expression (no look-around, no back-references): %w", why)
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, err
	}
	p := &Pattern{re: re, needles: required(parsed)}
	p.exact = len(p.needles) == 1 && parsed.Op == syntax.OpLiteral && !p.needles[0].fold
	if slices.ContainsFunc(p.needles, func(n needle) bool { return strings.Contains(n.text, "\n") }) {
		return nil, errors.New("pattern contains a newline: a match lies within one line")
	}
	return p, nil
}

// required returns texts of which every match of re contains at least one, or nil if it knows
// none.
func required(re *syntax.Regexp) []needle {
	switch re.Op {
	case syntax.OpLiteral:
		return literal(re)
	case syntax.OpCapture, syntax.OpPlus:
		return required(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return required(re.Sub[0])
		}
	case syntax.OpConcat:
		var best []needle
		for _, sub := range re.Sub {
			if n := required(sub); weight(n) > weight(best) {
				best = n
			}
		}
		return best
	case syntax.OpAlternate:
		var all []needle
		for _, sub := range re.Sub {
			n := required(sub)
			if n == nil || len(all)+len(n) > maxNeedles {
				return nil
			}
			all = append(all, n...)
		}
		return all
	}
	return nil
}

// weight rates how selective needles are: by the shortest.
func weight(needles []needle) int {
	w := 0
	for i, n := range needles {
		if i == 0 || len(n.text) < w {
			w = len(n.text)
		}
	}
	return w
}

// literal returns the needle of a literal expression. If case is ignored, it is the longest part
// without k and s, which have non-ASCII variants.
func literal(re *syntax.Regexp) []needle {
	text := string(re.Rune)
	if re.Flags&syntax.FoldCase == 0 {
		return []needle{{text: text}}
	}
	best := ""
	folds := func(r rune) bool { return r > '~' || r == 'k' || r == 's' }
	for part := range strings.FieldsFuncSeq(strings.ToLower(text), folds) {
		if len(part) > len(best) {
			best = part
		}
	}
	if best == "" {
		return nil
	}
	return []needle{{text: best, fold: true}}
}

// Index returns where the first match in line begins and ends, or nil.
func (p *Pattern) Index(line []byte) []int { return p.re.FindIndex(line) }

// lines calls yield for each line of buf that matches, without its newline.
func (p *Pattern) lines(buf []byte, yield func(start, end int)) {
	cursors := make([]cursor, len(p.needles))
	for i, n := range p.needles {
		cursors[i] = newCursor(n)
	}
	for pos := 0; pos < len(buf); {
		start := pos
		if len(cursors) > 0 {
			hit := len(buf)
			for i := range cursors {
				hit = min(hit, cursors[i].next(buf, pos))
			}
			if hit == len(buf) {
				return
			}
			start = pos + bytes.LastIndexByte(buf[pos:hit], '\n') + 1
			pos = hit
		}
		end := len(buf)
		if i := bytes.IndexByte(buf[pos:], '\n'); i >= 0 {
			end = pos + i
		}
		if p.exact || p.re.Match(buf[start:end]) {
			yield(start, end)
		}
		pos = end + 1
	}
}

// cursor steps through a buffer from one occurrence of a needle to the next.
type cursor struct {
	needle
	at           int // the next place; -1 at the start
	rare         int // index of the rarest letter of a folded needle
	lower, upper int // the next places of that letter in both cases
}

func newCursor(n needle) cursor {
	const common = "etaoinrlhdcumfpgwybv_. " // roughly, the most common first
	c := cursor{needle: n, at: -1, lower: -1, upper: -1}
	rank := func(i int) int {
		if r := strings.IndexByte(common, n.text[i]); r >= 0 {
			return r
		}
		return len(common)
	}
	for i := range n.text {
		if rank(i) > rank(c.rare) {
			c.rare = i
		}
	}
	return c
}

// next returns the index of the first occurrence of the needle in buf at or after from, or the
// length of buf. from must not decrease between calls.
func (c *cursor) next(buf []byte, from int) int {
	if c.at >= from {
		return c.at
	}
	if c.fold {
		c.at = c.nextFold(buf, from)
	} else {
		c.at = indexFrom(buf, c.text, from)
	}
	return c.at
}

func (c *cursor) nextFold(buf []byte, from int) int {
	letter := c.text[c.rare : c.rare+1]
	for from+len(c.text) <= len(buf) {
		if p := from + c.rare; c.lower < p {
			c.lower = indexFrom(buf, letter, p)
		}
		if p := from + c.rare; c.upper < p {
			c.upper = indexFrom(buf, strings.ToUpper(letter), p)
		}
		start := min(c.lower, c.upper) - c.rare
		if start+len(c.text) > len(buf) {
			break
		}
		if equalFold(buf[start:start+len(c.text)], c.text) {
			return start
		}
		from = start + 1
	}
	return len(buf)
}

func indexFrom(buf []byte, text string, from int) int {
	if i := bytes.Index(buf[from:], []byte(text)); i >= 0 {
		return from + i
	}
	return len(buf)
}

// equalFold reports whether b equals lower, a lower-case ASCII text, ignoring case.
func equalFold(b []byte, lower string) bool {
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}
