package llm

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.FixedZone("", 3600)) // 11:00 GMT
	for header, want := range map[string]time.Duration{
		"0":                                0,
		" 7 ":                              7 * time.Second,
		"3601":                             time.Hour,
		"99999999999999999999999":          time.Hour,
		"Thu, 01 Jan 2026 11:00:31 GMT":    31 * time.Second,
		"Thursday, 01-Jan-26 11:00:31 GMT": 31 * time.Second, // as servers of old write it
		"Thu Jan  1 11:00:31 2026":         31 * time.Second,
		"Thu, 01 Jan 2026 10:59:59 GMT":    0, // it is past
		"Mon, 01 Jan 0001 00:00:00 GMT":    0,
		"Fri, 31 Dec 9999 23:59:59 GMT":    time.Hour,
	} {
		got, said := RetryAfter(header, now)
		assert.True(t, said, header)
		assert.Equal(t, want, got, header)
	}
	for _, header := range []string{"", " ", "-1", "+1", "1.5", "0x10", "1e9", "7s", "soon", "Thu, 01 Jan 2026",
		"2026-01-01T11:00:31Z"} {
		got, said := RetryAfter(header, now)
		assert.False(t, said, header)
		assert.Zero(t, got, header)
	}
}
