package record

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"qq/pkg/task"
)

const jobHeader = "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\n"

const maxCommand = 4000 // characters

// ErrInUse is the error of a log that another process writes to.
var ErrInUse = errors.New("in use by another qq")

// JobLog is the log of a batch in the format of GNU parallel: a table of tabs with one
// header and then one line for each result that was printed:
//
//	Seq  Host                  Starttime       JobRuntime  Send  Receive  Exitval  Signal  Command
//	1    qq:0198…-0000a1b2c3d4  1795273621.744       0.003     0       15        0       0  summarize a.md
//
// Seq is the place of the task in its batch, from 1 on. Host is qq and the id of the
// batch. Receive is the size of the answer in bytes. A task was done with success
// exactly when Exitval and Signal are both 0; a child that was killed by a signal has
// Exitval 0 and that signal, as with parallel. Command is for people. It is one line:
// what is not seen, and the backslash, are written as in a string of Go, and a long one
// is cut. GNU parallel reads such a file with --resume and --resume-failed. Its
// --retry-failed is of no use: it would run the texts of tasks as commands.
//
// A task that was cancelled, or interrupted, is not in the log: it is still to be done.
// parallel leaves out what it ended itself likewise.
//
// The log is only written: the ledger knows what was done. Its methods may be called by
// several goroutines. Not promised: that a line survives the machine (the ledger does),
// and that two processes keep apart on a file system without locks.
type JobLog struct {
	mu      sync.Mutex
	f       *os.File
	host    string
	regular bool  // not a pipe or a terminal, which cannot be cut
	size    int64 // of its whole lines
	torn    bool  // there is more than that
}

// CreateJobLog begins the log of a batch at path anew. A file that is there must be a
// job log, or empty: no other is overwritten.
func CreateJobLog(path, batch string) (*JobLog, error) {
	l, err := newJobLog(path)
	if err != nil {
		return nil, fmt.Errorf("open job log: %w", err)
	}
	l.host = "qq:" + batch
	if err := l.begin(path); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func newJobLog(path string) (*JobLog, error) {
	// Who opens a pipe for reading as well would be its own reader.
	how, regular := os.O_RDWR|os.O_CREATE, true
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		how, regular = os.O_WRONLY, false
	}
	f, err := os.OpenFile(path, how|os.O_APPEND, 0o666)
	if err != nil {
		return nil, err
	}
	return &JobLog{f: f, regular: regular}, nil
}

// begin makes sure that the file is a job log that nobody else writes to, and empties it.
func (l *JobLog) begin(path string) error {
	if l.regular {
		if err := l.lock(path); err != nil {
			return err
		}
		start := make([]byte, len(jobHeader))
		n, err := l.f.ReadAt(start, 0)
		if err != nil && err != io.EOF {
			return fmt.Errorf("read job log: %w", err)
		}
		if !strings.HasPrefix(jobHeader, string(start[:n])) {
			return fmt.Errorf("%s is no job log: its first line is not that of one\n"+
				"hint: give --joblog a new file, or one of an earlier batch", path)
		}
		l.torn = n > 0 // all of it goes before the first line
	}
	return l.write([]byte(jobHeader))
}

func (l *JobLog) lock(path string) error {
	switch err := syscall.Flock(int(l.f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err {
	case nil, syscall.ENOTSUP, syscall.ENOLCK, syscall.ENOSYS:
		return nil
	case syscall.EWOULDBLOCK:
		return fmt.Errorf("job log %s is %w\nhint: wait for that one, or give another --joblog", path, ErrInUse)
	default:
		return fmt.Errorf("lock job log %s: %w", path, err)
	}
}

// Add writes the line of one task that has ended. After an error the next Add writes a
// whole line all the same, when it can.
func (l *JobLog) Add(r task.Result, command string, started time.Time) error {
	if r.Status == task.Cancelled || r.Status == task.Interrupted {
		return nil
	}
	exit, signal := r.ExitCode, 0
	switch {
	case r.Success:
		exit = 0
	case r.Status == task.Killed && exit > 128:
		exit, signal = 0, exit-128
	case exit == 0: // no failure may look like a success
		exit = 1
	}
	at := 0.0
	if !started.IsZero() {
		at = float64(started.UnixMilli()) / 1000
	}
	line := fmt.Appendf(nil, "%d\t%s\t%.3f\t%10.3f\t0\t%d\t%d\t%d\t%s\n", r.Index+1, l.host, at,
		float64(r.DurationMS)/1000, len(r.Output), exit, signal, oneLine(shorten(command, maxCommand), escaped))
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.write(line)
}

// write appends b, and nothing or all of it stays.
func (l *JobLog) write(b []byte) error {
	if l.torn && l.regular {
		if err := l.f.Truncate(l.size); err != nil {
			return fmt.Errorf("repair job log: %w", err)
		}
		l.torn = false
	}
	n, err := l.f.Write(b)
	if err == nil {
		l.size += int64(n)
		return nil
	}
	if l.torn = n > 0; l.torn && l.regular && l.f.Truncate(l.size) == nil {
		l.torn = false
	}
	return fmt.Errorf("write job log: %w", err)
}

// Close closes the file. Closing again does nothing.
func (l *JobLog) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	// A process that is being started holds a copy of the descriptor for a moment,
	// so closing ours would not unlock at once.
	if l.regular {
		_ = syscall.Flock(int(l.f.Fd()), syscall.LOCK_UN)
	}
	if err := l.f.Close(); err != nil && !errors.Is(err, fs.ErrClosed) {
		return fmt.Errorf("close job log: %w", err)
	}
	return nil
}

// shorten is the first n characters of s, with a mark when there are more.
func shorten(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i] + "..."
		}
		n--
	}
	return s
}

// oneLine writes each character of s for which special is true as in a string of Go, so
// that s stays on its line and out of the way of a terminal.
func oneLine(s string, special func(rune) bool) string {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, special) {
		return s
	}
	var b strings.Builder
	for _, r := range s { // a byte that is not UTF-8 comes as U+FFFD
		if !special(r) {
			b.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRune(r) // the quotes are of the literal, not of the text
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}

// hidden reports whether r is a character that is not seen: controls, line
// separators, direction marks.
func hidden(r rune) bool { return r != ' ' && !unicode.IsPrint(r) }

// escaped is hidden for a text whose backslashes are escaped as well.
func escaped(r rune) bool { return r == '\\' || hidden(r) }
