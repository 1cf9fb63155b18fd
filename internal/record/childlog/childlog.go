// Package childlog writes the log of child processes, child_process.log, one
// line for each thing that happened to a child:
//
//	2026-02-04 10:30:15 - child_process - INFO - [a1b2c3d4] Child completed: success=True, exit=0
//
// Several processes may write to one log at once. Each line is one write to a
// file that is open for appending, so lines never mix. A file that has grown
// over its limit becomes child_process.log.1, that one .2 and so on; who does
// it holds a lock, everybody else notices that the name leads to another file
// and follows. A line is lost only when its file is the oldest that is kept.
//
// A log that cannot be written never fails what it reports on: the first reason
// is kept and returned by [Log.Close]. Not promised: that a line survives the
// machine, and that lines stay whole on a network file system.
package childlog

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"qq/pkg/task"
)

const (
	name    = "child_process"
	maxSize = 10 << 20 // bytes of a file before it is put aside
	kept    = 5        // files that were put aside
)

// Log is the log in one folder. It makes nothing before its first line. Its
// methods may be called by several goroutines, and on a nil *Log, which drops
// everything.
type Log struct {
	file  *file
	clock zapcore.Clock
	// logger costs some kilobytes, which a run without children does not pay.
	logger func() *zap.Logger
}

// New returns the log in dir.
func New(dir string) *Log {
	return newLog(dir, maxSize, kept, zapcore.DefaultClock)
}

func newLog(dir string, size int64, keep int, clock zapcore.Clock) *Log {
	l := &Log{file: newFile(dir, size, keep), clock: clock}
	l.logger = sync.OnceValue(l.build)
	return l
}

func (l *Log) build() *zap.Logger {
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
			enc.AppendString(name + " - " + text)
		},
	})
	return zap.New(zapcore.NewCore(encoder, l.file, zapcore.InfoLevel),
		zap.WithClock(l.clock), zap.ErrorOutput(zapcore.AddSync(io.Discard)))
}

// Spawned notes that a child was started. The task is shortened.
func (l *Log) Spawned(id, agent string, depth int, text string) {
	l.write(zapcore.InfoLevel, id, fmt.Sprintf("Spawning child: agent=%s, depth=%d, task=%s", agent, depth, shorten(text)))
}

// Completed notes how a child ended.
func (l *Log) Completed(id string, success bool, exit int) {
	word := "False"
	if success {
		word = "True"
	}
	l.write(zapcore.InfoLevel, id, fmt.Sprintf("Child completed: success=%s, exit=%d", word, exit))
}

// Failed notes why a child failed, or why it could not be started.
func (l *Log) Failed(id, msg string) { l.write(zapcore.ErrorLevel, id, "Child failed: "+msg) }

// Warn notes something odd about a child.
func (l *Log) Warn(id, msg string) { l.write(zapcore.WarnLevel, id, msg) }

// Close closes the file. Its error is the first reason for which a line could
// not be written, a warning to a person and no failure of the run.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	return l.file.Close()
}

func (l *Log) write(level zapcore.Level, id, msg string) {
	if l != nil {
		l.logger().Log(level, escape("["+id+"] "+msg))
	}
}

// shorten returns the beginning of a task, looking at no more of it than needed.
func shorten(text string) string {
	if len(text) > 4096 {
		text = strings.ToValidUTF8(text[:4096], "")
	}
	return task.Shorten(text, 100)
}

// escape keeps a message on one line and out of the way of a terminal.
func escape(s string) string {
	if n := maxLine; len(s) > n {
		for n > 0 && !utf8.RuneStart(s[n]) {
			n--
		}
		s = s[:n] + "..."
	}
	if utf8.ValidString(s) && !strings.ContainsFunc(s, hidden) {
		return s
	}
	var b strings.Builder
	for _, r := range s { // a byte that is not UTF-8 comes as U+FFFD
		if hidden(r) {
			// The quotes are of the literal, not of the text.
			quoted := fmt.Sprintf("%q", r)
			b.WriteString(quoted[1 : len(quoted)-1])
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// maxLine bounds what one message may add to the log.
const maxLine = 16 << 10

// hidden reports whether r is a character that is not seen: controls, line
// separators, direction marks.
func hidden(r rune) bool { return r != ' ' && !unicode.IsPrint(r) }
