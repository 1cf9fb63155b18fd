package ledger

import (
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"qq/internal/record/ledger/selection"
	"qq/pkg/task"
)

// maxTask limits the text of a task in the ledger, in characters.
const maxTask = 10_000

// MaxSummary limits the summary and the error of a [Run], in characters. The output of a result is stored whole.
const MaxSummary = 5_000

// restore returns the result that the database has as record and output.
func restore(record []byte, output string) (task.Result, error) {
	var s task.Stored
	err := json.Unmarshal(record, &s)
	return s.Restored(output), err
}

// Earlier is what earlier runs of a batch recorded about one of its tasks. The zero Earlier
// means that there is no record.
type Earlier struct {
	Result task.Result // the newest result; without one it has the id of the newest execution
	Ended  bool        // Result is set
	At     time.Time   // when it ended
	// Acted means that a run after the last conclusive result began side effects and was
	// interrupted, so that their outcome is unknown.
	Acted bool
}

// Has reports whether a task with that key was ever started in the batch.
func (l *Ledger) Has(batch, key string) (yes bool, err error) {
	s, err := l.prepared("SELECT EXISTS (SELECT 1 FROM executions WHERE batch = ? AND batch <> '' AND key = ?)")
	if err == nil {
		err = s.QueryRow(batch, key).Scan(&yes)
	}
	return yes, l.fault("look for a task of batch "+batch, err)
}

// With returns the id of the batch that last started a task with that key, among the
// batches of the directory dir. It returns "" if there is none. It scans the whole ledger.
func (l *Ledger) With(dir, key string) (batch string, err error) {
	err = l.db.QueryRow(`SELECT coalesce((SELECT e.batch FROM executions e JOIN batches b ON b.id = e.batch
WHERE e.key = ? AND b.dir = ? ORDER BY e.n DESC LIMIT 1), '')`, key, dir).Scan(&batch)
	return batch, l.fault("look for the batch of a task", err)
}

// Known returns what earlier runs recorded about a task of a batch. Among the tasks with
// the same key, it is the task with the number nth, counted from 0. If no run has recorded
// anything, the result is the zero Earlier.
func (l *Ledger) Known(batch, key string, nth int) (past Earlier, err error) {
	defer func() { err = l.fault("look for an earlier result", err) }()
	s, err := l.prepared(`SELECT e.id, r.record, coalesce(r.output, ''), coalesce(r.ended, 0),
  EXISTS (SELECT 1 FROM effects f WHERE f.execution = e.n) FROM executions e LEFT JOIN results r ON r.execution = e.n
WHERE e.batch = ? AND e.batch <> '' AND e.key = ? AND e.nth = ? ORDER BY e.n DESC`)
	if err != nil {
		return past, err
	}
	rows, err := s.Query(batch, key, nth)
	if err != nil {
		return past, err
	}
	defer rows.Close()
	for rows.Next() { // from the newest run back to the last conclusive one
		var record []byte
		var id, output string
		var ended time.Time
		var acted bool
		if err := rows.Scan(&id, &record, &output, selection.Time(&ended), &acted); err != nil {
			return past, err
		}
		r := task.Result{Effects: acted}
		if record != nil {
			if r, err = restore(record, output); err != nil {
				return past, err
			}
			if !past.Ended {
				past.Result, past.Ended, past.At = r, true, ended
			}
			if r.Status.Conclusive() {
				break
			}
		}
		past.Acted = past.Acted || acted || r.Effects
		past.Result.ExecutionID = max(past.Result.ExecutionID, id) // ids are in the order of time
	}
	return past, rows.Err()
}

// Recall returns the newest result that was stored under the cache key, and false if there
// is none. Such a result is a success without side effects. The caller must check that what
// was read for it is unchanged.
func (l *Ledger) Recall(key string) (task.Result, bool, error) {
	const newest = "SELECT record, output FROM results WHERE recall = ? ORDER BY execution DESC LIMIT 1"
	return l.result("look into the cache", newest, key)
}

// result returns the stored result that the query selects, and false if there is none.
func (l *Ledger) result(act, query string, args ...any) (task.Result, bool, error) {
	var record []byte
	var output string
	s, err := l.prepared(query)
	if err == nil {
		err = s.QueryRow(args...).Scan(&record, &output)
	}
	if errors.Is(err, sql.ErrNoRows) {
		return task.Result{}, false, nil
	}
	var r task.Result
	if err == nil {
		r, err = restore(record, output)
	}
	return r, err == nil, l.fault(act, err)
}
