package page

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/tool"
)

func TestLine(t *testing.T) {
	assert.Equal(t, "a b", Line(" a\n\tb ", 10).String())
	assert.Equal(t, "abc…", Line("abcdef", 4).String())
	assert.Equal(t, "äöüß", Line("äöüß", 4).String())
	assert.Equal(t, "<U+202E>x", Line("\u202ex", 20).String())
	assert.Equal(t, "a\nb", Clean("a\r\nb").String())
}

// FuzzLine: a line is short, is one line, and holds nothing that a browser would obey.
func FuzzLine(f *testing.F) {
	f.Add("a\u202eb\x00\xff  c", 5)
	f.Fuzz(func(t *testing.T, text string, most int) {
		most = max(1, most%1000)
		line := Line(text, most).String()
		assert.LessOrEqual(t, utf8.RuneCountInString(line), most)
		assert.True(t, utf8.ValidString(line))
		for _, r := range line {
			assert.False(t, tool.Obeyed(r), "%q", line)
		}
	})
}

// All templates can be parsed, and an empty page of each can be shown.
func TestTemplates(t *testing.T) {
	p, err := New("/x/", "form", "secret")
	require.NoError(t, err)
	for name, data := range map[string]any{
		"runs": Runs{}, "tree": Tree{}, "job": Job{}, "drawing": Drawn{}, "search": Found{}, "compare": Compared{},
		"failed": Failure{}, "refused": Failure{}, "opened": nil, "question": Question{}, "row": Row{},
	} {
		text, err := p.HTML(name, data)
		require.NoError(t, err, name)
		assert.NotContains(t, text, "ZgotmplZ", name)
	}
	text, err := p.HTML("question", Question{Answers: []Answer{{"once", "Yes", "main"}}})
	require.NoError(t, err)
	assert.True(t, strings.Contains(text, `name="form" value="secret"`), "each form has the token")
}
