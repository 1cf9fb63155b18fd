package edit

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"qq/pkg/tool"
)

const (
	// maxDiff is the longest diff that is shown whole, in bytes. It is sent to the root in one frame.
	maxDiff     = 600 << 10
	diffContext = 3 // lines around a change
	// maxCompared (bytes) and maxCompareEdits (differences) bound a comparison line by line; a
	// larger change is shown as one block.
	maxCompared, maxCompareEdits = 256 << 10, 500
)

// Diff returns a unified diff of a file for the person who approves the change. It spells out what that
// person could not see ([tool.Visible]). whole is false if the diff is too long: then the end is left out.
func Diff(name string, before, after []byte) (diff string, whole bool) {
	// Only what lies between the equal ends is compared, so that a small change of
	// a large file costs little.
	head, tail := sameLines(before, after)
	skipped := bytes.Count(before[:head], []byte{'\n'})
	from := string(before[head : len(before)-tail])
	to := string(after[head : len(after)-tail])
	if lineEnds(before) == crlf && lineEnds(after) == crlf {
		from, to = lf.apply(from), lf.apply(to)
	}
	edits := []udiff.Edit{{Start: 0, End: len(from), New: to}}
	if len(from)+len(to) <= maxCompared {
		if fine := udiff.Lines(from, to); len(fine) <= maxCompareEdits {
			edits = fine
		}
	}
	d, err := udiff.ToUnifiedDiff(name, name, from, edits, diffContext)
	if err != nil {
		return fmt.Sprintf("[%d bytes become %d]", len(before), len(after)), false
	}
	for _, h := range d.Hunks {
		h.FromLine += skipped
		h.ToLine += skipped
	}
	return shorten(strings.TrimSuffix(d.String(), "\n"))
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

// shorten spells out text, and cuts it to maxDiff bytes. It says how many lines it leaves out.
func shorten(text string) (shown string, whole bool) {
	shown = tool.Visible(text[:min(len(text), maxDiff)])
	if len(text) <= maxDiff && len(shown) <= maxDiff {
		return shown, true
	}
	shown = string(tool.WholeRunes([]byte(shown[:min(len(shown), maxDiff)])))
	left := strings.Count(text, "\n") - strings.Count(shown, "\n")
	return fmt.Sprintf("%s…\n[%d more lines]", shown, left), false
}
