package edit

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"

	"github.com/aymanbagabas/go-udiff"
)

// A preview is what a person decides by: it leaves nothing out of a change that
// somebody could read. It is bounded, for it travels to the root, and a long run
// of removed lines does not hide the lines that replace them.
const (
	previewLines = 4000
	previewBytes = 256 << 10
	previewRun   = 1500 // lines of one kind
	previewLine  = 4000 // characters of a line
	diffContext  = 3    // lines around a change
	// maxCompared bounds what is compared line by line, in bytes and in places
	// that differ; above it is one block.
	maxCompared, maxCompareEdits = 256 << 10, 500
)

// Diff shows what a change of the file of that name does, as a bounded unified
// diff. Nothing in it moves a cursor or hides from a person's eyes.
func Diff(name string, before, after []byte) string {
	// Only what lies between the equal ends is compared, so that a small change of
	// a large file costs little.
	head, tail := sameLines(before, after)
	skipped := bytes.Count(before[:head], []byte{'\n'})
	from := string(before[head : len(before)-tail])
	to := string(after[head : len(after)-tail])
	from, to = strings.ReplaceAll(from, "\r\n", "\n"), strings.ReplaceAll(to, "\r\n", "\n")
	edits := []udiff.Edit{{Start: 0, End: len(from), New: to}}
	if len(from)+len(to) <= maxCompared {
		if fine := udiff.Lines(from, to); len(fine) <= maxCompareEdits {
			edits = fine
		}
	}
	d, err := udiff.ToUnifiedDiff(name, name, from, edits, diffContext)
	if err != nil {
		return fmt.Sprintf("[%d bytes become %d]", len(before), len(after))
	}
	for _, h := range d.Hunks {
		h.FromLine += skipped
		h.ToLine += skipped
	}
	return shorten(d.String())
}

// sameLines returns how many bytes at the beginning and at the end of two
// contents are the same lines, without those that are shown around a change.
func sameLines(a, b []byte) (head, tail int) {
	n := min(len(a), len(b))
	for head < n && a[head] == b[head] {
		head++
	}
	for tail < n-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	head = bytes.LastIndexByte(a[:head], '\n') + 1
	for range diffContext {
		if head > 0 {
			head = bytes.LastIndexByte(a[:head-1], '\n') + 1
		}
	}
	rest := a[len(a)-tail:]
	for range diffContext + 1 {
		i := bytes.IndexByte(rest, '\n')
		if i < 0 {
			return head, 0
		}
		rest = rest[i+1:]
	}
	return head, len(rest)
}

// shorten cuts a diff to what a person reads before a decision.
func shorten(text string) string {
	var out []string
	size, run, left := 0, 0, 0
	kind := byte(0)
	skipped := 0 // of the current run
	flush := func() {
		if skipped > 0 {
			out = append(out, fmt.Sprintf("[%d more lines that begin with %c]", skipped, kind))
			skipped = 0
		}
	}
	for line := range strings.Lines(text) {
		line = visible(strings.TrimSuffix(line, "\n"))
		if len(out) >= previewLines-2 || size+len(line) > previewBytes {
			left++
			continue
		}
		if line[0] != kind {
			flush()
			kind, run = line[0], 0
		}
		if run++; run > previewRun {
			skipped++
			continue
		}
		out = append(out, line)
		size += len(line) + 1
	}
	flush()
	if left > 0 {
		out = append(out, fmt.Sprintf("[%d more lines]", left))
	}
	return strings.Join(out, "\n")
}

// visible is a line of which a person sees everything: nothing in it moves the
// cursor, changes colours or the direction of the text. It is never empty.
func visible(line string) string {
	if line == "" {
		return " "
	}
	var b strings.Builder
	for _, r := range clip(line, previewLine) {
		if r == '\t' || unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "<%U>", r)
		}
	}
	return b.String()
}
