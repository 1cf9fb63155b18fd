package output

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestBounded: a log for people shows the beginning and the end of a long message, and says what is missing.
func TestBounded(t *testing.T) {
	assert.Equal(t, "a\nb", Bounded("a\nb"))
	long := Bounded("first\n" + strings.Repeat("x\n", 1000) + "last")
	assert.Equal(t, maxLines+1, len(strings.Split(long, "\n")))
	assert.True(t, strings.HasPrefix(long, "first\n"))
	assert.True(t, strings.HasSuffix(long, "\nlast"))
	assert.Contains(t, long, "\n[802 lines left out: --json has all]\n")
	wide := Bounded(strings.Repeat("é", maxBytes))
	assert.Less(t, len(wide), maxBytes+100)
	assert.Contains(t, wide, "bytes left out")
	assert.NotContains(t, wide, "\uFFFD")
}
