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

// ErrEnded is the error about a process that has ended.
var ErrEnded = errors.New("the process has ended")

// Alive reports whether a process holds the lock of id. Without a lock file it returns
// false.
func (d Dir) Alive(id string) (bool, error) {
	f, err := os.OpenFile(filepath.Join(d.Path, id+suffix), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	// A shared lock: two processes that check at once must not take each other for the holder.
	free, err := try(f, syscall.LOCK_SH)
	return err == nil && !free, err
}

// Live returns the ids that are alive: those whose lock a process holds.
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

// Look calls f with the live ids. If another id has come alive during the call, it calls f
// again with the new set. In its last call, therefore, f has taken no live id for a dead
// one. An id in the set may have died since.
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

// Sweep removes the lock files of dead processes. Only one process at a time may call it:
// see [Dir.Alone].
func (d Dir) Sweep() error {
	ids, err := d.Left(suffix)
	for _, id := range ids {
		err = errors.Join(err, sweep(filepath.Join(d.Path, id+suffix)))
	}
	return err
}

// sweep removes the lock file name unless a process holds its lock.
func sweep(name string) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	// The shared lock keeps a new holder out, and nobody who checks takes the sweeper for a
	// holder. A file that cannot be locked stays: it does no harm.
	if free, _ := try(f, syscall.LOCK_SH); free && same(f, name) {
		err = os.Remove(name)
	}
	return errors.Join(err, f.Close())
}

// Left returns the ids that have a file with the name id+suffix in the folder. The holder
// of an id may keep other files there besides the lock file.
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

// Terminate sends SIGTERM to the process pid, and SIGCONT in case the process is stopped.
// It returns ErrEnded if id is not alive, or if the pid now belongs to a process with
// another [Identity].
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

// end sends SIGTERM, then SIGCONT so that a stopped process receives it.
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
