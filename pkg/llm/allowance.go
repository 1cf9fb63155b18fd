package llm

import (
	"math"
	"time"
)

// Allowance is how much more a server lets its user ask, as the header of a reply says.
type Allowance struct {
	Requests Meter `json:"requests,omitzero"`
	Tokens   Meter `json:"tokens,omitzero"`
}

// Meter counts requests or tokens. It is unknown, and says nothing, if Reset is not positive.
type Meter struct {
	Limit int           `json:"limit,omitempty"` // how many there are in all; 0 means not known
	Left  int           `json:"left,omitempty"`  // how many more may be used before Reset is over
	Reset time.Duration `json:"reset,omitempty"` // from now on; at most an hour
}

// Known reports whether m says anything.
func (m Meter) Known() bool { return m.Reset > 0 }

// maxMeter is the highest count that is believed.
const maxMeter = math.MaxInt32

// Plausible returns m with each value brought within its limits.
func (m Meter) Plausible() Meter {
	if !m.Known() {
		return Meter{}
	}
	return Meter{
		Limit: min(max(m.Limit, 0), maxMeter), Left: min(max(m.Left, 0), maxMeter),
		Reset: min(m.Reset, longestRetryAfter),
	}
}

// Plausible returns a with each value brought within its limits.
func (a Allowance) Plausible() Allowance {
	return Allowance{Requests: a.Requests.Plausible(), Tokens: a.Tokens.Plausible()}
}
