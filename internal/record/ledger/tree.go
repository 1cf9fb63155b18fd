package ledger

import (
	"database/sql"
	"encoding/json"

	"qq/internal/record/ledger/selection"
	"qq/pkg/task"
)

// Whole returns the full id of a run or a batch. id may be the beginning or the end of an id if only one matches.
func (l *Ledger) Whole(id string) (string, error) {
	return l.resolve(id, id, "executions", "batches")
}

// Tree returns a run, or the tasks of a batch, with everything that was delegated from
// them. Parents come before their children, and children in the order in which they
// started.
func (l *Ledger) Tree(id string) ([]Run, error) {
	act := "show the tree of " + id
	whole, err := l.resolve(act, id, "executions", "batches")
	if err != nil {
		return nil, err
	}
	runs, err := l.selectRuns(act, func(string) *selection.Where { return selection.Only(below, whole) }, " ORDER BY n")
	return byParent(runs), err
}

// byParent sorts runs so that each is followed by its children. A run whose parent is
// missing is at the top level.
func byParent(runs []Run) []Run {
	known, children := map[string]bool{}, map[string][]Run{}
	for _, r := range runs {
		known[r.ID] = true
		children[r.Parent] = append(children[r.Parent], r)
	}
	ordered := make([]Run, 0, len(runs))
	var add func(Run)
	add = func(r Run) {
		ordered = append(ordered, r)
		for _, child := range children[r.ID] {
			add(child)
		}
	}
	delete(children, "")
	for _, r := range runs {
		if r.Parent == "" || !known[r.Parent] {
			add(r)
		}
	}
	return ordered
}

// Top returns the full id of the prompt or of the batch that a run, a batch or a root belongs to. A root that worked on
// several batches stands for the last one. id may be the beginning or the end of an id if only one matches.
func (l *Ledger) Top(id string) (top string, err error) {
	act := "find the run of " + id
	whole, err := l.resolve(act, id, "executions", "batches", "roots")
	if err != nil {
		return "", err
	}
	err = l.db.QueryRow(`WITH RECURSIVE up (id, parent, batch, far) AS (
  SELECT id, parent, batch, 0 FROM executions WHERE id = ?1
  UNION ALL SELECT e.id, e.parent, e.batch, far + 1 FROM up JOIN executions e ON e.id = up.parent AND up.parent <> '')
SELECT coalesce((SELECT iif(parent = '' AND batch <> '', batch, id) FROM up ORDER BY far DESC LIMIT 1),
  (SELECT id FROM batches WHERE root = ?1 ORDER BY n DESC LIMIT 1), ?1)`, whole).Scan(&top)
	return top, l.fault(act, err)
}

// Outcome is what the ledger keeps of a result besides what a [Run] has. The whole result is that of [Ledger.Show].
type Outcome struct {
	ExitCode   int       `json:"exit_code"`
	Changed    []string  `json:"changed_files,omitempty"`
	Did        *task.Did `json:"did,omitempty"` // nil means nothing, or not known
	Warnings   []string  `json:"warnings,omitempty"`
	OutputFile string    `json:"output_file,omitempty"`
	Cached     bool      `json:"cached,omitempty"`
	// Away is when it had lent its slot, since it started, in milliseconds. It is known if [Ledger.Slots] is.
	Away []task.Span `json:"away,omitempty"`
}

// Outcomes returns the outcomes of a run, or of the tasks of a batch, and of everything that was delegated from them,
// by the ids of the runs. id is a whole one.
func (l *Ledger) Outcomes(id string) (map[string]Outcome, error) {
	all := map[string]Outcome{}
	query := "SELECT e.id, r.record FROM executions e JOIN results r ON r.execution = e.n WHERE e." + below
	err := selection.Each(l.db, query, []any{id}, func(rows *sql.Rows) error {
		var id string
		var record []byte
		err := rows.Scan(&id, &record)
		if err == nil {
			var one Outcome
			err = json.Unmarshal(record, &one)
			all[id] = one
		}
		return err
	})
	return all, l.fault("read the results of "+id, err)
}

// Attempts returns the attempts before the last of a run, or of the tasks of a batch, and of everything that was
// delegated from them, by the ids of the runs. id is a whole one.
func (l *Ledger) Attempts(id string) (map[string][]AttemptRow, error) {
	all, err := l.attempts("e."+below, id)
	return all, l.fault("read the attempts of "+id, err)
}

// attempts returns the attempts of the executions e that a condition selects.
func (l *Ledger) attempts(which string, args ...any) (map[string][]AttemptRow, error) {
	all := map[string][]AttemptRow{}
	query := "SELECT e.id, number, started, ended, status, error, " + usageColumns +
		" FROM attempts a JOIN executions e ON e.n = a.execution WHERE " + which + " ORDER BY a.n"
	return all, selection.Each(l.db, query, args, func(rows *sql.Rows) error {
		var id string
		var a AttemptRow
		err := rows.Scan(append([]any{&id, &a.Number, selection.Time(&a.Started), selection.Time(&a.Ended), &a.Status,
			&a.Error}, targets(&a.Usage)...)...)
		all[id] = append(all[id], a)
		return err
	})
}
