package alive

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestHolderIn(t *testing.T) {
	for _, c := range []struct {
		line string
		pid  int
	}{
		{"1: FLOCK  ADVISORY  WRITE 71 fe:00:99 0 EOF", 71},
		{"1: FLOCK  ADVISORY  READ  71 fe:00:99 0 EOF", 71},
		{"1: -> FLOCK  ADVISORY  WRITE 72 fe:00:99 0 EOF", 0}, // it waits
		{"1: POSIX  ADVISORY  WRITE 71 fe:00:99 0 EOF", 0},
		{"1: FLOCK  ADVISORY  WRITE 71 fe:00:98 0 EOF", 0},
		{"1: FLOCK  ADVISORY  WRITE -1 fe:00:99 0 EOF", -1},
		{"1: FLOCK", 0},
		{"", 0},
	} {
		assert.Equal(t, c.pid, holderIn(c.line, "fe:00:99"), c.line)
	}
}
