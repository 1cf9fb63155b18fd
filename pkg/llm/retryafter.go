package llm

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// longestRetryAfter keeps a silly header from parking a run for days.
const longestRetryAfter = time.Hour

// RetryAfter reads the HTTP header of that name, which is a number of seconds or a
// date: how long its server wants to be left alone from now on, an hour at most.
// It is false when the header says nothing of the kind.
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
