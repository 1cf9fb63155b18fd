package definitions

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// The line goes out of the text, and nothing else.
func TestNewFinding(t *testing.T) {
	assert.Equal(t, Finding{isError, 12, "a: b"}, newFinding(isError, "line 12: a: b"))
	for _, text := range []string{"line up: a", "line 3", "a line 3: b", ""} {
		assert.Equal(t, Finding{isWarning, 0, text}, newFinding(isWarning, text))
	}
}
