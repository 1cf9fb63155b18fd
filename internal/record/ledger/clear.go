package ledger

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"qq/internal/record/ledger/selection"
)

// chunk is how many runs are cleared in one transaction. Other processes can write between
// two transactions.
const chunk = 500

// Owner returns the full id of a run, a batch or a root, and the root that works on it. id may be the
// beginning or the end of an id if only one matches. For a run that has ended the error is
// [ErrEnded], even if its root still works on others.
func (l *Ledger) Owner(id string) (whole string, r Root, err error) {
	act := "cancel " + id
	if whole, err = l.resolve(act, id, "executions", "batches", "roots"); err != nil {
		return "", r, err
	}
	err = l.db.QueryRow(`SELECT id, pid, process, started, dir, command FROM roots WHERE id = coalesce(
  (SELECT CASE WHEN status = '' THEN root ELSE '' END FROM runs WHERE id = ?1),
  (SELECT root FROM batches WHERE id = ?1 ORDER BY n DESC LIMIT 1), ?1)`,
		whole).Scan(&r.ID, &r.PID, &r.process, selection.Time(&r.Started), &r.Dir, &r.Command)
	live := false
	if err == nil {
		live, err = l.roots.Alive(r.ID)
	}
	if !live && (err == nil || errors.Is(err, sql.ErrNoRows)) {
		err = problem(ErrEnded, nil, act+": it does not run any more", "qq runs show "+id+" tells how it ended")
	}
	return whole, r, l.fault(act, err)
}

// Slots returns how many jobs a root could have at work at once when it began; 0 means that it is not known.
func (l *Ledger) Slots(root string) (n int, err error) {
	err = l.db.QueryRow("SELECT coalesce(max(slots), 0) FROM roots WHERE id = ?", root).Scan(&n)
	return n, l.fault("read the root "+root, err)
}

// Terminate sends SIGTERM to a root that [Ledger.Owner] returned, and does not wait for its end. The
// whole tree of the root ends with it. The error is [alive.ErrEnded] if no process of this machine is
// that root.
func (l *Ledger) Terminate(r Root) error { return l.roots.Terminate(r.ID, r.PID, r.process) }

// Clear removes the finished runs that f selects and returns how many it removed. Runs of a
// live root are kept.
func (l *Ledger) Clear(f Filter) (int, error) {
	return l.clear("clear the runs", f.runs, f.Limit, selection.Stamp(l.now()))
}

// Prune removes the finished runs that are older than [Options].Keep and returns how many
// it removed. The runs of a batch are kept if a root began or resumed that batch within the
// time of Keep.
func (l *Ledger) Prune() (int, error) {
	if l.keep <= 0 {
		return 0, nil
	}
	before := selection.Stamp(l.now().Add(-l.keep))
	return l.clear("remove old runs", func(string) *selection.Where {
		w := &selection.Where{}
		w.And("claimed < ?", before)
		w.And("NOT EXISTS (SELECT 1 FROM batches b WHERE b.id = batch AND b.started >= ?)", before)
		return w
	}, 0, before)
}

// clear removes the finished runs that a condition selects, at most limit of them (0 means
// no limit), in several transactions. which makes the condition; it gets the ids of the
// live roots as a JSON array. A batch without runs is removed if it was begun before that time: it
// may be resumed.
func (l *Ledger) clear(act string, which func(live string) *selection.Where, limit int, before int64) (int, error) {
	total := 0
	for more := true; more; {
		most := chunk
		if limit > 0 {
			most = min(most, limit-total)
		}
		err := l.withLive(func(tx *sql.Tx, live string) error {
			n, err := l.clearSome(tx, which(live), live, most)
			total += n
			more = n == most && total != limit
			return err
		})
		if err != nil {
			return total, l.fault(act, err)
		}
	}
	err := l.withLive(func(tx *sql.Tx, live string) error { return tidy(tx, live, before) })
	if err == nil && total > 0 {
		// The checkpoint shrinks the write-ahead log. A concurrent reader may prevent that, which
		// is no error.
		_, err = l.db.Exec("PRAGMA wal_checkpoint(TRUNCATE)")
	}
	return total, l.fault(act, err)
}

// withLive runs f in a transaction. f gets the ids of the live roots, whose runs must be
// kept, as a JSON array.
func (l *Ledger) withLive(f func(tx *sql.Tx, live string) error) error {
	return l.update(func(tx *sql.Tx) error {
		// The roots are listed within the transaction: any root that has a row by now holds its
		// lock.
		live, err := l.roots.Live()
		if err != nil {
			return err
		}
		return f(tx, selection.List(live))
	})
}

// Transcripts returns the folder for the transcripts of executions in home, the folder of qq. The
// transcript of an execution is the file ROOT/ID.jsonl in it, where ROOT is the id of its root. The
// ledger removes it together with the execution.
func Transcripts(home string) string { return filepath.Join(home, "transcripts") }

// clearSome removes the finished runs that f selects in the transaction tx, not more than
// most of them, and returns how many it removed.
func (l *Ledger) clearSome(tx *sql.Tx, f *selection.Where, live string, most int) (n int, err error) {
	f.And("NOT "+amongLive, live)
	f.And("NOT EXISTS (SELECT 1 FROM batches b WHERE b.id = batch AND b."+amongLive+")", live)
	var doomed string
	const selected = "SELECT json_group_array(n), count(*) FROM (SELECT n FROM runs%s ORDER BY n LIMIT %d)"
	err = tx.QueryRow(fmt.Sprintf(selected, f, most), f.Args...).Scan(&doomed, &n)
	if err == nil {
		err = l.clearTranscripts(tx, doomed) // first: after a crash, they are found through the executions
	}
	if err == nil {
		_, err = tx.Exec(`DELETE FROM attempts WHERE execution IN (SELECT value FROM json_each(?1));
DELETE FROM effects WHERE execution IN (SELECT value FROM json_each(?1));
DELETE FROM results WHERE execution IN (SELECT value FROM json_each(?1));
DELETE FROM executions WHERE n IN (SELECT value FROM json_each(?1))`, doomed)
	}
	if err != nil {
		return 0, err
	}
	// Each row of the answer is one free page that was returned to the file system.
	return n, selection.Each(tx, "PRAGMA incremental_vacuum", nil, func(*sql.Rows) error { return nil })
}

// clearTranscripts removes the transcripts of the executions with these numbers, and the folders of
// roots that have no others.
func (l *Ledger) clearTranscripts(tx *sql.Tx, doomed string) error {
	folders := map[string]bool{}
	const query = "SELECT root, id FROM runs WHERE n IN (SELECT value FROM json_each(?))"
	err := selection.Each(tx, query, []any{doomed}, func(rows *sql.Rows) error {
		var root, id string
		if err := rows.Scan(&root, &id); err != nil {
			return err
		}
		folder := filepath.Join(Transcripts(filepath.Dir(l.file)), root)
		folders[folder] = true
		err := os.Remove(filepath.Join(folder, id+".jsonl"))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			return nil // not every execution has one
		}
		return err
	})
	for folder := range folders {
		_ = os.Remove(folder) // only works if it is empty
	}
	return err
}

// tidy removes the batches that have no runs left and were begun before that time, and the roots
// without runs and batches.
func tidy(tx *sql.Tx, live string, before int64) error {
	_, err := tx.Exec(`DELETE FROM batches WHERE id NOT IN (SELECT batch FROM executions)
AND root NOT IN (SELECT value FROM json_each(?1)) AND started < ?2;
DELETE FROM ends WHERE batch NOT IN (SELECT n FROM batches);
DELETE FROM counts WHERE count = 0;
DELETE FROM roots WHERE id NOT IN (SELECT root FROM executions) AND id NOT IN (SELECT root FROM batches)
AND id NOT IN (SELECT value FROM json_each(?1))`, live, before)
	return err
}

// pruneEvery is the time between two automatic calls of Prune, which reads the whole
// ledger.
const pruneEvery = 24 * time.Hour

// pruneDaily calls Prune unless that was done in the last 24 hours. It ignores errors,
// because the next day is soon enough.
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
