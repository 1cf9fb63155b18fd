package longtext

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// quarter estimates a token for each four bytes.
func quarter(s string) int { return (len(s) + 3) / 4 }

func bytesOf(s string) int { return len(s) }

// estimators are different in what matters here: some say less for pieces than
// for the whole, some more, and one is a constant.
var estimators = map[string]func(string) int{
	"quarter":     quarter,
	"bytes":       bytesOf,
	"characters":  utf8.RuneCountInString,
	"words":       func(s string) int { return len(strings.Fields(s)) },
	"rounds down": func(s string) int { return len(s) / 5 },
	"dear":        func(s string) int { return 3 * len(s) },
	"overhead":    func(s string) int { return 3 + len(s)/2 },
	"square":      func(s string) int { return len(s) * len(s) / 100 },
	"constant":    func(string) int { return 7 },
	"nothing":     func(string) int { return 0 },
	"negative":    func(s string) int { return -len(s) },
}

// check checks the properties that parts of any text must have.
func check(t require.TestingT, text string, room int, tokens func(string) int, parts []Part) {
	var b strings.Builder
	lines := 0
	for i, p := range parts {
		require.NotEmpty(t, p.Text, "part %d", i)
		require.Equal(t, tokens(p.Text), p.Tokens, "part %d", i)
		require.Equal(t, 1+lines, p.First, "first line of part %d", i)
		b.WriteString(p.Text)
		require.Equal(
			t,
			1+lines+strings.Count(strings.TrimSuffix(p.Text, "\n"), "\n"),
			p.Last,
			"last line of part %d",
			i,
		)
		lines += strings.Count(p.Text, "\n")
		one := utf8.RuneCountInString(p.Text) == 1 || p.Text == "\r\n"
		require.True(t, p.Tokens <= room || one, "part %d has %d tokens, %d fit: %q", i, p.Tokens, room, p.Text)
		require.True(t, utf8.ValidString(p.Text) || !utf8.ValidString(text), "part %d is %q", i, p.Text)
		require.False(
			t,
			strings.HasSuffix(p.Text, "\r") && i+1 < len(parts) && strings.HasPrefix(parts[i+1].Text, "\n"),
			"a CRLF is cut behind part %d",
			i,
		)
		require.True(t, utf8.ValidString(p.Title) && !strings.ContainsAny(p.Title, "\n\r\x00"), "title %q", p.Title)
		require.LessOrEqual(t, utf8.RuneCountInString(p.Title), maxTitle)
	}
	require.Equal(t, text, b.String())
}

func drawText(t *rapid.T) string {
	line := rapid.OneOf(
		rapid.SampledFrom(
			[]string{
				"",
				"",
				"# A",
				"## Bé",
				"### C ###",
				"#",
				"####### no",
				"Setext",
				"===",
				"---",
				"```",
				"```go",
				"~~~~",
				"    # code",
				"- item",
				"a,b,c",
				"2026-01-01 INFO x",
				"\t",
				"一二三。四五六！七",
				"e\u0301👩‍👩‍👧",
				"\r",
			},
		),
		rapid.StringN(0, 200, -1),
		rapid.Custom(func(t *rapid.T) string {
			return strings.Repeat(
				rapid.SampledFrom([]string{"word ", "One sentence. ", "x", "字", " "}).Draw(t, "unit"),
				rapid.IntRange(0, 300).Draw(t, "times"),
			)
		}),
	)
	end := rapid.SampledFrom([]string{"\n", "\n", "\r\n", "\n\n", ""})
	var b strings.Builder
	for range rapid.IntRange(0, 40).Draw(t, "lines") {
		b.WriteString(line.Draw(t, "line"))
		b.WriteString(end.Draw(t, "end"))
	}
	return b.String()
}

func TestCutProperties(t *testing.T) {
	names := slices.Sorted(maps.Keys(estimators))
	rapid.Check(t, func(t *rapid.T) {
		text := drawText(t)
		room := rapid.OneOf(rapid.IntRange(1, 20), rapid.IntRange(20, 2000)).Draw(t, "room")
		tokens := estimators[rapid.SampledFrom(names).Draw(t, "estimator")]
		parts := Cut(text, room, tokens)
		check(t, text, room, tokens, parts)
		require.Equal(t, parts, Cut(text, room, tokens))
	})
}

// The parts of a text with many paragraphs have about the same size.
func TestCutBalance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		for range rapid.IntRange(1, 300).Draw(t, "paragraphs") {
			b.WriteString(strings.Repeat("word ", rapid.IntRange(1, 20).Draw(t, "words")))
			b.WriteString(rapid.SampledFrom([]string{"\n", "\n\n", "\n\n## More\n\n", "\n\n# New\n\n"}).Draw(t, "end"))
		}
		room := rapid.IntRange(200, 1000).Draw(t, "room")
		parts := Cut(b.String(), room, quarter)
		check(t, b.String(), room, quarter, parts)
		if len(parts) == 1 {
			return
		}
		for i, p := range parts {
			require.GreaterOrEqual(t, p.Tokens, room/5, "part %d of %d", i+1, len(parts))
		}
		require.LessOrEqual(t, len(parts), 1+quarter(b.String())*5/2/room)
	})
}

// A code fence or a line that fits is never cut.
func TestCutKeepsWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		var blocks []string
		for range rapid.IntRange(1, 30).Draw(t, "blocks") {
			var block string
			if rapid.Bool().Draw(t, "code") {
				block = "```\n" + strings.Repeat("# call()\n\n", rapid.IntRange(0, 80).Draw(t, "code lines")) + "```\n"
			} else {
				block = strings.Repeat("A sentence. ", rapid.IntRange(1, 65).Draw(t, "sentences")) + "\n"
			}
			blocks = append(blocks, block)
			b.WriteString(block)
			b.WriteString(rapid.SampledFrom([]string{"", "\n", "\n\n# New\n\n"}).Draw(t, "between"))
		}
		const room = 1000
		parts := Cut(b.String(), room, bytesOf)
		check(t, b.String(), room, bytesOf, parts)
		for _, p := range parts {
			rest := p.Text
			for rest != "" { // a part is made of whole blocks and what stands between them
				switch {
				case len(blocks) > 0 && strings.HasPrefix(rest, blocks[0]):
					rest, blocks = rest[len(blocks[0]):], blocks[1:]
				case strings.HasPrefix(rest, "\n"):
					rest = rest[1:]
				default:
					after, ok := strings.CutPrefix(rest, "# New\n")
					require.True(t, ok, "a block is cut before %q", rest[:min(len(rest), 50)])
					rest = after
				}
			}
		}
		require.Empty(t, blocks)
	})
}

// starts is the first line of each part.
func starts(parts []Part) []string {
	var out []string
	for _, p := range parts {
		first, _, _ := strings.Cut(p.Text, "\n")
		out = append(out, first)
	}
	return out
}

func titles(parts []Part) []string {
	var out []string
	for _, p := range parts {
		out = append(out, p.Title)
	}
	return out
}

func prose(sentences int) string {
	return strings.Repeat("The valve opens at seven bar. ", sentences) + "\n"
}

func TestCutMarkdown(t *testing.T) {
	text := "---\ntitle: Manual\n---\n\n# Guide\n\n" + prose(3) +
		"\n## Install\n\n" + prose(20) + "\n```sh\n# not a heading\nmake\n```\n" +
		"\n## Use\n\n" + prose(20) + "\n### Flags\n\n" + prose(15) +
		"\nReference\n=========\n\n" + prose(30) + "\nErrors\n------\n\n" + prose(4)
	parts := Cut(text, 350, quarter)
	check(t, text, 350, quarter, parts)
	assert.Equal(t, []string{"---", "## Use", "Reference"}, starts(parts))
	assert.Equal(t, []string{"Guide", "Guide > Use", "Reference"}, titles(parts))

	parts = Cut(text, 250, quarter)
	check(t, text, 250, quarter, parts)
	assert.Equal(t, []string{"---", "## Use", "### Flags", "Reference", "Errors"}, starts(parts))
	assert.Equal(
		t,
		[]string{"Guide", "Guide > Use", "Guide > Use > Flags", "Reference", "Reference > Errors"},
		titles(parts),
	)

	// Small enough that a paragraph of one line must be cut: at its sentences.
	parts = Cut(text, 100, quarter)
	check(t, text, 100, quarter, parts)
	for _, p := range parts {
		assert.Regexp(t, `(?s)(\n|\. )$`, p.Text)
	}
}

func TestCutTitles(t *testing.T) {
	text := "Before.\n\n# A\n\n" + prose(
		6,
	) + "\n## B #\n\n" + prose(
		6,
	) + "\n# C `x` \x00\n\n" + prose(
		6,
	) + "\n### D\n\n" + prose(
		6,
	)
	assert.Equal(t, []string{"A … C `x` > D"}, titles(Cut(text, 5000, quarter)))
	assert.Equal(t, []string{"A", "C `x`"}, titles(Cut(text, 120, quarter)))
	assert.Equal(t, []string{"A", "A > B", "C `x`", "C `x` > D"}, titles(Cut(text, 60, quarter)))
	assert.Equal(t, []string{""}, titles(Cut("plain\ntext\n", 60, quarter)))
	assert.Equal(t, []string{"Deep … Other"}, titles(Cut("##### Deep\n# Other\n", 60, quarter)))
	long := Cut("# "+strings.Repeat("字", 500_000)+"\n", 1000, quarter)
	assert.Equal(t, strings.Repeat("字", maxHeading-3)+"...", long[0].Title)
	assert.Greater(t, len(long), 100)
}

func TestCutTexts(t *testing.T) {
	var code, log, table, tiny strings.Builder
	for i := range 60 {
		fmt.Fprintf(&code, "// f%d does it.\nfunc f%d() {\n\tcall()\n\n\treturn\n}\n\n", i, i)
		fmt.Fprintf(&log, "2026-11-21T10:00:%02d INFO request served in %d ms\n", i, i*7)
		fmt.Fprintf(&table, "%d,name %d,\"a, b\",%d.50\r\n", i, i, i*3)
		fmt.Fprintf(&tiny, "%d\n", i)
	}
	for name, c := range map[string]struct {
		text  string
		room  int
		parts int
		start string // of each part but the first
	}{
		"code":       {code.String(), 200, 4, `^//`},
		"log":        {log.String(), 200, 4, `^2026`},
		"table":      {table.String(), 150, 3, `^\d+,name`},
		"short":      {tiny.String(), 20, 3, `^\d+$`},
		"one line":   {strings.Repeat("word ", 500), 100, 7, `^word`},
		"no spaces":  {strings.Repeat("x", 1000), 100, 3, `^x+$`},
		"wide":       {strings.Repeat("这是一个句子。", 100), 100, 6, `^这`},
		"newlines":   {strings.Repeat("\n", 1000), 100, 3, `^$`},
		"CRLF":       {strings.Repeat("a line\r\n", 200), 100, 4, `^a line`},
		"spaces":     {strings.Repeat(" ", 1000), 100, 3, `^ +$`},
		"old ends":   {strings.Repeat("a line\r", 200), 100, 4, `^a line`},
		"headings":   {strings.Repeat("# x\n", 500), 100, 5, `^# x$`},
		"open fence": {"```\n" + strings.Repeat("code\n", 300), 100, 5, `^code$`},
		"not UTF-8":  {strings.Repeat("\x80\xff", 300), 50, 4, ``},
	} {
		t.Run(name, func(t *testing.T) {
			parts := Cut(c.text, c.room, quarter)
			check(t, c.text, c.room, quarter, parts)
			for _, s := range starts(parts)[1:] {
				assert.Regexp(t, c.start, s)
			}
			assert.Len(t, parts, c.parts)
		})
	}
	parts := Cut("---\n# a: b\n---\n\n---\n\n`` `x` ```\n\n``` a`b\n# B\n"+prose(20), 100, quarter)
	assert.Equal(t, []string{"B", "B"}, titles(parts))
	parts = Cut("---\n\n# A\n"+prose(20), 100, quarter)
	assert.Equal(t, []string{"A", "A"}, titles(parts))
	assert.Empty(t, Cut("", 100, quarter))
	assert.Len(t, Cut("text", 100, quarter), 1)
	for _, room := range []int{1, 0, -5} {
		assert.Equal(t, []string{"a", "é", "\r\n", "字"}, texts(Cut("aé\r\n字", room, bytesOf)))
	}
}

// texts is the text of each part.
func texts(parts []Part) []string {
	var out []string
	for _, p := range parts {
		out = append(out, p.Text)
	}
	return out
}

// Tokens are estimated for pieces, not repeatedly for the whole text.
func TestCutAsksLittle(t *testing.T) {
	for name, text := range hostile(1 << 20) {
		asked := 0
		Cut(text, 1000, func(s string) int {
			asked += len(s)
			return quarter(s)
		})
		assert.LessOrEqual(t, asked, len(text)*5/2, name)
	}
}

func FuzzCut(f *testing.F) {
	f.Add("# A\n\ntext\n\n```\ncode\n", uint16(3))
	f.Add("a\r\nb\r\n\xff字。 x", uint16(1))
	f.Add("T\n===\n---\n\n---\nx: y\n---\n", uint16(9))
	f.Fuzz(func(t *testing.T, text string, room uint16) {
		for _, name := range []string{"quarter", "characters", "rounds down", "dear"} {
			tokens := estimators[name]
			check(t, text, max(int(room), 1), tokens, Cut(text, int(room), tokens))
		}
	})
}

// A run that fits by its sums but not by its measured size is made smaller.
func TestPackShrinks(t *testing.T) {
	var marks []mark
	for i := range 101 {
		marks = append(marks, mark{at: i, rank: rankLine, sum: i})
	}
	flat := make([]mark, 101)
	for name, size := range map[string]func(i, j int) int{
		"dearer":  func(i, j int) int { return 3 * (j - i) },
		"jumping": func(i, j int) int { return (j - i) / 2 * 100 },
		"never":   func(i, j int) int { return 1000 },
	} {
		for _, marks := range [][]mark{marks, flat} {
			at := 0
			pack(marks, 20, size, func(i, j, tokens int) {
				assert.Equal(t, at, i, name)
				assert.Equal(t, size(i, j), tokens, name)
				assert.True(t, tokens <= 20 || j == i+1, name)
				at = j
			})
			assert.Equal(t, 100, at, name)
		}
	}
}

// hostile are texts of about n bytes on which a naive cutter would be slow.
func hostile(n int) map[string]string {
	fill := func(s string) string { return strings.Repeat(s, n/len(s)+1) }
	return map[string]string{
		"prose":      fill("The valve opens at seven bar. Then it closes,\nas the manual says.\n\n"),
		"markdown":   fill("## Part\n\nSome text.\n\n```\ncode\n```\n\n- item\n- item\n\n"),
		"one line":   fill("x"),
		"words":      fill("some words "),
		"wide":       fill("字"),
		"newlines":   fill("\n"),
		"CRLF":       fill("\r\n"),
		"spaces":     fill(" "),
		"headings":   fill("#\n"),
		"deep":       fill("# a\n## b\n### c\n#### d\n##### e\n###### f\n"),
		"setext":     fill("a\n===\n\n"),
		"fences":     fill("```\n"),
		"open fence": "```\n" + fill("x\n"),
		"ticks":      fill("`"),
		"hashes":     fill("#"),
		"not UTF-8":  fill("\x80"),
	}
}

func BenchmarkCut(b *testing.B) {
	for _, size := range []int{10 << 20, 64 << 20} {
		texts := hostile(size)
		for _, name := range slices.Sorted(maps.Keys(texts)) {
			b.Run(fmt.Sprintf("%dMB/%s", size>>20, name), func(b *testing.B) {
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					Cut(texts[name], 6000, quarter)
				}
			})
		}
	}
}
