package scenario

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSameBeginning: the requests of two tasks of a batch begin with the same
// bytes, so that the server, which keeps what it has read last, reads only what
// is new in the second.
func TestSameBeginning(t *testing.T) {
	for _, agent := range []string{"default", "summarizer"} {
		t.Run(agent, func(t *testing.T) {
			m := endurePlay(t, endureEcho)
			w := newWorld(t, m.addr, played)
			const first, second = "Name a river.", "Tell me how high the highest mountain is."
			e := w.start(first+"\n"+second+"\n", "batch", "-j", "1", "--no-bar", "--agent", agent).wait()
			require.Equal(t, 0, e.code, "exit code")
			require.Equal(t, []string{first, second}, m.tasks())
			one, two := m.asked[0].body, m.asked[1].body
			assert.Greater(t, beginning(one, two), 1000, "bytes that are the same")
			assert.Equal(t, strings.ReplaceAll(one, first, ""), strings.ReplaceAll(two, second, ""), "all but the task")
		})
	}
}

// beginning is how many bytes two texts begin with alike.
func beginning(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}
