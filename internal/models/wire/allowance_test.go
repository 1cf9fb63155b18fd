package wire

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"qq/pkg/llm"
)

func TestAllowance(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	meter := func(left, limit int, reset time.Duration) llm.Meter {
		return llm.Meter{Left: left, Limit: limit, Reset: reset}
	}
	for _, tt := range []struct {
		name   string
		header map[string]string
		want   llm.Allowance
	}{
		{"nothing", nil, llm.Allowance{}},
		{"OpenAI", map[string]string{
			"x-ratelimit-limit-requests": "60", "x-ratelimit-remaining-requests": "59",
			"x-ratelimit-reset-requests": "1s", "x-ratelimit-limit-tokens": "150000",
			"x-ratelimit-remaining-tokens": "149984", "x-ratelimit-reset-tokens": "6m0s"},
			llm.Allowance{Requests: meter(59, 60, time.Second), Tokens: meter(149984, 150000, 6*time.Minute)}},
		{"Groq", map[string]string{
			"x-ratelimit-remaining-requests": "14370", "x-ratelimit-reset-requests": "2m59.56s",
			"x-ratelimit-remaining-tokens": "17997", "x-ratelimit-reset-tokens": "120ms"},
			llm.Allowance{Requests: meter(14370, 0, 2*time.Minute+59560*time.Millisecond),
				Tokens: meter(17997, 0, 120*time.Millisecond)}},
		{"Anthropic", map[string]string{
			"anthropic-ratelimit-requests-limit": "50", "anthropic-ratelimit-requests-remaining": "49",
			"anthropic-ratelimit-requests-reset":         "2026-01-02T12:00:30Z",
			"anthropic-ratelimit-tokens-remaining":       "90000",
			"anthropic-ratelimit-tokens-reset":           "2026-01-02T12:00:10Z",
			"anthropic-ratelimit-input-tokens-remaining": "80000", "anthropic-ratelimit-input-tokens-reset": "junk",
			"anthropic-ratelimit-output-tokens-remaining": "8000",
			"anthropic-ratelimit-output-tokens-reset":     "2026-01-02T14:00:20+02:00"},
			llm.Allowance{Requests: meter(49, 50, 30*time.Second), Tokens: meter(8000, 0, 20*time.Second)}},
		{"at most an hour", map[string]string{
			"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "24h0m0s",
			"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "99999999"},
			llm.Allowance{Requests: meter(0, 0, time.Hour), Tokens: meter(0, 0, time.Hour)}},
		{"a reset that is past", map[string]string{
			"anthropic-ratelimit-requests-remaining": "0", "anthropic-ratelimit-requests-reset": "2026-01-02T11:59:59Z",
		}, llm.Allowance{}},
		{"a half", map[string]string{"x-ratelimit-remaining-requests": "5"}, llm.Allowance{}},
	} {
		h := http.Header{}
		for name, value := range tt.header {
			h.Set(name, value)
		}
		assert.Equal(t, tt.want, allowanceOf(h, now), tt.name)
	}
	for _, junk := range []string{"", " ", "-1s", "+1s", "1 s", "soon", "0x10", "1e3", "inf", "NaN", "1s2", "1.2.3",
		"9999999999999999999999h"} {
		h := http.Header{}
		h.Set("X-Ratelimit-Remaining-Requests", "0")
		h.Set("X-Ratelimit-Reset-Requests", junk)
		assert.Zero(t, allowanceOf(h, now), junk)
	}
	for _, junk := range []string{"", "-1", "+1", "1.5", "0x1", "1e3", "99999999999999999999"} {
		h := http.Header{}
		h.Set("X-Ratelimit-Remaining-Requests", junk)
		h.Set("X-Ratelimit-Reset-Requests", "1s")
		assert.Zero(t, allowanceOf(h, now), junk)
	}
}

// TestFaultClass: a quota that is used up is told from requests that come too fast by the class of the error, never by
// its words; and the time to come again is read wherever a server says it.
func TestFaultClass(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status int
		body   string
		header [2]string
		kind   llm.Kind
		after  time.Duration
	}{
		{"too fast", 429, `{"error":{"message":"insufficient_quota, billing","type":"requests"}}`,
			[2]string{"Retry-After", "7"}, llm.Busy, 7 * time.Second},
		{"milliseconds", 429, ``, [2]string{"Retry-After-Ms", "1500"}, llm.Busy, 1500 * time.Millisecond},
		{"too many milliseconds", 503, ``, [2]string{"Retry-After-Ms", "2147483647"}, llm.Busy, time.Hour},
		{"by type", 429, `{"error":{"type":"insufficient_quota"}}`, [2]string{}, llm.Quota, 0},
		{"by code", 429, `{"error":{"type":"x","code":"billing_hard_limit_reached"}}`, [2]string{}, llm.Quota, 0},
		{"a number as code", 429, `{"error":{"code":429}}`, [2]string{}, llm.Busy, 0},
		{"payment", 402, `Insufficient Balance`, [2]string{"Retry-After", "60"}, llm.Quota, time.Minute},
		{"Gemini for today", 429, `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[
			{"violations":[{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]},{"retryDelay":"34.5s"}]}}`,
			[2]string{}, llm.Quota, 34500 * time.Millisecond},
		{"Gemini for a minute", 429, `{"error":{"details":[
			{"violations":[{"quotaId":"GenerateRequestsPerMinutePerProjectPerModel"}]},{"retryDelay":"9s"}]}}`,
			[2]string{}, llm.Busy, 9 * time.Second},
		{"a list", 429, `[{"error":{"type":"insufficient_quota"}}]`, [2]string{}, llm.Busy, 0},
		{"the status counts", 400, `{"error":{"type":"insufficient_quota"}}`, [2]string{}, llm.Rejected, 0},
		{"busy with others", 503, ``, [2]string{"X-Ratelimit-Reset-Requests", "3s"}, llm.Busy, 0},
		{"what is used up", 429, ``, [2]string{"X-Ratelimit-Reset-Requests", "3s"}, llm.Busy, 3 * time.Second},
	} {
		tr, u := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Ratelimit-Remaining-Requests", "0")
			if tt.header[0] != "" {
				w.Header().Set(tt.header[0], tt.header[1])
			}
			w.WriteHeader(tt.status)
			_, _ = w.Write([]byte(tt.body))
		})
		_, err := tr.Post(t.Context(), u, nil, nil)
		f := demand(t, err, tt.kind)
		assert.Equal(t, tt.after, f.RetryAfter, tt.name)
	}
}

// OpenRouter names the time at which a limit is reset. That of a day is a quota.
func TestUntilReset(t *testing.T) {
	in := func(d time.Duration) string { return strconv.FormatInt(time.Now().Add(d).UnixMilli(), 10) }
	for name, tt := range map[string]struct {
		left, reset, after string
		status             int
		kind               llm.Kind
		least, most        time.Duration
	}{
		"minute":       {"0", in(40 * time.Second), "", 429, llm.Busy, 30 * time.Second, 40 * time.Second},
		"day":          {"0", in(20 * time.Hour), "", 429, llm.Quota, time.Hour, time.Hour},
		"soon":         {"0", in(20 * time.Minute), "", 429, llm.Quota, 19 * time.Minute, 20 * time.Minute},
		"another":      {"3", in(20 * time.Hour), "", 429, llm.Busy, 0, 0},
		"said twice":   {"0", in(20 * time.Hour), "7", 429, llm.Busy, 7 * time.Second, 7 * time.Second},
		"past":         {"0", in(-time.Hour), "", 429, llm.Busy, 0, 0},
		"seconds":      {"0", "1767225600", "", 429, llm.Busy, 0, 0},
		"junk":         {"0", "-1", "", 429, llm.Busy, 0, 0},
		"far":          {"0", "4611686018427387903", "", 429, llm.Quota, time.Hour, time.Hour},
		"not rejected": {"0", in(20 * time.Hour), "", 400, llm.Rejected, 0, 0},
	} {
		tr, u := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-RateLimit-Remaining", tt.left)
			w.Header().Set("X-RateLimit-Reset", tt.reset)
			if tt.after != "" {
				w.Header().Set("Retry-After", tt.after)
			}
			w.WriteHeader(tt.status)
		})
		_, err := tr.Post(t.Context(), u, nil, nil)
		f := demand(t, err, tt.kind)
		assert.GreaterOrEqual(t, f.RetryAfter, tt.least, name)
		assert.LessOrEqual(t, f.RetryAfter, tt.most, name)
	}
}

// FuzzAllowance: whatever a server writes into the header of a reply, what is read from it is bounded.
func FuzzAllowance(f *testing.F) {
	f.Add("59", "1s", "2026-01-02T15:04:05Z")
	f.Add("-1", "6m0s", "junk")
	f.Fuzz(func(t *testing.T, left, reset, at string) {
		h := http.Header{"X-Ratelimit-Remaining-Requests": {left}, "X-Ratelimit-Reset-Requests": {reset},
			"Anthropic-Ratelimit-Tokens-Remaining": {left}, "Anthropic-Ratelimit-Tokens-Reset": {at},
			"Retry-After": {reset}, "Retry-After-Ms": {left}}
		a := allowanceOf(h, time.Unix(0, 0))
		for _, m := range []llm.Meter{a.Requests, a.Tokens} {
			assert.True(t, m.Left >= 0 && m.Limit >= 0 && m.Reset >= 0 && m.Reset <= time.Hour, "%+v", m)
		}
		d := retryAfter(h, http.StatusTooManyRequests, a, time.Unix(0, 0))
		assert.True(t, d >= 0 && d <= time.Hour, d)
	})
}
