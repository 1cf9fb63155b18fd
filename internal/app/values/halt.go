package values

import (
	"strconv"
	"strings"

	"qq/internal/app/command"
	"qq/pkg/supervisor/halt"
)

// ParseHalt parses the flag --halt: never, soon or now, with ,fail=N or ,success=N or ,done=N. Each N may be a
// percentage.
func ParseHalt(s string) (halt.Policy, error) {
	wrong := command.Usagef("accepted is never, soon or now, with ,fail=N or ,success=N or ,done=N, "+
		"where N may be a percentage: for example soon,fail=10%", "--halt is %q", s)
	when, why, hasWhy := strings.Cut(s, ",")
	switch {
	case when == "never" && !hasWhy:
		return halt.Policy{}, nil
	case when != "soon" && when != "now":
		return halt.Policy{}, wrong
	case !hasWhy:
		why = "fail=1"
	}
	p := halt.Policy{Now: when == "now"}
	what, number, _ := strings.Cut(why, "=")
	amount, ok := parseAmount(number)
	switch {
	case !ok:
		return halt.Policy{}, wrong
	case what == "fail":
		p.Fail, p.Percent = amount.Tasks, amount.Percent
	case what == "success":
		p.Success = amount
	case what == "done":
		p.Done = amount
	default:
		return halt.Policy{}, wrong
	}
	return p, nil
}

// parseAmount parses a number of tasks from 1, or a percentage above 0 and up to 100.
func parseAmount(s string) (halt.Amount, bool) {
	if share, isShare := strings.CutSuffix(s, "%"); isShare {
		p, err := strconv.ParseFloat(share, 64)
		return halt.Amount{Percent: p}, err == nil && p > 0 && p <= 100
	}
	n, err := strconv.Atoi(s)
	return halt.Amount{Tasks: n}, err == nil && n >= 1
}
