package ledger

import (
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"qq/pkg/task"
)

// What is kept of long texts, in characters. Results are kept whole.
const (
	maxTask    = 10_000
	maxSummary = 5_000
)

// restore makes a result of what was stored.
func restore(record []byte, output string) (task.Result, error) {
	var s task.Stored
	err := json.Unmarshal(record, &s)
	return s.Restored(output), err
}

// Earlier is what came of a task of a batch when it was run before.
type Earlier struct {
	Result task.Result // the newest one, whole
	Ended  bool        // there is one
	At     time.Time   // when it ended
	// Acted says that a run began to act which came to no end of its own, after the
	// last one that did.
	Acted bool
}

// Has reports whether a task with that key was begun in the batch.
func (l *Ledger) Has(batch, key string) (yes bool, err error) {
	s, err := l.prepared("SELECT EXISTS (SELECT 1 FROM executions WHERE batch = ? AND batch <> '' AND key = ?)")
	if err == nil {
		err = s.QueryRow(batch, key).Scan(&yes)
	}
	return yes, l.fault("look for a task of batch "+batch, err)
}

// With is the batch of the directory dir in which a task with that key was begun last,
// empty when there is none. It looks at the whole record.
func (l *Ledger) With(dir, key string) (batch string, err error) {
	err = l.db.QueryRow(`SELECT coalesce((SELECT e.batch FROM executions e JOIN batches b ON b.id = e.batch
WHERE e.key = ? AND b.dir = ? ORDER BY e.n DESC LIMIT 1), '')`, key, dir).Scan(&batch)
	return batch, l.fault("look for the batch of a task", err)
}

// Known is what came of a task of a batch: the nth of those with the same key.
func (l *Ledger) Known(batch, key string, nth int) (past Earlier, err error) {
	defer func() { err = l.fault("look for an earlier result", err) }()
	s, err := l.prepared(`SELECT r.record, coalesce(r.output, ''), coalesce(r.ended, 0),
  EXISTS (SELECT 1 FROM effects f WHERE f.execution = e.n)
FROM executions e LEFT JOIN results r ON r.execution = e.n
WHERE e.batch = ? AND e.batch <> '' AND e.key = ? AND e.nth = ? ORDER BY e.n DESC`)
	if err != nil {
		return past, err
	}
	rows, err := s.Query(batch, key, nth)
	if err != nil {
		return past, err
	}
	defer rows.Close()
	for rows.Next() { // back to the newest run that came to an end of its own
		var record []byte
		var output string
		var ended time.Time
		var acted bool
		if err := rows.Scan(&record, &output, stamped{&ended}, &acted); err != nil {
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
	}
	return past, rows.Err()
}

// Recall is the newest result of any task with that key that completed by
// reading alone and has its reads recorded (they are not nil): it holds as long as
// what was read is the same.
func (l *Ledger) Recall(key string) (task.Result, bool, error) {
	const newest = "SELECT record, output FROM results WHERE recall = ? ORDER BY execution DESC LIMIT 1"
	return l.result("look into the cache", newest, key)
}

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

// stamp is t in the database.
func stamp(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// stamped is a time to scan from the database, where [stamp] wrote it.
type stamped struct{ *time.Time }

// Scan implements [sql.Scanner].
func (s stamped) Scan(us any) error {
	if us, ok := us.(int64); ok && us != 0 {
		*s.Time = time.UnixMicro(us).UTC()
	}
	return nil
}

// cut is the first n characters of s.
func cut(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}
