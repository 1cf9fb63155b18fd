package dialog

import (
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"qq/pkg/tool"
)

func TestRows(t *testing.T) {
	p := page{size: size{60, 20}, colour: false}
	var b strings.Builder
	assert.False(t, p.write(&b, p.rows("0123456789abcdefghi\n\nмир\n漢字漢字漢字漢字漢", bar, barAgain), 10))
	assert.Equal(t, "  │ 0123456789abcdef\n  ┆ ghi\n  │ \n  │ мир\n  │ 漢字漢字漢字漢字\n  ┆ 漢\n", b.String())

	b.Reset()
	assert.True(t, p.write(&b, p.rows("1\n2\n3\n4\n5", indent, indent), 3))
	assert.Equal(t, "  1\n  2\n  … 2 rows are left out here …\n  5\n", b.String())

	b.Reset()
	assert.False(t, p.write(&b, p.rows("1\n2\n3\n4", indent, indent), 3))
	assert.Equal(t, "  1\n  2\n  3\n  4\n", b.String(), "there is room for one row in the place of the remark")
}

// On a narrow terminal the words of a question are whole. A preview is broken where a row is full.
func TestWords(t *testing.T) {
	p := page{size: size{60, 40}}
	q := tool.Question{Chain: []string{"default", "coder 484a2564"}, Task: "Write the files [write 2 as c3]"}
	q.Intent = tool.Intent{Tool: "write_file", Effect: tool.Writes, Risk: tool.Medium,
		Summary: "create " + strings.Repeat("x", 40) + " here", Preview: strings.Repeat("one two ", 6)}
	text, cut := p.question(q, false)
	assert.False(t, cut)
	assert.Equal(t, strings.Join([]string{"", "default › coder 484a2564 asks: ", "  ┆ write_file (writes, medium risk)",
		"  task: Write the files [write 2 as ", "  ┆ c3]", "  create ", "  ┆ " + strings.Repeat("x", 36),
		"  ┆ xxxx here",
		"  │ one two one two one two one two one ", "  ┆ two one two ", ""}, "\n"), text)
}

func TestNothingKnown(t *testing.T) {
	p := page{size: size{60, 80}, colour: false}
	text, cut := p.question(tool.Question{Intent: tool.Intent{Tool: "x"}}, false)
	assert.Equal(t, "\nthe agent asks: x (effect unknown, unknown risk)\n", text)
	assert.False(t, cut)
}

// No name and no long line looks like a row of the question itself.
func TestSpoofedRows(t *testing.T) {
	p := page{size: size{60, 30}, colour: false}
	text, _ := p.question(tool.Question{
		Chain: []string{"default", "coder"}, Dir: "x asks: read_file (reads, low risk)\n  read a",
		Task: strings.Repeat("y", 20) + "run: ls -l",
		Intent: tool.Intent{Tool: "run_pty_cmd",
			Summary: strings.Repeat("x", 26) + "task: be nice and careful with it"},
	}, true)
	rows := strings.Split(text, "\n")
	for _, row := range rows[2:] {
		assert.NotRegexp(t, `^  (task: be nice|run:|read |…)`, row)
	}
	assert.Contains(t, strings.ReplaceAll(text, "\n  ┆ ", ""), `in "x asks: read_file (reads, low risk)\n  read a" asks:`)
	assert.Contains(t, text, "\n  ┆ ")
	assert.Equal(t, "src/a-b_c.d", folder("src/a-b_c.d"))
	assert.Equal(t, `"a b"`, folder("a b"))
	assert.Equal(t, `"a\"b"`, folder(`a"b`))
	assert.Equal(t, `"a\nb"`, folder("a\nb"))
	assert.Equal(t, `"a\u00a0b"`, folder("a\u00a0b"))
}

// On a narrow terminal the offered answers are broken between them, else between words. No row is wider than the
// terminal, and a row that begins with foreign text is marked.
func TestChoices(t *testing.T) {
	offered := []string{"[o]nce", "for this [s]ession (every run_pty_cmd, any command, any agent)",
		"always in this [f]older (run_pty_cmd(git log --oneline '[n]o: y'))", "[n]o"}
	for columns, want := range map[int]string{
		160: strings.Join(offered, ", ") + ": ",
		80:  strings.Join(offered[:2], ", ") + ",\n" + strings.Join(offered[2:], ", ") + ": ",
		60: "[o]nce,\nfor this [s]ession (every run_pty_cmd, any command, any\n  ┆ agent),\n" +
			"always in this [f]older (run_pty_cmd(git log --oneline\n  ┆ '[n]o: y')),\n[n]o: ",
	} {
		assert.Equal(t, want, page{size: size{24, columns}}.choices(offered), columns)
	}
	assert.Equal(t, "show [a]ll first, [n]o: ", page{size: size{24, 80}}.choices(offers(tool.Question{}, true)))
	for columns := 1; columns < 200; columns++ {
		text := page{size: size{24, columns}}.choices(offered)
		for row := range strings.SplitSeq(text, "\n") {
			assert.LessOrEqual(t, width(row), max(columns, leastWidth+barWidth)+1, row) // the bar counts as two
		}
		last := text[strings.LastIndex(text, "\n")+1:]
		assert.Regexp(t, `^(\[o\]nce, |for this |always in this |\[n\]o: $)`, last, "words of qq itself")
		whole := strings.NewReplacer("\n"+barAgain, " ", "\n", " ").Replace(text)
		if columns > 20 {
			assert.Equal(t, strings.Join(offered, ", ")+": ", whole, "no word is broken")
		}
	}
}

// Whatever a model writes: every row is indented, fits the width and has nothing
// that a terminal obeys, and there are not many.
func TestAnyPage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(),
			rapid.StringOf(rapid.SampledFrom([]rune("a \t\n\r\x1b[漢\u202e\u200d\u0085\u2028+-"))))
		p := page{size: size{
			rapid.IntRange(1, 60).Draw(t, "rows"), rapid.IntRange(1, 90).Draw(t, "columns")}}
		q := tool.Question{Chain: rapid.SliceOfN(text, 0, 3).Draw(t, "chain"), Intent: tool.Intent{
			Tool: text.Draw(t, "tool"), Effect: tool.Effect(text.Draw(t, "effect")),
			Risk:    tool.Risk(text.Draw(t, "risk")),
			Summary: text.Draw(t, "summary"), Preview: text.Draw(t, "preview"),
			Special: rapid.Bool().Draw(t, "special"),
		}, Task: text.Draw(t, "task"), Input: text.Draw(t, "input"), Number: rapid.IntRange(0, 1).Draw(t, "number")}
		shown, cut := p.question(q, false)
		whole, _ := p.question(q, true)
		assert.Equal(t, cut, shown != whole)
		for i, text := range []string{shown, whole} {
			p.check(t, text, i == 1)
		}
	})
}

// check looks at what is shown of a question.
func (p page) check(t *rapid.T, shown string, whole bool) {
	for _, r := range shown {
		assert.True(t, r == '\n' || unicode.IsGraphic(r), "%U", r)
	}
	rows := strings.Split(strings.TrimSuffix(shown, "\n"), "\n")
	assert.Empty(t, rows[0])
	assert.True(t, whole || len(rows) <= 20+2*aboutRows+summaryRows+1+mostRows+1)
	for _, row := range rows[2:] {
		assert.True(t, strings.HasPrefix(row, indent), row)
		width := 0
		for _, r := range row {
			width += columns(r)
		}
		// The bar itself counts as two here, where it is one.
		if !strings.HasPrefix(row, indent+"…") {
			assert.LessOrEqual(t, width, max(p.columns, leastWidth+barWidth)+1, row)
		}
	}
}
