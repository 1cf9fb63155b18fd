// Package rulefile keeps the lasting rules of a person, by folder, in one file of that person: see package
// qq/internal/approval/rules. A file that others could have written does not count.
package rulefile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/google/renameio/v2"

	"qq/internal/approval/rules"
	"qq/pkg/task"
)

const (
	maxStore = 1 << 20 // bytes
	// lockWait bounds how long a change waits for that of another process.
	lockWait = 5 * time.Second
)

// Entry is a lasting rule: a person allowed these calls of agents that work in the folder.
type Entry struct {
	Folder string    `json:"folder"` // its real path
	Rule   string    `json:"rule"`
	Added  time.Time `json:"added"`
}

// Store keeps the lasting rules of a person in one file, which only that person can read. Each
// method reads it anew.
type Store struct{ path string }

// Open returns the store in a folder of the user's configuration. It reads and creates nothing.
func Open(folder string) Store { return Store{filepath.Join(folder, "permissions.json")} }

// Rules returns the rules of a folder, given by its real path. With an error it returns those that
// could be read.
func (s Store) Rules(folder string) (found []rules.Rule, err error) {
	entries, err := s.List()
	for _, e := range entries {
		if e.Folder != folder {
			continue
		}
		r, bad := s.parse(e)
		if bad != nil {
			err = bad
			continue
		}
		found = append(found, r)
	}
	return found, err
}

// parse returns the rule of an entry.
func (s Store) parse(e Entry) (rules.Rule, error) {
	r, err := rules.Parse(e.Rule)
	if err != nil {
		problem, _ := task.Explain(err)
		return r, task.Hinted("qq permissions rm removes it", "%s %s", s.path, problem)
	}
	return r, nil
}

// Check returns how many rules there are. The error says which one cannot be read, or why none can.
func (s Store) Check() (n int, err error) {
	entries, err := s.List()
	for _, e := range entries {
		if _, bad := s.parse(e); bad != nil {
			return 0, bad
		}
	}
	return len(entries), err
}

// List returns all rules, those of a folder together, the oldest first.
func (s Store) List() ([]Entry, error) {
	f, err := os.OpenFile(s.path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, task.Hinted("make the file one that you can read", "read the lasting rules: %w", err)
	}
	defer f.Close()
	if err := s.check(f); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxStore+1))
	if err != nil {
		return nil, fmt.Errorf("read the lasting rules: %w", err)
	}
	var kept struct {
		Rules []Entry `json:"rules"`
	}
	if err := json.Unmarshal(data, &kept); err != nil || len(data) > maxStore {
		return nil, task.Hinted("mend it, or remove it: then you are asked again",
			"%s is damaged: no lasting rule counts", s.path)
	}
	return kept.Rules, nil
}

// check returns an error if another user could have written the open file.
func (s Store) check(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("read the lasting rules: %w", err)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o022 != 0 || ok && int(owner.Uid) != os.Geteuid() {
		return task.Hinted("chmod 600 "+s.path+", as its owner",
			"%s is not a file that only you can write: no lasting rule counts", s.path)
	}
	return nil
}

// Add adds a rule for a folder, given by its real path. A rule that is there stays as it is.
func (s Store) Add(folder string, r rules.Rule) error {
	return s.change(func(entries []Entry) []Entry {
		same := func(e Entry) bool { return e.Folder == folder && e.Rule == r.String() }
		if slices.ContainsFunc(entries, same) {
			return entries
		}
		at := len(entries)
		for i, e := range entries {
			if e.Folder == folder {
				at = i + 1
			}
		}
		return slices.Insert(entries, at, Entry{folder, r.String(), time.Now().UTC().Truncate(time.Second)})
	})
}

// Remove removes rules. Those that are not there any more do not matter.
func (s Store) Remove(gone []Entry) error {
	return s.change(func(entries []Entry) []Entry {
		return slices.DeleteFunc(entries, func(e Entry) bool {
			return slices.ContainsFunc(gone, func(g Entry) bool { return g.Folder == e.Folder && g.Rule == e.Rule })
		})
	})
}

// change replaces the rules, while no other process does.
func (s Store) change(edit func([]Entry) []Entry) error {
	folder := filepath.Dir(s.path)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("keep a lasting rule: %w", err)
	}
	lock, err := os.Open(folder)
	if err != nil {
		return fmt.Errorf("keep a lasting rule: %w", err)
	}
	defer lock.Close()
	for end := time.Now().Add(lockWait); ; time.Sleep(5 * time.Millisecond) {
		err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			break
		}
		if time.Now().After(end) {
			return task.Hinted("see which program holds it, or try again", "%s stays locked: %w", folder, err)
		}
	}
	entries, err := s.List()
	if err != nil {
		return err
	}
	data, err := json.MarshalIndent(map[string][]Entry{"rules": edit(entries)}, "", "  ")
	if err != nil {
		return err
	}
	if err := renameio.WriteFile(s.path, append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("keep a lasting rule: %w", err)
	}
	return nil
}
