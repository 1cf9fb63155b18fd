package record

import (
	"slices"
	"time"

	"qq/internal/record/ledger"
	"qq/pkg/task"
)

// mostRemembered is how many earlier tasks of an agent say how long one usually takes.
const mostRemembered = 20

// Usual returns how long tasks of these agents usually take: the median of the last ones that were completed. It leaves
// out agents of which none is known.
func (r *Record) Usual(agents []string) map[string]time.Duration {
	usual := map[string]time.Duration{}
	if !r.Keeps() {
		return usual
	}
	past, err := r.cfg.Ledger.Ledger()
	if err != nil {
		return usual // it is only an estimate
	}
	for _, agent := range agents {
		runs, err := past.List(ledger.Filter{
			Agent: agent, Status: []task.Status{task.Completed}, Limit: mostRemembered,
		})
		if err != nil || len(runs) == 0 {
			continue
		}
		slices.SortFunc(runs, func(a, b ledger.Run) int { return int(a.DurationMS - b.DurationMS) })
		usual[agent] = time.Duration(runs[len(runs)/2].DurationMS) * time.Millisecond
	}
	return usual
}
