package longtext

import (
	"math"
	"strings"
)

// Part is a piece of a text.
type Part struct {
	// Title is the path of headings above the part, such as "Guide > Install", or
	// "Guide > Install … Deploy" for a part with several sections.
	Title string
	// First and Last are the numbers of its lines, from 1. Two parts share a line if that
	// line was cut.
	First, Last int
	Text        string
	Tokens      int // estimated number of tokens
}

// rank says how good a place is to cut a text; lower is better. The ranks 1 to 6 are places
// before a heading of that level.
type rank uint8

const (
	rankBlock     rank = iota + 7 // after a blank line
	rankInner                     // after a blank line and before an indented one: in a function or list
	rankLine                      // after a line; the ranks from here on cut what belongs together
	rankCodeBlock                 // after a blank line in a code fence
	rankCode                      // after a line in a code fence
	rankHeading                   // between a heading and its text
	rankSentence
	rankWord
	rankCharacter
)

// mark is a place where a text can be cut.
type mark struct {
	at   int // offset in bytes; in a list of summaries, the number of summaries before it
	rank rank
	code bool // the text after it is partly in a code fence
	sum  int  // estimated number of tokens of the text before it
}

// Cut cuts text into parts of at most room tokens, along its structure: preferably before
// headings, the higher the better, else after blank lines, lines, sentences or words, and
// as a last resort between characters. Adjacent sections share a part if they fit, parts
// have about the same size, and a code fence or a line stays whole if it fits. The parts
// joined are the text, byte for byte. Only a part of a single character may have more than
// room tokens. An empty text has no parts.
//
// The time is linear in the length of text: tokens is normally called with each piece
// twice, once for the piece alone and once for the part that contains it.
func Cut(text string, room int, tokens func(string) int) []Part {
	if text == "" {
		return nil
	}
	c := cutter{text: text, room: max(room, 1), tokens: tokens}
	c.grain = max(c.room/16, 8)
	c.find()
	marks := c.measured()
	var parts []Part
	pack(marks, c.room, func(i, j int) int {
		return tokens(text[marks[i].at:marks[j].at])
	}, func(i, j, n int) {
		parts = append(parts, Part{Text: text[marks[i].at:marks[j].at], Tokens: n})
	})
	locate(text, parts)
	return parts
}

// cutter finds and measures the places where a text can be cut.
type cutter struct {
	text   string
	room   int
	tokens func(string) int
	grain  int    // smallest distance between two places in bytes; closer places are merged, to keep them few
	found  []mark // places between lines, not measured
	out    []mark // all places, measured
}

// find collects in c.found the places between the lines of the text, with their ranks.
func (c *cutter) find() {
	c.found = []mark{{}}
	lines := newLineScanner(c.text)
	gap, under := false, false // the line before is blank, or a heading
	for {
		l, ok := lines.next()
		if !ok {
			return
		}
		if l.kind == blank {
			gap = true
			continue
		}
		r, code := rankLine, l.kind == fenced || l.kind == fenceClose
		switch {
		case l.kind == underline || l.kind == fenceClose:
			r = rankCharacter
		case code && gap:
			r = rankCodeBlock
		case code:
			r = rankCode
		case l.kind == heading && !under:
			r = rank(l.level)
		case l.kind == heading:
			r = rankBlock
		case under:
			r = rankHeading
		case gap && isSpace(c.text[l.start]):
			r = rankInner
		case gap:
			r = rankBlock
		}
		c.offer(mark{at: l.start, rank: r, code: code})
		gap, under = false, l.kind == heading || l.kind == underline
	}
}

// offer adds the place m to c.found, unless m would cut what must stay together
// (rankCharacter). Of two places that are closer than c.grain it keeps the better one.
func (c *cutter) offer(m mark) {
	last := &c.found[len(c.found)-1]
	switch {
	case m.at-last.at >= c.grain:
		if m.rank < rankCharacter {
			c.found = append(c.found, m)
		}
	case m.rank < last.rank: // so last is not the first
		c.found[len(c.found)-2].code = c.found[len(c.found)-2].code || last.code
		*last = m
	default:
		last.code = last.code || m.code
	}
}

// measured returns the found places with their token sums. It adds places where the found
// ones are far apart. The last mark is the end of the text.
func (c *cutter) measured() []mark {
	c.out = make([]mark, 0, len(c.found)+1)
	total := 0
	longest := max(4*c.grain, 64)
	for i, m := range c.found {
		end := len(c.text)
		if i+1 < len(c.found) {
			end = c.found[i+1].at
		}
		for end-m.at > longest {
			at, r := breakIn(c.text[m.at:end], c.grain, longest)
			total = c.add(m, m.at+at, total)
			m.at, m.rank = m.at+at, within(r, m.code)
		}
		total = c.add(m, end, total)
	}
	return append(c.out, mark{at: len(c.text), sum: total})
}

// within returns the rank of a place that would have the rank r outside of a code fence.
// code tells that the place is in one.
func within(r rank, code bool) rank {
	if code && r == rankLine {
		return rankCode
	}
	return r
}

// add appends m to c.out, with total as its token sum, and returns total plus the tokens of
// the text from m to end. If that text is more than a quarter of the room, add cuts it into
// smaller pieces, each with a mark of its own.
func (c *cutter) add(m mark, end, total int) int {
	s := c.text[m.at:end]
	n := min(max(c.tokens(s), 1), math.MaxInt32) // at least one, so that no part has more pieces than room
	if n > c.room/4 && n > 1 && len(s) > 1 {
		if at, r := breakIn(s, max(len(s)/4, 1), max(len(s)*3/4, 1)); at > 0 {
			total = c.add(m, m.at+at, total)
			return c.add(mark{at: m.at + at, rank: within(r, m.code), code: m.code}, end, total)
		}
	}
	m.sum = total
	c.out = append(c.out, m)
	return total + n
}

// pack groups the text between marks into runs of at most room tokens. It calls emit for
// each run, in order, with the marks i and j at its ends and its exact size. The sums of
// the marks are only estimates, so size measures each run exactly. A run between adjacent
// marks may exceed the room.
func pack(marks []mark, room int, size func(i, j int) int, emit func(i, j, tokens int)) {
	for s := 0; s < len(marks)-1; {
		limit, e := room, len(marks)
		for {
			next := choose(marks, s, limit)
			if next >= e { // the sums did not help: halve it
				next = s + max((e-s)/2, 1)
			}
			e = next
			n := size(s, e)
			if n <= room || e == s+1 {
				emit(s, e, n)
				break
			}
			sum := marks[e].sum - marks[s].sum
			limit = int(min(float64(sum-1), float64(sum)*float64(room)/float64(n)))
		}
		s = e
	}
}

// choose returns the mark where the run that begins at mark s should end. It divides the
// rest of the text into as few runs as possible, of equal size and at most limit tokens. It
// takes the best place near the end of the first run, but none that would leave a small
// last run.
func choose(marks []mark, s, limit int) int {
	end, limit := len(marks)-1, max(limit, 1)
	rest := marks[end].sum - marks[s].sum
	if rest <= limit {
		return end
	}
	aim := rest / ((rest + limit - 1) / limit)
	low, high := aim/2, min(limit, rest-aim/2)
	best, before, after, last := 0, 0, 0, s+1
	for e := s + 1; e < end; e++ {
		sum := marks[e].sum - marks[s].sum
		if sum > limit {
			break
		}
		last = e
		whole := marks[e].rank <= rankLine
		switch {
		case sum < low:
			if whole {
				before = e
			}
		case sum > high:
			if whole && after == 0 {
				after = e
			}
		case best == 0 || marks[e].rank < marks[best].rank ||
			marks[e].rank == marks[best].rank && distance(sum, aim) <= distance(marks[best].sum-marks[s].sum, aim):
			best = e
		}
	}
	switch {
	case best > 0 && marks[best].rank <= rankLine:
		return best
	case after > 0:
		return after
	case before > 0 && fitsWhole(marks, before, limit):
		return before
	case best > 0:
		return best
	}
	return last
}

// distance returns the difference of a and b, which is never negative.
func distance(a, b int) int { return max(a-b, b-a) }

// fitsWhole reports whether the block that begins at mark s has at most limit tokens. A
// block ends at the next mark of rankLine or a better rank.
func fitsWhole(marks []mark, s, limit int) bool {
	for e := s + 1; e < len(marks); e++ {
		if marks[e].sum-marks[s].sum > limit {
			return false
		}
		if marks[e].rank <= rankLine { // the end of the text has rank 0
			return true
		}
	}
	return true
}

// locate sets the line numbers and titles of parts, which joined are text.
func locate(text string, parts []Part) {
	first := 1
	for i := range parts {
		p := &parts[i]
		breaks := strings.Count(p.Text, "\n")
		p.First, p.Last = first, first+breaks
		first = p.Last
		if strings.HasSuffix(p.Text, "\n") {
			p.Last--
		}
	}
	entitle(text, parts)
}
