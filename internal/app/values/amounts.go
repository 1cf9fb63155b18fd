package values

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// ParseDelay parses seconds, or a duration with units, of at most a day.
func ParseDelay(s string) (time.Duration, bool) {
	s = strings.TrimSpace(s)
	if n, err := strconv.ParseFloat(s, 64); err == nil && !math.IsNaN(n) {
		return time.Duration(n * float64(time.Second)), n >= 0 && n <= (24*time.Hour).Seconds()
	}
	d, err := time.ParseDuration(s)
	return d, err == nil && d >= 0 && d <= 24*time.Hour
}

// ParseSize parses a number of bytes above 0, with the units of GNU parallel.
func ParseSize(s string) (int64, bool) {
	s = strings.TrimSpace(s)
	unit := 1.0
	if s != "" {
		if i := strings.IndexByte("KMGTP", s[len(s)-1]); i >= 0 {
			unit = math.Pow(1024, float64(i+1))
		} else if i := strings.IndexByte("kmgtp", s[len(s)-1]); i >= 0 {
			unit = math.Pow(1000, float64(i+1))
		}
		if unit > 1 {
			s = s[:len(s)-1]
		}
	}
	n, err := strconv.ParseFloat(s, 64)
	bytes := n * unit
	return int64(bytes), err == nil && bytes >= 1 && bytes < math.MaxInt64
}
