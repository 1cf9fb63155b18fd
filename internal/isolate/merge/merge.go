// Package merge joins two changes of one text.
//
// A change is a set of edits of whole lines. Two edits are in conflict if they touch: if they change the same line, or
// lines one after another, and not in the same way. Package merge is not more generous than git merge-file.
package merge

import (
	"strings"

	"github.com/aymanbagabas/go-udiff"
)

// Texts returns base with both changes: that which leads to ours and that which leads to theirs. It returns false if
// they are in conflict.
func Texts(base, ours, theirs string) (merged string, ok bool) {
	switch {
	case ours == theirs, base == theirs:
		return ours, true
	case base == ours:
		return theirs, true
	}
	a, b := udiff.Lines(base, ours), udiff.Lines(base, theirs)
	var out strings.Builder
	at := 0 // what is before is written
	for len(a) > 0 || len(b) > 0 {
		first := &a
		if len(a) == 0 || len(b) > 0 && b[0].Start < a[0].Start {
			first = &b
		}
		region := udiff.Edit{Start: (*first)[0].Start, End: (*first)[0].End}
		na, nb := 0, 0 // edits in the region
		for grown := true; grown; {
			grown = false
			for na < len(a) && a[na].Start <= region.End {
				region.End, grown = max(region.End, a[na].End), true
				na++
			}
			for nb < len(b) && b[nb].Start <= region.End {
				region.End, grown = max(region.End, b[nb].End), true
				nb++
			}
		}
		mine, yours := apply(base, region, a[:na]), apply(base, region, b[:nb])
		switch {
		case nb == 0, mine == yours:
			region.New = mine
		case na == 0:
			region.New = yours
		default:
			return "", false
		}
		out.WriteString(base[at:region.Start] + region.New)
		a, b, at = a[na:], b[nb:], region.End
	}
	out.WriteString(base[at:])
	return out.String(), true
}

// apply returns a region of base after the edits, which are in it.
func apply(base string, region udiff.Edit, edits []udiff.Edit) string {
	var out strings.Builder
	at := region.Start
	for _, e := range edits {
		out.WriteString(base[at:e.Start] + e.New)
		at = e.End
	}
	out.WriteString(base[at:region.End])
	return out.String()
}
