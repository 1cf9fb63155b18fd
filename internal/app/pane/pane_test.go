package pane

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/app/columns"
	"qq/internal/app/command/block"
	"qq/internal/terminal/keys"
)

// tty is a terminal that keeps what was written last.
type tty struct{ text string }

// Draw implements Terminal.
func (t *tty) Draw(text string) error {
	t.text = text
	return nil
}

func drawn(t *testing.T, p *Pane, on *tty, size block.Size, rows ...Row) string {
	t.Helper()
	on.text = ""
	require.NoError(t, p.Draw(rows, size))
	return on.text
}

// TestDraw: only what has changed is written, and the screen is never cleared.
func TestDraw(t *testing.T) {
	on := &tty{}
	p := New(on, true)
	size := block.Size{Columns: 10, Rows: 4}
	assert.Empty(t, drawn(t, p, on, size, Row{Text: "not open"}))
	require.NoError(t, p.Open())
	assert.Equal(t, enter, on.text)
	assert.Equal(t, "\x1b[1Hone\x1b[K\x1b[2H\x1b[1mtwo\x1b[0m\x1b[K\x1b[3H\x1b[J",
		drawn(t, p, on, size, Row{Text: "one"}, Row{"two", Head}))
	assert.Empty(t, drawn(t, p, on, size, Row{Text: "one"}, Row{"two", Head}))
	p.Resized()
	assert.Equal(t, "\x1b[1Hone\x1b[K\x1b[2H\x1b[1mtwo\x1b[0m\x1b[K\x1b[3H\x1b[J",
		drawn(t, p, on, size, Row{Text: "one"}, Row{"two", Head}), "the terminal may have cut them")
	assert.Equal(t, "\x1b[1H\x1b[3Gf\x1b[K\x1b[2H\x1b[7mtwo      \x1b[0m\x1b[K",
		drawn(t, p, on, size, Row{Text: "onf"}, Row{"two", Chosen}))
	assert.Equal(t, "\x1b[1H\r012345678\x1b[K\x1b[2H\x1b[J", drawn(t, p, on, size, Row{Text: "0123456789"}))
	narrow := block.Size{Columns: 5, Rows: 1}
	assert.Equal(t, "\x1b[1H0123\x1b[K", drawn(t, p, on, narrow, Row{Text: "0123456789"}, Row{Text: "no room"}))
	require.NoError(t, p.Close())
	assert.Equal(t, leave, on.text)
	on.text = ""
	require.NoError(t, p.Close())
	assert.Empty(t, on.text, "it is closed once")

	plain := New(on, false)
	require.NoError(t, plain.Open())
	assert.Equal(t, "\x1b[1Htwo\x1b[K\x1b[2H\x1b[J", drawn(t, plain, on, size, Row{"two", Chosen}))
}

// TestPager: it stays at the end of a text that grows, until the person moves.
func TestPager(t *testing.T) {
	g := &Pager{Title: "title", Hint: "hint"}
	size := block.Size{Columns: 20, Rows: 5}
	text := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "line %d\n", i)
		}
		return b.String()
	}
	shows := func(want ...string) {
		t.Helper()
		rows := g.Rows(size)
		var got []string
		for _, r := range rows[1 : len(rows)-1] {
			got = append(got, r.Text)
		}
		assert.Equal(t, want, got)
		assert.Equal(t, Row{"title", Head}, rows[0])
		assert.Equal(t, Row{"hint", Faint}, rows[len(rows)-1])
	}
	g.Set(text(2))
	shows("line 0", "line 1", "")
	g.Set(text(9))
	shows("line 6", "line 7", "line 8")
	assert.True(t, g.Press(keys.Key{Code: keys.PageUp}))
	shows("line 3", "line 4", "line 5")
	g.Set(text(20))
	shows("line 3", "line 4", "line 5")
	assert.True(t, g.Press(keys.Key{Code: keys.Down}))
	shows("line 4", "line 5", "line 6")
	assert.True(t, g.Press(keys.Key{Code: keys.Home}))
	shows("line 0", "line 1", "line 2")
	assert.True(t, g.Press(keys.Key{Code: keys.End}))
	shows("line 17", "line 18", "line 19")
	assert.False(t, g.Press(keys.Key{Rune: 'x'}))
	g.Set("│ 漢字 is a line that is too long\nshort\n")
	size = block.Size{Columns: 13, Rows: 7}
	shows("│ 漢字 is a ", "│ line that ", "│ is too ", "│ long", "short")
}

// TestPagerWidths: at each width no row is too wide, and it ends.
func TestPagerWidths(t *testing.T) {
	for width := 1; width < 60; width++ {
		g := &Pager{}
		g.Set("│ 漢字かな\tand e\u0301 more than one row of text, all of it\n" + strings.Repeat("漢", 50))
		for _, row := range g.Rows(block.Size{Columns: width, Rows: 500}) {
			if width > 2 { // a wide character does not fit into one column
				assert.Less(t, columns.Of(row.Text), max(width, 1))
			}
		}
	}
}
