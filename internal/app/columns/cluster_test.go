package columns

import (
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

func TestCluster(t *testing.T) {
	for text, want := range map[string][]int{ // pairs of length and columns
		"":                    {},
		"ab":                  {1, 1, 1, 1},
		"漢字":                  {3, 2, 3, 2},
		"e\u0301e":            {3, 1, 1, 1},
		"👍🏽x":                 {8, 2, 1, 1},
		"👩\u200d👩\u200d👧!":    {18, 2, 1, 1},
		"🇩🇪🇫🇷":                {8, 2, 8, 2},
		"❤\ufe0f.":            {6, 2, 1, 1},
		"1\ufe0f\u20e3":       {7, 2},
		"\u1112\u1161\u11ab가": {9, 2, 3, 2},
		"कि":                  {6, 1},
	} {
		var got []int
		for rest := text; rest != ""; {
			n, wide := Cluster(rest)
			got, rest = append(got, n, wide), rest[n:]
		}
		assert.ElementsMatch(t, want, got, text)
	}
}

// Each text is cut into clusters that end.
func TestClusterEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for s := rapid.String().Draw(t, "s"); s != ""; {
			n, wide := Cluster(s)
			assert.True(t, 0 < n && n <= maxCluster && wide >= 0 && wide <= 2, "%d, %d", n, wide)
			assert.True(t, !utf8.ValidString(s) || utf8.ValidString(s[:n]))
			s = s[n:]
		}
	})
}
