package columns

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

func TestCluster(t *testing.T) {
	for _, c := range []struct {
		s    string
		want []string
		wide int // of the first
	}{
		{"ab", []string{"a", "b"}, 1},
		{"漢字", []string{"漢", "字"}, 2},
		{"e\u0301x", []string{"e\u0301", "x"}, 1},
		{"👩\u200d👩\u200d👧\u200d👦!", []string{"👩\u200d👩\u200d👧\u200d👦", "!"}, 2},
		{"👍🏽👍", []string{"👍🏽", "👍"}, 2},
		{"🇩🇪🇫🇷", []string{"🇩🇪", "🇫🇷"}, 2},
		{"❤\ufe0fa", []string{"❤\ufe0f", "a"}, 2},
		{"🏴\U000e0067\U000e0062\U000e007fx", []string{"🏴\U000e0067\U000e0062\U000e007f", "x"}, 2},
		{"한국", []string{"한", "국"}, 2},
		{"\u1112\u1161\u11ab\u1100", []string{"\u1112\u1161\u11ab", "\u1100"}, 2},
		{"a\r\nb", []string{"a", "\r\n", "b"}, 1},
		{"\xffa", []string{"\xff", "a"}, 1},
	} {
		_, wide := Cluster(c.s)
		assert.Equal(t, c.wide, wide, "%q", c.s)
		var got []string
		for s := c.s; s != ""; {
			cluster, _ := Cluster(s)
			got, s = append(got, cluster), s[len(cluster):]
		}
		assert.Equal(t, c.want, got, "%q", c.s)
	}
}

func TestClusterEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "s")
		for s != "" {
			cluster, wide := Cluster(s)
			assert.NotEmpty(t, cluster)
			assert.True(t, wide >= 0 && wide <= 2, "%q", cluster)
			s = s[len(cluster):]
		}
	})
}
