package box

import (
	"fmt"
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

// TestManyFiles: many files in one folder do not keep others from being looked at, and none is taken for a new one.
func TestManyFiles(t *testing.T) {
	y := newYard(t, map[string]string{".git/config": "good\n"}, viewed(false))
	many := []string{".agents", ".claude", ".vscode", ".husky", ".github", ".qq"}
	for _, dir := range many {
		for i := range 400 {
			y.write(fmt.Sprintf("%s/%04d", dir, i), "good\n")
		}
	}
	for i := range maxFiles {
		y.write(fmt.Sprintf(".agents/x%04d", i), "good\n")
	}
	_, o := y.run("echo evil > .git/config; mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit; " +
		"echo evil > .qq/0399; rm .husky/0001")
	assert.Equal(t, "good\n", y.read(".git/config"))
	assert.Equal(t, "gone", y.read(".git/hooks/pre-commit"))
	assert.Equal(t, "good\n", y.read(".qq/0399"))
	assert.Equal(t, "good\n", y.read(".husky/0001"))
	require.Len(t, o.Notes, 5)
	assert.Contains(t, o.Notes[0], ".agents has more files than are looked at")

	// Files that push others beyond the bound hide nothing that was seen before, and reveal nothing as new.
	_, o = y.run("echo evil > .agents/x0001; for i in 0 1 2 3 4 5 6 7 8 9; do echo x > .agents/0$i; done")
	assert.Equal(t, "good\n", y.read(".agents/x0001"))
	assert.Len(t, o.Notes, 1)
	_, o = y.run("rm .agents/0001 .agents/0002")
	assert.Equal(t, "good\n", y.read(".agents/0001"))
	assert.Len(t, o.Notes, 2)
	assert.Equal(t, "good\n", y.read(fmt.Sprintf(".agents/x%04d", maxFiles-1)))
}

// TestNotObeyed: what a person writes while a command runs, and no program obeys, stays where it is.
func TestNotObeyed(t *testing.T) {
	views(t, func(t *testing.T, view bool) {
		y := newYard(t, map[string]string{".env": "A=1\n"}, viewed(view))
		r, err := y.Start(y.shell("while [ ! -e go ]; do sleep 0.01; done"), nil)
		require.NoError(t, err)
		mine := []string{".env.swp", ".env~", ".envoy/config.yaml", ".environment"}
		for _, name := range append(mine, "go") {
			y.write(name, "mine\n")
		}
		assert.Empty(t, r.Wait().Notes)
		for _, name := range mine {
			assert.Equal(t, "mine\n", y.read(name), name)
		}
	})
}
