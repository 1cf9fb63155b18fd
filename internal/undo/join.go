package undo

import (
	"io/fs"
	"os"

	"qq/internal/tools/store"
)

// Joining keeps the files that the join of a copy changes. A nil Joining keeps nothing.
type Joining struct {
	keeper *Keeper
	root   *os.Root
	files  []joined
}

// joined is a file before the join.
type joined struct {
	path, sum string
	mode      fs.FileMode
	made      string
}

// Join is called before a join changes the files with these paths in the folder dir. It keeps their contents.
func (b *Book) Join(dir string, paths []string) *Joining {
	path := b.Journal(dir)
	if path == "" {
		return nil
	}
	k, err := Open(path)
	if err != nil {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		k.Close()
		return nil
	}
	j := &Joining{keeper: k, root: root}
	for _, path := range paths {
		content, mode, err := store.Read(root, path)
		if err != nil { // such as a folder: it is listed as not kept
			continue
		}
		f := joined{path: path, mode: mode, made: store.Missing(root, path)}
		if content != nil {
			f.sum = store.Sum(content)
			k.keepContent(path, f.sum, content)
		}
		j.files = append(j.files, f)
	}
	return j
}

// Done is called after the join, also if that failed.
func (j *Joining) Done() {
	if j == nil {
		return
	}
	defer j.root.Close()
	defer j.keeper.Close()
	for _, f := range j.files {
		now, err := sumOf(j.root, f.path)
		if err == nil && now != f.sum {
			j.keeper.changed(record{Path: []byte(f.path), Old: f.sum, New: now, Mode: f.mode, Made: []byte(f.made)})
		}
	}
}

// keepContent appends a record that is no change, with a content.
func (k *Keeper) keepContent(path, sum string, content []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(content) <= maxFile && k.room() >= int64(len(content)) {
		k.write(record{Path: []byte(path), Old: sum, Only: true, Kept: true}, content)
	}
}

// changed appends a change whose content is kept already, if it could be.
func (k *Keeper) changed(r record) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.write(r, nil)
}
