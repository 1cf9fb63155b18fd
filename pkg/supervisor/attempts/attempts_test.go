package attempts

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestPause(t *testing.T) {
	for n, want := range map[int]time.Duration{1: 500 * time.Millisecond, 2: time.Second, 5: 8 * time.Second,
		8: time.Minute, 1000: time.Minute} {
		different := map[time.Duration]bool{}
		for range 20 {
			d := Pause(n)
			different[d] = true
			assert.InDelta(t, want, d, float64(want)/4)
		}
		assert.Greater(t, len(different), 1)
	}
}
