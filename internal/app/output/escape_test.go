package output

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/app/figures"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// JSON of the same value, in which a terminal finds nothing to obey.
func TestJSONIsHarmless(t *testing.T) {
	const text = "a\x1b[2J\u009b31m\u0085\u202eb\u2066\u200f\u061c\x7f größe 你好 <&> \u2028 \ufffd end"
	var b bytes.Buffer
	require.NoError(t, WriteJSON(&b, text))
	assert.Equal(t, `"a\u001b[2J\u009b31m\u0085\u202eb\u2066\u200f\u061c\u007f größe 你好 <&> \u2028 � end"`+"\n", b.String())
	for _, format := range []string{JSON, JSONL, StreamJSON} {
		b.Reset()
		r := NewResults(format, &b)
		require.NoError(t, r.Write("", "", task.Result{Output: text}))
		require.NoError(t, r.End())
		assertHarmless(t, b.String())
		assert.Contains(t, b.String(), `\u202eb`)
	}
}

func assertHarmless(t *testing.T, text string) {
	t.Helper()
	i := strings.IndexFunc(text, func(r rune) bool { return tool.Obeyed(r) && r != '\n' })
	assert.Negative(t, i, "%q", text)
}

func TestSpelled(t *testing.T) {
	assert.Equal(t, "a <U+202E>b ␛[0m c<U+009B>", figures.Spelled("a\n\u202eb  \x1b[0m\tc\u009b"))
}

// FuzzEscaped: JSON keeps its value, and what was cut in the middle of a character is passed on.
func FuzzEscaped(f *testing.F) {
	for _, s := range []string{"", "a", "\u202e", "\u0085\u0085", "\x7f", "\xc2", "\xe2\x80", "ü\u061c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		in, err := json.Marshal(s)
		require.NoError(t, err)
		out := escaped(in)
		assertHarmless(t, string(out))
		var before, after string
		require.NoError(t, json.Unmarshal(in, &before))
		require.NoError(t, json.Unmarshal(out, &after))
		assert.Equal(t, before, after)
		if raw := string(escaped([]byte(s))); !utf8.ValidString(s) {
			assert.GreaterOrEqual(t, len(raw), len(s))
		}
	})
}
