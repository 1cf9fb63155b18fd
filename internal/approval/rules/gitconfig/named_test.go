package gitconfig

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func FuzzGitDir(f *testing.F) {
	f.Add([]byte("gitdir: /a/b\n"))
	f.Add([]byte("gitdir: ../x\r\n"))
	f.Add([]byte("gitdir: "))
	f.Fuzz(func(t *testing.T, text []byte) {
		if dir, ok := named(text); ok {
			require.NotEmpty(t, dir)
			require.NotContains(t, dir, "\n")
			require.NotContains(t, dir, "\x00")
		}
	})
}
