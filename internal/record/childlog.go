package record

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"qq/pkg/task"
)

const (
	childName = "child_process"
	maxSize   = 10 << 20 // limit in bytes at which a file is rotated
	kept      = 5        // number of old files
)

// ChildLog writes child_process.log in one folder, one line for each thing that happens
// to a child process:
//
//	2026-02-04 10:30:15 - child_process - INFO - [a1b2c3d4] Child completed: success=True, exit=0
//
// The file is created at the first line. The methods may be called by several
// goroutines, and on a nil *ChildLog, which drops everything. Several processes may
// write to one log at once: each line is one write to a file opened for appending. A
// file over its limit is renamed to child_process.log.1, that one to .2 and so on; the
// process that renames holds a lock, and the others notice that the file is another
// one. Lines are lost only with the oldest file.
//
// A log that cannot be written never fails the run: [ChildLog.Close] returns the first
// error. Not promised: that a line survives a crash of the machine, and that lines stay
// complete on a network file system.
type ChildLog struct {
	file  *childFile
	clock zapcore.Clock
	// logger returns the logger, which it builds at the first line: a logger takes some
	// kilobytes that a run without children does not need.
	logger func() *zap.Logger
}

// NewChildLog returns the log in the folder dir.
func NewChildLog(dir string) *ChildLog {
	return newChildLog(dir, maxSize, kept, zapcore.DefaultClock)
}

// newChildLog returns the log with the given limits and clock, which tests choose.
func newChildLog(dir string, size int64, keep int, clock zapcore.Clock) *ChildLog {
	l := &ChildLog{file: newChildFile(dir, size, keep), clock: clock}
	l.logger = sync.OnceValue(l.build)
	return l
}

// build makes the logger that writes the lines to the file.
func (l *ChildLog) build() *zap.Logger {
	encoder := zapcore.NewConsoleEncoder(zapcore.EncoderConfig{
		TimeKey:          "time",
		LevelKey:         "level",
		MessageKey:       "message",
		LineEnding:       "\n",
		ConsoleSeparator: " - ",
		EncodeTime:       zapcore.TimeEncoderOfLayout(time.DateTime),
		// The console encoder writes the name after the level; in this log it comes before.
		EncodeLevel: func(level zapcore.Level, enc zapcore.PrimitiveArrayEncoder) {
			text := level.CapitalString()
			if level == zapcore.WarnLevel {
				text = "WARNING"
			}
			enc.AppendString(childName + " - " + text)
		},
	})
	return zap.New(zapcore.NewCore(encoder, l.file, zapcore.InfoLevel),
		zap.WithClock(l.clock), zap.ErrorOutput(zapcore.AddSync(io.Discard)))
}

// Spawned logs that a child was started, with its task shortened.
func (l *ChildLog) Spawned(id, agent string, depth int, text string) {
	msg := fmt.Sprintf("Spawning child: agent=%s, depth=%d, task=%s", agent, depth, beginning(text))
	l.write(zapcore.InfoLevel, id, msg)
}

// Dispatched logs that the agent with that id runs n tasks in parallel. tasks has a line for each of
// the first.
func (l *ChildLog) Dispatched(id string, n int, tasks []string) {
	msg := fmt.Sprintf("Running %d tasks in parallel: ", n)
	for _, t := range tasks[:min(len(tasks), maxListed)] {
		msg += beginning(t) + "; "
	}
	if len(tasks) < n || len(tasks) > maxListed {
		msg += "..."
	}
	l.write(zapcore.InfoLevel, id, strings.TrimSuffix(msg, "; "))
}

// maxListed is how many tasks of a dispatch are listed.
const maxListed = 20

// Completed logs how a child ended.
func (l *ChildLog) Completed(id string, success bool, exit int) {
	word := "False"
	if success {
		word = "True"
	}
	l.write(zapcore.InfoLevel, id, fmt.Sprintf("Child completed: success=%s, exit=%d", word, exit))
}

// Failed logs why a child failed or could not be started.
func (l *ChildLog) Failed(id, msg string) { l.write(zapcore.ErrorLevel, id, "Child failed: "+msg) }

// Warn logs something unusual about a child.
func (l *ChildLog) Warn(id, msg string) { l.write(zapcore.WarnLevel, id, msg) }

// Close closes the file. Its error is the first one of a write; it is a warning to the
// user, not a failure of the run.
func (l *ChildLog) Close() error {
	if l == nil {
		return nil
	}
	return l.file.Close()
}

func (l *ChildLog) write(level zapcore.Level, id, msg string) {
	if l != nil {
		l.logger().Log(level, oneLine(clip("["+id+"] "+msg), hidden))
	}
}

// beginning returns the first 100 characters of a task, on one line.
func beginning(text string) string {
	if len(text) > 4096 {
		text = strings.ToValidUTF8(text[:4096], "")
	}
	return task.Shorten(text, 100)
}

// maxMessage limits the length of one log line, in bytes.
const maxMessage = 16 << 10

// clip cuts s if it is longer than maxMessage, and appends "..." then.
func clip(s string) string {
	n := maxMessage
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "..."
}
