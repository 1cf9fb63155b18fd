// Package selection has what the queries of the ledger are made of: conditions, times as the database stores them, and
// the scan of rows.
package selection

import (
	"database/sql"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
)

// Where is an SQL condition: all of its parts must hold. Without parts it is always true.
type Where struct {
	Parts []string
	Args  []any
}

// Only returns the condition that has only that part.
func Only(part string, args ...any) *Where { return &Where{Parts: []string{part}, Args: args} }

// And adds a part, with its arguments.
func (w *Where) And(part string, args ...any) {
	w.Parts, w.Args = append(w.Parts, part), append(w.Args, args...)
}

// String is the condition with its keyword, or "".
func (w *Where) String() string {
	if len(w.Parts) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(w.Parts, " AND ")
}

// Is adds the condition that a column has that value. An empty value adds nothing.
func (w *Where) Is(column, value string) {
	if value != "" {
		w.And(column+" = ?", value)
	}
}

// During limits the times in the column at to those from since on and before until. A zero time limits nothing.
func (w *Where) During(since, until time.Time, at string) {
	if !since.IsZero() {
		w.And(at+" >= ?", Stamp(since))
	}
	if !until.IsZero() {
		w.And(at+" < ?", Stamp(until))
	}
}

// Behind adds the condition that a number in column is less than that of the row of table with that id. An empty id
// adds nothing.
func (w *Where) Behind(column, table, id string) {
	if id != "" {
		w.And(column+" < (SELECT max(n) FROM "+table+" WHERE id = ?)", id)
	}
}

// List returns the ids of a set as a JSON array, for the function json_each of SQLite.
func List[T any](set map[string]T) string {
	text, _ := json.Marshal(slices.AppendSeq([]string{}, maps.Keys(set))) // strings never fail
	return string(text)
}

// Querier is a database or a transaction.
type Querier interface {
	Query(query string, args ...any) (*sql.Rows, error)
}

// Collect scans each row that query returns into a value, and returns all values.
func Collect[T any](q Querier, query string, args []any, scan func(*sql.Rows, *T) error) (all []T, err error) {
	err = Each(q, query, args, func(rows *sql.Rows) error {
		var one T
		err := scan(rows, &one)
		all = append(all, one)
		return err
	})
	return all, err
}

// Each calls f with each row that query returns.
func Each(q Querier, query string, args []any, f func(*sql.Rows) error) error {
	rows, err := q.Query(query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Stamp returns t in microseconds since 1970, as the database stores it; 0 is the zero time.
func Stamp(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// Time returns what scans a time that [Stamp] wrote to the database into t.
func Time(t *time.Time) sql.Scanner { return stamped{t} }

type stamped struct{ *time.Time }

// Scan implements [sql.Scanner].
func (s stamped) Scan(us any) error {
	if us, ok := us.(int64); ok && us != 0 {
		*s.Time = time.UnixMicro(us).UTC()
	}
	return nil
}
