package output

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"

	"qq/pkg/task"
)

// Folder holds the results of a batch: for each task the file NAME.json, and NAME.txt with the answer if the task
// succeeded.
type Folder struct {
	path string
	file *os.File // locked until it is closed
}

// ErrForeign is the error about a file that has the name of a result and is none.
var ErrForeign = errors.New("is there, and is no result of qq")

// unfinished is the folder in a Folder for files that are being written.
const unfinished = ".qq-unfinished"

// OpenFolder creates or opens the folder at path, and removes what a killed qq had not finished. The folder stays
// locked until it is closed. If another qq has locked it, the error is [ErrInUse].
func OpenFolder(path string) (*Folder, error) {
	if err := os.MkdirAll(path, 0o777); err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err == nil {
		f, err = lock(f)
	}
	if err != nil {
		return nil, err
	}
	folder := &Folder{path, f}
	err = os.RemoveAll(folder.unfinished())
	if err == nil {
		err = os.Mkdir(folder.unfinished(), 0o777)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return folder, nil
}

// at returns the path of a file of the result with that name.
func (f *Folder) at(name, ext string) string { return filepath.Join(f.path, name+ext) }

func (f *Folder) unfinished() string { return filepath.Join(f.path, unfinished) }

// Close unlocks the folder. A nil Folder is closed.
func (f *Folder) Close() error {
	if f == nil {
		return nil
	}
	return errors.Join(os.RemoveAll(f.unfinished()), f.file.Close())
}

// Check returns [ErrForeign] if a file is in the way of a result with one of these names.
func (f *Folder) Check(names iter.Seq2[string, error]) error {
	if f.empty() {
		return nil
	}
	for name, err := range names {
		if err != nil {
			return err
		}
		if isResult(f.at(name, ".json")) {
			continue
		}
		for _, ext := range []string{".txt", ".json"} {
			path := f.at(name, ext)
			if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("%s %w", path, ErrForeign)
			}
		}
	}
	return nil
}

// Clear removes earlier results with these names, which have passed [Folder.Check]. It reports whether results with
// other names are left.
func (f *Folder) Clear(names iter.Seq2[string, error]) (left bool, err error) {
	if f.empty() {
		return false, nil
	}
	for name, err := range names {
		if err != nil {
			return false, err
		}
		if err := f.Remove([]string{name}); err != nil {
			return false, err
		}
	}
	entries, err := os.ReadDir(f.path)
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".json") && isResult(filepath.Join(f.path, e.Name())) {
			return true, nil
		}
	}
	return false, err
}

// Made is what a result says about its task.
type Made struct {
	BatchID string `json:"batch_id"` // a batch that is resumed keeps its id
	Task    string `json:"task"`     // shortened
	Input   string `json:"input"`
}

// Others returns the names of the results in the folder that have none of these names, by what they were made of.
func (f *Folder) Others(names iter.Seq2[string, error]) (map[Made][]string, error) {
	entries, err := os.ReadDir(f.path)
	if err != nil {
		return nil, err
	}
	others := map[string]bool{}
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".json"); ok && isResult(f.at(name, ".json")) {
			others[name] = true
		}
	}
	for name, err := range names {
		if err != nil {
			return nil, err
		}
		delete(others, name)
	}
	made := map[Made][]string{}
	for name := range others {
		data, err := os.ReadFile(f.at(name, ".json"))
		var m Made
		if err == nil && json.Unmarshal(data, &m) == nil {
			made[m] = append(made[m], name)
		}
	}
	return made, nil
}

// Remove removes the results with these names.
func (f *Folder) Remove(names []string) error {
	for _, name := range names {
		// The text goes first: without it the rest is still a result.
		for _, ext := range []string{".txt", ".json"} {
			if err := f.remove(name, ext); err != nil {
				return err
			}
		}
	}
	return nil
}

// remove removes a file of the result with that name, if it is there.
func (f *Folder) remove(name, ext string) error {
	err := os.Remove(f.at(name, ext))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// empty reports whether nothing is in the folder.
func (f *Folder) empty() bool {
	dir, err := os.Open(f.path)
	if err != nil {
		return false
	}
	defer dir.Close()
	names, err := dir.Readdirnames(2)
	return (err == nil || errors.Is(err, io.EOF)) && len(names) == 1 && names[0] == unfinished
}

// isResult reports whether the file at path begins like a result that Save has written.
func isResult(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	const start = "{\n  \"task\": \""
	head := make([]byte, len(start))
	_, err = io.ReadFull(file, head)
	return err == nil && bytes.Equal(head, []byte(start))
}

// Save writes a result as JSON to the file NAME.json, and its output to NAME.txt. input is what the template of the
// batch was filled with. Each file is written completely or not at all. A failed task has no NAME.txt: who reads only
// those would take its text, which may be empty, for an answer. NAME.json has that text.
func (f *Folder) Save(name, input string, r task.Result) error {
	whole, err := json.MarshalIndent(Document{Result: r, Input: input}, "", "  ")
	if err != nil {
		return err
	}
	here := renameio.WithTempDir(f.unfinished()) // else some files of a killed qq stay in TMPDIR
	if !r.Success {
		err = f.remove(name, ".txt")
	}
	if err == nil {
		err = renameio.WriteFile(f.at(name, ".json"), append(whole, '\n'), 0o666, here)
	}
	if err == nil && r.Success {
		err = renameio.WriteFile(f.at(name, ".txt"), []byte(r.Output), 0o666, here)
	}
	if err != nil {
		return fmt.Errorf("save the result of task %d: %w", r.Index+1, err)
	}
	return nil
}
