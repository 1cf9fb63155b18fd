package ledger

import (
	"cmp"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"qq/internal/record/ledger/selection"
	"qq/pkg/task"
)

// Run is one execution of an agent as qq runs shows it: its task, its status and its
// result in short.
type Run struct {
	ID         string      `json:"id"`
	Parent     string      `json:"parent,omitempty"`
	Batch      string      `json:"batch,omitempty"`
	Root       string      `json:"root"`
	Session    string      `json:"session,omitempty"`
	Agent      string      `json:"agent"`
	Model      string      `json:"model,omitempty"`
	Task       string      `json:"task"`
	Status     task.Status `json:"status"`
	Attempts   int         `json:"attempts"`
	Queued     time.Time   `json:"queued,omitzero"`
	Started    time.Time   `json:"started"` // when it was claimed, just before its start
	Ended      time.Time   `json:"ended,omitzero"`
	DurationMS int64       `json:"duration_ms"`
	QueuedMS   int64       `json:"queued_ms"`
	Usage      task.Usage  `json:"usage"`
	TotalUsage task.Usage  `json:"total_usage"`       // with that of all runs below it
	Summary    string      `json:"summary,omitempty"` // the first 5,000 characters of its output
	Error      string      `json:"error,omitempty"`
	Depth      int         `json:"depth"`
	Index      int         `json:"index"`
	Live       bool        `json:"live"` // its root is alive and it has no result
}

// AttemptRow is an attempt of a run that was followed by another attempt.
type AttemptRow struct {
	Number  int         `json:"number"`
	Started time.Time   `json:"started"`
	Ended   time.Time   `json:"ended"`
	Status  task.Status `json:"status"`
	Usage   task.Usage  `json:"usage"`
	Error   string      `json:"error,omitempty"`
}

// BatchRow is a batch with its status and the number of its tasks in each status. A task
// that was started several times counts once; a task that was never started does not
// count.
type BatchRow struct {
	Batch
	Status task.Status `json:"status"`
	Latest time.Time   `json:"latest"` // when it was last begun or resumed
	Ended  time.Time   `json:"ended,omitzero"`
	// DurationMS is how long roots worked on the batch, and Usage is the tokens used at any
	// depth. Neither includes work that is still going on or that ended with the death of its
	// root.
	DurationMS int64               `json:"duration_ms"`
	Usage      task.Usage          `json:"usage"`
	Counts     map[task.Status]int `json:"counts"`
	Live       bool                `json:"live"` // a live root works on it
}

// Done returns how many tasks finished by themselves, rather than being cancelled,
// interrupted or skipped, and how many of these failed.
func (b BatchRow) Done() (done, failed int) {
	for s, n := range b.Counts {
		if s.Final() && s != task.Cancelled && s != task.Interrupted && s != task.Terminated && s != task.Skipped {
			done += n
		}
	}
	return done, done - b.Counts[task.Completed]
}

// Filter selects runs or batches. The zero Filter selects all.
type Filter struct {
	Batch  string        // the full id of a batch
	Agent  string        // ignored for batches
	Status []task.Status // any of these
	Since  time.Time
	Until  time.Time // exclusive
	Dir    string
	Live   bool   // only those at work
	Roots  bool   // only single prompts that a person gave, outside of batches
	Text   string // is in the task, the answer or the error; ignored for batches
	Limit  int    // 0 means no limit
	// BehindRun and BehindBatch are ids: only what comes behind that run, or that batch, in a list is selected.
	BehindRun, BehindBatch string
}

const (
	amongLive = "root IN (SELECT value FROM json_each(?))"
	// running selects the runs at work. Its first part keeps the query fast in a large ledger.
	running = "n IN (SELECT execution FROM unfinished) AND " + amongLive
)

// runs returns the condition of f on the view runs. live has the ids of the live roots as a
// JSON array.
func (f Filter) runs(live string) *selection.Where {
	w := &selection.Where{}
	w.Is("batch", f.Batch)
	w.Is("agent", f.Agent)
	w.Is("dir", f.Dir)
	if f.Roots {
		w.And("parent = '' AND batch = ''")
	}
	if f.Live {
		w.And(running, live)
	}
	w.Behind("n", "executions", f.BehindRun)
	w.During(f.Since, f.Until, "claimed")
	if f.Text != "" {
		part := "%" + strings.NewReplacer("\\", "\\\\", "%", "\\%", "_", "\\_").Replace(f.Text) + "%"
		w.And(`(task LIKE ? ESCAPE '\' OR EXISTS (SELECT 1 FROM results o WHERE o.execution = n AND
  (o.output LIKE ? ESCAPE '\' OR o.error LIKE ? ESCAPE '\')))`, part, part, part)
	}
	if len(f.Status) == 0 {
		return w
	}
	var any selection.Where
	for _, s := range f.Status {
		any.And("status = ?", string(s))
		switch s {
		case task.Running:
			any.And(running, live)
		case task.Interrupted:
			any.And("n IN (SELECT execution FROM unfinished) AND NOT "+amongLive, live)
		}
	}
	w.And("("+strings.Join(any.Parts, " OR ")+")", any.Args...)
	return w
}

func (f Filter) limit() string {
	return fmt.Sprintf(" LIMIT %d", cmp.Or(f.Limit, -1)) // -1 means no limit
}

// List returns the runs that f selects, newest first.
func (l *Ledger) List(f Filter) ([]Run, error) {
	return l.selectRuns("list the runs", f.runs, " ORDER BY n DESC"+f.limit())
}

const runColumns = `id, parent, batch, root, session, agent, model, task, status, attempts, queued, claimed, ended,
duration_ms, queued_ms, summary, error, depth, idx, ` + usageColumns

// selectRuns returns the runs that a condition selects. which makes the condition; it gets
// the ids of the live roots as a JSON array. order is the end of the query, such as ORDER
// BY.
func (l *Ledger) selectRuns(act string, which func(live string) *selection.Where, order string) (
	runs []Run, err error,
) {
	// Look repeats the query if a root started meanwhile, whose runs would look interrupted.
	err = l.roots.Look(func(live map[string]bool) (err error) {
		w := which(selection.List(live))
		query := "SELECT " + runColumns + " FROM runs" + w.String() + order
		runs, err = selection.Collect(l.db, query, w.Args, func(rows *sql.Rows, r *Run) error {
			err := rows.Scan(append([]any{&r.ID, &r.Parent, &r.Batch, &r.Root, &r.Session, &r.Agent, &r.Model, &r.Task,
				&r.Status, &r.Attempts, selection.Time(&r.Queued), selection.Time(&r.Started), selection.Time(&r.Ended),
				&r.DurationMS, &r.QueuedMS, &r.Summary, &r.Error, &r.Depth, &r.Index}, targets(&r.Usage)...)...)
			if r.Status == "" {
				r.Status, r.Live = statusOf(live[r.Root]), live[r.Root]
			}
			return err
		})
		return cmp.Or(err, l.addUp(runs))
	})
	return runs, l.fault(act, err)
}

// addUp sets the total usage of each of runs.
func (l *Ledger) addUp(runs []Run) error {
	at := make(map[string]*Run, len(runs))
	for i := range runs {
		at[runs[i].ID], runs[i].TotalUsage = &runs[i], runs[i].Usage
	}
	return selection.Each(l.db, `WITH RECURSIVE below (top, id, n) AS (
  SELECT e.parent, e.id, e.n FROM json_each(?) j CROSS JOIN executions e ON e.parent = j.value AND e.parent <> ''
  UNION SELECT b.top, e.id, e.n FROM below b CROSS JOIN executions e ON e.parent = b.id AND e.parent <> '')
SELECT top, `+usageSums+` FROM below b CROSS JOIN runs r ON r.n = b.n GROUP BY top`,
		[]any{selection.List(at)}, func(rows *sql.Rows) error {
			var top string
			var u task.Usage
			err := rows.Scan(append([]any{&top}, targets(&u)...)...)
			if err == nil {
				at[top].TotalUsage = at[top].Usage.Add(u)
			}
			return err
		})
}

// statusOf returns the status of an execution without a result.
func statusOf(alive bool) task.Status {
	if alive {
		return task.Running
	}
	return task.Interrupted
}

// Show returns one run, its attempts before the last, and its result, which is zero if
// there is none. id may be the beginning or the end of an id if only one matches.
func (l *Ledger) Show(id string) (Run, []AttemptRow, task.Result, error) {
	act := "show " + id
	id, err := l.resolve(act, id, "executions")
	if err != nil {
		return Run{}, nil, task.Result{}, err
	}
	runs, err := l.selectRuns(act, func(string) *selection.Where { return selection.Only("id = ?", id) }, "")
	if err == nil && len(runs) == 0 { // cleared meanwhile
		err = none(act)
	}
	if err != nil {
		return Run{}, nil, task.Result{}, err
	}
	attempts, err := l.attempts("e.id = ?1", id)
	if err != nil {
		return Run{}, nil, task.Result{}, l.fault(act, err)
	}
	const whole = "SELECT r.record, r.output FROM executions e JOIN results r ON r.execution = e.n WHERE e.id = ?"
	r, _, err := l.result(act, whole, id)
	return runs[0], attempts[id], r, err
}

// batchQuery selects one row for each batch. Each time a root begins or resumes a batch,
// the table gets a row for that; the query returns the newest.
const batchQuery = `SELECT b.id, b.root, b.dir, b.joblog, b.count,
  (SELECT started FROM batches f WHERE f.id = b.id ORDER BY f.n LIMIT 1), b.started,
  coalesce(e.status, ''), coalesce(e.ended, 0), coalesce(a.time / 1000, 0),
  coalesce(a.input, 0), coalesce(a.output, 0), coalesce(a.cached, 0), coalesce(a.cost, 0), coalesce(a.priced, 0)
FROM batches b LEFT JOIN ends e ON e.batch = b.n LEFT JOIN (
  SELECT w.id, sum(max(d.ended - w.started, 0)) AS time, sum(d.input_tokens) AS input, sum(d.output_tokens) AS output,
    sum(d.cached_tokens) AS cached, sum(d.cost) AS cost, sum(d.priced_tokens) AS priced
  FROM batches w JOIN ends d ON d.batch = w.n GROUP BY w.id) a ON a.id = b.id
WHERE b.n = (SELECT max(n) FROM batches m WHERE m.id = b.id)`

// batchStatus is the status of a batch, as [Ledger.Batches] gives it.
const batchStatus = "CASE WHEN b." + amongLive + " THEN ? ELSE coalesce(nullif(e.status, ''), ?) END"

// selectBatches returns batches without their counts, with the status that was recorded.
// more is appended to the query.
func (l *Ledger) selectBatches(more string, args ...any) ([]BatchRow, error) {
	return selection.Collect(l.db, batchQuery+more, args, func(rows *sql.Rows, b *BatchRow) error {
		return rows.Scan(append([]any{&b.ID, &b.Root, &b.Dir, &b.Joblog, &b.Count, selection.Time(&b.Started),
			selection.Time(&b.Latest), &b.Status, selection.Time(&b.Ended), &b.DurationMS}, targets(&b.Usage)...)...)
	})
}

// newest returns the batch that was begun or resumed last, among those for which the
// condition match holds. args are the arguments of match. The error is [ErrNone] if there
// is none.
func (l *Ledger) newest(act, match string, args ...any) (Batch, error) {
	batches, err := l.selectBatches(" AND "+match+" ORDER BY b.n DESC LIMIT 1", args...)
	if err == nil && len(batches) == 0 {
		err = none(act)
	}
	if err != nil {
		return Batch{}, l.fault(act, err)
	}
	return batches[0].Batch, nil
}

// withTask is the condition that at least one task of the batch b was started. A batch
// without such a task has nothing to resume.
const withTask = "EXISTS (SELECT 1 FROM executions x WHERE x.batch = b.id)"

// Last returns the batch of the directory dir that was begun or resumed last. If before is
// not empty, only batches with a smaller id than before count: those that were begun
// earlier. Batches that started no task do not count.
func (l *Ledger) Last(dir, before string) (Batch, error) {
	const match = "b.dir = ? AND (? = '' OR b.id < ?) AND " + withTask
	return l.newest("find the last batch of "+dir, match, dir, before, before)
}

// ByJoblog returns the batch that last wrote the job log at path. Batches that started no
// task do not count.
func (l *Ledger) ByJoblog(path string) (Batch, error) {
	return l.newest("find the batch of "+path, "b.joblog = ? AND b.joblog <> '' AND "+withTask, path)
}

// Begun returns the batch of the directory dir that was begun or resumed last, even if it started
// no task. If joblog is not empty, only a batch with that job log counts.
func (l *Ledger) Begun(dir, joblog string) (Batch, error) {
	return l.newest("find a batch of "+dir, "b.dir = ? AND (? = '' OR b.joblog = ?)", dir, joblog, joblog)
}

// Find returns the batch with that id. id may be the beginning or the end of an id if only
// one matches.
func (l *Ledger) Find(id string) (Batch, error) {
	act := "find batch " + id
	id, err := l.resolve(act, id, "batches")
	if err != nil {
		return Batch{}, err
	}
	return l.newest(act, "b.id = ?", id)
}

// Batches returns the batches that f selects, newest first.
func (l *Ledger) Batches(f Filter) (all []BatchRow, err error) {
	err = l.roots.Look(func(live map[string]bool) (err error) {
		w := &selection.Where{}
		w.Behind("b.n", "batches", f.BehindBatch)
		w.During(f.Since, f.Until, "b.started")
		w.Is("b.id", f.Batch)
		w.Is("b.dir", f.Dir)
		if f.Live {
			w.And("b."+amongLive, selection.List(live))
		}
		if len(f.Status) > 0 {
			text, _ := json.Marshal(f.Status) // strings never fail
			w.And(batchStatus+" IN (SELECT value FROM json_each(?))", selection.List(live), task.Running,
				task.Interrupted, text)
		}
		more := strings.Replace(w.String(), " WHERE ", " AND ", 1) + " ORDER BY b.n DESC" + f.limit()
		all, err = l.selectBatches(more, w.Args...)
		for i := 0; i < len(all) && err == nil; i++ {
			b := &all[i]
			b.Live = live[b.Root]
			b.Counts, err = l.counts(b.ID, live)
			if b.Live || b.Status == "" {
				b.Status = statusOf(b.Live)
			}
		}
		return err
	})
	return all, l.fault("list the batches", err)
}

// counts returns the number of tasks of a batch in each status. A task that was started several times
// counts once: with its run at work, else with its newest result, else with its newest claim.
func (l *Ledger) counts(batch string, live map[string]bool) (map[task.Status]int, error) {
	counts := map[task.Status]int{}
	err := selection.Each(l.db, `WITH working AS (SELECT DISTINCT e.key, e.nth
  FROM unfinished u CROSS JOIN executions e ON e.n = u.execution WHERE e.batch = ?1 AND e.`+amongLive+`)
SELECT status, count FROM counts WHERE batch = ?1
UNION ALL SELECT ?3, count(*) FROM working
UNION ALL SELECT coalesce((SELECT f.status FROM finished f
  WHERE f.batch = ?1 AND f.key = w.key AND f.nth = w.nth ORDER BY f.n DESC LIMIT 1), ''), -1
FROM working w`, []any{batch, selection.List(live), task.Running}, func(rows *sql.Rows) error {
		var status task.Status
		var n int
		err := rows.Scan(&status, &n)
		counts[cmp.Or(status, task.Interrupted)] += n
		return err
	})
	maps.DeleteFunc(counts, func(_ task.Status, n int) bool { return n == 0 })
	return counts, err
}

// resolve returns the full id in the tables for id: the same id, or else the only one that
// begins or ends with it. The error is [ErrNone] or [ErrAmbiguous].
func (l *Ledger) resolve(act, id string, tables ...string) (string, error) {
	if id == "" {
		return "", none(act)
	}
	all := "SELECT id FROM " + strings.Join(tables, " UNION SELECT id FROM ")
	const part = "id >= ?1 AND id < ?1 || char(0x10ffff) OR substr(id, -length(?1)) = ?1"
	for _, match := range []string{"id = ?1", part} {
		query := "SELECT DISTINCT id FROM (" + all + ") WHERE " + match + " ORDER BY id LIMIT 4"
		found, err := selection.Collect(l.db, query, []any{id},
			func(rows *sql.Rows, one *string) error { return rows.Scan(one) })
		if err != nil {
			return "", l.fault(act, err)
		}
		if len(found) == 1 {
			return found[0], nil
		}
		if len(found) > 1 {
			return "", problem(ErrAmbiguous, nil, act+": several ids begin or end so",
				"use more of it: "+strings.Join(found[:min(3, len(found))], ", ")+" …")
		}
	}
	return "", none(act)
}

// none returns the error of the operation act on something that the ledger does not have.
func none(act string) error {
	return problem(ErrNone, nil, act+": it is not in the ledger", "qq runs list shows what is")
}
