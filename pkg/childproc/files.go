package childproc

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// create makes a private file that a child writes.
func create(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
}

// createUnnamed makes a private file that disappears with its last descriptor.
func createUnnamed(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "*.tmp")
	if err != nil {
		return nil, err
	}
	return f, os.Remove(f.Name())
}

// taskFile is a file that holds the task, to be read from its start. A file and
// not a pipe: a child that does not read it blocks nobody.
func taskFile(dir, text string) (*os.File, error) {
	f, err := memFile()
	if err != nil {
		f, err = createUnnamed(dir)
	}
	if err != nil {
		return nil, err
	}
	if _, err = f.WriteString(text); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// keep moves an output file into the folder dir, where it outlives the run.
func keep(path, dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	kept := filepath.Join(dir, strings.TrimSuffix(filepath.Base(path), ".out")+".txt")
	return kept, os.Rename(path, kept)
}

// excerpt is the beginning and the end of a text, or all of it.
type excerpt struct {
	head, tail string
	leftOut    int64 // characters between them
	repaired   bool  // invalid UTF-8 was replaced
}

// readExcerpt reads at most limit characters of a file of size bytes: all of it
// or the first and the last half. Memory is bounded by limit, not by size.
func readExcerpt(f io.ReaderAt, size int64, limit int) (excerpt, error) {
	const widest = utf8.UTFMax
	if size <= int64(limit)*widest {
		all, err := readAt(f, 0, size)
		if err != nil {
			return excerpt{}, err
		}
		text, repaired := repair(all)
		if utf8.RuneCountInString(text) <= limit {
			return excerpt{head: text, repaired: repaired}, nil
		}
	}
	total, err := countRunes(io.NewSectionReader(f, 0, size))
	if err != nil {
		return excerpt{}, err
	}
	front, back := (limit+1)/2, limit/2
	first, err := readAt(f, 0, min(size, int64(front)*widest))
	if err != nil {
		return excerpt{}, err
	}
	from := max(0, size-int64(back)*widest)
	last, err := readAt(f, from, size-from)
	if err != nil {
		return excerpt{}, err
	}
	head, fixedHead := repair(firstRunes(first, front))
	tail, fixedTail := repair(lastRunes(last, back))
	return excerpt{head, tail, total - int64(limit), fixedHead || fixedTail}, nil
}

// join is the text that is handed on in place of the whole.
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

func readAt(f io.ReaderAt, from, n int64) ([]byte, error) {
	b := make([]byte, n)
	got, err := f.ReadAt(b, from)
	if err == io.EOF {
		err = nil
	}
	return b[:got], err
}

func repair(b []byte) (string, bool) {
	if utf8.Valid(b) {
		return string(b), false
	}
	return strings.ToValidUTF8(string(b), string(utf8.RuneError)), true
}

// firstRunes returns the first n characters of b.
func firstRunes(b []byte, n int) []byte {
	at := 0
	for ; n > 0 && at < len(b); n-- {
		_, size := utf8.DecodeRune(b[at:])
		at += size
	}
	return b[:at]
}

// lastRunes returns the last n characters of b, which may begin inside of one.
func lastRunes(b []byte, n int) []byte {
	at := len(b)
	for ; n > 0 && at > 0; n-- {
		_, size := utf8.DecodeLastRune(b[:at])
		at -= size
	}
	return b[at:]
}

// countRunes counts the characters of r, an invalid byte as one.
func countRunes(r io.Reader) (int64, error) {
	b := bufio.NewReaderSize(r, 64<<10)
	for total := int64(0); ; total++ {
		if _, _, err := b.ReadRune(); err == io.EOF {
			return total, nil
		} else if err != nil {
			return total, err
		}
	}
}

// lastLines returns at most n lines from the last size bytes of f, as one line
// of printable text.
func lastLines(f *os.File, size int64, n int) string {
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	from := max(0, info.Size()-size)
	b, err := readAt(f, from, info.Size()-from)
	if err != nil {
		return ""
	}
	lines := strings.FieldsFunc(strings.ToValidUTF8(string(b), ""), func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return strings.TrimSpace(strings.Join(lines, " | "))
}
