package edit

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"

	"github.com/aymanbagabas/go-udiff"
)

// Limits of a preview, by which a person decides about a change. They are wide, because a person should see the
// whole change if it can be read at all, and exist because the preview is sent to the root. Long runs of removed
// lines are cut, so that the lines that replace them are shown.
const (
	previewLines = 4000
	previewBytes = 256 << 10
	previewRun   = 1500 // lines in a row that begin with the same sign
	previewLine  = 4000 // characters of a line
	diffContext  = 3    // lines around a change
	// maxCompared (bytes) and maxCompareEdits (differences) bound a comparison line by line; a
	// larger change is shown as one block.
	maxCompared, maxCompareEdits = 256 << 10, 500
)

// Diff returns a unified diff of a file, of bounded length, for the person who approves the
// change. It spells out control characters and invisible ones.
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

// sameLines returns how many bytes at the beginning and at the end of a and b are equal lines,
// except for the context lines that a diff shows.
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

// shorten cuts a diff to the limits of a preview. Of a long run of added or removed lines it keeps the beginning
// and says how many lines are left out.
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

// visible spells out the control characters and invisible characters of a line, so that none can
// move the cursor or change colours or direction. Its result is never empty.
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
