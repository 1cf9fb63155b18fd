// Package filter reads the flags that choose runs: --status, --agent, --batch, --since, --before.
package filter

import (
	"strings"
	"time"

	"qq/internal/app/command"
	"qq/internal/app/values"
	"qq/internal/record/ledger"
)

// Flags reads the values of flags by their names; *cli.Context implements it.
type Flags interface {
	String(name string) string
	Bool(name string) bool
	Int(name string) int
}

// Read returns the filter that the flags describe. A missing flag excludes nothing. A
// time such as 2h means so long before now.
func Read(f Flags, now time.Time) (ledger.Filter, error) {
	to := ledger.Filter{
		Agent: strings.TrimSpace(f.String("agent")), Batch: strings.TrimSpace(f.String("batch")),
		Live: f.Bool("live"), Limit: f.Int("limit"),
	}
	if to.Limit < 0 {
		return to, command.Usagef("accepted is a whole number from 0 on; 0 is all", "--limit is %d", to.Limit)
	}
	var err error
	if to.Status, err = values.ParseStatuses("--status", f.String("status")); err != nil {
		return to, err
	}
	if to.Since, err = values.ParseTime("--since", f.String("since"), now); err != nil {
		return to, err
	}
	if to.Until, err = values.ParseTime("--before", f.String("before"), now); err != nil {
		return to, err
	}
	if !to.Since.IsZero() && !to.Until.IsZero() && !to.Since.Before(to.Until) {
		return to, command.Usagef("--since is the earlier time",
			"nothing is both since %s and before %s", f.String("since"), f.String("before"))
	}
	return to, nil
}
