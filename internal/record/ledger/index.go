package ledger

import (
	"cmp"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"qq/internal/record/ledger/cause"
	"qq/internal/record/ledger/selection"
	"qq/pkg/regular"
	"qq/pkg/tool"

	codes "modernc.org/sqlite/lib"
)

// mostLines is how many journal lines are indexed in one transaction.
const mostLines = 50_000

// Refresh adds to the index what roots have recorded since it was opened.
func (l *Ledger) Refresh() error { return l.fault("read the journals", l.refresh()) }

// refresh indexes the new lines of all journals, as Open does. It first waits for other
// processes that do the same.
func (l *Ledger) refresh() error {
	alone, err := l.roots.Alone(openingName)
	if err != nil {
		return err
	}
	return errors.Join(l.indexJournals(), alone.Release())
}

// indexJournals writes the new lines of all journals to the database, and removes the
// journals of dead roots. The caller holds the lock that keeps other processes from doing
// the same.
func (l *Ledger) indexJournals() error {
	ids, err := l.roots.Left(journalSuffix)
	if err != nil {
		return err
	}
	for len(ids) > 0 {
		var dead []string
		err := l.update(func(tx *sql.Tx) error {
			dead = nil
			in := &indexer{place: l.place, tx: tx, statements: map[string]*sql.Stmt{}}
			for ; len(ids) > 0 && in.lines < mostLines; ids = ids[1:] {
				ended, err := in.journal(ids[0])
				if err != nil {
					return fmt.Errorf("take in %s: %w", ids[0]+journalSuffix, err)
				}
				if ended {
					dead = append(dead, l.journal(ids[0]))
				} else if in.lines >= mostLines {
					break // the journal may have more lines
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		for _, name := range dead { // their lines are durable in the database
			if err := os.Remove(name); err != nil {
				return err
			}
		}
	}
	return l.roots.Sweep()
}

// journal returns the path of the journal of a root.
func (p place) journal(root string) string { return filepath.Join(p.roots.Path, root+journalSuffix) }

// indexer writes journals to the database within one transaction.
type indexer struct {
	place
	tx         *sql.Tx
	statements map[string]*sql.Stmt
	lines      int
}

// journal indexes the new lines of the journal of a root. ended means that the root is dead
// and its whole journal is in the database, so that the file may be removed.
func (in *indexer) journal(root string) (ended bool, err error) {
	// Liveness is checked before the file is read: a root that is dead by then writes no more.
	live, err := in.roots.Alive(root)
	if err != nil {
		return false, err
	}
	f, info, err := regular.Open(in.place.journal(root), os.O_RDONLY)
	if err != nil {
		return false, err
	}
	defer f.Close()
	var from int64
	err = in.tx.QueryRow("SELECT coalesce((SELECT bytes FROM journals WHERE root = ?), 0)", root).Scan(&from)
	if err != nil {
		return false, err
	}
	if live && from == info.Size() {
		return false, nil
	}
	if from > info.Size() { // the file was replaced by a shorter one
		from = 0
	}
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return false, err
	}
	stop := make(chan struct{})
	lines := decodeAhead(f, from, stop)
	for err == nil && in.lines < mostLines {
		next := <-lines
		if from, err = next.end, next.err; err == nil {
			in.lines++
			err = in.line(next.line)
		}
	}
	close(stop)
	for range lines { // wait for the goroutine
	}
	switch {
	case err == io.EOF && !live:
		return true, in.exec("DELETE FROM journals WHERE root = ?", root)
	case err == nil, err == io.EOF, err == errNewer: // from is where the next reader goes on
		return false, in.exec("INSERT OR REPLACE INTO journals (root, bytes) VALUES (?, ?)", root, from)
	}
	return false, err
}

// exec runs a statement, which is prepared only once per transaction.
func (in *indexer) exec(query string, args ...any) error {
	s := in.statements[query]
	if s == nil {
		var err error
		if s, err = in.tx.Prepare(query); err != nil {
			return err
		}
		in.statements[query] = s
	}
	_, err := s.Exec(args...)
	return err
}

// line writes a journal line to the database, unless it is there already. It skips a line
// that violates a constraint or is too big, because an error would block all later lines.
func (in *indexer) line(e line) error {
	err := in.row(e)
	switch cause.Primary(err) {
	case codes.SQLITE_CONSTRAINT, codes.SQLITE_TOOBIG:
		return nil
	}
	return err
}

func (in *indexer) row(e line) error {
	switch {
	case e.Root != nil:
		return in.root(e.Root.Root, e.Root.Process)
	case e.Begin != nil:
		b := e.Begin
		if len(b.Raw) == 2 {
			b.Dir, b.Joblog = string(b.Raw[0]), string(b.Raw[1])
		}
		return in.exec(`INSERT INTO batches (id, root, dir, joblog, count, started)
SELECT ?1, ?2, ?3, ?4, ?5, ?6 WHERE NOT EXISTS (SELECT 1 FROM batches WHERE id = ?1 AND root = ?2 AND started = ?6)`,
			b.ID, b.Root, b.Dir, b.Joblog, b.Count, selection.Stamp(b.Started))
	case e.End != nil:
		return in.exec("INSERT OR IGNORE INTO ends ("+usageColumns+`, batch, status, ended)
SELECT ?, ?, ?, ?, ?, n, ?, ? FROM batches WHERE id = ? AND root = ? ORDER BY n DESC LIMIT 1`,
			append(values(e.End.Used), e.End.Status, selection.Stamp(e.Time), e.End.Batch, e.End.Root)...)
	case e.Claim != nil:
		return in.claim(e.Claim, e.Time)
	case e.Attempt != nil:
		a := e.Attempt
		return in.exec("INSERT INTO attempts ("+usageColumns+`, execution, number, started, ended, status, error)
SELECT ?1, ?2, ?3, ?4, ?5, n, ?6, ?7, ?8, ?9, ?10 FROM executions e WHERE id = ?11
AND NOT EXISTS (SELECT 1 FROM attempts a WHERE a.execution = e.n AND a.number = ?6)`,
			append(values(a.Usage), a.Number, selection.Stamp(a.Started), selection.Stamp(e.Time), a.Status, a.Error,
				a.ID)...)
	case e.Touch != "":
		return in.exec(`INSERT OR IGNORE INTO effects (execution)
WITH RECURSIVE up (n, parent) AS (
  SELECT n, parent FROM executions WHERE id = ?
  UNION SELECT e.n, e.parent FROM executions e JOIN up ON e.id = up.parent
) SELECT n FROM up`, e.Touch)
	case e.Result != nil:
		return in.result(e.Result, e.Time)
	}
	return nil
}

func (in *indexer) root(r Root, process string) error {
	return in.exec(`INSERT INTO roots (id, pid, process, started, dir, command, slots, after)
SELECT ?, ?, ?, ?, ?, ?, ?, coalesce((SELECT max(n) FROM executions), 0) WHERE true ON CONFLICT DO NOTHING`,
		r.ID, r.PID, process, selection.Stamp(r.Started), r.Dir, r.Command, r.Slots)
}

func (in *indexer) claim(c *claimed, at time.Time) error {
	if c.Root != nil {
		if err := in.root(*c.Root, c.Process); err != nil {
			return err
		}
	}
	e := c.Execution
	return in.exec(`INSERT INTO executions
  (id, parent, batch, root, session, agent, model, key, dir, nth, idx, depth, queued, claimed, task)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		e.ID, e.Parent, e.Batch, e.Root, e.Session, e.Agent, e.Model, e.Key, e.Dir, e.Nth, e.Index, e.Depth,
		selection.Stamp(e.Queued), selection.Stamp(at), tool.First(e.Task, maxTask, ""))
}

func (in *indexer) result(f *finished, at time.Time) error {
	r := f.Columns
	if r == nil && json.Unmarshal(f.Record, &r) != nil || r == nil {
		return nil // a damaged line
	}
	if r.Model != "" {
		if err := in.exec("UPDATE executions SET model = ? WHERE id = ?", r.Model, f.ID); err != nil {
			return err
		}
	}
	output := cmp.Or(string(f.Output), f.Text)
	var summary any
	if s := tool.First(output, MaxSummary, ""); len(s) < len(output) {
		summary = s
	}
	return in.exec("INSERT INTO results ("+usageColumns+`, execution, status, attempts, ended, duration_ms, queued_ms,
  recall, error, summary, record, output)
SELECT ?, ?, ?, ?, ?, n, ?, ?, ?, ?, ?, nullif(?, ''), ?, ?, ?, ? FROM executions WHERE id = ? ON CONFLICT DO NOTHING`,
		append(values(r.Usage), r.Status, r.Attempts, selection.Stamp(at), r.DurationMS, r.QueuedMS, f.Recall,
			tool.First(r.Error, MaxSummary, ""), summary, string(f.Record), output, f.ID)...)
}
