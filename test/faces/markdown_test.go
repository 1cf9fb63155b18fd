package faces

import (
	"math/rand"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/app/columns"
	"qq/internal/terminal/markdown"
)

// TestMarkdownRows: on a terminal of each width, an answer that comes in pieces is on the screen as the rows that were
// meant: no row is broken by the terminal but those of code.
func TestMarkdownRows(t *testing.T) {
	text, err := os.ReadFile("../../internal/terminal/markdown/testdata/sample.md")
	require.NoError(t, err)
	// The emulator puts joined emoji at the edge of a row into two rows.
	text = []byte(strings.NewReplacer("\u200d👩\u200d👧", "", "🏽", "").Replace(string(text)))
	colour := regexp.MustCompile("\x1b\\[[0-9;]*m")
	random := rand.New(rand.NewSource(14))
	for width := 20; width <= 200; width++ {
		for _, coloured := range []bool{true, false} {
			screen, r := NewScreen(width, 300), markdown.New(width, coloured)
			var out strings.Builder
			for rest := string(text); rest != ""; {
				n := min(len(rest), 1+random.Intn(40))
				printed := r.Write(rest[:n])
				screen.Print(printed)
				out.WriteString(printed)
				rest = rest[n:]
			}
			printed := r.End()
			screen.Print(printed)
			out.WriteString(printed)
			var want []string
			for line := range strings.SplitSeq(colour.ReplaceAllString(out.String(), ""), "\n") {
				require.True(t, columnsOf(line) <= width || strings.HasPrefix(line, "  "), "%q is no code", line)
				for columnsOf(line) > width {
					part := columns.First(line, width)
					want, line = append(want, strings.TrimRight(part, " ")), line[len(part):]
				}
				want = append(want, strings.TrimRight(line, " "))
			}
			assert.Equal(t, want, screen.Rows()[:len(want)], "%d columns", width)
		}
	}
}

// columnsOf returns how many columns a line takes, by what a reader takes for a character.
func columnsOf(line string) (wide int) {
	for line != "" {
		n, w := columns.Cluster(line)
		line, wide = line[n:], wide+w
	}
	return wide
}
