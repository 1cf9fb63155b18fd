package llm

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// longestRetryAfter is the longest time for which a server can make a run wait.
const longestRetryAfter = time.Hour

// RetryAfter parses the HTTP header Retry-After, which is a number of seconds or a date. It returns
// how long to wait from now on, at most an hour. It returns false if the header is not valid.
func RetryAfter(header string, now time.Time) (time.Duration, bool) {
	header = strings.TrimSpace(header)
	n, err := strconv.ParseUint(header, 10, 64) // the largest there is, when it is out of range
	if err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(n, uint64(longestRetryAfter/time.Second))) * time.Second, true
	}
	at, err := http.ParseTime(header)
	if err != nil {
		return 0, false
	}
	return min(max(at.Sub(now), 0), longestRetryAfter), true
}
