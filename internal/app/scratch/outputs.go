package scratch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// MakeTemp creates the temporary folder of the agent with an execution id, and returns its
// path.
func (f *Folder) MakeTemp(id string) (string, error) {
	dir, err := f.Path()
	if err != nil {
		return "", err
	}
	temp := tempDir(dir, id)
	if err := os.MkdirAll(temp, 0o700); err != nil {
		return "", fmt.Errorf("make a temporary folder: %w", err)
	}
	return temp, nil
}

// RemoveTemp removes the temporary folder of the agent with an execution id, if there is
// one. What stays is left to [Folder.Remove].
func (f *Folder) RemoveTemp(id string) {
	if dir := f.Made(); dir != "" {
		_ = removeAll(tempDir(dir, id))
	}
}

func tempDir(scratch, id string) string { return filepath.Join(scratch, id+".tmp") }

// Outputs is the path of the folder that keeps long outputs. Agents got only an excerpt of
// each.
type Outputs string

// KeptIn returns the folder for long outputs in the folder home.
func KeptIn(home string) Outputs { return Outputs(filepath.Join(home, "outputs")) }

// ShellLog returns the path of the file for the complete output of the commands that the
// agent with an execution id runs. It creates the folder.
func (o Outputs) ShellLog(id string) (string, error) {
	if err := os.MkdirAll(string(o), 0o700); err != nil {
		return "", hinted(err, "QQ_HOME names a folder that you may write to", "make the folder for outputs")
	}
	return o.shellLog(id), nil
}

func (o Outputs) shellLog(id string) string { return filepath.Join(string(o), id+".commands.txt") }

// RemoveEmpty removes the file of [Outputs.ShellLog] if it is empty.
func (o Outputs) RemoveEmpty(id string) {
	if info, err := os.Stat(o.shellLog(id)); err == nil && info.Size() == 0 {
		_ = os.Remove(o.shellLog(id))
	}
}

// Prune removes the outputs that nobody has written to for age, and returns their paths.
func (o Outputs) Prune(age time.Duration) (gone []string, err error) {
	dir := string(o)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list kept outputs: %w", err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || time.Since(info.ModTime()) < age {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if err := os.Remove(path); err != nil {
			return gone, fmt.Errorf("remove a kept output: %w", err)
		}
		gone = append(gone, path)
	}
	return gone, nil
}
