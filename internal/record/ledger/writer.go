package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	codes "modernc.org/sqlite/lib"
)

// mostInGroup bounds how long the first of a group waits for the last.
const mostInGroup = 512

const (
	claimSQL = `INSERT INTO executions (id, parent, batch, root, session, agent, model, key, dir, nth, idx, depth, queued, claimed, task)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	attemptSQL = `INSERT INTO attempts (execution, number, started, ended, status, input_tokens, output_tokens, error)
SELECT n, ?, ?, ?, ?, ?, ?, ? FROM executions WHERE id = ?`
	finishSQL = `INSERT INTO results (execution, status, attempts, ended, duration_ms, queued_ms, input_tokens, output_tokens, recall, error, summary, record, output)
SELECT n, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ? FROM executions WHERE id = ?
ON CONFLICT DO NOTHING`
)

// writer is the one connection of a process that writes, the goroutine that uses
// it, and the one that waits for the disk: a claim does not wait for the results
// before it.
type writer struct {
	db                     *sql.DB
	conn                   *sql.Conn
	claim, attempt, finish *sql.Stmt
	start, end             *sql.Stmt // of a transaction
	wait                   time.Duration
	log                    string        // name of the write-ahead log
	committed              chan []*entry // and not durable yet
	ended                  chan struct{}
	failed                 error // what the last commit before the end failed with

	mu      sync.Mutex
	some    *sync.Cond
	queue   []*entry
	lazy    [][]any // attempts, for the next commit
	closing bool
}

// entry is something to write for which somebody waits.
type entry struct {
	run     func(*writer) error
	durable bool
	err     error
	done    chan struct{}
}

// waiting is how many commits may wait for the disk before the next one does.
const waiting = 64

// newWriter takes over db, which has one connection, of the database in the file
// name.
func newWriter(db *sql.DB, name string, wait time.Duration) (*writer, error) {
	ctx := context.Background()
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	w := &writer{db: db, conn: conn, wait: wait, log: name + "-wal", committed: make(chan []*entry, waiting), ended: make(chan struct{})}
	w.some = sync.NewCond(&w.mu)
	for _, s := range []struct {
		to   **sql.Stmt
		text string
	}{{&w.claim, claimSQL}, {&w.attempt, attemptSQL}, {&w.finish, finishSQL},
		{&w.start, "BEGIN IMMEDIATE"}, {&w.end, "COMMIT"}} {
		if *s.to, err = conn.PrepareContext(ctx, s.text); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	// A commit is not synced by SQLite. It is when the log has been, see sync.
	if err := w.exec(fmt.Sprintf("PRAGMA busy_timeout = %d; PRAGMA synchronous = NORMAL", aLittle.Milliseconds())); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	go w.work()
	go w.sync()
	return w, nil
}

func (w *writer) exec(query string, args ...any) error {
	_, err := w.conn.ExecContext(context.Background(), query, args...)
	return err
}

// do runs f within a transaction that it may share with others, and returns when
// that is committed, and synced if it must be durable.
func (w *writer) do(durable bool, f func(*writer) error) error {
	e := &entry{run: f, durable: durable, done: make(chan struct{})}
	w.mu.Lock()
	if w.closing {
		w.mu.Unlock()
		return errClosed
	}
	w.queue = append(w.queue, e)
	w.mu.Unlock()
	w.some.Signal()
	<-e.done
	return e.err
}

// later writes an attempt with the next commit.
func (w *writer) later(attempt ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lazy = append(w.lazy, attempt)
}

// close writes what waits and ends the writer.
func (w *writer) close() error {
	w.mu.Lock()
	w.closing = true
	w.mu.Unlock()
	w.some.Signal()
	<-w.ended
	return errors.Join(w.failed, w.claim.Close(), w.attempt.Close(), w.finish.Close(), w.start.Close(), w.end.Close(), w.conn.Close(), w.db.Close())
}

func (w *writer) work() {
	defer close(w.committed)
	for {
		group, lazy := w.next()
		if len(group) == 0 {
			if len(lazy) > 0 {
				w.failed = w.commit(nil, lazy)
			}
			return
		}
		err := w.commit(group, lazy)
		if err != nil {
			w.mu.Lock()
			w.lazy = append(lazy, w.lazy...) // for the next one
			w.mu.Unlock()
		}
		var durable []*entry
		for _, e := range group {
			if err != nil {
				e.err = err
			}
			if e.durable && e.err == nil {
				durable = append(durable, e)
			} else {
				close(e.done)
			}
		}
		if durable != nil {
			w.committed <- durable
		}
	}
}

// sync brings to the disk what was committed, as SQLite does itself after each
// commit when synchronous is FULL: whatever was committed before the log is synced
// is durable then. After one failure nothing is any more, for the kernel may have
// dropped what it could not write.
func (w *writer) sync() {
	defer close(w.ended)
	var log *os.File
	var err error
	for group := range w.committed {
		for more := true; more; { // what waits already shares it
			select {
			case next, ok := <-w.committed:
				group, more = append(group, next...), ok
			default:
				more = false
			}
		}
		if log == nil && err == nil {
			log, err = os.Open(w.log)
		}
		if err == nil {
			err = syncData(log)
		}
		for _, e := range group {
			e.err = err
			close(e.done)
		}
	}
	if log != nil {
		_ = log.Close() // it was not written
	}
}

// next waits for something to write. It returns no entry when the end has come.
func (w *writer) next() (group []*entry, lazy [][]any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.queue) == 0 && !w.closing {
		w.some.Wait()
	}
	n := min(len(w.queue), mostInGroup)
	group, w.queue = w.queue[:n:n], w.queue[n:]
	lazy, w.lazy = w.lazy, nil
	return group, lazy
}

// commit writes a group. An entry that is wrong by itself fails alone; any other
// error fails them all.
func (w *writer) commit(group []*entry, lazy [][]any) error {
	if err := w.begin(); err != nil {
		return err
	}
	err := w.fill(group, lazy)
	if err == nil {
		_, err = w.end.Exec()
	}
	if err != nil {
		_ = w.exec("ROLLBACK") // SQLite may have done it already
	}
	return err
}

func (w *writer) fill(group []*entry, lazy [][]any) error {
	for _, a := range lazy {
		if _, err := w.attempt.Exec(a...); err != nil {
			return err
		}
	}
	for _, e := range group {
		e.err = e.run(w)
		switch primary(e.err) {
		case 0, codes.SQLITE_CONSTRAINT, codes.SQLITE_TOOBIG:
		default:
			return e.err
		}
	}
	return nil
}

// begin starts a transaction, when no other process is in one any more.
func (w *writer) begin() error {
	start := time.Now()
	for {
		_, err := w.start.Exec()
		if primary(err) != codes.SQLITE_BUSY || time.Since(start) >= w.wait {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}
