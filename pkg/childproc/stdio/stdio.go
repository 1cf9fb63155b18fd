// Package stdio makes the files that a child has as stdin, stdout and stderr, and reads
// what the child wrote to them. They are files and not pipes, so output of any size costs
// no memory, and a process that keeps one open cannot make the parent wait.
package stdio

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"qq/pkg/tool"
)

// createUnnamed creates a private file in dir and removes its name. The file disappears when its
// last descriptor is closed.
func createUnnamed(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "*.tmp")
	if err != nil {
		return nil, err
	}
	return f, os.Remove(f.Name())
}

// Holding returns a file without a name that contains text and is read from its start. It is not a
// pipe, because writing to a pipe would block if the child does not read it. dir is used if the
// system has no files in memory.
func Holding(dir, text string) (*os.File, error) {
	f, err := memFile()
	if err != nil {
		f, err = createUnnamed(dir)
	}
	if err != nil {
		return nil, err
	}
	if _, err = f.WriteAt([]byte(text), 0); err != nil { // which leaves it at its start
		f.Close()
		return nil, err
	}
	return f, nil
}

// Keep moves an output file into the folder dir, where it stays after the run, and returns its new
// path.
func Keep(path, dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	kept := filepath.Join(dir, strings.TrimSuffix(filepath.Base(path), ".out")+".txt")
	return kept, os.Rename(path, kept)
}

// Excerpt is the beginning and the end of a text, or the whole text if LeftOut is 0.
type Excerpt struct {
	head, tail string // without a tail if LeftOut is 0
	LeftOut    int    // number of characters between beginning and end
	Repaired   bool   // invalid UTF-8 was replaced
}

// Read reads a file of size bytes. If the text has more than limit characters, only the first and
// the last half of limit are kept. The memory needed depends on limit, not on size.
func Read(f io.ReaderAt, size int64, limit int) (Excerpt, error) {
	if size <= int64(limit)*utf8.UTFMax {
		all, err := io.ReadAll(io.NewSectionReader(f, 0, size))
		if err != nil {
			return Excerpt{}, err
		}
		if text := repair(string(all)); utf8.RuneCountInString(text) <= limit {
			return Excerpt{head: text, Repaired: text != string(all)}, nil
		}
	}
	cut := tool.Excerpt{Max: limit}
	if _, err := io.Copy(&cut, io.NewSectionReader(f, 0, size)); err != nil {
		return Excerpt{}, err
	}
	first, last, left := cut.Cut()
	head, tail := repair(first), repair(last)
	return Excerpt{head, tail, left, head != first || tail != last}, nil
}

// Text returns the text that is handed on. If characters were left out, it has a note in their
// place with limit and, unless path is empty, the path of the full output.
func (e Excerpt) Text(limit int, path string) string {
	if e.LeftOut == 0 {
		return e.head
	}
	note := fmt.Sprintf("\n[Output truncated at %d chars]\n[%d characters left out", limit, e.LeftOut)
	if path != "" {
		note += "; full output: " + path
	}
	return e.head + note + "]\n" + e.tail
}

// repair returns text with U+FFFD in place of each sequence of bytes that is not UTF-8.
func repair(text string) string { return strings.ToValidUTF8(text, string(utf8.RuneError)) }

// LastLines returns at most n lines from the last size bytes of f, joined by " | " and without
// control characters. It returns "" if f cannot be read.
func LastLines(f *os.File, size int64, n int) string {
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	b, err := io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-size), size))
	if err != nil {
		return ""
	}
	lines := strings.FieldsFunc(strings.ToValidUTF8(string(b), ""), func(r rune) bool {
		return r < ' ' && r != '\t' || r == 0x7f
	})
	return strings.TrimSpace(strings.Join(lines[max(0, len(lines)-n):], " | "))
}
