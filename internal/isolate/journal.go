package isolate

import (
	"cmp"
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
	"sync"
	"syscall"

	"github.com/google/renameio/v2"

	"qq/internal/isolate/files"
)

// step changes one file of the tree from Live to New.
type step struct {
	Path []byte // relative to the tree
	Temp []byte // the new file or link until it is renamed; empty if there is none
	Old  []byte // one more name of the file that is replaced, until all steps are made; empty if there is none
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
// temporary names; one that is committed is finished; of one that is failed the steps are taken back.
const (
	begun     = ".begun"
	committed = ".committed"
	failed    = ".failed"
)

// commit writes the journal at name, then the new files under their temporary names, and commits the journal, all to
// the disk. The witness is told as late as that. After an error, nothing of it is left.
func (j *journal) commit(live *os.Root, name string, changed *os.Root, told Witness) error {
	j.name(live, name)
	text, err := json.Marshal(j)
	if err == nil {
		err = renameio.WriteFile(name+begun, text, 0o600, renameio.WithTempDir(filepath.Dir(name)))
	}
	if err != nil {
		return fmt.Errorf("write a journal: %w", err)
	}
	if err = j.write(live, changed); err == nil && told != nil {
		err = told.Effects()
	}
	if err == nil {
		err = rename(name, begun, committed)
	}
	if err != nil {
		return errors.Join(err, j.clean(live), os.Remove(name+begun))
	}
	return nil
}

// write writes the new files. A file system brings several to the disk in the time of one.
func (j *journal) write(live, changed *os.Root) error {
	var group sync.WaitGroup
	slots := make(chan struct{}, 16)
	errs := make([]error, len(j.Steps))
	for i, s := range j.Steps {
		slots <- struct{}{}
		group.Go(func() {
			errs[i] = s.write(live, changed)
			<-slots
		})
	}
	group.Wait()
	return cmp.Or(errs...)
}

// run makes the steps of the journal at name, which is committed: all or, on error, none. If they cannot be taken back
// either, the journal stays, and Sweep tries it once more.
func (j *journal) run(live *os.Root, name, patches string) (kept []string, err error) {
	if kept, err = j.finish(live, patches); err == nil {
		return kept, os.Remove(name + committed)
	}
	backErr := rename(name, committed, failed)
	if backErr == nil {
		backErr = j.back(live)
	}
	if backErr != nil {
		const left = "a part of it is in the folder, because that could not be taken back"
		return kept, fmt.Errorf("%w; %s: %w", err, left, backErr)
	}
	return kept, errors.Join(err, os.Remove(name+failed))
}

// name names the files that the steps need until they are made.
func (j *journal) name(live *os.Root, journal string) {
	for i := range j.Steps {
		s := &j.Steps[i]
		name := path.Join(j.place(live, string(s.Path)), files.TempPrefix+filepath.Base(journal)+"-"+strconv.Itoa(i))
		if s.New.File() && s.New.Sum != s.Live.Sum || s.New.Mode.Type() == fs.ModeSymlink {
			s.Temp = []byte(name)
		}
		if !s.Live.None() && !s.Live.Mode.IsDir() && (len(s.Temp) > 0 || s.removes()) {
			s.Old = []byte(name + "-old")
		}
	}
}

// removes reports whether what is there has to be removed before the step is made.
func (s step) removes() bool {
	return !s.Live.None() && s.Live.Mode.Type() != s.New.Mode.Type() || s.New.None()
}

// rename changes what a journal says, to the disk.
func rename(name, from, to string) error {
	if err := os.Rename(name+from, name+to); err != nil {
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
	if temp == "" {
		return nil
	}
	dir, base, err := files.Folder(live, temp)
	if err != nil {
		return err
	}
	defer dir.Close()
	if s.New.Mode.Type() == fs.ModeSymlink {
		return dir.Symlink(s.New.Sum, base)
	}
	to, err := dir.OpenFile(base, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
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

// clean removes the files with temporary names.
func (j *journal) clean(live *os.Root) error {
	var all error
	for _, s := range j.Steps {
		for _, temp := range []string{string(s.Temp), string(s.Old)} {
			if temp == "" {
				continue
			}
			if err := remove(live, temp); !errors.Is(err, fs.ErrNotExist) {
				all = errors.Join(all, err)
			}
		}
	}
	return all
}

// remove removes a file or an empty folder, and follows no link.
func remove(live *os.Root, name string) error {
	dir, base, err := files.Folder(live, name)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Remove(base)
}

// back takes the steps back that are made.
func (j *journal) back(live *os.Root) error {
	var all error
	for _, a := range slices.Backward(j.actions()) {
		if err := a.back(live); err != nil && !errors.Is(err, fs.ErrNotExist) {
			all = errors.Join(all, err)
		}
	}
	if all != nil {
		return all
	}
	return j.clean(live)
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
	return kept, j.clean(live)
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
	slices.SortFunc(steps, func(a, b step) int { return files.Compare(string(a.Path), string(b.Path)) })
	for _, s := range slices.Backward(steps) { // what is in a folder before the folder
		if s.removes() {
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
	dir, base, err := files.Folder(live, string(a.Path))
	gone := errors.Is(err, fs.ErrNotExist) // somebody else removed or replaced it
	if gone && a.part == making && len(a.Temp) > 0 {
		return a.aside(live, patches)
	}
	if gone && (a.part != making || !a.New.Mode.IsDir()) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer dir.Close()
	switch {
	case a.part == removing:
		return "", a.remove(live, dir, base)
	case a.part == restricting:
		if info, statErr := dir.Lstat(base); statErr == nil && info.IsDir() {
			err = dir.Chmod(base, a.New.Mode.Perm())
		}
	case a.New.Mode.IsDir():
		err = dir.Mkdir(base, 0o700)
		if errors.Is(err, fs.ErrExist) {
			err = nil
		}
	default:
		return a.put(live, dir, base, patches)
	}
	return "", err
}

// back takes the action back if it is done, and nobody else changed the file since.
func (a action) back(live *os.Root) error {
	dir, base, err := files.Folder(live, string(a.Path))
	if err != nil {
		return err
	}
	defer dir.Close()
	is, _, err := files.Look(dir, base, false)
	if err != nil {
		return err
	}
	switch {
	case a.part == restricting:
		if a.Live.Mode.IsDir() && is == a.New {
			err = dir.Chmod(base, a.Live.Mode.Perm())
		}
	case a.part == making && a.New.Mode.IsDir():
		if !a.Live.Mode.IsDir() && is.Mode.IsDir() {
			_ = dir.Remove(base) // it may not be empty
		}
	case a.part == making && is != a.New, a.part == removing && !is.None():
	case len(a.Old) > 0 && (a.part == removing || !a.removes()):
		err = files.Rename(live, string(a.Old), string(a.Path))
		if a.part == making && errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("the old %s was not kept", a.Path) // see remember
		}
	case a.part == making && len(a.Temp) == 0:
		err = dir.Chmod(base, a.Live.Mode.Perm())
	case a.part == making:
		err = dir.Remove(base)
	case a.Live.Mode.IsDir():
		if err = dir.Mkdir(base, 0o700); err == nil {
			err = dir.Chmod(base, a.Live.Mode.Perm())
		}
	}
	return err
}

// remember gives the file that the step replaces one more name, if the file system can do that.
func (s step) remember(live *os.Root) {
	if len(s.Old) > 0 {
		_ = files.Link(live, string(s.Path), string(s.Old))
	}
}

// remove removes what the step replaces, the file base in dir, unless somebody else changed it.
func (s step) remove(live, dir *os.Root, base string) error {
	is, _, err := files.Look(dir, base, false)
	if err != nil || is.None() || is != s.Live && !(is.Mode.IsDir() && s.Live.Mode.IsDir()) {
		return err
	}
	s.remember(live)
	err = dir.Remove(base)
	if is.Mode.IsDir() && s.New.None() {
		return nil // it may not be empty
	}
	return err
}

// put gives the new file of the step its name, base in dir. If somebody else changed the file, it moves the new one to
// patches, and returns that name.
func (s step) put(live, dir *os.Root, base, patches string) (aside string, err error) {
	temp := string(s.Temp)
	is, _, err := files.Look(dir, base, false)
	if err != nil || is == s.New && temp == "" {
		return "", err
	}
	replaced := s.Live.Mode.Type() != s.New.Mode.Type() && is.None() // it was removed before
	expected := is == s.Live || replaced
	if temp == "" { // only its permissions change
		if expected {
			err = dir.Chmod(base, s.New.Mode.Perm())
		}
		return "", err
	}
	if _, err := live.Lstat(temp); errors.Is(err, fs.ErrNotExist) {
		return "", nil // it has its name
	}
	switch {
	case is == s.New:
		return "", remove(live, temp)
	case expected:
		s.remember(live)
		return "", files.Rename(live, temp, string(s.Path))
	}
	return s.aside(live, patches)
}

// aside moves the new file of the step to patches, and returns its name there.
func (s step) aside(live *os.Root, patches string) (aside string, err error) {
	temp := string(s.Temp)
	if _, err := live.Lstat(temp); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	aside = filepath.Join(patches, strings.TrimPrefix(path.Base(temp), ".")+"-"+path.Base(string(s.Path)))
	return aside, errors.Join(s.save(live, aside), remove(live, temp))
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
