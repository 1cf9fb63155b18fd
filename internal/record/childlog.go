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
	maxSize   = 10 << 20 // bytes of a file before it is put aside
	kept      = 5        // files that were put aside
)

// ChildLog writes child_process.log in one folder, one line for each thing that happens
// to a child process:
//
//	2026-02-04 10:30:15 - child_process - INFO - [a1b2c3d4] Child completed: success=True, exit=0
//
// It makes nothing before its first line. Its methods may be called by several
// goroutines, and on a nil *ChildLog, which drops everything. Several processes may
// write to one log at once: each line is one write to a file opened for appending. A
// file over its limit becomes child_process.log.1, that one .2 and so on; the process
// that renames it holds a lock, and the others notice that the name leads to another
// file. A line is lost only when its file is the oldest that is kept.
//
// A log that cannot be written never fails the run: [ChildLog.Close] returns the first
// reason. Not promised: that a line survives the machine, and that lines stay whole on
// a network file system.
type ChildLog struct {
	file  *childFile
	clock zapcore.Clock
	// logger costs some kilobytes, which a run without children does not pay.
	logger func() *zap.Logger
}

// NewChildLog returns the log in dir.
func NewChildLog(dir string) *ChildLog {
	return newChildLog(dir, maxSize, kept, zapcore.DefaultClock)
}

func newChildLog(dir string, size int64, keep int, clock zapcore.Clock) *ChildLog {
	l := &ChildLog{file: newChildFile(dir, size, keep), clock: clock}
	l.logger = sync.OnceValue(l.build)
	return l
}

func (l *ChildLog) build() *zap.Logger {
	encoder := zapcore.NewConsoleEncoder(zapcore.EncoderConfig{
		TimeKey:          "time",
		LevelKey:         "level",
		MessageKey:       "message",
		LineEnding:       "\n",
		ConsoleSeparator: " - ",
		EncodeTime:       zapcore.TimeEncoderOfLayout(time.DateTime),
		// The console encoder writes a name after the level, this log has it before.
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

// Spawned notes that a child was started. The task is shortened.
func (l *ChildLog) Spawned(id, agent string, depth int, text string) {
	msg := fmt.Sprintf("Spawning child: agent=%s, depth=%d, task=%s", agent, depth, beginning(text))
	l.write(zapcore.InfoLevel, id, msg)
}

// Completed notes how a child ended.
func (l *ChildLog) Completed(id string, success bool, exit int) {
	word := "False"
	if success {
		word = "True"
	}
	l.write(zapcore.InfoLevel, id, fmt.Sprintf("Child completed: success=%s, exit=%d", word, exit))
}

// Failed notes why a child failed, or why it could not be started.
func (l *ChildLog) Failed(id, msg string) { l.write(zapcore.ErrorLevel, id, "Child failed: "+msg) }

// Warn notes something odd about a child.
func (l *ChildLog) Warn(id, msg string) { l.write(zapcore.WarnLevel, id, msg) }

// Close closes the file. Its error is the first reason for which a line could
// not be written, a warning to a person and no failure of the run.
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

// beginning is that of a task. It looks at no more of it than needed.
func beginning(text string) string {
	if len(text) > 4096 {
		text = strings.ToValidUTF8(text[:4096], "")
	}
	return task.Shorten(text, 100)
}

// maxMessage bounds what one message may add to the log, in bytes.
const maxMessage = 16 << 10

// clip is the beginning of a message that is too long.
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
