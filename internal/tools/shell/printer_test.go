package shell

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

// printed is what is printed of the pieces of a text.
func printed(pieces ...string) string {
	var out strings.Builder
	p := printer{emit: func(b []byte) { out.Write(b) }}
	for _, piece := range pieces {
		p.write([]byte(piece))
	}
	p.close()
	return out.String()
}

func TestPrinter(t *testing.T) {
	for name, tc := range map[string]struct{ in, want string }{
		"text":                 {"a\tb\nç 世\n", "a\tb\nç 世\n"},
		"no end of line":       {"a", "a"},
		"colours":              {"\x1b[1;31mred\x1b[0m \x1b[38:2::1:2:3mx\x1b[m", "red x"},
		"lines of a terminal":  {"a\r\nb\r\r\n", "a\nb\n"},
		"spaces at the end":    {"a  \r\nb \x1b[K\n", "a  \nb \n"},
		"progress":             {" 1%\r 50%\r100%\ndone", "100%\ndone"},
		"shorter over longer":  {"downloading\rdone\x1b[K\n", "done\n"},
		"longer stays":         {"abc\rX\n", "Xbc\n"},
		"spaces over it":       {"wait\r    \rok\r\n", "ok\n"},
		"erased":               {"abc\x1b[2K\rd\n\x1b[1Ke", "d\ne"},
		"erased up to":         {"abcd\x1b[2D\x1b[1K\n", "   d\n"},
		"backspace":            {"\b\babx\bc", "abc"},
		"overstrike":           {"N\bNA\bA_\bM", "NAM"},
		"columns":              {"abc\x1b[GX\x1b[3CY\x1b[2D\x1b[99GZ", "Xbc YZ"},
		"columns apart":        {"a\x1b[10Cb", "a b"},
		"screen":               {"\x1b[H\x1b[2J\x1b[1;1Hfoo\x1b[2;1Hbar\x1b[J", "foo\nbar"},
		"up and over":          {"one\ntwo\x1b[A\r\x1b[2Kthree", "one\ntwo\nthree"},
		"modes":                {"\x1b[?25l\x1b[?2004ha\x1b[>4;1m\x1b[2 qb", "ab"},
		"title":                {"\x1b]0;a title\ab\x1b]2;x\x1b\\c\x1b]8;;http://x\u009cd\x1bktmux\x1b\\e", "bcde"},
		"title without end":    {"\x1b]0;a title\nb", "\nb"},
		"pictures":             {"\x1bPq\n#1\a~~\x1b\\a\x1b_x\x1b\\b\x1b^y\x1b\\c\x1bXz\x18d", "abcd"},
		"character sets":       {"\x1b(B\x1b)0\x1b%G\x1b#8\x1b(Pa", "a"},
		"single":               {"\x1b7\x1b8\x1b=\x1b>\x1bca\x1bMb", "a\nb"},
		"cut by a line":        {"\x1b[31\na\x1b\nb", "\na\nb"},
		"cut by a sequence":    {"\x1b[31\x1b[1ma\x1b\x1b[1mb", "ab"},
		"cut by a character":   {"\x1b[3ça\x1bé", "çaé"},
		"cut by the end":       {"a\x1b[31", "a"},
		"nothing":              {"a\x00\x07\x7f\x0e\x1b\x00[\x001mb", "ab"},
		"pages":                {"a\fb\vc\u0085d", "a\nb\nc\nd"},
		"decoded twice":        {"\u009eluk\u009b31m \u0090x", "luk31m x"},
		"not UTF-8":            {"a\xffb\xc3(\xe4\xb8", "a\uFFFDb\uFFFD(\uFFFD\uFFFD"},
		"large numbers":        {"ab\x1b[99999999999999999999Dc", "cb"},
		"string without limit": {"\x1bP" + strings.Repeat("x", maxString) + "ok", "ok"},
		"line without limit":   {strings.Repeat("x", maxLine) + "\ry\n", "y" + strings.Repeat("x", maxLine-1) + "\n"},
		"longer line":          {strings.Repeat("x", maxLine+1) + "\ry\n", strings.Repeat("x", maxLine) + "y\n"},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, printed(tc.in))
			assert.Equal(t, tc.want, printed(strings.Split(tc.in, "")...), "byte by byte")
		})
	}
}

// A program that never ends a line, or a sequence, costs no more memory.
func TestPrinterIsBounded(t *testing.T) {
	for _, piece := range []string{"x", "\x1b[1;", "1;;", "\x1bP", "世", "\xf0\x9f", "\x1b[C"} {
		p := printer{emit: func([]byte) {}}
		block := []byte(strings.Repeat(piece, 1<<12/len(piece)))
		for range 100 {
			p.write(block)
		}
		assert.LessOrEqual(t, cap(p.line), 2*maxLine, "%q", piece)
		assert.LessOrEqual(t, cap(p.out), 16*maxLine, "%q", piece)
		assert.Less(t, len(p.in), utf8.UTFMax)
	}
}

// check holds for the printer whatever it is given.
func check(t assert.TestingT, in []byte, cuts ...int) {
	whole := printed(string(in))
	assert.True(t, utf8.ValidString(whole))
	assert.Equal(t, -1, strings.IndexFunc(whole, func(r rune) bool { return isControl(r) && r != '\n' && r != '\t' }),
		"%q", whole)
	repairs := 0
	for rest := in; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		if r == utf8.RuneError && size == 1 {
			repairs += len("\uFFFD") - 1
		}
		rest = rest[size:]
	}
	assert.LessOrEqual(t, len(whole), len(in)+repairs, "%q became %q", in, whole)
	assert.Equal(t, whole, printed(whole), "printed again")
	var pieces []string
	rest := string(in)
	for _, c := range cuts {
		c = min(c, len(rest))
		pieces = append(pieces, rest[:c])
		rest = rest[c:]
	}
	assert.Equal(t, whole, printed(append(pieces, rest)...), "cut at %v", cuts)
}

func TestPrinterProperties(t *testing.T) {
	tokens := []string{"\x1b", "[", "]", "\\", "\a", "\r", "\n", "\b", "\t", " ", "a", "bc", "ç", "世", "\xff", "\xe4",
		"\xb8", "\x96", "\x00",
		"0", "1", "2", "7", ";", "?", "K", "J", "C", "D", "G", "H", "A", "m", "P", "(", "\u009b", "\u0085", "\x18",
		"\x7f"}
	rapid.Check(t, func(t *rapid.T) {
		in := strings.Join(rapid.SliceOfN(rapid.SampledFrom(tokens), 0, 60).Draw(t, "tokens"), "")
		check(t, []byte(in), rapid.SliceOfN(rapid.IntRange(0, 5), 0, 20).Draw(t, "cuts")...)
	})
}

func FuzzPrinter(f *testing.F) {
	for _, seed := range []string{"a\r\nb", "\x1b[1;31mred\x1b[0m", "\x1b]0;t\ax", "10%\r20%\x1b[K", "\xe4\xb8\x96\xff",
		"\x1bPq\x1b\\", "ab\b\x1b[2D\x1b[1K"} {
		f.Add([]byte(seed), uint8(3))
	}
	f.Fuzz(func(t *testing.T, in []byte, cut uint8) { check(t, in, int(cut), 1, 1) })
}

func BenchmarkPrinter(b *testing.B) {
	block := bytes.Repeat([]byte("\x1b[32mok\x1b[0m  \tpackage/name\t0.123s and some more text\r\n"), 80)
	b.SetBytes(int64(len(block)))
	p := printer{emit: func([]byte) {}}
	for b.Loop() {
		p.write(block)
	}
}
