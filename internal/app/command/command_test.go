package command

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPrintable(t *testing.T) {
	assert.Equal(t, "a\tb\n[31mé😀", Printable("a\tb\r\n\x1b[31mé\u009b😀\x00\a"))
	assert.Equal(t, "rm x.gpj", Printable("\u202erm \u2066x\u2069\u200f.\u2028gpj\u061c"),
		"in the order in which it is")
	assert.Equal(t, "ab ❤\ufe0f", Printable("a\u200b\u2060\ufeff\U000e0001\U000e0041b ❤\ufe0f"), "what is never shown")
	assert.Equal(t, "👩\u200d💻 \u0645\u06cc\u200c\u062e שלום", Printable("👩\u200d💻 \u0645\u06cc\u200c\u062e שלום"),
		"what a script or a picture is made of stays")
}

func TestColoured(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	require.NoError(t, err)
	defer f.Close()
	assert.False(t, (&Invocation{}).Coloured(NewScreen().Output(f)))
}
