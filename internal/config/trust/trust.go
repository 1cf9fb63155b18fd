// Package trust remembers which files of a checkout may configure qq: what a person decided about each file, by
// the SHA-256 of its content, so that a file that has changed is asked about again.
//
// The decisions about a folder are one file below $QQ_HOME/trust, private to its owner and replaced as a whole. A
// folder is known by its real path, without symbolic links.
//
// Not promised: that two people who decide about the same folder at the same moment both have their way.
package trust

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"
)

const (
	maxRecord = 1 << 20 // bytes of the decisions about one folder
	maxFiles  = 4096    // of one folder
	version   = 1
)

// State is what is known about a file with some content.
type State int

// States of a file.
const (
	Unknown State = iota // nobody has decided about it
	Trusted
	Refused
	Changed // it was trusted with other content
)

// Decision is what a person decided about one file.
type Decision struct {
	Sum     string    `json:"sha256"` // of the content, in hexadecimal digits
	Trusted bool      `json:"trusted"`
	Time    time.Time `json:"time"`
}

// Record holds the decisions about the files of one folder.
type Record struct {
	Version int                 `json:"version"`
	Dir     string              `json:"dir"`   // its real path
	Files   map[string]Decision `json:"files"` // by path in Dir
}

// Store is the folder of all decisions.
type Store struct{ dir string }

// In returns the store below home, the value of QQ_HOME.
func In(home string) Store { return Store{filepath.Join(home, "trust")} }

// Folder is a folder with the decisions about its files. It reads them when it is first asked. Several goroutines
// may ask it at once, but not while Decide runs.
type Folder struct {
	store Store
	dir   string
	read  func() (Record, error)
}

// Folder returns the decisions about dir.
func (s Store) Folder(dir string) *Folder {
	f := &Folder{store: s, dir: dir}
	f.read = sync.OnceValues(func() (Record, error) { return s.read(real(f.dir)) })
	return f
}

// real returns the path of dir without symbolic links, as far as it exists.
func real(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	if path, err := filepath.EvalSymlinks(dir); err == nil {
		return path
	}
	return filepath.Clean(dir)
}

// path returns the file with the decisions about a folder.
func (s Store) path(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return filepath.Join(s.dir, hex.EncodeToString(sum[:16])+".json")
}

// read returns the decisions about the folder with that real path.
func (s Store) read(dir string) (Record, error) {
	empty := Record{Version: version, Dir: dir, Files: map[string]Decision{}}
	data, err := readFile(s.path(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return empty, nil
	}
	var r Record
	if err == nil {
		r, err = parse(data)
	}
	if err == nil && r.Dir != dir {
		err = fmt.Errorf("it is about %q", r.Dir)
	}
	if err != nil {
		return empty, fmt.Errorf("read %s, which says what is trusted in this folder: %w", s.path(dir), err)
	}
	return r, nil
}

// readFile returns the content of a regular file of at most maxRecord bytes.
func readFile(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(f, maxRecord+1))
}

// parse parses the decisions about one folder.
func parse(data []byte) (Record, error) {
	if len(data) > maxRecord {
		return Record{}, errors.New("it is too large")
	}
	r := Record{Files: map[string]Decision{}}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		return Record{}, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return Record{}, errors.New("something follows its end")
	}
	switch {
	case r.Version != version:
		return Record{}, fmt.Errorf("its version is %d, and this qq knows %d", r.Version, version)
	case !filepath.IsAbs(r.Dir), r.Files == nil, len(r.Files) > maxFiles:
		return Record{}, errors.New("it is damaged")
	}
	for name, d := range r.Files {
		sum, err := hex.DecodeString(d.Sum)
		if err != nil || len(sum) != sha256.Size || !filepath.IsLocal(name) {
			return Record{}, errors.New("it is damaged")
		}
	}
	return r, nil
}

// Err returns why the decisions cannot be read; nil if they can. Without them no file is trusted.
func (f *Folder) Err() error {
	_, err := f.read()
	return err
}

// Sum returns the SHA-256 of the content that is trusted as that of file; "" if none is. It implements agents.Trust.
func (f *Folder) Sum(file string) string {
	r, _ := f.read()
	if d := r.Files[file]; d.Trusted {
		return d.Sum
	}
	return ""
}

// Sums holds the SHA-256 of the files that are trusted in one folder, by path. A child gets them from its root.
type Sums map[string]string

// Sum implements agents.Trust.
func (s Sums) Sum(file string) string { return s[file] }

// State returns what was decided about file if its content has that SHA-256.
func (f *Folder) State(file, sum string) State {
	r, _ := f.read()
	d, known := r.Files[file]
	switch {
	case known && d.Sum == sum && d.Trusted:
		return Trusted
	case known && d.Sum == sum:
		return Refused
	case d.Trusted:
		return Changed
	}
	return Unknown
}

// Decide stores a decision about files, given by the SHA-256 of their content. The decision counts at once, also if
// it cannot be stored. Decisions that cannot be read are an error and stay as they are.
func (f *Folder) Decide(files map[string]string, trusted bool) error {
	r, err := f.store.read(real(f.dir)) // others may have decided meanwhile
	for name, sum := range files {
		r.Files[name] = Decision{Sum: sum, Trusted: trusted, Time: time.Now().UTC().Truncate(time.Second)}
	}
	f.read = func() (Record, error) { return r, nil }
	if err != nil {
		return err
	}
	return f.store.write(r)
}

// write replaces the decisions about one folder.
func (s Store) write(r Record) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if _, err := parse(data); err != nil {
		return fmt.Errorf("store what is trusted in %s: %w", r.Dir, err)
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	temp, err := os.CreateTemp(s.dir, ".new-*") // with mode 0600
	if err != nil {
		return err
	}
	_, err = temp.Write(append(data, '\n'))
	if err = cmp.Or(err, temp.Sync(), temp.Close()); err == nil {
		err = os.Rename(temp.Name(), s.path(r.Dir))
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp.Name()))
	}
	return nil
}

// List returns the decisions about all folders, sorted by path, and the errors of those that cannot be read.
func (s Store) List() ([]Record, error) {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	errs := []error{err}
	var records []Record
	for _, e := range entries {
		path := filepath.Join(s.dir, e.Name())
		if filepath.Ext(path) != ".json" {
			continue
		}
		data, err := readFile(path)
		var r Record
		if err == nil {
			r, err = parse(data)
		}
		if err == nil && s.path(r.Dir) != path {
			err = errors.New("it is not where it belongs")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("read %s: %w", path, err))
			continue
		}
		records = append(records, r)
	}
	slices.SortFunc(records, func(a, b Record) int { return cmp.Compare(a.Dir, b.Dir) })
	return records, errors.Join(errs...)
}

// Remove forgets all decisions about dir. The error is [fs.ErrNotExist] if there is none.
func (s Store) Remove(dir string) error { return os.Remove(s.path(real(dir))) }
