package isolate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"qq/internal/isolate/files"
	"qq/internal/isolate/worktree"
)

// repositoryFile is the file in the folder of a copy that has the folder of git which knows its worktree.
const repositoryFile = "repository"

// worktreeName is the name of the worktree of a copy, which no other one has.
func worktreeName(tree, id string) string { return "qq-" + tree + "-" + id }

// kept ends the names of folders that [Copy.Keep] made.
const kept = ".kept"

// Sweep finishes joins and removes copies of processes that were killed. It returns files with new content that
// somebody else changed meanwhile, see [Outcome.Kept]. There are no mounts to remove: they ended with their process.
func Sweep(state, patches string) (aside []string, err error) {
	entries, err := os.ReadDir(state)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for copies that were left: %w", err)
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool {
		return !e.IsDir() || filepath.Ext(e.Name()) == kept
	})
	if len(entries) == 0 {
		return nil, nil
	}
	dir := locks(state)
	alone, err := dir.Alone("sweep")
	if err != nil {
		return nil, err
	}
	defer alone.Release()
	var all error
	err = dir.Look(func(live map[string]bool) error {
		for _, e := range entries {
			if live[e.Name()] {
				continue
			}
			found, err := clearSession(state, e.Name(), patches)
			aside, all = append(aside, found...), errors.Join(all, err)
		}
		return nil
	})
	return aside, errors.Join(err, all, dir.Sweep())
}

// clearSession finishes the joins of one process, and removes its copies.
func clearSession(state, id, patches string) (kept []string, err error) {
	folder := filepath.Join(state, id)
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, e := range entries { // the journals first: a copy has what they need no more, but a failed one must stay
		if e.Type().IsRegular() && slices.Contains([]string{begun, committed, failed}, filepath.Ext(e.Name())) {
			found, err := recoverJoin(state, filepath.Join(folder, e.Name()), patches)
			if kept = append(kept, found...); err != nil {
				return kept, err
			}
		}
	}
	for _, e := range entries {
		if e.IsDir() {
			err = errors.Join(err, clearCopy(filepath.Join(folder, e.Name())))
		}
	}
	return kept, errors.Join(err, files.RemoveAll(folder))
}

// recoverJoin finishes or undoes the join of a journal.
func recoverJoin(state, name, patches string) (kept []string, err error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var j journal
	if err := json.Unmarshal(text, &j); err != nil {
		return nil, fmt.Errorf("read the journal %s: %w", name, err)
	}
	alone, err := locks(state).Hold(treeLock(string(j.Dir)))
	if err != nil {
		return nil, err
	}
	defer alone.Release()
	live, err := os.OpenRoot(string(j.Dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, os.Remove(name)
	}
	if err != nil {
		return nil, err
	}
	defer live.Close()
	switch filepath.Ext(name) {
	case committed:
		if kept, err = j.finish(live, patches); err != nil { // the next Sweep takes it back
			err = errors.Join(err, rename(name[:len(name)-len(committed)], committed, failed))
		}
	case failed:
		if err = j.back(live); err != nil {
			err = errors.Join(err, os.Remove(name)) // a person has to look
		}
	default:
		err = j.clean(live)
	}
	if err != nil {
		return kept, fmt.Errorf("finish a join in %s: %w", j.Dir, err)
	}
	return kept, os.Remove(name)
}

// clearCopy removes the folder of a copy, and its worktree.
func clearCopy(folder string) error {
	common, err := os.ReadFile(filepath.Join(folder, repositoryFile))
	if err == nil {
		name := worktreeName(filepath.Base(filepath.Dir(folder)), filepath.Base(folder))
		err = worktree.Remove(string(common), name)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, files.RemoveAll(folder))
}
