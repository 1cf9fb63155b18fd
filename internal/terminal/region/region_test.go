package region

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// glass is a terminal of ASCII characters that keeps what has scrolled away.
type glass struct {
	wide, high int
	rows       [][]byte // all of them; the last ones are on the screen
	top        int      // the first row on the screen
	y, x       int      // of the cursor; y counts from the top
}

func newGlass(wide, high int) *glass { return &glass{wide: wide, high: high, rows: make([][]byte, 1)} }

var control = regexp.MustCompile(`^\x1b\[(\d*)([A-Za-z])`)

func (g *glass) write(t require.TestingT, text string) {
	for text != "" {
		if m := control.FindStringSubmatch(text); m != nil {
			n, _ := strconv.Atoi(m[1])
			switch m[2] {
			case "A":
				g.y = max(0, g.y-n)
			case "C":
				g.x = min(g.wide-1, g.x+n)
			case "J":
				g.rows = g.rows[:g.top+g.y+1]
				g.clear()
			case "K":
				g.clear()
			case "m":
			default:
				require.Fail(t, "unknown", m[0])
			}
			text = text[len(m[0]):]
			continue
		}
		switch c := text[0]; c {
		case '\r':
			g.x = 0
		case '\n':
			g.x = 0
			g.down()
		default:
			if g.x == g.wide {
				g.x = 0
				g.down()
			}
			row := g.rows[g.top+g.y]
			for len(row) <= g.x {
				row = append(row, ' ')
			}
			row[g.x] = c
			g.rows[g.top+g.y] = row
			g.x++
		}
		text = text[1:]
	}
}

func (g *glass) clear() {
	row := g.rows[g.top+g.y]
	g.rows[g.top+g.y] = row[:min(len(row), g.x)]
}

func (g *glass) down() {
	if g.y++; g.y == g.high {
		g.y--
		g.top++
	}
	for len(g.rows) <= g.top+g.y {
		g.rows = append(g.rows, nil)
	}
}

func (g *glass) String() string {
	var rows []string
	for _, row := range g.rows {
		rows = append(rows, strings.TrimRight(string(row), " "))
	}
	return strings.TrimRight(strings.Join(rows, "\n"), "\n")
}

// Whatever is drawn: all text is there once, in order, and the lines are below it with the cursor at its place.
func TestRegion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wide, high := rapid.IntRange(5, 30).Draw(t, "wide"), rapid.IntRange(3, 12).Draw(t, "high")
		g := newGlass(wide, high)
		var r Region
		var all strings.Builder
		line := rapid.StringMatching(`[a-c]{0,4}`)
		for i := range rapid.IntRange(1, 20).Draw(t, "draws") {
			text := ""
			for range rapid.IntRange(0, 3).Draw(t, "lines of text") {
				text += fmt.Sprint(i%10) + line.Draw(t, "text") + "\n"
			}
			all.WriteString(text)
			if rapid.IntRange(0, 9).Draw(t, "erase") == 0 {
				g.write(t, r.Erase(wide))
			}
			lines := rapid.SliceOfN(line, 1, high-1).Draw(t, "lines")
			row := rapid.IntRange(0, len(lines)-1).Draw(t, "row")
			column := rapid.IntRange(0, 3).Draw(t, "column")
			g.write(t, r.Draw(text, View{lines, row, column}, wide, high))
			want := strings.TrimRight(all.String()+strings.Join(lines, "\n"), "\n")
			require.Equal(t, want, g.String())
			require.Equal(t, strings.Count(all.String(), "\n")+row, g.top+g.y, "row of the cursor")
			require.Equal(t, column, g.x)
		}
	})
}

// What does not change is not written.
func TestLittle(t *testing.T) {
	var r Region
	r.Draw("", View{[]string{"status", "> hello"}, 1, 7}, 80, 24)
	v := View{[]string{"status", "> hello!"}, 1, 8}
	assert.Equal(t, "\r\x1b[1A\r\n> hello!\x1b[K\r\x1b[8C", r.Draw("", v, 80, 24))
	assert.NotContains(t, r.Draw("", View{[]string{"other", "> hello!"}, 1, 8}, 80, 24), "hello")
}

// After a resize the rows that lines take now are counted.
func TestResized(t *testing.T) {
	var r Region
	r.Draw("", View{[]string{strings.Repeat("x", 50), "> y"}, 1, 3}, 80, 24)
	assert.True(t, strings.HasPrefix(r.Draw("", View{[]string{"z"}, 0, 0}, 20, 24), "\r\x1b[3A\x1b[J"))
}

func TestRows(t *testing.T) {
	assert.Equal(t, []string{""}, Rows("", 4))
	assert.Equal(t, []string{"ab漢", "字c"}, Rows("ab漢字c", 5))
	assert.Equal(t, []string{"\x1b[1mab\x1b[0m", "\x1b[1mc\x1b[0m"}, Rows("\x1b[1mabc\x1b[0m", 2))
	assert.Equal(t, 3, Width("\x1b[1;31mabc\x1b[0m"))
	var r Region
	assert.Equal(t, "\r\x1b[Jabc\x1b[K\r", r.Draw("", View{Lines: []string{"abcdef"}}, 4, 24))
}
