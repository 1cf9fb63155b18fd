package definitions

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// The line goes out of the text, and nothing else.
func TestNewDefect(t *testing.T) {
	assert.Equal(t, defect{isError, 12, "a: b"}, newDefect(isError, "line 12: a: b"))
	for _, text := range []string{"line up: a", "line 3", "a line 3: b", ""} {
		assert.Equal(t, defect{isWarning, 0, text}, newDefect(isWarning, text))
	}
}
