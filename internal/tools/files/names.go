package files

import (
	"cmp"
	"slices"
	"strings"

	"github.com/xrash/smetrics"
)

// nearest returns at most n of names, those most similar to name, ignoring case.
func nearest(name string, names []string, n int) []string {
	likeness := func(s string) float64 {
		return smetrics.JaroWinkler(strings.ToLower(name), strings.ToLower(s), 0.7, 4)
	}
	near := slices.DeleteFunc(slices.Clone(names), func(s string) bool { return likeness(s) < 0.75 })
	slices.SortFunc(near, func(a, b string) int {
		return cmp.Or(cmp.Compare(likeness(b), likeness(a)), strings.Compare(a, b))
	})
	return near[:min(n, len(near))]
}
