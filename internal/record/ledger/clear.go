package ledger

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"qq/internal/record/ledger/alive"
)

// bite is how many runs are cleared in one transaction: others want to write.
const bite = 500

// Cancel ends the whole tree of the root of a run or a batch, or the root with that id, by
// SIGTERM to the root, and returns at once which that is. A run that has ended is
// not a reason to end what its root does besides.
func (l *Ledger) Cancel(id string) (Root, error) {
	act := "cancel " + id
	whole, err := l.resolve(act, id, "executions", "batches", "roots")
	if err != nil {
		return Root{}, err
	}
	var r Root
	var recorded string
	err = l.db.QueryRow(`SELECT id, pid, process, started, dir, command FROM roots WHERE id = coalesce(
  (SELECT CASE WHEN status = '' THEN root ELSE '' END FROM runs WHERE id = ?1),
  (SELECT root FROM batches WHERE id = ?1 ORDER BY n DESC LIMIT 1), ?1)`,
		whole).Scan(&r.ID, &r.PID, &recorded, stamped{&r.Started}, &r.Dir, &r.Command)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return Root{}, l.fault(act, err)
	}
	err = l.roots.Terminate(r.ID, r.PID, recorded)
	if errors.Is(err, alive.ErrEnded) {
		return r, problem(ErrEnded, nil, act+": it does not run any more", "qq runs show "+id+" tells how it ended")
	}
	return r, l.fault(act, err)
}

// Clear removes the runs that f lets through and that have ended, and returns how
// many. What a root that is alive works on is left alone.
func (l *Ledger) Clear(f Filter) (int, error) {
	return l.clear("clear the runs", f.runs, f.Limit)
}

// Prune removes what is older than the retention allows. A batch stays as long
// as somebody worked on it in that time.
func (l *Ledger) Prune() (int, error) {
	if l.keep <= 0 {
		return 0, nil
	}
	before := stamp(l.now().Add(-l.keep))
	return l.clear("remove old runs", func(string) *where {
		w := &where{}
		w.and("claimed < ?", before)
		w.and("NOT EXISTS (SELECT 1 FROM batches b WHERE b.id = batch AND b.started >= ?)", before)
		return w
	}, 0)
}

func (l *Ledger) clear(act string, which func(live string) *where, limit int) (int, error) {
	total := 0
	for more := true; more; {
		most := bite
		if limit > 0 {
			most = min(most, limit-total)
		}
		err := l.sparing(func(tx *sql.Tx, live string) error {
			n, err := clearSome(tx, which(live), live, most)
			total += n
			more = n == most && total != limit
			return err
		})
		if err != nil {
			return total, l.fault(act, err)
		}
	}
	err := l.sparing(tidy)
	if err == nil && total > 0 {
		// Gives the space back; others that read may keep that from happening now.
		_, err = l.db.Exec("PRAGMA wal_checkpoint(TRUNCATE)")
	}
	return total, l.fault(act, err)
}

// sparing runs f within a transaction, with the list of the roots to spare.
func (l *Ledger) sparing(f func(tx *sql.Tx, live string) error) error {
	return l.update(func(tx *sql.Tx) error {
		// Looked at within it: whoever has a row by now has its lock.
		live, err := l.roots.Live()
		if err != nil {
			return err
		}
		return f(tx, list(live))
	})
}

// clearSome removes at most so many runs.
func clearSome(tx *sql.Tx, f *where, live string, most int) (n int, err error) {
	f.and("NOT "+amongLive, live)
	f.and("NOT EXISTS (SELECT 1 FROM batches b WHERE b.id = batch AND b."+amongLive+")", live)
	var doomed string
	const selected = "SELECT json_group_array(n), count(*) FROM (SELECT n FROM runs%s ORDER BY n LIMIT %d)"
	err = tx.QueryRow(fmt.Sprintf(selected, f, most), f.args...).Scan(&doomed, &n)
	if err == nil {
		_, err = tx.Exec(`DELETE FROM attempts WHERE execution IN (SELECT value FROM json_each(?1));
DELETE FROM effects WHERE execution IN (SELECT value FROM json_each(?1));
DELETE FROM results WHERE execution IN (SELECT value FROM json_each(?1));
DELETE FROM executions WHERE n IN (SELECT value FROM json_each(?1))`, doomed)
	}
	if err != nil {
		return 0, err
	}
	// Each row of the answer is a page given back.
	return n, each(tx, "PRAGMA incremental_vacuum", nil, func(*sql.Rows) error { return nil })
}

// tidy removes batches and roots that have no runs any more.
func tidy(tx *sql.Tx, live string) error {
	_, err := tx.Exec(`DELETE FROM batches WHERE id NOT IN (SELECT batch FROM executions)
AND root NOT IN (SELECT value FROM json_each(?1));
DELETE FROM ends WHERE batch NOT IN (SELECT n FROM batches);
DELETE FROM roots WHERE id NOT IN (SELECT root FROM executions) AND id NOT IN (SELECT root FROM batches)
AND id NOT IN (SELECT value FROM json_each(?1))`, live)
	return err
}

// pruneEvery is how often old runs are forgotten: it takes a look at all of them.
const pruneEvery = 24 * time.Hour

// pruneDaily forgets old runs when that was not done for a day. What cannot be
// forgotten now is forgotten another time.
func (l *Ledger) pruneDaily() {
	stamp := filepath.Join(l.roots.Path, "pruned")
	if info, err := os.Stat(stamp); err == nil && time.Since(info.ModTime()).Abs() < pruneEvery {
		return
	}
	if os.WriteFile(stamp, nil, 0o600) == nil {
		_ = os.Chtimes(stamp, time.Time{}, time.Now())
		_, _ = l.Prune()
	}
}
