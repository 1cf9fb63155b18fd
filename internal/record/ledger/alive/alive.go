package alive

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// ErrEnded says that a process is not there any more.
var ErrEnded = errors.New("the process has ended")

// Alive reports whether somebody holds the lock of id.
func (d Dir) Alive(id string) (bool, error) {
	f, err := os.Open(filepath.Join(d.Path, id+suffix))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	// Shared, so that two that look do not take each other for the holder.
	free, err := try(f, syscall.LOCK_SH)
	return err == nil && !free, err
}

// Live are the ids that are alive.
func (d Dir) Live() (map[string]bool, error) {
	ids, err := d.Left(suffix)
	if err != nil {
		return nil, err
	}
	live := map[string]bool{}
	for _, id := range ids {
		yes, err := d.Alive(id)
		if err != nil {
			return nil, err
		}
		if yes {
			live[id] = true
		}
	}
	return live, nil
}

// Look calls f with the ids that are alive, until none was born while it ran:
// then f has seen the work of nobody that it took for dead. One that ended
// meanwhile was alive a moment ago.
func (d Dir) Look(f func(live map[string]bool) error) error {
	live, err := d.Live()
	for err == nil {
		if err = f(live); err != nil {
			break
		}
		var after map[string]bool
		if after, err = d.Live(); err != nil {
			break
		}
		born := false
		for id := range after {
			born = born || !live[id]
		}
		if !born {
			return nil
		}
		live = after
	}
	return err
}

// Sweep removes the files of those that were killed. Nobody else may sweep
// meanwhile: see [Dir.Alone].
func (d Dir) Sweep() error {
	ids, err := d.Left(suffix)
	for _, id := range ids {
		err = errors.Join(err, sweep(filepath.Join(d.Path, id+suffix)))
	}
	return err
}

// sweep removes the file name if nobody holds its lock.
func sweep(name string) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	// Shared keeps out who would hold it, as well as exclusive does, and nobody that
	// looks takes the sweeper for the holder. One that cannot be locked is left: it is
	// in the way of nobody.
	if free, _ := try(f, syscall.LOCK_SH); free && same(f, name) {
		err = os.Remove(name)
	}
	return errors.Join(err, f.Close())
}

// Left are the ids that have a file with that suffix in the folder. Beside its
// lock, whoever holds an id may keep files that others find there.
func (d Dir) Left(suffix string) ([]string, error) {
	list, err := os.ReadDir(d.Path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	var ids []string
	for _, e := range list {
		if id, ok := strings.CutSuffix(e.Name(), suffix); ok {
			ids = append(ids, id)
		}
	}
	return ids, err
}

// Terminate sends SIGTERM to the process pid, also to one that is stopped. It
// returns ErrEnded when id is not alive, or the pid belongs to another process than the one
// with that identity.
func (d Dir) Terminate(id string, pid int, identity string) error {
	alive, err := d.Alive(id)
	if err != nil {
		return err
	}
	if !alive || pid <= 0 {
		return ErrEnded
	}
	err = terminate(pid, identity)
	if err != nil && !errors.Is(err, ErrEnded) {
		return fmt.Errorf("signal process %d: %w", pid, err)
	}
	return err
}

// end sends SIGTERM, and SIGCONT for one that is stopped.
func end(send func(syscall.Signal) error) error {
	err := send(syscall.SIGTERM)
	if err == nil {
		err = send(syscall.SIGCONT)
		if errors.Is(err, syscall.ESRCH) { // it was quick
			return nil
		}
	}
	if errors.Is(err, syscall.ESRCH) {
		return ErrEnded
	}
	return err
}
