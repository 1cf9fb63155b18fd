// Package naming gives each task of a batch the name of its result files: the name of the file, or the text, that the
// task was made of.
//
// A name is readable, at most 200 bytes long, and the same in each run of the same input. It has only letters, digits
// and a few signs that no shell and no file system takes for something else, and does not begin with a dot. No two
// tasks of a batch have names that differ only in case. A task that can have no such name has its number.
package naming

import (
	"fmt"
	"hash/fnv"
	"iter"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// maxBytes is how long a name may be. File systems take 255 bytes, with the extension and what a temporary name adds.
const maxBytes = 200

// Item is what a name is made of.
type Item struct {
	Text string // such as docs/a.md
	File bool   // Text is the name of a file
}

// Names are the names of the tasks of one batch.
type Names struct {
	count int
	twice map[uint64]bool // hashes of the names that more than one task could have
}

// New returns the names for a batch of items.
func New(items iter.Seq2[Item, error]) (*Names, error) {
	n := &Names{twice: map[uint64]bool{}}
	var all []uint64
	for it, err := range items {
		if err != nil {
			return nil, err
		}
		n.count++
		for _, name := range candidates(it) {
			all = append(all, hash(name))
		}
	}
	slices.Sort(all)
	for i := range all[min(1, len(all)):] {
		if all[i] == all[i+1] {
			n.twice[all[i]] = true
		}
	}
	return n, nil
}

// Of returns the name, without an extension, for the task of that number, which counts from 1.
func (n *Names) Of(number int, it Item) string {
	for _, name := range candidates(it) {
		if !n.twice[hash(name)] && !n.isNumber(name) {
			return name
		}
	}
	return fmt.Sprintf("%05d", number)
}

// isNumber reports whether name is that of a task that is named by its number.
func (n *Names) isNumber(name string) bool {
	number, err := strconv.Atoi(name)
	return err == nil && number >= 1 && number <= n.count && name == fmt.Sprintf("%05d", number)
}

// hash is the same for names that a file system may take for one.
func hash(name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(norm.NFC.String(strings.ToLower(strings.ToUpper(norm.NFC.String(name))))))
	return h.Sum64()
}

// candidates returns the names that an item could have, the best first: the last part of a path, and all of it.
func candidates(it Item) []string {
	whole := clean(it.Text)
	names := []string{whole}
	if base := filepath.Base(it.Text); it.File || isPath(it.Text, base) {
		if short := clean(base); short != whole {
			names = []string{short, whole}
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "" || len(name) > maxBytes })
}

// isPath reports whether a line of text is probably the path of a file.
func isPath(text, base string) bool {
	return strings.Contains(text, "/") && !strings.ContainsFunc(text, unicode.IsSpace) && filepath.Ext(base) != ""
}

// clean returns s with a dash for everything that may not be in a name. The extension .txt, which the file of a result
// has, is left out.
func clean(s string) string {
	if len(s) > 4*maxBytes {
		return "" // too long in any case
	}
	s = strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.L, unicode.M, unicode.Nd) || strings.ContainsRune("._,+=@%", r) {
			return r
		}
		return '-'
	}, norm.NFC.String(strings.ToValidUTF8(s, "-")))
	for strings.Contains(s, "--") {
		s = strings.ReplaceAll(s, "--", "-")
	}
	if ext := filepath.Ext(s); strings.EqualFold(ext, ".txt") {
		s = strings.TrimSuffix(s, ext)
	}
	return strings.TrimRight(strings.TrimLeft(s, "-."), "-.")
}
