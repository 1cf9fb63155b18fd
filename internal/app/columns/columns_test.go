package columns

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

func TestCut(t *testing.T) {
	for _, c := range []struct {
		s    string
		n    int
		want string
	}{
		{"abcdef", 0, "abcdef"}, {"abcdef", 6, "abcdef"}, {"abcdef", 5, "ab..."}, {"abcdef", 3, "..."},
		{"abcdef", 2, ".."},
		{"漢字かな", 8, "漢字かな"}, {"漢字かな", 7, "漢字..."}, {"漢字かな", 6, "漢..."}, {"ｆｕｌｌ", 7, "ｆｕ..."},
		{"e\u0301e\u0301e\u0301e\u0301", 4, "e\u0301e\u0301e\u0301e\u0301"},
		{"e\u0301e\u0301e\u0301e\u0301e", 4, "e\u0301..."}, {"a – b → c", 9, "a – b → c"}, {"😀😀", 4, "😀😀"},
	} {
		assert.Equal(t, c.want, Cut(c.s, c.n), "%q in %d", c.s, c.n)
	}
	rapid.Check(t, func(t *rapid.T) {
		s, n := rapid.String().Draw(t, "s"), rapid.IntRange(1, 20).Draw(t, "n")
		got := Cut(s, n)
		assert.LessOrEqual(t, Of(got), n)
		assert.True(t, utf8.ValidString(got))
		assert.True(t, got == s || strings.HasSuffix(got, "...") || n < 3)
	})
}
