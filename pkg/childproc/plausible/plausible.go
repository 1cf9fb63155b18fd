// Package plausible limits the values that a child process reports about its requests to model servers.
package plausible

import (
	"slices"
	"time"

	"qq/pkg/llm"
)

// Limits on the values that a child reports: RetryAfter is the longest time that one report may ask for. A report can
// delay the requests of other children, so without limits an agent that follows untrusted input could stop them for a
// long time.
const (
	RetryAfter = time.Hour
	Kept       = time.Hour // total of all reports of one child
	maxTiming  = 24 * time.Hour
)

// MaxTokens is how many tokens a child may have sent or received, of each kind.
const MaxTokens = 1_000_000_000

// Report returns r with each value brought within its limits.
func Report(r llm.Report) llm.Report {
	kinds := []llm.Kind{"", llm.Unreachable, llm.Busy, llm.BrokenStream, llm.ContextOverflow, llm.UnknownModel,
		llm.Rejected, llm.Unsupported, llm.Server, llm.TooLong, llm.Quota}
	if !slices.Contains(kinds, r.Kind) {
		r.Kind = llm.Rejected
	}
	if r.RetryAfter = min(max(r.RetryAfter, 0), RetryAfter); r.Kind != llm.Busy && r.Kind != llm.Quota || r.Cancelled {
		r.RetryAfter = 0 // for nothing else a server asks for time
	}
	r.Timing.Queued = min(max(r.Timing.Queued, 0), maxTiming)
	r.Timing.Served = min(max(r.Timing.Served, 0), maxTiming)
	r.Usage = r.Usage.Bounded(MaxTokens)
	return r
}
