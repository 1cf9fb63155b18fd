package tool

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
)

func TestVisible(t *testing.T) {
	gap := strings.Repeat(" ", longestGap)
	for text, want := range map[string]string{
		"":                                             "",
		"git log && echo \"<a>\" # ü世":                 "git log && echo \"<a>\" # ü世",
		"a\tb\nc":                                      "a\tb\nc",
		"\x1b[31m\r\b\a\x00":                           "␛[31m␍␈␇␀",
		"\u009b31m\x7f\u0085":                          "<U+009B>31m<U+007F><U+0085>",
		"gpj\u202e\u2066\u200f\u061c":                  "gpj<U+202E><U+2066><U+200F><U+061C>",
		"a\u2028b\u2029c":                              "a<U+2028>b<U+2029>c",
		"a\u200bb\u200d\ufeff\u00ad":                   "a<U+200B>b<U+200D><U+FEFF><U+00AD>",
		"\ufe0f\U000e0041\u3164\u115f":                 "<U+FE0F><U+E0041><U+3164><U+115F>",
		"a\u00a0b\u2003c\u3000d\u202f":                 "a<U+00A0>b<U+2003>c<U+3000>d<U+202F>",
		"a\u2800\u2801\u3164":                          "a<U+2800>\u2801<U+3164>",
		"\U000e0001\U000e0072\U000e007f":               "<U+E0001><U+E0072><U+E007F>",
		"e\u0301\u0302\u0303\u0304\u0305\u0306b\u0301": "e\u0301\u0302\u0303\u0304<U+0305><U+0306>b\u0301",
		"a" + strings.Repeat("\u2003", 100) + "b\u2003\u2003": "a<100 U+2003>b<U+2003><U+2003>",
		"หมู่ नमस्ते ở":                                       "หมู่ नमस्ते ở",
		"\xff\x9b31m\ufffd":                                   "<0xFF><0x9B>31m\ufffd",
		"a" + gap + "b":                                       "a" + gap + "b",
		"ls" + gap + " ; rm x":                                "ls<41 spaces>; rm x",
		"ls" + gap + gap:                                      "ls<80 spaces>",
	} {
		assert.Equal(t, want, Visible(text))
	}
}

func TestObeyed(t *testing.T) {
	const obeyed = "\x00\a\b\t\n\r\x1b\x7f\u0080\u0085\u009b\u009f" +
		"\u061c\u200e\u200f\u202a\u202e\u2066\u2069\u2028\u2029"
	for _, r := range obeyed {
		assert.True(t, Obeyed(r), "%U", r)
	}
	for _, r := range " aé世😀\u00a0\u200d\ufe0f\u0301" {
		assert.False(t, Obeyed(r), "%U", r)
	}
}

// Nothing that a terminal obeys or hides is left of any text.
func FuzzVisible(f *testing.F) {
	f.Add("a\x1b[2J\u202e\xff \t\n" + strings.Repeat(" ", 99))
	f.Fuzz(func(t *testing.T, text string) {
		shown := Visible(text)
		if !utf8.ValidString(shown) || strings.Contains(shown, strings.Repeat(" ", longestGap+4)) {
			t.Fatalf("%q became %q", text, shown)
		}
		for _, r := range shown {
			if r != '\n' && r != '\t' && (Obeyed(r) || !unicode.IsGraphic(r) || r != ' ' && unicode.IsSpace(r)) {
				t.Fatalf("%U is left of %q", r, text)
			}
		}
	})
}
