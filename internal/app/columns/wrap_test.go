package columns

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

func TestWrap(t *testing.T) {
	const text = `qq - run an agent in a process

FLAGS
  --agent, -a VALUE   the agent that does it all
  --message, -m, --prompt, -p VALUE
                      the task; - reads it from stdin
`
	assert.Equal(t, text, Wrap(text, 0))
	assert.Equal(t, text, Wrap(text, 80))
	assert.Equal(t, `qq - run an agent in a process

FLAGS
  --agent, -a VALUE   the agent that does it
                      all
  --message, -m, --prompt, -p VALUE
                      the task; - reads it
                      from stdin
`, Wrap(text, 44))
	assert.Equal(t, `qq - run an agent in a
process

FLAGS
  --agent, -a VALUE
     the agent that
     does it all
  --message, -m,
  --prompt, -p VALUE
     the task; - reads
     it from stdin
`, Wrap(text, 22))
	assert.Equal(t, "漢字  かな\n      かな", Wrap("漢字  かな かな", 12), "wide characters take two columns")
}

// Each width ends, keeps each word, and a line is too wide only if it is one word.
func TestWrapWidths(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`( {0,40}[a-z漢]{0,9}( {1,3}[a-z漢]{1,30}){0,5}\n?){0,4}`).Draw(t, "text")
		for width := range 201 {
			got := Wrap(text, width)
			assert.Equal(t, strings.Fields(text), strings.Fields(got), width)
			if width == 0 {
				continue
			}
			for line := range strings.Lines(got) { // a gap: the first word of the second column may be too wide
				if line = strings.TrimRight(line, " \n"); Of(line) > width && len(strings.Fields(line)) > 1 {
					assert.Contains(t, strings.TrimLeft(line, " "), "  ", "%d columns", width)
				}
			}
		}
	})
}
