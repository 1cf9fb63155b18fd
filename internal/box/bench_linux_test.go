package box

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"qq/internal/sandbox"
)

// BenchmarkCommand compares a command in a box with one that has only the sandbox.
func BenchmarkCommand(b *testing.B) {
	y := newYard(b, map[string]string{".git/config": "", "lib/.git/config": "", "f": ""},
		limited(true, Limits{Memory: 8 << 30, Processes: 2048, FileSize: 10 << 30}))
	c := y.shell("true")
	b.Run("sandbox", func(b *testing.B) {
		for b.Loop() {
			p := c
			path, args, env := sandbox.Wrap(y.Exe, sandbox.Order{Path: c.Path, Rules: y.Rules}, c.Args)
			p.Path, p.Args, p.Env, p.Namespace = path, args, append(slices.Clip(c.Env), env), true
			started, err := y.Host.Start(p)
			require.NoError(b, err)
			started.Wait()
		}
	})
	b.Run("box", func(b *testing.B) {
		for b.Loop() {
			r, err := y.Start(c, nil)
			require.NoError(b, err)
			r.Wait()
		}
	})
}
