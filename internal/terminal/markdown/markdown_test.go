package markdown

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "rewrite the files of testdata")

// whole returns what is printed for a text that comes at once.
func whole(text string, width int, coloured bool) string {
	r := New(width, coloured)
	out := r.Write(text)
	return out + r.End()
}

// TestSample compares what a text with everything looks like with the files of testdata.
func TestSample(t *testing.T) {
	text, err := os.ReadFile("testdata/sample.md")
	require.NoError(t, err)
	for _, width := range []int{72, 30, 20} {
		for _, coloured := range []bool{true, false} {
			got := whole(string(text), width, coloured)
			name := fmt.Sprintf("testdata/sample-%d-%t.txt", width, coloured)
			if *update {
				require.NoError(t, os.WriteFile(name, []byte(got), 0o666))
			}
			want, err := os.ReadFile(name)
			require.NoError(t, err)
			assert.Equal(t, string(want), got, name)
		}
	}
}

func TestBlocks(t *testing.T) {
	for text, want := range map[string]string{
		"a\n\n\n\nb":                       "a\n\nb\n",
		"\n\na\n\n":                        "a\n",
		"# a\nb":                           "# a\nb\n",
		"#a\n#":                            "#a\n#\n",
		"- a\n- b\n\nc":                    "• a\n• b\n\nc\n",
		"* a\n    * b\n    * c\n* d":       "• a\n  • b\n  • c\n• d\n",
		"- a\n\n  more of a\n\nno more":    "• a\n\n  more of a\n\nno more\n",
		"1. a\n   - b\n10) c":              "1. a\n   • b\n10) c\n",
		"- a\nlazy\n# head":                "• a\n  lazy\n# head\n",
		"-":                                "• \n",
		"-a\n+1\n1.5\n2.":                  "-a\n+1\n1.5\n2. \n",
		"**a** b\n*** c\n---x":             "**a** b\n*** c\n---x\n",
		"- - a":                            "• - a\n",
		"> a\nb\n\nc":                      "│ a\n│ b\n\nc\n",
		"> a\n>\n> b\n> - c":               "│ a\n│\n│ b\n│ • c\n",
		"> a\n\n> b":                       "│ a\n\n│ b\n",
		"> a\n# b":                         "│ a\n# b\n",
		"> ```\n> a\n> ```\n> b":           "│     a\n│ b\n",
		"> ```\n> a\nb":                    "│     a\nb\n",
		"```\n- a\n# b\n\n\nc\n```\nd":     "    - a\n    # b\n\n\n    c\nd\n",
		"````\n```\n````":                  "    ```\n",
		"~~~ sh\na\n~~~":                   "    a\n",
		"```a``` b":                        "```a``` b\n",
		"```\nopen":                        "    open\n",
		"- a\n  ```\n  b\n  ```\n- c":      "• a\n      b\n• c\n",
		"- ```\n  b\n  ```":                "•\n      b\n",
		"    a\n\n    b\n\nc":              "    a\n\n    b\n\nc\n",
		"a\n    b":                         "a\nb\n",
		"|a|b|\n|-|-|\n|1|2|3|\n|x|":       "a │ b\n──┼──────\n1 │ 2 | 3\nx │ \n",
		"|a|\nb":                           "|a|\nb\n",
		"|a|b|\n|c|d|\n":                   "|a|b|\n|c|d|\n",
		"|a|\n|-|\n\n|b|":                  "a\n─\n\n|b|\n",
		"- |a|b|\n  |-|-|\n  |1|2|":        "• a │ b\n  ──┼──\n  1 │ 2\n",
		"| a | b |\n|--:|:-:|\n| 1 | 2 |":  "a │ b\n──┼──\n1 │ 2\n",
		"|a|\n|-|\n|x<br>y|":               "a\n─\nx\ny\n",
		"|a|\n|-|\n|`x\\|y` \\| z|":        "a\n─────────\n`x|y` | z\n",
		"[ ] a\n- [x] b":                   "[ ] a\n• [x] b\n",
		"\\# a\n\\- b\n\\a \\\\":           "# a\n- b\n\\a \\\n",
		"a\r\nb\r":                         "a\nb␍\n",
		"a\tb":                             "a b\n",
		"\x1b[31mred\x07\x00\u009b1m\x7f!": "␛[31mred␇␀<U+009B>1m<U+007F>!\n",
		"\u202eevil\u2066\u200b\ufeff":     "<U+202E>evil<U+2066><U+200B><U+FEFF>\n",
		"\xff\xc3(":                        "\ufffd\ufffd(\n",
		"a" + strings.Repeat("\u0301", 6):  "a\u0301\u0301\u0301\u0301<U+0301><U+0301>\n",
	} {
		assert.Equal(t, want, whole(text, 80, false), "%q", text)
	}
}

func TestInline(t *testing.T) {
	strip := strings.NewReplacer("\x1b[0m", ")", "\x1b[1m", "(1 ", "\x1b[3m", "(3 ", "\x1b[1;3m", "(13 ", "\x1b[4m",
		"(4 ", "\x1b[9m", "(9 ", "\x1b[36m", "(code ", "\x1b[1;36m", "(1code ", "\x1b[1;4m", "(14 ")
	for text, want := range map[string]string{
		"a *b* _c_ **d** __e__ ***f*** ~~g~~": "a (3 b) (3 c) (1 d) (1 e) (13 f) (9 g)",
		"**a *b* c**":                         "(1 a) (13 b) (1 c)",
		"*a **b** c*":                         "(3 a) (13 b) (3 c)",
		"**a *b***":                           "(1 a) (13 b)",
		"*a* b**c**d 中**文**":                  "(3 a) b(1 c)d 中(1 文)",
		"2*3*4 a_b_c __init__.py * a * b":     "2*3*4 a_b_c (1 init).py * a * b",
		"**open\n*open":                       "**open\n*open",
		"** a ** *a *":                        "** a ** *a *",
		"`a *b*` ``c`d`` ` x":                 "(code a) (code *b*) (code c`d) ` x",
		"**a `**` b**":                        "(1 a) (1code **) (1 b)",
		"**a `b** c`":                         "**a (code b**) (code c)",
		"\\*a\\* \\`b\\`":                     "*a* `b`",
		"[a](http://x)":                       "a ((4 http://x))",
		"[a b](<http://x> \"t\")":             "a b ((4 http://x))",
		"[http://x](http://x)":                "(4 http://x)",
		"[http://bank](http://evil)":          "http://bank ((4 http://evil))",
		"![chart](c.png) ![](d.png)":          "chart ((4 c.png)) (4 d.png)",
		"[a](b(c)d) [**e**](f)":               "a ((4 b(c)d)) (1 e) ((4 f))",
		"[a][b] [c] [d]() [e](":               "[a][b] [c] [d]() [e](",
		"**[a](b)**":                          "(1 a) (1 ()(14 b)(1 ))",
		"a ! b [ c":                           "a ! b [ c",
	} {
		assert.Equal(t, want+"\n", strip.Replace(whole(text, 80, true)), "%q", text)
	}
}

func TestHighlight(t *testing.T) {
	for _, c := range []struct{ language, text, want string }{
		{"go", "func a() { return \"b\\\"\" + 'c' // d", "k[func] a() { k[return] q[\"b\\\"\"] + q['c'] c[// d]"},
		{"go", "x := `a\nb` + 1.5e3", "x := q[`a]\nq[b`] + n[1.5e3]"},
		{"go", "/* a\nb */ nil", "c[/* a]\nc[b */] k[nil]"},
		{"python", "def a(): # b\n\"\"\"c\nd\"\"\"", "k[def] a(): c[# b]\nq[\"\"\"c]\nq[d\"\"\"]"},
		{"ts", "const a = b.if1", "k[const] a = b.if1"},
		{"sh", "echo $# 'a' # b", "k[echo] $# q['a'] c[# b]"},
		{"json", `{"a": "b", "c": [1, true]}`, `{k["a"]: q["b"], k["c"]: [n[1], k[true]]}`},
		{"yaml", "a: b # c", "k[a]: b c[# c]"},
		{"c", "int a = 0x1f; 'u", "k[int] a = n[0x1f]; q['u]"},
		{"rust", "fn über() {}", "k[fn] über() {}"},
		{"diff", "@@ -1 +1 @@\n-a\n+b\n c", "n[@@ -1 +1 @@]\nr[-a]\na[+b]\n c"},
		{"sql", "SELECT a -- b", "k[SELECT] a c[-- b]"},
		{"unknown", "if a", "if a"},
	} {
		marks := map[style]string{keyword: "k", quoted: "q", comment: "c", number: "n", added: "a", removed: "r"}
		l := newLexer(c.language)
		var lines []string
		for line := range strings.SplitSeq(c.text, "\n") {
			var b strings.Builder
			for _, p := range l.line(line, true) {
				if b.WriteString(p.text); p.style != 0 {
					text := b.String()
					b.Reset()
					b.WriteString(strings.TrimSuffix(text, p.text) + marks[p.style] + "[" + p.text + "]")
				}
			}
			lines = append(lines, b.String())
		}
		assert.Equal(t, c.want, strings.Join(lines, "\n"), c.language)
	}
}

// TestStream: words are shown as they come, and what may be more than text waits until it is known.
func TestStream(t *testing.T) {
	r := New(40, true)
	for _, step := range [][2]string{
		{"Hel", ""}, {"lo wor", "Hello"}, {"ld. ", " world."}, {"**bo", ""}, {"ld** x", " \x1b[1mbold\x1b[0m"},
		{"\n", " x\n"}, {"- i", "• "}, {"tem a", "item"}, {"\n|a", " a\n"}, {"|\n|-|\n|1|\n", ""},
		{"\nz ", "\x1b[1ma\x1b[0m\n\x1b[2m─\x1b[0m\n1\n\nz"}, {"漢字", " 漢"}, {"\n```\na", "字\n"},
		{"b\nc", "    ab\n"},
	} {
		assert.Equal(t, step[1], r.Write(step[0]), "%q", step[0])
	}
	assert.Equal(t, "    c\n", r.End())
}

// escape is an escape sequence of this package: a colour.
var escape = regexp.MustCompile(`\x1b\[([0-9;]+)m`)

// harmless checks that out obeys nobody but this package: it has no control character but newlines and colours, which
// end in their line, and none at all without colours.
func harmless(t interface{ Errorf(string, ...any) }, out string, coloured bool) {
	for line := range strings.SplitSeq(out, "\n") {
		on := false
		for _, m := range escape.FindAllStringSubmatch(line, -1) {
			if on == (m[1] != "0") || !coloured {
				t.Errorf("escape sequence in %q", line)
			}
			on = !on
		}
		if on {
			t.Errorf("a colour goes on after %q", line)
		}
		if rest := escape.ReplaceAllString(line, ""); strings.ContainsFunc(rest, unicode.IsControl) ||
			strings.ContainsAny(rest, "\u202a\u202b\u202d\u202e\u2066\u2067\u2068\u061c\u2028\u2029") ||
			!utf8.ValidString(rest) {
			t.Errorf("control character in %q", rest)
		}
	}
}

// check checks that a text cut into pieces is printed as the whole, and harmless.
func check(t interface{ Errorf(string, ...any) }, text string, cuts []byte, width int, coloured bool) {
	want := whole(text, width, coloured)
	harmless(t, want, coloured)
	r := New(width, coloured)
	var got strings.Builder
	rest := text
	for i := 0; rest != ""; i++ {
		n := 1
		if len(cuts) > 0 {
			n = min(len(rest), 1+int(cuts[i%len(cuts)]))
		}
		out := r.Write(rest[:n])
		harmless(t, out, coloured)
		got.WriteString(out)
		rest = rest[n:]
	}
	out := r.End()
	harmless(t, out, coloured)
	if got.WriteString(out); got.String() != want {
		t.Errorf("%q in pieces of %d:\n%q, not\n%q", text, cuts, got.String(), want)
	}
}

func FuzzPieces(f *testing.F) {
	sample, err := os.ReadFile("testdata/sample.md")
	require.NoError(f, err)
	f.Add(string(sample), []byte{3, 0, 7}, 40, true)
	for _, text := range []string{"**a `b** c` d**", "| a | b |\n|--|--|\n| `x\\|` |",
		"- 1. a\n\t- b\n> > c\n```go\n/*\n",
		"[a](b \"c\") ![", "\r\n\r\r\n\x1b]8;;http://x\x07", "👩\u200d👩\u200d👧🇩🇪e\u0301\u200d\u200d", "    a\n\n\tb\n",
		"***a*** ___b___ ~~~\n~~~", strings.Repeat("*a ", 200), strings.Repeat("-", 900),
		strings.Repeat(" ", 700) + "- a"} {
		f.Add(text, []byte{0}, 20, true)
		f.Add(text, []byte{1, 5}, 80, false)
	}
	f.Fuzz(func(t *testing.T, text string, cuts []byte, width int, coloured bool) {
		if len(text) > 20_000 {
			return
		}
		check(t, text, cuts, width, coloured)
	})
}

// fragments are parts of texts in which everything happens.
var fragments = []string{"a", "Bb ", "cc, ", "*", "**", "_", "`", "``", "[", "](", ")", "!", "\n", "\n\n", "\n- ",
	"\n  - ", "\n1. ", "\n> ", "\n# ", "\n---\n", "| a | b |\n|---|--:|\n| c ", "|", "\\", "漢", "👍🏽", "e\u0301", "~~",
	"  ", "\t", "http://x.y/z?a=b ", "\x1b[1m", "\u202e", "\xff", "\r\n", "0123456789"}

// TestPieces: whatever a text is made of, where it is cut changes nothing.
func TestPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		long, wide := strings.Repeat("long ", 150), strings.Repeat("x", 9000)
		parts := append([]string{"\n```go\n", "\n```\n", "    ", long, wide}, fragments...)
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(parts), 0, 40).Draw(t, "parts"), "")
		cuts := rapid.SliceOfN(rapid.Byte(), 1, 9).Draw(t, "cuts")
		check(t, text, cuts, rapid.IntRange(20, 200).Draw(t, "width"), rapid.Bool().Draw(t, "coloured"))
	})
}

// TestWidths: each line fits, at any width, and no letter is lost.
func TestWidths(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(fragments), 0, 60).Draw(t, "parts"), "")
		width, coloured := rapid.IntRange(20, 200).Draw(t, "width"), rapid.Bool().Draw(t, "coloured")
		out := whole(text, width, coloured)
		code := strings.Contains(text, "    ") || strings.ContainsAny(text, "\t`") || strings.Contains(text, "~~~")
		for line := range strings.SplitSeq(out, "\n") {
			if n := widthOf(line); n > width && !code {
				t.Errorf("%d of %d columns: %q in %q", n, width, line, text)
			}
		}
		letters := func(s string) string {
			return strings.Map(func(r rune) rune {
				if unicode.IsLetter(r) || unicode.IsDigit(r) {
					return r
				}
				return -1
			}, s)
		}
		shown := strings.ReplaceAll(letters(escape.ReplaceAllString(out, "")), "U202E", "") // what is spelled out
		given := letters(text)
		whole := !strings.ContainsAny(text, "|`") && !strings.Contains(text, "](") && !strings.Contains(text, "~~~")
		if whole && shown != given {
			t.Errorf("%q became %q", given, shown)
		}
	})
}

// TestBounded: a line without end is shown as it comes, what is held back is bounded, and so is the time.
func TestBounded(t *testing.T) {
	pieces := 64
	if testing.Short() { // the race detector makes this ten times slower
		pieces = 24
	}
	for name, unit := range map[string]string{
		"letters": "x", "words": "word ", "dashes": "-", "hashes": "#", "spaces": " ", "quotes": ">",
		"ticks": "`a ``b ",
		"stars": "*a ", "bold": "**a", "brackets": "[", "links": "[a](", "bars": "|", "marks": "\u0301",
		"joiners": "a\u200d",
		"digits":  "1", "tabs": "\t", "zero": "\u200d", "escapes": "\\", "mix": "*a `b ``c [d ![e **f _g ~~h ",
		"images": "![",
		"nested": "*a _b **c __d ", "closes": "a* b_ ",
	} {
		for _, before := range []string{"", "```go\n", "- ", "> ", "| a |\n|---|\n| ", "```diff\n+", "# "} {
			r := New(80, true)
			r.Write(before)
			start, out, most := time.Now(), 0, 0
			piece := strings.Repeat(unit, 4096/len(unit))
			for range pieces {
				out += len(r.Write(piece))
				held := len(r.rest) + len(r.flow.tail) + len(r.cleaner.rest)
				for _, p := range r.flow.word {
					held += len(p.text)
				}
				most = max(most, held)
			}
			assert.LessOrEqual(t, most, maxRow+4096+maxWord, "%s after %q", name, before)
			assert.Less(t, time.Since(start), 5*time.Second, "%s after %q", name, before)
		}
	}
	r := New(80, true)
	r.Write("|a|\n|-|\n")
	rows := 0
	for range 2000 {
		r.Write("|" + strings.Repeat("x", 1000) + "|\n")
		rows = max(rows, len(r.table.rows))
	}
	assert.LessOrEqual(t, rows, maxTable/1000+2, "a table without end")
}

// TestResize: the next line has the new width.
func TestResize(t *testing.T) {
	r := New(80, false)
	words := strings.Repeat("word ", 20)
	out := r.Write(words + "\n")
	r.Resize(30)
	out += r.Write(words + "\n")
	r.Resize(1)
	out += r.Write(words+"\n") + r.End()
	widest := map[int]bool{}
	for line := range strings.SplitSeq(out, "\n") {
		widest[len(line)] = true
	}
	assert.True(t, widest[79] && widest[29] && widest[19], out)
}

// BenchmarkWrite shows an answer that comes in small pieces.
func BenchmarkWrite(b *testing.B) {
	text, err := os.ReadFile("testdata/sample.md")
	require.NoError(b, err)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		r := New(80, true)
		for i := 0; i < len(text); i += 4 {
			r.Write(string(text[i:min(i+4, len(text))]))
		}
		r.End()
	}
}
