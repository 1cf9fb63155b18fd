// Package plans keeps the plans of planned batches, so that they can be shown afterwards: one file for each batch.
//
// A plan says how tasks wait for each other. It is no part of the ledger: nothing is resumed or found by it, and a
// batch
// without one is as good. So an error to keep one is no error of the batch.
package plans

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"qq/pkg/regular"
)

const (
	suffix = ".json"
	// maxSize is the size of the largest plan that is kept or read, in bytes.
	maxSize = 16 << 20
	// maxKept is how many plans are kept: those of the newest batches.
	maxKept = 500
)

func folder(home string) string { return filepath.Join(home, "plans") }

// path returns the file of a batch; "" if id is none.
func path(home, id string) string {
	if id == "" || strings.ContainsAny(id, `/\`) || strings.HasPrefix(id, ".") {
		return ""
	}
	return filepath.Join(folder(home), id+suffix)
}

// Keep keeps the plan of a batch in home, the folder of qq. A plan is JSON: see qq/pkg/supervisor/plan.Description.
func Keep(home, id string, text []byte) error {
	file := path(home, id)
	if file == "" || len(text) > maxSize {
		return nil
	}
	if err := os.Mkdir(folder(home), 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return errors.Join(err, os.Remove(file))
	}
	all := IDs(home)
	for _, old := range all[:max(len(all)-maxKept, 0)] {
		Remove(home, old)
	}
	return nil
}

// IDs returns the ids of all batches with a plan, the oldest first: they begin with their time.
func IDs(home string) (all []string) {
	entries, _ := os.ReadDir(folder(home)) // a folder that cannot be read has none
	for _, e := range entries {
		if id, ok := strings.CutSuffix(e.Name(), suffix); ok && path(home, id) != "" {
			all = append(all, id)
		}
	}
	slices.Sort(all)
	return all
}

// Of returns the plan of a batch, and false if none is kept.
func Of(home, id string) (text []byte, ok bool) {
	file := path(home, id)
	if file == "" {
		return nil, false
	}
	f, _, err := regular.Open(file, os.O_RDONLY)
	if err != nil {
		return nil, false
	}
	defer f.Close()
	text, err = io.ReadAll(io.LimitReader(f, maxSize+1))
	return text, err == nil && len(text) <= maxSize
}

// Remove removes the plan of a batch.
func Remove(home, id string) {
	if file := path(home, id); file != "" {
		_ = os.Remove(file) // what is left is removed with the oldest
	}
}
