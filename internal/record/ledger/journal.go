package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"qq/pkg/task"
)

const (
	journalSuffix  = ".journal"
	journalVersion = 1
)

// line is one line of a journal: a claim or a result.
type line struct {
	V      int        `json:"v"`
	Time   time.Time  `json:"time"`
	Claim  *claimed   `json:"claim,omitempty"`
	Result *concluded `json:"result,omitempty"`
}

type claimed struct {
	Root      Root      `json:"root"`
	Process   string    `json:"process"`
	Execution Execution `json:"execution"`
}

type concluded struct {
	ID     string      `json:"id"`
	Record task.Stored `json:"record"`
	Output []byte      `json:"output"` // JSON text could not hold every byte
}

// append writes e to the end of f in one write.
func (e line) append(f *os.File) error {
	e.V = journalVersion
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	return err
}

// readJournal decodes the lines of a journal. One that is cut or damaged is left
// out: it was never confirmed. newer says that there is one of a later version.
func readJournal(text []byte) (lines []line, newer bool) {
	for len(text) > 0 {
		one, rest, whole := bytes.Cut(text, []byte("\n"))
		text = rest
		var e line
		if !whole || json.Unmarshal(one, &e) != nil {
			continue
		}
		switch {
		case e.V > journalVersion:
			newer = true
		case e.V != journalVersion, e.Claim == nil && e.Result == nil:
		default:
			lines = append(lines, e)
		}
	}
	return lines, newer
}

// write puts what e tells into the database, if it is not there yet.
func (e line) write(w *writer) error {
	if c := e.Claim; c != nil {
		if err := w.root(c.Root, c.Process); err != nil {
			return err
		}
		known, err := w.known(c.Execution.ID)
		if err == nil && !known {
			_, err = w.claim.Exec(c.Execution.row(e.Time)...)
		}
		if err != nil {
			return err
		}
	}
	if c := e.Result; c != nil {
		row, err := resultRow(c.ID, "", c.Record.Restored(string(c.Output)), e.Time)
		if err != nil {
			return err
		}
		if err := w.finishRow(row); err != nil && !errors.Is(err, ErrNone) {
			return err
		}
	}
	return nil
}

// takeIn reads the journals into the database, and removes those to which nobody
// will append. Nobody else may do so meanwhile.
func (l *Ledger) takeIn() error {
	names, err := l.roots().Left(journalSuffix)
	if err != nil {
		return err
	}
	for some := range slices.Chunk(names, bite) {
		if err := l.takeSome(some); err != nil {
			return err
		}
	}
	return l.roots().Sweep()
}

func (l *Ledger) takeSome(names []string) error {
	var served []string
	err := l.write.do(true, func(w *writer) error {
		for _, id := range names {
			yes, err := l.takeOne(w, id)
			if err != nil {
				return err
			}
			if yes {
				served = append(served, filepath.Join(l.dir, id+journalSuffix))
			}
		}
		return nil
	})
	for _, name := range served {
		if err == nil {
			err = os.Remove(name)
		}
	}
	return err
}

// takeOne reads the journal of the root id. It reports whether the file has
// served its purpose.
func (l *Ledger) takeOne(w *writer, id string) (served bool, err error) {
	// Asked before the file is read: of a root that is dead, all is read.
	live, err := l.roots().Alive(id)
	if err != nil {
		return false, err
	}
	text, err := os.ReadFile(filepath.Join(l.dir, id+journalSuffix))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	lines, newer := readJournal(text)
	for _, e := range lines {
		if err := e.write(w); err != nil {
			return false, fmt.Errorf("take in %s: %w", id+journalSuffix, err)
		}
	}
	return !live && !newer, nil
}
