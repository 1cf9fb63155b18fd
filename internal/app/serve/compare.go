package serve

import (
	"net/http"
	"time"

	"qq/internal/app/serve/view"
	"qq/internal/record/history"
	"qq/pkg/task"
)

// began is when a run began.
func began(r history.Run) time.Time {
	if r.Batch != nil {
		return r.Batch.Started
	}
	return r.Jobs[0].Started
}

// compare shows two runs side by side, with the pairs that qq runs diff has.
func (s *server) compare(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	ids := append(q["run"], q["job"]...)
	if len(ids) != 2 || ids[0] == ids[1] {
		return task.Hinted("go back and choose two of them", "%w: two runs or two jobs are needed, not %d", errChoice,
			len(ids))
	}
	if err := s.store.Fresh(); err != nil {
		return err
	}
	var both [2]history.Run
	for i, id := range ids {
		var err error
		if both[i], err = s.store.Run(id); err != nil {
			return err
		}
	}
	a, b := both[0], both[1]
	if len(q["run"]) > 0 && began(b).Before(began(a)) { // the list has the newest first
		a, b = b, a
	}
	if (a.Batch == nil) != (b.Batch == nil) {
		return task.Hinted("choose two batches, or two prompts", "%w: one is a batch, and the other is none", errChoice)
	}
	data, err := s.view().Compared(a, b, number(r, "from"))
	if err != nil {
		return err
	}
	data.Newer, data.Older, data.Span = s.view().Span(r.URL, number(r, "from"), view.PairsPerPage, data.Count)
	return s.show(w, "compare", data)
}
