package prose

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
)

func TestSeen(t *testing.T) {
	paragraph := "This is some text which somebody has written and then\nwrapped at a width so that it goes over " +
		"several\nlines of the file.\n"
	const wrapped = "a text, and no list of tasks: line 1 begins a paragraph of several lines"
	for _, c := range [][3]string{
		{"a.md", "# A", `a text, and no list of tasks: line 1 is the heading "# A"`},
		{"a.adoc", "x\n== A\n", `a text, and no list of tasks: line 2 is the heading "== A"`},
		{"a.rst", "A title\n-------\n", `a text, and no list of tasks: line 1 is the heading "A title"`},
		{"a.md", paragraph, wrapped},
		{"a.md", "- a\n- b\n\n- c\n", ""},
		{"", "# A\n\nx\n\n# B\n\ny\n", `a text, and no list of tasks: line 1 is the heading "# A"`},
		{"", "# A\n# B\n\n# C\n", ""},
		{"", paragraph, ""},
		{"", paragraph + "\nx\n\n" + paragraph, wrapped},
		{"", strings.Repeat("write a poem about the sea and about all that lives\n", 9), ""},
		{"", strings.Repeat(strings.Repeat("write a poem about the sea and about all that lives\n", 9)+"\n", 5), ""},
		{"", strings.Repeat(strings.Repeat("Write a poem about the sea and about all that lives.\n", 9)+"\n", 5), ""},
		{"", " \n<HTML>", "a text, and no list of tasks: it begins with <html"},
		{"a.PY", "", "source code"},
		{"a.txt", "say ```\n", ""},
		{"", "", ""},
	} {
		assert.Equal(t, c[2], Seen(c[0], c[1]), c)
	}
}

func FuzzSeen(f *testing.F) {
	f.Add("a.md", "# a\n===\n\n```")
	f.Add("", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\nb\nc\n\r\n\u0085 \xff")
	f.Fuzz(func(t *testing.T, name, head string) {
		if saw := Seen(name, head); utf8.ValidString(head) {
			assert.True(t, utf8.ValidString(saw))
			assert.NotContains(t, saw, "\n")
		}
	})
}
