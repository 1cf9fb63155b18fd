package app

import (
	"os"
	"path/filepath"
	"syscall"
	"time"

	"qq/internal/control"
	"qq/pkg/session"
)

// socketAfter is how long a run takes before it opens its control socket. A short prompt does not
// need one.
const socketAfter = 300 * time.Millisecond

// host is this process, as its control socket ends and warns it.
type host struct {
	*root
	w *wiring
}

// openSocket starts to wait for the moment at which the control socket of the run is opened. command
// is run or batch.
func (r *root) openSocket(w *wiring, command string) {
	w.socket = control.Start(control.Config{
		Root: control.Root{ExecutionID: w.cfg.ID, PID: os.Getpid(), Started: time.Now(), Dir: w.cfg.Dir,
			Command: command, Version: Version()},
		Tree: w, Approvals: w.questions, Servers: w.gates, Host: host{r, w}, Events: w.stream, Folder: w.scratch,
		After: socketAfter,
	})
}

// End implements control.Host: it ends the run as SIGTERM does.
func (h host) End() { h.signals.Send(syscall.SIGTERM) }

// Warn implements control.Host.
func (h host) Warn(warning string) {
	h.w.warning.Store(&warning)
	h.Say("warning: %s", warning)
}

// Log implements control.Tree.
func (w *wiring) Log(id string) string {
	switch own := w.session.Load(); {
	case w.cfg.Ledger == nil || filepath.Base(id) != id:
		return ""
	case id == w.cfg.ID && own != nil:
		return session.Of(w.cfg.Settings.Home).Path(*own)
	}
	return session.Open(w.transcripts()).Path(id)
}
