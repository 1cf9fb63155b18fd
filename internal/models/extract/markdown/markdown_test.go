package markdown

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestStripInline(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a [link](http://x.org/a_b \"t\") b":      "a link b",
		"[`pkg/a`](a_b) and [b](c(d)e)":           "`pkg/a` and b",
		"[![x](y)](z) text":                       "text",
		"a [ref][1] and a note[^2].":              "a ref and a note.",
		"**bold** _it_ ~~gone~~ snake_case 2 * 3": "bold it gone snake_case 2 * 3",
		"``a ` b`` and `*x*` and `f()`":           "`a ` b` and `*x*` and `f()`",
		"a &amp; b &lt;c&gt; `&amp;`":             "a & b <c> `&amp;`",
		"<b>x</b><br>y <https://a.b/c> <path>":    "x y https://a.b/c <path>",
		"smile :smile: at 12:30:00":               "smile at 12:30:00",
		`\*no\* emphasis`:                         "*no* emphasis",
		"a[i] and [b]":                            "a[i] and [b]",
		"open [bracket and `tick":                 "open [bracket and `tick",
		"see <!-- not this --> that":              "see that",
		"Vec<T> and a < b > c":                    "Vec<T> and a < b > c",
		"a ![pic](x.png).":                        "a.",
	} {
		assert.Equal(t, want, stripInline(text), text)
	}
}
