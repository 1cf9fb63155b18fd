package keys

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// cases are what terminals send, and the keys that it means.
var cases = []struct {
	name, bytes string
	want        []Key
}{
	{"text", "aß漢😀", []Key{{Rune: 'a'}, {Rune: 'ß'}, {Rune: '漢'}, {Rune: '😀'}}},
	{"Enter, Tab, Backspace", "\r\t\x7f", []Key{{Code: Enter}, {Code: Tab}, {Code: Backspace}}},
	{"Ctrl", "\x01\x03\n\x00\x1f", []Key{{Rune: 'a', Ctrl: true}, {Rune: 'c', Ctrl: true}, {Rune: 'j', Ctrl: true},
		{Rune: ' ', Ctrl: true}, {Rune: '_', Ctrl: true}}},
	{"Alt", "\x1bb\x1bß\x1b\r\x1b\x7f", []Key{{Rune: 'b', Alt: true}, {Rune: 'ß', Alt: true}, {Code: Enter, Alt: true},
		{Code: Backspace, Alt: true}}},
	{"arrows", "\x1b[A\x1bOB\x1b[C\x1bOD", []Key{{Code: Up}, {Code: Down}, {Code: Right}, {Code: Left}}},
	{"Home and End", "\x1b[H\x1bOF\x1b[1~\x1b[4~\x1b[7~\x1b[8~",
		[]Key{{Code: Home}, {Code: End}, {Code: Home}, {Code: End}, {Code: Home}, {Code: End}}},
	{"with Ctrl and Alt", "\x1b[1;5C\x1b[1;3D\x1b[3;5~\x1b[1;2A", []Key{{Code: Right, Ctrl: true},
		{Code: Left, Alt: true}, {Code: Delete, Ctrl: true}, {Code: Up, Shift: true}}},
	{"Shift-Tab", "\x1b[Z", []Key{{Code: Tab, Shift: true}}},
	{"pages", "\x1b[5~\x1b[6~\x1b[2~\x1b[3~", []Key{{Code: PageUp}, {Code: PageDown}, {Code: Insert}, {Code: Delete}}},
	{"by character", "\x1b[13;2u\x1b[27;2;13~\x1b[97;5u\x1b[27u\x1b[57358u", []Key{{Code: Enter, Shift: true},
		{Code: Enter, Shift: true}, {Rune: 'a', Ctrl: true}, {Code: Escape}}},
	{"paste", "a\x1b[200~one\r\ntwo\rthree\x1b[A\x1b[201~b",
		[]Key{{Rune: 'a'}, {Code: Paste, Text: "one\ntwo\nthree\x1b[A"}, {Rune: 'b'}}},
	{"empty paste", "\x1b[200~\x1b[201~", []Key{{Code: Paste}}},
	{"paste with a half mark", "\x1b[200~a\x1b[20\x1b[201~", []Key{{Code: Paste, Text: "a\x1b[20"}}},
	{"paste that is no UTF-8", "\x1b[200~a\xff\x1b[201~", []Key{{Code: Paste, Text: "a\ufffd"}}},
	{"unknown sequences", "\x1b[99~\x1b[?62;4c\x1b[I\x1b[O\x1b[>0;1~x", []Key{{Rune: 'x'}}},
	{"function keys", "\x1bOP\x1b[15~x", []Key{{Rune: 'x'}}},
	{"answers of the terminal", "\x1b]11;rgb:00/00/00\x07\x1bP1$r0m\x1b\\x", []Key{{Rune: 'x'}}},
	{"a sequence within a sequence", "\x1b[1;\x1b[Ax", []Key{{Code: Up}, {Rune: 'x'}}},
	{"Escape and an arrow", "\x1b\x1b[A", []Key{{Code: Escape}, {Code: Up}}},
	{"no UTF-8", "\xffa\xc3(", []Key{{Rune: utf8.RuneError}, {Rune: 'a'}, {Rune: utf8.RuneError}, {Rune: '('}}},
	{"control characters above ASCII", "\u0085\u009bx", []Key{{Rune: 'x'}}},
}

func TestKeys(t *testing.T) {
	for _, c := range cases {
		var d Decoder
		assert.Equal(t, c.want, d.Feed([]byte(c.bytes)), c.name)
		assert.Zero(t, d.Wait(), c.name)
	}
}

// However the bytes are split over reads, the keys are the same.
func TestSplit(t *testing.T) {
	for _, c := range cases {
		for i := range len(c.bytes) {
			for j := i; j < len(c.bytes); j++ {
				var d Decoder
				keys := d.Feed([]byte(c.bytes[:i]))
				keys = append(keys, d.Feed([]byte(c.bytes[i:j]))...)
				keys = append(keys, d.Feed([]byte(c.bytes[j:]))...)
				require.Equal(t, c.want, keys, "%s, split at %d and %d", c.name, i, j)
			}
		}
	}
}

// What is unfinished after a time is taken as it is.
func TestFlush(t *testing.T) {
	for _, c := range []struct {
		bytes string
		wait  time.Duration
		want  []Key
	}{
		{"\x1b", escapeWait, []Key{{Code: Escape}}},
		{"\x1b[", escapeWait, []Key{{Rune: '[', Alt: true}}},
		{"\x1bO", escapeWait, []Key{{Rune: 'O', Alt: true}}},
		{"\x1b]x", escapeWait, []Key{{Rune: ']', Alt: true}, {Rune: 'x'}}},
		{"\x1b[1;", escapeWait, nil},
		{"\xe6\xbc", escapeWait, []Key{{Rune: utf8.RuneError}, {Rune: utf8.RuneError}}},
		{"\x1b\xe6", escapeWait, []Key{{Rune: utf8.RuneError, Alt: true}}},
		{"\x1b[200~abc\x1b[20", pasteWait, []Key{{Code: Paste, Text: "abc\x1b[20"}}},
	} {
		var d Decoder
		assert.Empty(t, d.Feed([]byte(c.bytes)), "%q", c.bytes)
		assert.Equal(t, c.wait, d.Wait(), "%q", c.bytes)
		assert.Equal(t, c.want, d.Flush(), "%q", c.bytes)
		assert.Zero(t, d.Wait(), "%q", c.bytes)
		assert.Equal(t, []Key{{Rune: 'x'}}, d.Feed([]byte("x")), "%q", c.bytes)
	}
}

// A paste of many reads takes time in proportion to its size, and what is too much is counted.
func TestLargePaste(t *testing.T) {
	var d Decoder
	line := []byte(strings.Repeat("x", 31) + "\r")
	require.Empty(t, d.Feed([]byte("\x1b[200~")))
	begun := time.Now()
	for range (MaxPaste + 1<<20) / len(line) {
		require.Empty(t, d.Feed(line))
	}
	keys := d.Feed([]byte("\x1b[201~y"))
	assert.Less(t, time.Since(begun), 10*time.Second)
	require.Len(t, keys, 2)
	assert.Len(t, keys[0].Text, MaxPaste)
	assert.Equal(t, 1<<20, keys[0].Cut)
	assert.Equal(t, 'y', keys[1].Rune)
}

// A sequence without an end does not grow, and takes no key that comes after it.
func TestEndless(t *testing.T) {
	for _, begin := range []string{"\x1b[", "\x1b]"} {
		var d Decoder
		d.Feed([]byte(begin))
		for range 10_000 {
			d.Feed([]byte("1"))
			require.LessOrEqual(t, len(d.rest), maxSequence+3, "%q", begin)
		}
		keys := append(d.Feed([]byte("x")), d.Flush()...)
		assert.Equal(t, Key{Rune: 'x'}, keys[len(keys)-1], "%q", begin)
	}
}

// Random bytes in random pieces: the same keys as in one piece, and nothing stays after Flush.
func FuzzDecoder(f *testing.F) {
	for _, c := range cases {
		f.Add([]byte(c.bytes), 3)
	}
	f.Fuzz(func(t *testing.T, p []byte, size int) {
		var whole, parts Decoder
		want := append(whole.Feed(p), whole.Flush()...)
		var got []Key
		size = max(1, size%64)
		for i := 0; i < len(p); i += size {
			got = append(got, parts.Feed(p[i:min(i+size, len(p))])...)
		}
		got = append(got, parts.Flush()...)
		if len(p) < maxSequence {
			require.Equal(t, want, got, "%q", p)
		}
		require.Zero(t, parts.Wait())
		for _, k := range got {
			require.True(t, utf8.ValidString(k.Text))
			require.True(t, utf8.ValidRune(k.Rune))
		}
	})
}

// Text comes out as it went in.
func TestText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.RuneFrom([]rune("ab ß漢😀e\u0301\u200d👩"))).Draw(t, "text")
		var d Decoder
		var b strings.Builder
		for _, k := range d.Feed([]byte(text)) {
			b.WriteRune(k.Rune)
		}
		assert.Equal(t, text, b.String())
	})
}
