package tool

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

func TestExcerpt(t *testing.T) {
	for _, c := range []struct {
		text, head, tail string
		left             int
	}{
		{"", "", "", 0},
		{"1234", "1234", "", 0},
		{"äöüß", "äöüß", "", 0},
		{"12345", "12", "45", 1},
		{"äöxüß", "äö", "üß", 1},
		{"12\xff\xffx", "12", "\xffx", 1},
		{"12" + strings.Repeat("ä", 1000) + "45", "12", "45", 1000},
	} {
		for _, size := range []int{1, 2, 3, 5000} {
			e := Excerpt{Max: 4}
			for text := []byte(c.text); len(text) > 0; text = text[min(size, len(text)):] {
				e.Write(text[:min(size, len(text))])
			}
			head, tail, left := e.Cut()
			assert.Equal(t, c.head, head)
			assert.Equal(t, c.tail, tail)
			assert.Equal(t, c.left, left)
		}
	}
}

// However a text is cut into pieces, no character is lost, counted twice or cut.
func TestExcerptOfAnyText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SliceOf(rapid.SampledFrom([]string{"a", "ä", "€", "😀", "\n", "\xff", "\xe2\x82"})).Draw(t, "text")
		limit := rapid.IntRange(2, 40).Draw(t, "limit")
		whole := strings.Join(text, "") + "."
		e := Excerpt{Max: limit}
		for rest := []byte(whole); len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "n")
			e.Write(rest[:n])
			rest = rest[n:]
		}
		head, tail, left := e.Cut()
		if left == 0 {
			assert.Equal(t, whole, head+tail)
			return
		}
		assert.True(t, strings.HasPrefix(whole, head) && strings.HasSuffix(whole, tail))
		assert.Equal(t, limit, utf8.RuneCountInString(head)+utf8.RuneCountInString(tail))
		assert.Equal(t, utf8.RuneCountInString(whole)-limit, left)
	})
}
