package edit

import (
	"bytes"
	"fmt"
	"strings"
)

const (
	// maxSearched is how much of a file is searched for a similar text.
	maxSearched = 16 << 20
	// maxNearest is how many lines of the nearest place are shown.
	maxNearest = 20
	// maxShown is how many characters of a line are shown.
	maxShown = 400
	// minLikeness is from which on a place counts as similar, from 0 to 1.
	minLikeness = 0.4
)

// region is a run of lines of a content.
type region struct {
	start, end int // bytes; the last line end is not in it
	first      int // number of the first line
}

// show says which lines these are, and their exact text: all, or those around
// the first that is not the same in old.
func (r region) show(content []byte, old string) string {
	lines := strings.Split(string(content[r.start:r.end]), "\n")
	from := 0
	if len(lines) > maxNearest {
		want := strings.Split(old, "\n")
		for from < len(lines)-1 && from < len(want) && strings.TrimSpace(lines[from]) == strings.TrimSpace(want[from]) {
			from++
		}
		from = min(max(0, from-maxNearest/4), len(lines)-maxNearest)
	}
	shown := lines[from:min(len(lines), from+maxNearest)]
	for i, l := range shown {
		shown[i] = clip(strings.TrimSuffix(l, "\r"), maxShown)
	}
	text := strings.Join(shown, "\n")
	return fmt.Sprintf("%s:\n%s", lineRange(r.first+from, text), text)
}

// sameButSpace finds old in content without regard to white space.
func sameButSpace(content []byte, old string) (region, bool) {
	content = content[:min(len(content), maxSearched)]
	want := squeeze([]byte(old))
	if len(want) == 0 {
		return region{}, false
	}
	at := bytes.Index(squeeze(content), want)
	if at < 0 {
		return region{}, false
	}
	start := unsqueeze(content, at)
	end := start + 1 + unsqueeze(content[start:], len(want)-1)
	start = bytes.LastIndexByte(content[:start], '\n') + 1
	if i := bytes.IndexByte(content[end:], '\n'); i >= 0 {
		end += i
	} else {
		end = len(content)
	}
	return region{start, end, lineAt(content, start)}, true
}

// clip is a line, or the beginning of one that is longer than most characters.
func clip(line string, most int) string {
	n := 0
	for i := range line {
		if n++; n > most {
			return fmt.Sprintf("%s… [the line has %d bytes]", line[:i], len(line))
		}
	}
	return line
}

func isSpace(b byte) bool { return b == ' ' || '\t' <= b && b <= '\r' }

// squeeze drops the white space of text.
func squeeze(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for _, b := range text {
		if !isSpace(b) {
			out = append(out, b)
		}
	}
	return out
}

// unsqueeze is the place in text of what is at the place at once its white space
// is gone.
func unsqueeze(text []byte, at int) int {
	for i, b := range text {
		if isSpace(b) {
			continue
		}
		if at == 0 {
			return i
		}
		at--
	}
	return len(text)
}

// likeness compares lines with a text by the pairs of letters that they share,
// without regard to their order. A line of the text counts for more.
type likeness struct {
	pairs [1 << 16]bool
	lines map[string]bool
	size  int // pairs in the text
}

func newLikeness(text string) *likeness {
	k := &likeness{lines: map[string]bool{}}
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSpace(line)
		k.lines[line] = true
		last := byte(0)
		for i := range len(line) {
			k.pairs[pair(last, line[i])] = true
			last = line[i]
		}
		k.pairs[pair(last, 0)] = true
		k.size += len(line) + 1
	}
	return k
}

// pair numbers two neighbouring letters; 0 is the edge of a line.
func pair(a, b byte) uint16 { return uint16(a|0x20)<<8 | uint16(b|0x20) }

// score is what one line has in common with a text.
type score struct {
	size   int // pairs in the line
	common int // of these, how many the text has as well
	bonus  int
}

func (k *likeness) line(line []byte) score {
	line = bytes.TrimSpace(line)
	s := score{size: len(line) + 1}
	if k.lines[string(line)] {
		return score{s.size, s.size, s.size}
	}
	last := byte(0)
	for _, b := range line {
		if k.pairs[pair(last, b)] {
			s.common++
		}
		last = b
	}
	if k.pairs[pair(last, 0)] {
		s.common++
	}
	return s
}

func (k *likeness) of(s score) float64 {
	return float64(2*min(s.common, k.size)+s.bonus) / float64(max(1, s.size+k.size))
}

// mostSimilar finds the lines of content that are most like old: of all runs of
// as many lines. It goes through content once.
func mostSimilar(content []byte, old string) (best region, ok bool) {
	content = content[:min(len(content), maxSearched)]
	old = strings.TrimRight(old, " \t\r\n")
	if len(old) < 2 {
		return best, false
	}
	k := newLikeness(old)
	type line struct {
		score
		start int
	}
	window := make([]line, 0, strings.Count(old, "\n")+1) // a ring
	var sum score
	high, number := minLikeness, 0
	for start := 0; start < len(content); number++ {
		end := len(content)
		if i := bytes.IndexByte(content[start:], '\n'); i >= 0 {
			end = start + i
		}
		next := line{k.line(content[start:end]), start}
		oldest := 0
		if len(window) < cap(window) {
			window = append(window, next)
		} else {
			out := window[number%len(window)]
			sum = score{sum.size - out.size, sum.common - out.common, sum.bonus - out.bonus}
			window[number%len(window)] = next
			oldest = (number + 1) % len(window)
		}
		sum = score{sum.size + next.size, sum.common + next.common, sum.bonus + next.bonus}
		if v := k.of(sum); v > high {
			high, ok = v, true
			best = region{window[oldest].start, end, number + 2 - len(window)}
		}
		start = end + 1
	}
	return best, ok
}
