package wire

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"qq/pkg/llm"
)

// allowanceOf reads the header of a reply, as OpenAI and Anthropic write it: names such as
// x-ratelimit-remaining-requests and anthropic-ratelimit-requests-remaining. Of several meters of tokens the one with
// the fewest left counts. What is not exactly as documented says nothing.
func allowanceOf(h http.Header, now time.Time) (a llm.Allowance) {
	a.Requests, a.Tokens = openMeter(h, "Requests"), openMeter(h, "Tokens")
	if m := claudeMeter(h, "Requests", now); m.Known() {
		a.Requests = m
	}
	for _, what := range [...]string{"Tokens", "Input-Tokens", "Output-Tokens"} {
		if m := claudeMeter(h, what, now); m.Known() && (!a.Tokens.Known() || m.Left < a.Tokens.Left) {
			a.Tokens = m
		}
	}
	return a
}

// openMeter reads a meter of OpenAI, whose reset is a duration such as 6m0s.
func openMeter(h http.Header, what string) llm.Meter {
	reset, ok := resetAfter(h.Get("X-Ratelimit-Reset-" + what))
	return meterOf(h, "X-Ratelimit-Remaining-"+what, "X-Ratelimit-Limit-"+what, reset, ok)
}

// claudeMeter reads a meter of Anthropic, whose reset is a time such as 2026-01-02T15:04:05Z.
func claudeMeter(h http.Header, what string, now time.Time) llm.Meter {
	name := "Anthropic-Ratelimit-" + what
	at, err := time.Parse(time.RFC3339, h.Get(name+"-Reset"))
	return meterOf(h, name+"-Remaining", name+"-Limit", at.Sub(now), err == nil)
}

func meterOf(h http.Header, left, limit string, reset time.Duration, ok bool) llm.Meter {
	n, known := count(h.Get(left))
	if !known || !ok {
		return llm.Meter{}
	}
	m := llm.Meter{Left: n, Reset: reset}
	m.Limit, _ = count(h.Get(limit))
	return m.Plausible()
}

// count reads a number of requests or tokens: digits only.
func count(s string) (int, bool) {
	n, err := strconv.ParseUint(s, 10, 31)
	return int(n), err == nil
}

// resetAfter reads a duration such as 1s, 6m0s or 120ms. A number without a unit is in seconds.
func resetAfter(s string) (time.Duration, bool) {
	if strings.Trim(s, "0123456789.") == "" {
		s += "s"
	}
	d, err := time.ParseDuration(s)
	return d, err == nil && d >= 0 && !strings.HasPrefix(s, "+")
}

// retryAfter returns how long a server asks to wait: what Retry-After-Ms or Retry-After says or, if the server asked
// for fewer requests and says neither, the reset of what is used up.
func retryAfter(h http.Header, status int, a llm.Allowance, now time.Time) time.Duration {
	if ms, ok := count(h.Get("Retry-After-Ms")); ok {
		return min(time.Duration(ms)*time.Millisecond, time.Hour)
	}
	if d, ok := llm.RetryAfter(h.Get("Retry-After"), now); ok || status != http.StatusTooManyRequests {
		return d
	}
	var d time.Duration
	for _, m := range [...]llm.Meter{a.Requests, a.Tokens} {
		if m.Known() && m.Left == 0 {
			d = max(d, m.Reset)
		}
	}
	return d
}

// longestPace is the longest reset of a limit for a minute. What is reset later is a quota, such as that of a day.
const longestPace = 5 * time.Minute

// untilReset returns how long it is until the time that OpenRouter names in X-Ratelimit-Reset, in milliseconds since
// 1970, when a limit for a minute or a day is used up; 0 if it names none.
func untilReset(h http.Header, now time.Time) time.Duration {
	ms, err := strconv.ParseUint(h.Get("X-Ratelimit-Reset"), 10, 62)
	if left, ok := count(h.Get("X-Ratelimit-Remaining")); err != nil || !ok || left > 0 {
		return 0
	}
	return max(time.UnixMilli(int64(ms)).Sub(now), 0)
}
