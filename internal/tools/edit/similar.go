package edit

import (
	"bytes"
	"fmt"
	"strings"
)

const (
	// maxSearched is how many bytes of a file are searched for a similar text.
	maxSearched = 16 << 20
	// maxNearest is how many lines of the most similar place are shown.
	maxNearest = 20
	// maxShown is how many characters of a line are shown.
	maxShown = 400
	// minLikeness is the likeness, from 0 to 1, from which a place counts as similar.
	minLikeness = 0.4
)

// region is a run of whole lines of a content.
type region struct {
	start, end int // bytes; the last line end is not in it
	first      int // number of the first line
}

// show returns the numbers and the text of the lines of r: of all lines, or of those around the first line that
// differs from old.
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

// sameButSpace finds old in content, ignoring white space.
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

// clip returns line, cut to at most most characters.
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

// squeeze returns text without its white space.
func squeeze(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for _, b := range text {
		if !isSpace(b) {
			out = append(out, b)
		}
	}
	return out
}

// unsqueeze converts an index of text without white space to the index in text itself.
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

// likeness compares lines with a text by the pairs of neighbouring letters that they share, in
// any order. A line that is exactly a line of the text scores higher.
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

// pair encodes two neighbouring letters as a number; 0 as a letter is the edge of a line.
func pair(a, b byte) uint16 { return uint16(a|0x20)<<8 | uint16(b|0x20) }

// score is what one line and a text have in common.
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

// mostSimilar returns the run of lines of content, as long as old, that is most similar to old.
// It reads content once.
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
	window := make([]line, 0, strings.Count(old, "\n")+1) // a ring buffer
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
