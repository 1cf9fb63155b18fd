package ledger

import (
	"os"
	"time"

	"qq/internal/record/ledger/alive"
)

// Root is one qq process at work.
type Root struct {
	ID      string    `json:"id"`
	PID     int       `json:"pid"` // 0 is this process
	Started time.Time `json:"started"`
	Dir     string    `json:"dir"`
	Command string    `json:"command"` // "run" or "batch", never the prompt
}

// Enter records r and takes its lock, which is held until the ledger is closed or
// the process ends.
func (l *Ledger) Enter(r Root) error {
	k, err := l.roots().Hold(r.ID)
	if err == nil {
		l.mu.Lock()
		l.locks = append(l.locks, k)
		l.mu.Unlock()
		err = l.register(r.here())
	}
	return l.fault("enter "+r.ID+" into the ledger", err)
}

// here fills in the pid.
func (r Root) here() Root {
	if r.PID == 0 {
		r.PID = os.Getpid()
	}
	return r
}

func (l *Ledger) register(r Root) error {
	process := alive.Identity(r.PID)
	return l.write.do(false, func(w *writer) error { return w.root(r, process) })
}

// root writes r, unless a journal has told of it already.
func (w *writer) root(r Root, process string) error {
	return w.exec(`INSERT INTO roots (id, pid, process, started, dir, command, after)
SELECT ?, ?, ?, ?, ?, ?, coalesce((SELECT max(n) FROM executions), 0) WHERE true ON CONFLICT DO NOTHING`,
		r.ID, r.PID, process, stamp(r.Started), r.Dir, r.Command)
}
