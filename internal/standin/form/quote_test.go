package form

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func FuzzAppendString(f *testing.F) {
	for _, s := range []string{"", "plain", "\"\\\n\t\r\x00\x1f\x7f", "你好 🙂", "\xff a \xe4\xbd", "\u2028<>&"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var got string
		require.NoError(t, json.Unmarshal(AppendString(nil, s), &got))
		var b strings.Builder
		for _, r := range s { // as encoding/json: each bad byte is one U+FFFD
			b.WriteRune(r)
		}
		assert.Equal(t, b.String(), got)
	})
}
