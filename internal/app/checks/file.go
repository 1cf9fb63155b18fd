package checks

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"slices"

	"qq/internal/app/command"
	"qq/internal/config/trust"
	"qq/internal/taskfile"
	"qq/pkg/regular"
	"qq/pkg/task"
)

// Vouch says how far a person stands for the checks of tasks.
type Vouch uint8

const (
	Nobody  Vouch = iota // each check is asked about
	Given                // they are the person's own: only a check that says that a model wrote it is asked about
	Trusted              // the person was shown each check, and trusts them
)

// Origin says how far a person vouches for the checks of the tasks of a batch.
type Origin struct {
	vouch  Vouch     // unless the content is trusted
	from   *os.File  // the file of tasks; nil unless a person has decided about it
	sum    hash.Hash // of what was read of from
	folder *trust.Folder
	name   string // of the file, in folder
}

// Begin returns the origin of the tasks of src, which are to be read after that. dir is the working directory. A file
// outside of any checkout is the person's own. One in a checkout, which a stranger may have written, counts only if a
// person trusts its content, and so does what a model wrote, in any file. What comes from stdin may be a model's.
func Begin(src *taskfile.Source, dir string, store trust.Store) *Origin {
	o := &Origin{}
	path, err := filepath.Abs(src.Name)
	if err != nil || src.Name == "" || src.Input != nil {
		return o
	}
	if !inCheckout(path, dir) {
		o.vouch = Given
	}
	o.folder, o.name, o.sum = store.Folder(filepath.Dir(path)), filepath.Base(path), sha256.New()
	if o.folder.Sum(o.name) == "" {
		return o
	}
	if o.from, _, err = regular.Open(path, os.O_RDONLY); err == nil {
		src.Input = io.TeeReader(o.from, o.sum)
	}
	return o
}

// End returns who vouches for the checks. The tasks were read.
func (o *Origin) End() Vouch {
	if o.from == nil {
		return o.vouch
	}
	defer o.from.Close()
	_, err := io.Copy(o.sum, o.from) // what the reader of the tasks did not need
	if err == nil && o.folder.State(o.name, hex.EncodeToString(o.sum.Sum(nil))) == trust.Trusted {
		return Trusted
	}
	return o.vouch
}

// inCheckout reports whether the file path belongs to a checkout: it is below the folder dir or in a repository, by its
// name or by that of the file that a link names.
func inCheckout(path, dir string) bool {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return true
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return true
	}
	return below(path, dir) || below(real, dir)
}

// maxUp is how many folders above a file are searched for a repository.
const maxUp = 64

// below reports whether path is below dir or in a repository.
func below(path, dir string) bool {
	for n, at := 0, filepath.Dir(path); n < maxUp; n, at = n+1, filepath.Dir(at) {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil || at == dir {
			return true
		}
		if at == filepath.Dir(at) {
			return false
		}
	}
	return true
}

// maxFile is the longest file of tasks that a person can trust, in bytes.
const maxFile = 64 << 20

// Listed returns the different checks of the tasks in the file path, and its checksum. Each line of the file must be
// understood: a check that nobody was shown must not be trusted.
func Listed(path string) (lines []string, sum string, err error) {
	const hint = "qq trust takes a folder, or a file with a JSON array of tasks or one task in JSON a line"
	f, _, err := regular.Open(path, os.O_RDONLY)
	if err != nil {
		return nil, "", command.Usagef(hint, "%v", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil || len(data) > maxFile {
		return nil, "", command.Usagef(hint, "%s cannot be read, or has more than %d MiB", path, maxFile>>20)
	}
	digest := sha256.Sum256(data)
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	tasks, err := task.DecodeList(data)
	if err != nil && !bytes.HasPrefix(bytes.TrimSpace(data), []byte("[")) {
		tasks, err = eachLine(data)
	}
	if err != nil {
		return nil, "", command.Usagef(hint, "%s: %v", path, err)
	}
	for _, t := range tasks {
		if t.Check != "" && !slices.Contains(lines, t.Check) {
			lines = append(lines, t.Check)
		}
	}
	return lines, hex.EncodeToString(digest[:]), nil
}

// eachLine decodes the task of each line that is not blank.
func eachLine(data []byte) (tasks []task.Task, err error) {
	n := 0
	for line := range bytes.Lines(data) {
		n++
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		t, err := task.Decode(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		tasks = append(tasks, t)
	}
	return tasks, nil
}
