package record

import "qq/internal/record/plans"

// KeepPlan keeps the plan of a batch, as JSON, for those who look at the batch later. A batch is as good without: an
// error is dropped.
func (r *Record) KeepPlan(batch string, text []byte) {
	if r.Keeps() {
		_ = plans.Keep(r.cfg.Ledger.Home(), batch, text)
	}
}
