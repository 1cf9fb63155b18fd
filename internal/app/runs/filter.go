package runs

import (
	"strings"
	"time"

	"qq/internal/app/command"
	"qq/internal/app/values"
	"qq/internal/record/ledger"
)

// DefaultLimit is the number of rows in a list without --limit.
const DefaultLimit = 20

// typed reads the values of flags by their names; *cli.Context implements it.
type typed interface {
	String(name string) string
	Bool(name string) bool
	Int(name string) int
}

// runsFilter returns the filter that the flags describe. A missing flag excludes nothing. A
// time such as 2h means so long before now.
func runsFilter(f typed, now time.Time) (ledger.Filter, error) {
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

// runStore is where runs and batches are looked up; *ledger.Ledger implements it.
type runStore interface {
	List(ledger.Filter) ([]ledger.Run, error)
	Batches(ledger.Filter) ([]ledger.BatchRow, error)
	Find(id string) (ledger.Batch, error)
}

var _ runStore = (*ledger.Ledger)(nil)

// query returns the runs and batches that f selects. If f names an agent or a batch, these are all matching runs at any
// depth, and no batches. If f names a status, they are all runs at any depth and all batches that have it. Otherwise
// they are the single prompts of people, and each batch as one row. f.Batch may be a short id.
func query(from runStore, f ledger.Filter) ([]ledger.Run, []ledger.BatchRow, error) {
	if f.Batch != "" {
		b, err := from.Find(f.Batch)
		if err != nil {
			return nil, nil, err
		}
		f.Batch = b.ID
	}
	if f.Batch != "" || f.Agent != "" {
		runs, err := from.List(f)
		return runs, nil, err
	}
	batches, err := from.Batches(f)
	if err != nil {
		return nil, nil, err
	}
	f.Roots = len(f.Status) == 0
	runs, err := from.List(f)
	return runs, batches, err
}
