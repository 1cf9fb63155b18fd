package think

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// splitAll feeds the pieces of content to a splitter.
func splitAll(pieces ...string) (thinking, answer string) {
	var s Splitter
	for _, p := range pieces {
		th, a := s.Add(p)
		thinking, answer = thinking+th, answer+a
	}
	th, a := s.Flush()
	return thinking + th, answer + a
}

var thinkCases = []struct{ name, content, thinking, answer string }{
	{"none", "It is 4.", "", "It is 4."},
	{"leaked", "<think>two and two</think>\n\nIt is 4.\n", "two and two", "It is 4.\n"},
	{"blank lines first", "\n <think>hm</think>4", "hm", "4"},
	{"never closed", "<think>two and </thin", "two and </thin", ""},
	{"in the middle is text", "The tag <think>x</think> is text.", "", "The tag <think>x</think> is text."},
	{"once only", "<think>a</think><think>b</think>", "a", "<think>b</think>"},
	{"nearly a tag", "<thinking>x", "", "<thinking>x"},
	{"the beginning of a tag", " <thi", "", " <thi"},
	{"nothing thought", "<think>\n\n</think>\n\nYes", "\n\n", "Yes"},
	{"nothing at all", "", "", ""},
}

func TestSplitter(t *testing.T) {
	for _, tt := range thinkCases {
		t.Run(tt.name, func(t *testing.T) {
			thinking, answer := splitAll(tt.content)
			assert.Equal(t, tt.thinking, thinking)
			assert.Equal(t, tt.answer, answer)
			thinking, answer = splitAll(strings.Split(tt.content, "")...)
			assert.Equal(t, tt.thinking, thinking, "letter by letter")
			assert.Equal(t, tt.answer, answer, "letter by letter")
		})
	}
}

// Where a stream is cut makes no difference, and text without a tag at its
// start comes through as it is.
func FuzzSplitter(f *testing.F) {
	for _, tt := range thinkCases {
		f.Add(tt.content, 3, 9)
	}
	f.Fuzz(func(t *testing.T, content string, i, j int) {
		n := len(content)
		i = min(max(i, 0), n)
		j = min(max(j, i), n)
		thinking, answer := splitAll(content)
		th, a := splitAll(content[:i], content[i:j], content[j:])
		assert.Equal(t, thinking, th)
		assert.Equal(t, answer, a)
		if !strings.HasPrefix(strings.TrimLeft(content, " \t\r\n"), thinkOpen) {
			assert.Equal(t, content, answer)
		}
	})
}
