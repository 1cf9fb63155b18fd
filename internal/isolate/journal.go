package isolate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/google/renameio/v2"

	"qq/internal/isolate/files"
)

// step changes one file of the tree from Live to New.
type step struct {
	Path []byte // relative to the tree
	Temp []byte // the new file or link until it is renamed; empty if there is none
	Live files.State
	New  files.State

	data []byte // of a file that was joined by lines
}

// journal has the steps of one patch.
type journal struct {
	Dir   []byte // the tree
	Steps []step
}

// The ends of the names of journals, which follow the name of the copy. One that is begun may have made files with
// temporary names; one that is committed is finished.
const (
	begun     = ".begun"
	committed = ".committed"
)

// run makes the steps. Before it changes a file of the tree, it writes the journal at name.
func (j *journal) run(live *os.Root, name string, changed *os.Root, patches string) (kept []string, err error) {
	j.name(live, name)
	text, err := json.Marshal(j)
	if err == nil {
		err = renameio.WriteFile(name+begun, text, 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("write a journal: %w", err)
	}
	for _, s := range j.Steps {
		if err = s.write(live, changed); err != nil {
			break
		}
	}
	if err == nil {
		err = commit(name)
	}
	if err != nil {
		return nil, errors.Join(err, j.undo(live), os.Remove(name+begun))
	}
	if kept, err = j.finish(live, patches); err != nil {
		return kept, err
	}
	return kept, os.Remove(name + committed)
}

// name names the files that the steps need until they are renamed.
func (j *journal) name(live *os.Root, journal string) {
	for i := range j.Steps {
		s := &j.Steps[i]
		if s.New.File() && s.New.Sum != s.Live.Sum || s.New.Mode.Type() == fs.ModeSymlink {
			temp := tempPrefix + filepath.Base(journal) + "-" + strconv.Itoa(i)
			s.Temp = []byte(path.Join(j.place(live, string(s.Path)), temp))
		}
	}
}

// commit commits a journal, to the disk.
func commit(name string) error {
	if err := os.Rename(name+begun, name+committed); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(name))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

// place returns the nearest folder above name that is there and stays.
func (j *journal) place(live *os.Root, name string) string {
	dir := path.Dir(name)
	for ; dir != "."; dir = path.Dir(dir) {
		if info, err := live.Lstat(dir); err != nil || !info.IsDir() {
			continue
		}
		if !slices.ContainsFunc(j.Steps, func(s step) bool { return string(s.Path) == dir && !s.New.Mode.IsDir() }) {
			break
		}
	}
	return dir
}

// write writes the new file of a step under its temporary name.
func (s step) write(live, changed *os.Root) error {
	temp := string(s.Temp)
	switch {
	case temp == "":
		return nil
	case s.New.Mode.Type() == fs.ModeSymlink:
		return live.Symlink(s.New.Sum, temp)
	}
	to, err := live.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer to.Close()
	if s.data != nil {
		_, err = to.Write(s.data)
	} else {
		var from *os.File
		if from, err = files.Open(changed, string(s.Path), true); err == nil {
			_, err = io.Copy(to, from)
			from.Close()
		}
	}
	if info, statErr := live.Lstat(string(s.Path)); statErr == nil {
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			_ = to.Chown(int(st.Uid), int(st.Gid)) // only root can give files to others
		}
	}
	return errors.Join(err, to.Chmod(s.New.Mode.Perm()), to.Sync())
}

// undo removes the files with temporary names.
func (j *journal) undo(live *os.Root) error {
	var all error
	for _, s := range j.Steps {
		if len(s.Temp) > 0 {
			if err := live.Remove(string(s.Temp)); !errors.Is(err, fs.ErrNotExist) {
				all = errors.Join(all, err)
			}
		}
	}
	return all
}

// finish makes the steps that are not made yet. It returns the names of files with new content that somebody else
// changed.
func (j *journal) finish(live *os.Root, patches string) (kept []string, err error) {
	for _, a := range j.actions() {
		aside, err := a.do(live, patches)
		if aside != "" {
			kept = append(kept, aside)
		}
		if err != nil {
			return kept, err
		}
	}
	return kept, nil
}

// action is a part of a step.
type action struct {
	step
	part part
}

type part int

const (
	removing    part = iota // what the step replaces
	making                  // the folder, or the file with its permissions
	restricting             // the folder: nobody may be able to write to it then
)

// actions returns the parts of all steps in an order in which they can be made.
func (j *journal) actions() (all []action) {
	steps := slices.Clone(j.Steps)
	slices.SortFunc(steps, func(a, b step) int { return comparePaths(string(a.Path), string(b.Path)) })
	for _, s := range slices.Backward(steps) { // what is in a folder before the folder
		if !s.Live.None() && s.Live.Mode.Type() != s.New.Mode.Type() || s.New.None() {
			all = append(all, action{s, removing})
		}
	}
	for _, s := range steps {
		if !s.New.None() {
			all = append(all, action{s, making})
		}
	}
	for _, s := range slices.Backward(steps) {
		if s.New.Mode.IsDir() {
			all = append(all, action{s, restricting})
		}
	}
	return all
}

// do does the action unless it is done. It returns the name of a file with new content that somebody else changed.
func (a action) do(live *os.Root, patches string) (aside string, err error) {
	name := string(a.Path)
	switch {
	case a.part == removing:
		return "", a.remove(live)
	case a.part == restricting:
		err = live.Chmod(name, a.New.Mode.Perm())
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	case a.New.Mode.IsDir():
		err = live.Mkdir(name, 0o700)
		if errors.Is(err, fs.ErrExist) {
			err = nil
		}
	default:
		return a.put(live, patches)
	}
	return "", err
}

// remove removes what the step replaces, unless somebody else changed it.
func (s step) remove(live *os.Root) error {
	name := string(s.Path)
	is, _, err := files.Look(live, name, false)
	if err != nil || is.None() || is != s.Live && !(is.Mode.IsDir() && s.Live.Mode.IsDir()) {
		return err
	}
	err = live.Remove(name)
	if is.Mode.IsDir() && s.New.None() {
		return nil // it may not be empty
	}
	return err
}

// put gives the new file of the step its name. If somebody else changed the file, it moves the new one to patches, and
// returns that name.
func (s step) put(live *os.Root, patches string) (aside string, err error) {
	name, temp := string(s.Path), string(s.Temp)
	is, _, err := files.Look(live, name, false)
	if err != nil || is == s.New && temp == "" {
		return "", err
	}
	replaced := s.Live.Mode.Type() != s.New.Mode.Type() && is.None() // it was removed before
	expected := is == s.Live || replaced
	if temp == "" { // only its permissions change
		if expected {
			err = live.Chmod(name, s.New.Mode.Perm())
		}
		return "", err
	}
	if _, err := live.Lstat(temp); errors.Is(err, fs.ErrNotExist) {
		return "", nil // it has its name
	}
	switch {
	case is == s.New:
		return "", live.Remove(temp)
	case expected:
		return "", live.Rename(temp, name)
	}
	aside = filepath.Join(patches, strings.TrimPrefix(path.Base(temp), ".")+"-"+path.Base(name))
	return aside, errors.Join(s.save(live, aside), live.Remove(temp))
}

// save copies the new file of the step to the file at aside.
func (s step) save(live *os.Root, aside string) error {
	data, _, err := files.Content(live, string(s.Temp), s.New, maxBlob)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(aside), 0o700)
	}
	if err == nil {
		err = renameio.WriteFile(aside, data, 0o600)
	}
	return err
}
