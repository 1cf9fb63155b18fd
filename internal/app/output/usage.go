package output

import (
	"fmt"

	"qq/pkg/task"
)

// Usage says how many tokens were sent and received, and how many of those that were sent the server had in its cache.
func Usage(u task.Usage) string {
	cached := ""
	if u.CachedTokens > 0 {
		cached = fmt.Sprintf(" (%d cached)", u.CachedTokens)
	}
	return fmt.Sprintf("%d in%s, %d out", u.InputTokens, cached, u.OutputTokens)
}

// Cost formats what u costs in few characters: a dash if that is not known, and the least if some of it is not.
func Cost(u task.Usage) string {
	switch {
	case u.PricedTokens == 0:
		return "-"
	case u.PricedTokens < u.Tokens():
		return "≥" + u.Cost.Short()
	}
	return u.Cost.Short()
}

// WholeCost says exactly what u costs; "" if that is not known.
func WholeCost(u task.Usage) string {
	unknown := u.Tokens() - u.PricedTokens
	switch {
	case u.PricedTokens == 0:
		return ""
	case unknown > 0:
		return fmt.Sprintf("at least %v (%d tokens without a price)", u.Cost, unknown)
	}
	return u.Cost.String()
}

// Account is the line about tokens and cost at the end of a run.
func Account(u task.Usage) string {
	text := "tokens: " + Usage(u)
	if cost := WholeCost(u); cost != "" {
		text += "; cost: " + cost
	}
	return text
}
