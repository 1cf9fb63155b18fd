package joblog

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Entry is one line: a task, or a job of parallel, that has ended.
type Entry struct {
	Seq     int    // its place in the batch, from 1 on
	Host    string // where it ran; ":" is how parallel calls this machine
	Key     string // the beginning of its key; empty in a line of parallel
	Started time.Time
	Runtime time.Duration
	Exit    int
	Signal  int
	Command string // cut when it is long
}

// Success reports whether the task was done.
func (e Entry) Success() bool { return e.Exit == 0 && e.Signal == 0 }

// Of reports whether the line is that of the task with that key.
func (e Entry) Of(key string) bool {
	k, ok := short(key)
	return ok && k == e.Key
}

// Key is the beginning of a key, as it stands in an [Entry]; empty for what is no
// key.
func Key(key string) string {
	k, ok := short(key)
	if !ok {
		return ""
	}
	return k
}

// short is the beginning of a key, as it is written.
func short(key string) (string, bool) {
	if len(key) < keyLength {
		return "", false
	}
	key = key[:keyLength]
	return key, strings.Trim(key, "0123456789abcdef") == ""
}

// Read reads the log at path, of qq or of parallel, line by line. It is strict,
// except that what a crash left of the last line is left out. The first error ends
// it. Any number of lines, however long, takes the same memory.
func Read(path string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		f, err := os.Open(path)
		if err != nil {
			yield(Entry{}, fmt.Errorf("read job log: %w\nhint: --joblog names the file that the batch was started with", err))
			return
		}
		defer f.Close()
		for e, err := range entries(f) {
			if err != nil {
				err = fmt.Errorf("job log %s: %w", path, err)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// entries reads the lines of a log.
func entries(from io.Reader) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		r := bufio.NewReaderSize(from, maxLine)
		for n := 1; ; n++ {
			line, ended, err := readLine(r)
			if err != nil {
				yield(Entry{}, fmt.Errorf("line %d: %w", n, err))
				return
			}
			if len(line) == 0 && !ended {
				return
			}
			if ended && isHeader(line) { // also in the middle, when logs were joined
				continue
			}
			e, err := parse(line)
			switch {
			case err == nil:
				if !yield(e, nil) {
					return
				}
			case ended:
				yield(Entry{}, fmt.Errorf("line %d: %w\nhint: delete that line, or give the log of another batch", n, err))
				return
			}
		}
	}
}

// readLine reads one line, of which it returns the beginning until the next call,
// and whether the line had an end.
func readLine(r *bufio.Reader) (line []byte, ended bool, err error) {
	line, err = r.ReadSlice('\n')
	switch err {
	case nil:
		return line[:len(line)-1], true, nil
	case io.EOF:
		return line, false, nil
	case bufio.ErrBufferFull:
	default:
		return nil, false, err
	}
	line = bytes.Clone(line)
	for err == bufio.ErrBufferFull {
		_, err = r.ReadSlice('\n')
	}
	if err == io.EOF {
		return line, false, nil
	}
	return line, err == nil, err
}

func isHeader(line []byte) bool { return string(line) == header[:len(header)-1] }

// parse reads one line without its end.
func parse(line []byte) (Entry, error) {
	columns := bytes.SplitN(line, []byte("\t"), 9)
	if len(columns) < 9 {
		return Entry{}, fmt.Errorf("there are %d columns, not 9", len(columns))
	}
	seq, err := whole(columns[0], 1)
	if err != nil {
		return Entry{}, fmt.Errorf("column Seq: %w", err)
	}
	e := Entry{Seq: seq, Host: string(columns[1])}
	if e.Host == "" {
		return Entry{}, errors.New("column Host is empty")
	}
	started, err := milliseconds(columns[2])
	if err != nil {
		return Entry{}, fmt.Errorf("column Starttime: %w", err)
	}
	runtime, err := milliseconds(columns[3])
	if err != nil {
		return Entry{}, fmt.Errorf("column JobRuntime: %w", err)
	}
	e.Started, e.Runtime = time.UnixMilli(started), time.Duration(runtime)*time.Millisecond
	for i, name := range []string{"Send", "Receive"} {
		if _, err := whole(columns[4+i], 0); err != nil {
			return Entry{}, fmt.Errorf("column %s: %w", name, err)
		}
	}
	if e.Exit, err = whole(columns[6], math.MinInt32); err != nil { // parallel has -1 for a timeout
		return Entry{}, fmt.Errorf("column Exitval: %w", err)
	}
	if e.Signal, err = whole(columns[7], 0); err != nil {
		return Entry{}, fmt.Errorf("column Signal: %w", err)
	}
	command := string(columns[8])
	if name, key, _ := strings.Cut(e.Host, ":"); name == host {
		if k, ok := short(key); ok && k == key {
			e.Key = k
		}
		e.Command = unescape(command)
	} else {
		e.Command = strings.ReplaceAll(command, "\x00", "\n") // as parallel writes it
	}
	return e, nil
}

func whole(column []byte, least int) (int, error) {
	n, err := strconv.Atoi(string(column))
	if err != nil || n < least || column[0] == '+' {
		return 0, fmt.Errorf("%s is no number that can stand there", quote(column))
	}
	return n, nil
}

// maxSeconds keeps what is read within a time.Duration: some two centuries.
const maxSeconds = 1 << 33

// milliseconds reads seconds with a fraction.
func milliseconds(column []byte) (int64, error) {
	s := strings.TrimLeft(string(column), " ")
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || strings.Trim(s, "-.0123456789") != "" || math.Abs(n) > maxSeconds {
		return 0, fmt.Errorf("%s is no number of seconds", quote(column))
	}
	return int64(math.Round(n * 1000)), nil
}

func quote(column []byte) string {
	return strconv.Quote(string(column[:min(len(column), 40)]))
}

// escape keeps a command on its line, and on the screen.
func escape(command string) string {
	if cut := prefix(command, maxCommand); len(cut) < len(command) {
		command = cut + "..."
	}
	if utf8.ValidString(command) && !strings.ContainsFunc(command, escaped) {
		return command
	}
	var b strings.Builder
	for _, r := range command { // a byte that is not UTF-8 comes as U+FFFD
		if escaped(r) {
			// The quotes are of the literal, not of the text.
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// prefix is the first n characters of s.
func prefix(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

func escaped(r rune) bool { return r == '\\' || r != ' ' && !unicode.IsPrint(r) }

// unescape undoes escape. A backslash that escape did not write stays.
func unescape(command string) string {
	if !strings.Contains(command, `\`) {
		return command
	}
	var b strings.Builder
	for command != "" {
		if command[0] != '\\' {
			text, _, _ := strings.Cut(command, `\`)
			b.WriteString(text)
			command = command[len(text):]
			continue
		}
		r, _, rest, err := strconv.UnquoteChar(command, '"')
		if err != nil {
			r, rest = '\\', command[1:]
		}
		b.WriteRune(r)
		command = rest
	}
	return b.String()
}
