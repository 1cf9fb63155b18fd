package ledger

import (
	"database/sql"

	"qq/internal/record/ledger/selection"
	"qq/pkg/task"
)

// usageColumns are the columns of a [task.Usage], in the order of values and targets.
const usageColumns = "input_tokens, output_tokens, cached_tokens, cost, priced_tokens"

// usageSums are the sums of these columns.
const usageSums = "sum(input_tokens), sum(output_tokens), sum(cached_tokens), sum(cost), sum(priced_tokens)"

// values returns what usageColumns are to have for u.
func values(u task.Usage) []any {
	return []any{u.InputTokens, u.OutputTokens, u.CachedTokens, int64(u.Cost), u.PricedTokens}
}

// targets returns where usageColumns are scanned to.
func targets(u *task.Usage) []any {
	return []any{&u.InputTokens, &u.OutputTokens, &u.CachedTokens, &u.Cost, &u.PricedTokens}
}

// Share is what the runs of an agent at a depth used.
type Share struct {
	Agent string     `json:"agent"`
	Depth int        `json:"depth"`
	Runs  int        `json:"runs"`
	Usage task.Usage `json:"usage"`
}

// Stat is what the runs of an agent with a model came to that ended with one status, or have not ended.
type Stat struct {
	Agent      string         `json:"agent"`
	Model      string         `json:"model"`
	Status     task.Status    `json:"status"` // running or interrupted if they have not ended
	Cached     bool           `json:"cached"` // nothing was run: their results were known
	Runs       int            `json:"runs"`
	Repeated   int            `json:"repeated"`    // runs with more than one attempt
	DurationMS int64          `json:"duration_ms"` // of their last attempts, together
	QueuedMS   int64          `json:"queued_ms"`
	Usage      task.Usage     `json:"usage"`
	Time       task.ModelTime `json:"model_time"` // of those runs that tell it
}

// Stats adds up the runs that f selects, by agent, model and status. Those whose results were known are apart.
func (l *Ledger) Stats(f Filter) (stats []Stat, err error) {
	err = l.roots.Look(func(live map[string]bool) (err error) {
		alive := selection.List(live)
		w := f.runs(alive)
		query := `SELECT agent, model, coalesce(nullif(status, ''), iif(` + amongLive + `, 'running', 'interrupted')) AS st,
  coalesce(o ->> '$.cached', 0) AS known, count(*), sum(attempts > 1), sum(duration_ms), sum(queued_ms),
  ` + usageSums + `, sum(coalesce(t ->> 'answers', 0)), sum(coalesce(t ->> 'first_ms', 0)),
  sum(coalesce(t ->> 'took_ms', 0)), sum(coalesce(t ->> 'waited_ms', 0))
FROM (SELECT *, o -> '$.did.model' AS t
  FROM (SELECT *, (SELECT r.record FROM results r WHERE r.execution = n) AS o FROM runs` + w.String() +
			`)) GROUP BY agent, model, st, known ORDER BY agent, model, st, known`
		stats, err = selection.Collect(l.db, query, append([]any{alive}, w.Args...), func(r *sql.Rows, s *Stat) error {
			to := append([]any{&s.Agent, &s.Model, &s.Status, &s.Cached, &s.Runs, &s.Repeated, &s.DurationMS,
				&s.QueuedMS}, targets(&s.Usage)...)
			return r.Scan(append(to, &s.Time.Answers, &s.Time.FirstMS, &s.Time.TookMS,
				&s.Time.WaitedMS)...)
		})
		return err
	})
	return stats, l.fault("add up the runs", err)
}

// below is the condition that a run is that with the id ?1, a task of the batch ?1, or below one of them.
const below = `n IN (WITH RECURSIVE below (n, id) AS (
  SELECT n, id FROM executions WHERE id = ?1
  UNION SELECT n, id FROM executions WHERE batch = ?1 AND batch <> ''
  UNION SELECT e.n, e.id FROM executions e JOIN below b ON e.parent = b.id AND e.parent <> '')
SELECT n FROM below)`

// Shares returns what a run, or the tasks of a batch, used together with everything that was delegated from them: one
// for each agent at each depth. id is a whole one. What did not end counts nothing.
func (l *Ledger) Shares(id string) ([]Share, error) {
	query := "SELECT agent, depth, count(*), " + usageSums + " FROM runs WHERE " + below +
		" GROUP BY agent, depth ORDER BY depth, agent"
	shares, err := selection.Collect(l.db, query, []any{id}, func(rows *sql.Rows, s *Share) error {
		return rows.Scan(append([]any{&s.Agent, &s.Depth, &s.Runs}, targets(&s.Usage)...)...)
	})
	return shares, l.fault("add up what "+id+" used", err)
}
