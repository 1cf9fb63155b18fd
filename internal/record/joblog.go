package record

import (
	"context"
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

	"qq/internal/fifo"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// jobHeader is the first line of a job log.
const jobHeader = "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\n"

const maxCommand = 4000 // characters of a task in the job log

// ErrInUse is the error about a job log that another process writes to.
var ErrInUse = errors.New("in use by another qq")

// JobLog is the log of a batch in the format of GNU parallel: a table of tabs with one
// header and then one line for each result that was printed:
//
//	Seq  Host                  Starttime       JobRuntime  Send  Receive  Exitval  Signal  Command
//	1    qq:0198…-0000a1b2c3d4  1795273621.744       0.003     0       15        0       0  summarize a.md
//
// Seq is the number of the task in its batch, counted from 1. Host is "qq:" and the id of
// the batch. Receive is the size of the answer in bytes. A task succeeded exactly when
// Exitval and Signal are both 0; a child that was killed by a signal has Exitval 0 and
// that signal, as with parallel. Command is the text of the task, for people: on one
// line, with invisible characters and backslashes escaped as in a Go string, and cut if
// it is long. GNU parallel reads such a file with --resume and --resume-failed. Its
// --retry-failed is of no use: it would run the texts of tasks as commands.
//
// A cancelled or interrupted task has no line, because it is still to be done. GNU
// parallel does the same.
//
// qq only writes the log: the ledger knows what was done. The methods may be called by
// several goroutines. Not promised: that a line survives a crash of the machine (the
// ledger does), and that two processes are kept apart on a file system without locks.
type JobLog struct {
	mu      sync.Mutex
	f       *os.File
	host    string
	regular bool  // not a pipe or a terminal, which cannot be truncated
	size    int64 // of the complete lines, in bytes
	torn    bool  // an incomplete line follows the complete ones
}

// OpenJobLog opens the log at path and leaves it as it is until [JobLog.Begin]. A file that is not
// empty and no job log is an error. Until ctx is done it waits for the reader of a named pipe.
func OpenJobLog(ctx context.Context, path string) (*JobLog, error) {
	l, err := newJobLog(ctx, path)
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, task.Hinted("--joblog takes a file that you may write", "open job log: %w", err)
	}
	if err := l.check(path); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Begin empties the log and writes its header. The lines that follow are those of that batch.
func (l *JobLog) Begin(batch string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.host = "qq:" + batch
	return l.write([]byte(jobHeader))
}

// hasLines reports whether path is a regular file with more than the header of a job log.
func hasLines(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Size() > int64(len(jobHeader))
}

// isForeign reports whether the first line below the header was written by another program.
func (l *JobLog) isForeign() bool {
	line := make([]byte, 100)
	n, _ := l.f.ReadAt(line, int64(len(jobHeader))) // a pipe has no lines
	fields := strings.Split(string(line[:n]), "\t")
	return len(fields) > 2 && !strings.HasPrefix(fields[1], "qq:")
}

// newJobLog opens the file, which may be a pipe or a terminal.
func newJobLog(ctx context.Context, path string) (*JobLog, error) {
	// A process that also opens a pipe for reading would be its own reader.
	how, regular := os.O_RDWR|os.O_CREATE, true
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		how, regular = os.O_WRONLY, false
	}
	f, err := fifo.OpenFile(ctx, path, how|os.O_APPEND, 0o666)
	if err != nil {
		return nil, err
	}
	return &JobLog{f: f, regular: regular}, nil
}

// check locks the file and checks that it is empty or a job log.
func (l *JobLog) check(path string) error {
	if !l.regular {
		return nil
	}
	if err := l.lock(path); err != nil {
		return err
	}
	start := make([]byte, len(jobHeader))
	n, err := l.f.ReadAt(start, 0)
	if err != nil && err != io.EOF {
		return fmt.Errorf("read job log: %w", err)
	}
	if !strings.HasPrefix(jobHeader, string(start[:n])) {
		return task.Hinted("give --joblog a new file, or one of an earlier batch",
			"%s is no job log: its first line is not that of one", path)
	}
	l.torn = n > 0 // write truncates the old content
	return nil
}

// lock locks the file, or returns [ErrInUse] if another process has locked it. On a file
// system without locks it does nothing.
func (l *JobLog) lock(path string) error {
	switch err := syscall.Flock(int(l.f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err {
	case nil, syscall.ENOTSUP, syscall.ENOLCK, syscall.ENOSYS:
		return nil
	case syscall.EWOULDBLOCK:
		return task.Hinted("wait for that one, or give another --joblog", "job log %s is %w", path, ErrInUse)
	default:
		return fmt.Errorf("lock job log %s: %w", path, err)
	}
}

// Add writes the line of a finished task; a cancelled or interrupted task gets none. After
// an error the next Add can still write a complete line.
func (l *JobLog) Add(r task.Result, command string, started time.Time) error {
	switch r.Status {
	case task.Cancelled, task.Interrupted, task.Terminated:
		return nil
	}
	exit, signal := r.ExitCode, 0
	switch {
	case r.Success:
		exit = 0
	case (r.Status == task.Killed || r.Status == task.OutOfMemory) && exit > 128:
		exit, signal = 0, exit-128
	case exit == 0: // no failure may look like a success
		exit = 1
	}
	at := 0.0
	if !started.IsZero() {
		at = float64(started.UnixMilli()) / 1000
	}
	line := fmt.Appendf(nil, "%d\t%s\t%.3f\t%10.3f\t0\t%d\t%d\t%d\t%s\n", r.Index+1, l.host, at,
		float64(r.DurationMS)/1000, len(r.Output), exit, signal,
		oneLine(tool.First(command, maxCommand, "..."), escaped))
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.write(line)
}

// write appends b. After an error no part of b stays in a regular file.
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

// oneLine escapes each character of s for which special is true, as in a Go string, so
// that s stays on its line and cannot control a terminal.
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
		quoted := strconv.QuoteRune(r) // without the quotes of the literal
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}

// hidden reports whether r is invisible: a control character, a line separator or a
// direction mark.
func hidden(r rune) bool { return r != ' ' && !unicode.IsPrint(r) }

// escaped reports whether r is hidden or a backslash.
func escaped(r rune) bool { return r == '\\' || hidden(r) }
