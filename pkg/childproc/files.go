package childproc

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

// taskFile returns a file that contains the text of the task and is read from its start. It is not
// a pipe, because writing to a pipe would block if the child does not read it. dir is used if the
// system has no files in memory.
func taskFile(dir, text string) (*os.File, error) {
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

// keep moves an output file into the folder dir, where it stays after the run, and returns its new
// path.
func keep(path, dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	kept := filepath.Join(dir, strings.TrimSuffix(filepath.Base(path), ".out")+".txt")
	return kept, os.Rename(path, kept)
}

// excerpt is the beginning and the end of a text, or the whole text in head if leftOut is 0.
type excerpt struct {
	head, tail string
	leftOut    int  // number of characters between head and tail
	repaired   bool // invalid UTF-8 was replaced
}

// readExcerpt reads a file of size bytes. If the text has more than limit characters, only the
// first and the last half of limit are kept. The memory needed depends on limit, not on size.
func readExcerpt(f io.ReaderAt, size int64, limit int) (excerpt, error) {
	if size <= int64(limit)*utf8.UTFMax {
		all, err := io.ReadAll(io.NewSectionReader(f, 0, size))
		if err != nil {
			return excerpt{}, err
		}
		if text := repair(string(all)); utf8.RuneCountInString(text) <= limit {
			return excerpt{head: text, repaired: text != string(all)}, nil
		}
	}
	cut := tool.Excerpt{Max: limit}
	if _, err := io.Copy(&cut, io.NewSectionReader(f, 0, size)); err != nil {
		return excerpt{}, err
	}
	first, last, left := cut.Cut()
	head, tail := repair(first), repair(last)
	return excerpt{head, tail, left, head != first || tail != last}, nil
}

// join returns the text that is handed on. If characters were left out, it has a note in their
// place with limit and, unless path is empty, the path of the full output.
func (e excerpt) join(limit int, path string) string {
	if e.leftOut == 0 {
		return e.head
	}
	note := fmt.Sprintf("\n[Output truncated at %d chars]\n[%d characters left out", limit, e.leftOut)
	if path != "" {
		note += "; full output: " + path
	}
	return e.head + note + "]\n" + e.tail
}

// repair returns text with U+FFFD in place of each sequence of bytes that is not UTF-8.
func repair(text string) string { return strings.ToValidUTF8(text, string(utf8.RuneError)) }

// lastLines returns at most n lines from the last size bytes of f, joined by " | " and without
// control characters. It returns "" if f cannot be read.
func lastLines(f *os.File, size int64, n int) string {
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
