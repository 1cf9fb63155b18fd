package runs

import "qq/internal/record/ledger"

// Record is where runs are looked up.
type Record interface {
	List(ledger.Filter) ([]ledger.Run, error)
	Batches(ledger.Filter) ([]ledger.BatchRow, error)
	Find(id string) (ledger.Batch, error)
}

var _ Record = (*ledger.Ledger)(nil)

// Query returns what [List] shows of the runs that f lets through. Who asks for
// nothing special sees what was started by a person, a batch as one row. Who asks
// for an agent, a status or a batch sees every run that is meant, by whomever it was
// started. The batch may be shortened, as a run.
func Query(from Record, f ledger.Filter) ([]ledger.Run, []ledger.BatchRow, error) {
	if f.Batch != "" {
		b, err := from.Find(f.Batch)
		if err != nil {
			return nil, nil, err
		}
		f.Batch = b.ID
	}
	if f.Batch != "" || f.Agent != "" || len(f.Status) > 0 {
		runs, err := from.List(f)
		return runs, nil, err
	}
	batches, err := from.Batches(f)
	if err != nil {
		return nil, nil, err
	}
	f.Roots = true
	runs, err := from.List(f)
	return runs, batches, err
}
