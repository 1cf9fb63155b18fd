// Package joblog is the log of a batch in the format of GNU parallel: a table of
// tabs with one header and then one line for each task that has ended:
//
//	Seq  Host                 Starttime       JobRuntime  Send  Receive  Exitval  Signal  Command
//	1    qq:9f86d081884c7d65  1795273621.744       0.003     0       15        0       0  summarize a.md
//
// Seq is the place of the task in its batch, from 1 on. Receive is the size of the
// answer in bytes. A task was done with success exactly when Exitval and Signal are
// both 0; a child that was killed by a signal has Exitval 0 and that signal, as with
// parallel.
//
// Host is qq and the beginning of the key of the task, which is made of its content:
// a reader finds a task by what it is ([Entry.Of]), not by where it stood. Command is
// for people. It is one line: what is not seen, and the backslash, are written as in
// a string of Go, and a long one is cut. GNU parallel reads such a file with --resume
// and --resume-failed. Its --retry-failed is of no use: it would run the texts of
// tasks as commands.
//
// A task that was cancelled, or that nobody was there for any more, is not in the
// log: it is still to be done. parallel leaves out what it ended itself likewise.
//
// Not promised: that a line survives the machine (the ledger does), and that two
// processes keep apart on a file system without locks.
package joblog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"

	"qq/pkg/task"
)

const header = "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\n"

const (
	host       = "qq"
	keyLength  = 16       // of the beginning of a key
	maxCommand = 4000     // characters
	maxLine    = 64 << 10 // bytes of a line that are looked at; no line of ours is longer
)

// ErrInUse is the error of a log that another process writes to.
var ErrInUse = errors.New("in use by another qq")

// Log is a job log that is written to. Its methods may be called by several
// goroutines.
type Log struct {
	mu      sync.Mutex
	f       *os.File
	regular bool  // not a pipe or a terminal, which have no past
	size    int64 // of its whole lines
	torn    bool  // there is more than that
}

// Create begins the log at path anew, as a batch does that is not resumed. A file
// that is there must be a job log, or empty: no other is overwritten.
func Create(path string) (*Log, error) { return open(path, true) }

// Open goes on with the log at path, or begins it. What a crash left of its last
// line is cut off.
func Open(path string) (*Log, error) { return open(path, false) }

func open(path string, fresh bool) (*Log, error) {
	l, err := newLog(path)
	if err != nil {
		return nil, fmt.Errorf("open job log: %w", err)
	}
	if err := l.begin(path, fresh); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func newLog(path string) (*Log, error) {
	// Who opens a pipe for reading as well would be its own reader.
	how, regular := os.O_RDWR|os.O_CREATE, true
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		how, regular = os.O_WRONLY, false
	}
	f, err := os.OpenFile(path, how|os.O_APPEND, 0o666)
	if err != nil {
		return nil, err
	}
	return &Log{f: f, regular: regular}, nil
}

// begin makes sure that the file is a job log of whole lines that nobody else
// writes to.
func (l *Log) begin(path string, fresh bool) error {
	if l.regular {
		if err := l.lock(path); err != nil {
			return err
		}
		if err := l.inspect(path); err != nil {
			return err
		}
		if fresh {
			l.size, l.torn = 0, true
		}
	}
	if l.size > 0 {
		return nil // what is torn goes before the next line
	}
	return l.write([]byte(header))
}

func (l *Log) lock(path string) error {
	switch err := syscall.Flock(int(l.f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err {
	case nil, syscall.ENOTSUP, syscall.ENOLCK, syscall.ENOSYS:
		return nil
	case syscall.EWOULDBLOCK:
		return fmt.Errorf("job log %s is %w\nhint: wait for that one, or give another --joblog", path, ErrInUse)
	default:
		return fmt.Errorf("lock job log %s: %w", path, err)
	}
}

// inspect finds out where the whole lines of the file end, and refuses one that is
// no job log.
func (l *Log) inspect(path string) error {
	info, err := l.f.Stat()
	if err != nil {
		return fmt.Errorf("read job log: %w", err)
	}
	start := make([]byte, min(info.Size(), maxLine))
	if _, err := l.f.ReadAt(start, 0); err != nil {
		return fmt.Errorf("read job log: %w", err)
	}
	line, _, ended := bytes.Cut(start, []byte("\n"))
	if _, err := parse(line); err != nil && !(ended && isHeader(line)) {
		if len(start) > 0 && !bytes.HasPrefix([]byte(header), line) {
			return fmt.Errorf("%s is no job log: its first line is not that of one\nhint: give --joblog a new file, or one of an earlier batch", path)
		}
		l.torn = len(start) > 0 // within the header
		return nil
	}
	tail, err := l.tail(info.Size())
	if err != nil {
		return fmt.Errorf("read job log: %w", err)
	}
	l.size, l.torn = info.Size()-int64(len(tail)), len(tail) > 0
	if _, err := parse(tail); err != nil {
		return nil
	}
	// Nothing but the end of a command is missing: the task has ended.
	l.size, l.torn = info.Size(), false
	return l.write([]byte("\n"))
}

// tail is what comes after the last whole line, or the end of it when that is long.
func (l *Log) tail(size int64) ([]byte, error) {
	for n := int64(4 << 10); ; n *= 16 {
		n = min(n, size)
		b := make([]byte, n)
		if _, err := l.f.ReadAt(b, size-n); err != nil && err != io.EOF {
			return nil, err
		}
		if i := bytes.LastIndexByte(b, '\n'); i >= 0 || n == size {
			return b[i+1:], nil
		}
	}
}

// Add writes the line of one task that has ended. The key is that of its content, in
// hex, of which the beginning is written; without one the task cannot be found by
// it. After an error the next Add writes a whole line all the same, when it can.
func (l *Log) Add(r task.Result, key, command string, started time.Time) error {
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
	where := host
	if k, ok := short(key); ok {
		where += ":" + k
	}
	line := fmt.Appendf(nil, "%d\t%s\t%.3f\t%10.3f\t0\t%d\t%d\t%d\t%s\n", r.Index+1, where, at,
		float64(r.DurationMS)/1000, len(r.Output), exit, signal, escape(command))
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.write(line)
}

// write appends b, and nothing or all of it stays.
func (l *Log) write(b []byte) error {
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
func (l *Log) Close() error {
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
