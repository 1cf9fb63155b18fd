package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Root is one qq process at work.
type Root struct {
	ID      string    `json:"id"`
	PID     int       `json:"pid"` // 0 is this process
	Started time.Time `json:"started"`
	Dir     string    `json:"dir"`
	Command string    `json:"command"` // "run" or "batch", never the prompt
}

const lockSuffix = ".lock"

// lock is what a root holds for its life.
type lock struct{ file *os.File }

// Enter records r and takes its lock, which is held until the ledger is closed or
// the process ends.
func (l *Ledger) Enter(r Root) error {
	act := "enter " + r.ID + " into the ledger"
	k, err := l.lock(r.ID)
	if err != nil {
		return l.fault(act, err)
	}
	if err := l.register(r.here(), process(r.here().PID)); err != nil {
		return errors.Join(l.fault(act, err), k.release())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.locks = append(l.locks, k)
	return nil
}

// here fills in the pid.
func (r Root) here() Root {
	if r.PID == 0 {
		r.PID = os.Getpid()
	}
	return r
}

func (l *Ledger) register(r Root, process string) error {
	return l.write.do(false, func(w *writer) error { return w.root(r, process) })
}

// root writes r, unless a journal has told of it already.
func (w *writer) root(r Root, process string) error {
	return w.exec(`INSERT INTO roots (id, pid, process, started, dir, command, after)
SELECT ?, ?, ?, ?, ?, ?, coalesce((SELECT max(n) FROM executions), 0) WHERE true ON CONFLICT DO NOTHING`,
		r.ID, r.PID, process, stamp(r.Started), r.Dir, r.Command)
}

// lock takes the lock of the root id.
func (p place) lock(id string) (*lock, error) {
	if id == "" || strings.HasPrefix(id, ".") || strings.ContainsAny(id, "/\x00") {
		return nil, fmt.Errorf("%q is no id", id)
	}
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return nil, err
	}
	name := filepath.Join(p.dir, id+lockSuffix)
	for {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		if err := p.acquire(f); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if same(f, name) {
			return &lock{f}, nil
		}
		// Somebody took it for that of a dead root, and removed it.
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
}

// release lets go of the lock and removes its file.
func (k *lock) release() error {
	err := os.Remove(k.file.Name())
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, k.file.Close())
}

// acquire locks f, and waits for that as long as for the database.
func (p place) acquire(f *os.File) error {
	start := time.Now()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, syscall.EINTR):
		case !errors.Is(err, syscall.EWOULDBLOCK):
			return err
		case time.Since(start) >= p.wait:
			return &fault{problem: fmt.Sprintf("%s has been locked by another qq for %s", f.Name(), p.wait), state: ErrLocked, cause: err,
				hint: "see who holds it (fuser " + f.Name() + "), end that, and try again, or go on without a record: --no-ledger"}
		default:
			time.Sleep(2 * time.Millisecond)
		}
	}
}

func same(f *os.File, name string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Stat(name)
	return err == nil && os.SameFile(a, b)
}

// alive reports whether somebody holds the lock of the root id.
func (p place) alive(id string) (bool, error) {
	f, err := os.Open(filepath.Join(p.dir, id+lockSuffix))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	for {
		// Shared, so that two that look do not take each other for the root.
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return true, nil
		default:
			return false, err
		}
	}
}

// live are the roots that are alive.
func (p place) live() (map[string]bool, error) {
	names, err := p.names(lockSuffix)
	if err != nil {
		return nil, err
	}
	live := map[string]bool{}
	for _, id := range names {
		yes, err := p.alive(id)
		if err != nil {
			return nil, err
		}
		if yes {
			live[id] = true
		}
	}
	return live, nil
}

// names are the files with that suffix beside the database, without it.
func (p place) names(suffix string) ([]string, error) {
	list, err := os.ReadDir(p.dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	var names []string
	for _, e := range list {
		if id, ok := strings.CutSuffix(e.Name(), suffix); ok {
			names = append(names, id)
		}
	}
	return names, err
}

// sweep removes the locks that roots left behind which were killed.
func (p place) sweep() error {
	names, err := p.names(lockSuffix)
	for _, id := range names {
		name := filepath.Join(p.dir, id+lockSuffix)
		f, e := os.OpenFile(name, os.O_RDWR, 0)
		if errors.Is(e, fs.ErrNotExist) {
			continue
		}
		if e == nil && syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil && same(f, name) {
			e = os.Remove(name)
		}
		if f != nil {
			e = errors.Join(e, f.Close())
		}
		err = errors.Join(err, e)
	}
	return err
}
