package runs

import "qq/internal/record/ledger"

// DefaultLimit is the number of rows in a list without --limit.
const DefaultLimit = 20

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
