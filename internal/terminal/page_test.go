package terminal

import (
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"qq/pkg/approval"
	"qq/pkg/tool"
)

func TestRows(t *testing.T) {
	p := page{size{60, 20}, false}
	var b strings.Builder
	p.rows(&b, "0123456789abcdefghi\n\nмир\n漢字漢字漢字漢字漢", bar, barAgain, 10)
	assert.Equal(t, "  │ 0123456789abcdef\n  ┆ ghi\n  │ \n  │ мир\n  │ 漢字漢字漢字漢字\n  ┆ 漢\n", b.String())

	b.Reset()
	p.rows(&b, strings.Repeat("x", 16*5), indent, indent, 3)
	assert.Equal(t, strings.Repeat("  xxxxxxxxxxxxxxxx\n", 3)+"  … 2 more rows are not shown\n", b.String())
}

func TestNothingKnown(t *testing.T) {
	p := page{size{60, 80}, false}
	assert.Equal(t, "\nthe agent asks: x (effect unknown, unknown risk)\n", p.question(approval.Question{Intent: tool.Intent{Tool: "x"}}))
}

// Whatever a model writes: every row is indented, fits the width and has nothing
// that a terminal obeys, and there are not many.
func TestAnyPage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringOf(rapid.SampledFrom([]rune("a \t\n\r\x1b[漢\u202e\u200d\u0085\u2028+-"))))
		p := page{size{rapid.IntRange(1, 60).Draw(t, "rows"), rapid.IntRange(1, 90).Draw(t, "columns")}, false}
		q := approval.Question{Chain: rapid.SliceOfN(text, 0, 3).Draw(t, "chain"), Intent: tool.Intent{
			Tool: text.Draw(t, "tool"), Effect: tool.Effect(text.Draw(t, "effect")), Risk: tool.Risk(text.Draw(t, "risk")),
			Summary: text.Draw(t, "summary"), Preview: text.Draw(t, "preview"),
		}}
		shown := p.question(q)
		for _, r := range shown {
			assert.True(t, r == '\n' || unicode.IsGraphic(r), "%U", r)
		}
		rows := strings.Split(strings.TrimSuffix(shown, "\n"), "\n")
		assert.Empty(t, rows[0])
		assert.LessOrEqual(t, len(rows), 2+summaryRows+1+mostRows+1)
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
	})
}
