package task

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// A very short limit is no limit of zero.
func TestClockErrorOfShortLimit(t *testing.T) {
	assert.EqualError(t, &ClockError{Status: Timeout, After: time.Microsecond},
		"Child process timed out after 0.000001s")
	assert.EqualError(t, &ClockError{Status: Timeout, After: 1504 * time.Millisecond},
		"Child process timed out after 1.5s")
}
