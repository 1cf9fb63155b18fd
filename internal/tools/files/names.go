package files

import (
	"slices"
	"strings"
)

// nearest returns the at most n names that share most with name: pairs of
// neighbouring letters, so that parts count wherever they stand.
func nearest(name string, names []string, n int) []string {
	want := pairs(name)
	score := func(s string) float64 {
		have := pairs(s)
		common := 0
		for p, k := range want {
			common += min(k, have[p])
		}
		return 2 * float64(common) / float64(max(1, len(name)+len(s)))
	}
	type scored struct {
		name  string
		score float64
	}
	var list []scored
	for _, s := range names {
		if v := score(s); v > 0.4 {
			list = append(list, scored{s, v})
		}
	}
	slices.SortFunc(list, func(a, b scored) int {
		if a.score != b.score {
			return int(b.score*1e6) - int(a.score*1e6)
		}
		return strings.Compare(a.name, b.name)
	})
	var out []string
	for _, s := range list[:min(n, len(list))] {
		out = append(out, s.name)
	}
	return out
}

func pairs(s string) map[string]int {
	s = "^" + strings.ToLower(s) // the beginning counts
	count := make(map[string]int, len(s))
	for i := range len(s) - 1 {
		count[s[i:i+2]]++
	}
	return count
}
