package box

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestOverlap: a command that begins while another one runs does not put back what that one wrote.
func TestOverlap(t *testing.T) {
	views(t, func(t *testing.T, view bool) {
		for _, agents := range []int{1, 2} {
			y := newYard(t, map[string]string{"good": "good\n", "link": "evil\n"}, viewed(view))
			require.NoError(t, os.Symlink("good", y.path(".envrc")))
			other := y
			if agents == 2 {
				other = &yard{New(y.Config), t}
			}
			wait := func(file string) string { return "; while [ ! -e " + file + " ]; do sleep 0.01; done" }
			evil := "rm .envrc; ln -s link .envrc"
			a, err := y.Start(y.shell(evil+"; touch wrote"+wait("end-a")), nil)
			require.NoError(t, err)
			require.Eventually(t, func() bool { return y.read("wrote") == "" }, time.Minute, time.Millisecond)
			b, err := other.Start(other.shell("true"+wait("again")+"; "+evil+wait("end-b")), nil)
			require.NoError(t, err)
			y.write("end-a", "")
			assert.Len(t, a.Wait().Notes, 1)
			assert.Equal(t, "good\n", y.read(".envrc"))
			c, err := y.Start(y.shell("true"), nil)
			require.NoError(t, err)
			assert.Empty(t, c.Wait().Notes)
			y.write("again", "")
			y.write("end-b", "")
			assert.Len(t, b.Wait().Notes, 1, "it did the same")
			assert.Equal(t, "good\n", y.read(".envrc"))
		}
	})
}
