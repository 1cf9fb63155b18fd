package ledger

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	codes "modernc.org/sqlite/lib"

	"qq/pkg/task"
)

// What is kept of long texts, in characters. Results are kept whole.
const (
	maxTask    = 10_000
	maxSummary = 5_000
)

// Batch is a list of tasks that was begun: by the root named, the last one when
// there were several.
type Batch struct {
	ID      string    `json:"id"`
	Root    string    `json:"root"`
	Dir     string    `json:"dir"`
	Joblog  string    `json:"joblog,omitempty"`
	Count   int       `json:"count"`
	Started time.Time `json:"started"` // the first time
	// Alone says that the log alone tells what was done before: there was no ledger,
	// or it is gone.
	Alone bool `json:"alone,omitempty"`
}

// Execution is a task that somebody is about to work on.
type Execution struct {
	ID      string
	Parent  string // execution that asked for it; empty for what a person asked for
	Batch   string
	Root    string
	Session string
	Agent   string
	Model   string
	Task    string // its text; the first 10,000 characters are kept
	Key     string // of its content, see [Key]
	Dir     string
	Nth     int // among the tasks of the batch with the same key
	Index   int
	Depth   int
	Queued  time.Time
}

// Begin records that a root works on b, anew or again.
func (l *Ledger) Begin(b Batch) error {
	err := l.write.do(false, func(w *writer) error {
		if err := l.free(w, b); err != nil {
			return err
		}
		return w.exec("INSERT INTO batches (id, root, dir, joblog, count, started, alone) VALUES (?, ?, ?, ?, ?, ?, ?)",
			b.ID, b.Root, b.Dir, b.Joblog, b.Count, stamp(b.Started), b.Alone)
	})
	return l.fault("record batch "+b.ID, err)
}

// End records how the work of a root on a batch ended, and what all of it used.
func (l *Ledger) End(batch, root string, status task.Status, used task.Usage) error {
	return l.fault("record the end of batch "+batch, l.write.do(false, func(w *writer) error {
		return w.exec(`INSERT OR IGNORE INTO ends (batch, status, ended, input_tokens, output_tokens)
SELECT n, ?, ?, ?, ? FROM batches WHERE id = ? AND root = ? ORDER BY n DESC LIMIT 1`,
			string(status), stamp(l.now()), used.InputTokens, used.OutputTokens, batch, root)
	}))
}

// free makes sure that no other root works on b. Whoever asks has the only
// transaction that writes, so of two that begin at once one sees the other.
func (l *Ledger) free(w *writer, b Batch) error {
	rows, err := w.conn.QueryContext(context.Background(), "SELECT DISTINCT root FROM batches WHERE id = ? AND root <> ?", b.ID, b.Root)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var root string
		if err := rows.Scan(&root); err != nil {
			return err
		}
		if yes, err := l.roots().Alive(root); err != nil || yes {
			return errors.Join(err, ErrAtWork)
		}
	}
	return rows.Err()
}

// Touch records that the execution id, and those above it, are about to do what
// cannot be undone. When it has returned, neither the end of this process nor a power
// failure loses it.
func (l *Ledger) Touch(id string) error {
	return l.fault("record that "+id+" acts", l.write.do(true, func(w *writer) error {
		return w.exec(`INSERT OR IGNORE INTO effects (execution)
WITH RECURSIVE up (n, parent) AS (
  SELECT n, parent FROM executions WHERE id = ?
  UNION ALL SELECT e.n, e.parent FROM executions e JOIN up ON e.id = up.parent
) SELECT n FROM up`, id)
	}))
}

// Claim records that the work on e is about to start. When it has returned, the
// end of this process does not lose it.
func (l *Ledger) Claim(e Execution) error {
	row := e.row(l.now())
	err := l.write.do(false, func(w *writer) error {
		_, err := w.claim.Exec(row...)
		return err
	})
	if primary(err) == codes.SQLITE_CONSTRAINT {
		err = errTwice
	}
	return l.fault("claim "+e.ID, err)
}

// row is e as claimSQL wants it.
func (e Execution) row(claimed time.Time) []any {
	return []any{e.ID, e.Parent, e.Batch, e.Root, e.Session, e.Agent, e.Model, e.Key, e.Dir, e.Nth, e.Index, e.Depth,
		stamp(e.Queued), stamp(claimed), cut(e.Task, maxTask)}
}

// Attempt appends how the n-th attempt of the execution id ended that was not
// the last. It is written with the next commit.
func (l *Ledger) Attempt(id string, n int, started time.Time, r task.Result) {
	l.write.later(n, stamp(started), stamp(l.now()), string(r.Status), r.Usage.InputTokens, r.Usage.OutputTokens, cut(r.Err(), maxSummary), id)
}

// Finish records the result of the execution id and returns when that is
// durable. An execution has one result: what comes after the first changes nothing.
func (l *Ledger) Finish(id string, r task.Result) error { return l.FinishFor("", id, r) }

// FinishFor is Finish for a result that answers again where [Ledger.Recall] asks
// with that key, when it was made by reading alone; empty is never.
func (l *Ledger) FinishFor(recall, id string, r task.Result) error {
	act := "record the result of " + id
	row, err := resultRow(id, recall, r, l.now())
	if err != nil {
		return fmt.Errorf("%s: %w", act, err)
	}
	return l.fault(act, l.write.do(true, func(w *writer) error { return w.finishRow(row) }))
}

func (w *writer) finishRow(row []any) error {
	res, err := w.finish.Exec(row...)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n > 0 {
		return err
	}
	known, err := w.known(row[len(row)-1])
	if err == nil && !known {
		err = fmt.Errorf("it was not claimed: %w", ErrNone)
	}
	return err
}

// known reports whether the execution id was claimed.
func (w *writer) known(id any) (yes bool, err error) {
	err = w.conn.QueryRowContext(context.Background(), "SELECT count(*) > 0 FROM executions WHERE id = ?", id).Scan(&yes)
	return yes, err
}

// resultRow is r as finishSQL wants it.
func resultRow(id, recall string, r task.Result, ended time.Time) ([]any, error) {
	record, err := json.Marshal(task.Store(r))
	if err != nil {
		return nil, err
	}
	var summary any
	if s := cut(r.Output, maxSummary); len(s) < len(r.Output) {
		summary = s
	}
	var again any
	if recall != "" && r.Status == task.Completed && r.Reads != nil && !r.Effects {
		again = recall
	}
	return []any{string(r.Status), r.Attempts, stamp(ended), r.DurationMS, r.QueuedMS, r.Usage.InputTokens, r.Usage.OutputTokens,
		again, cut(r.Err(), maxSummary), summary, string(record), r.Output, id}, nil
}

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
	err = l.read.QueryRow(`SELECT e.batch FROM executions e JOIN batches b ON b.id = e.batch
WHERE e.key = ? AND b.dir = ? AND b.alone = 0 ORDER BY e.n DESC LIMIT 1`, key, dir).Scan(&batch)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return batch, l.fault("look for the batch of a task", err)
}

// Known is what came of a task of a batch: the nth of those with the same key.
func (l *Ledger) Known(batch, key string, nth int) (Earlier, error) {
	var past Earlier
	s, err := l.prepared(`SELECT r.record, coalesce(r.output, ''), EXISTS (SELECT 1 FROM effects f WHERE f.execution = e.n)
FROM executions e LEFT JOIN results r ON r.execution = e.n
WHERE e.batch = ? AND e.batch <> '' AND e.key = ? AND e.nth = ? ORDER BY e.n DESC`)
	if err == nil {
		err = past.read(s, batch, key, nth)
	}
	return past, l.fault("look for an earlier result", err)
}

// read goes back to the newest run that came to an end of its own.
func (p *Earlier) read(s *sql.Stmt, args ...any) error {
	rows, err := s.Query(args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var record []byte
		var output string
		var acted bool
		if err := rows.Scan(&record, &output, &acted); err != nil {
			return err
		}
		r := task.Result{Effects: acted}
		if record != nil {
			if r, err = restore(record, output); err != nil {
				return err
			}
			if !p.Ended {
				p.Result, p.Ended = r, true
			}
			if r.Status.Conclusive() {
				break
			}
		}
		p.Acted = p.Acted || acted || r.Effects
	}
	return rows.Err()
}

// Recall is the newest result of any task with that key that completed by
// reading alone and has its reads recorded (they are not nil): it holds as long as
// what was read is the same.
func (l *Ledger) Recall(key string) (task.Result, bool, error) {
	return l.result("look into the cache", "SELECT record, output FROM results WHERE recall = ? ORDER BY execution DESC LIMIT 1", key)
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
	if err != nil {
		return task.Result{}, false, l.fault(act, err)
	}
	r, err := restore(record, output)
	return r, err == nil, l.fault(act, err)
}

// stamp is t in the database.
func stamp(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func unstamp(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// cut is the first n characters of s.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}
