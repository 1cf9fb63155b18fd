// Package joblines makes lines of the jobs of a run, for the terminal: what each does, for how long, with how many
// tokens. All of it are pure functions of jobs and of the time.
//
// Text of a job comes from models and from files. In a line it is on one row, without characters that a terminal would
// obey, and cut to the width.
package joblines

import (
	"fmt"
	"strings"
	"time"

	"qq/internal/app/columns"
	"qq/internal/app/output"
	"qq/internal/control/board"
	"qq/pkg/supervisor/jobs"
	"qq/pkg/task"
)

// Marks of jobs.
const (
	works   = "●"
	waits   = "◦"
	asks    = "?"
	success = "✓"
	failure = "✗"
)

// line is what a line tells of a job.
type line struct {
	indent             int
	mark, name         string
	does, time, tokens string
	about              string // the task
	whole              bool   // what it does matters more than what it is about
}

// gap separates the parts of a line.
const gap = "  "

// Columns that parts of a line take at least.
const (
	leastName  = 8
	wholeName  = 24
	leastDoes  = 10
	leastAbout = 16
	shortAbout = 7 // where there is no room for more
)

// fit returns the line in at most that many columns. What matters less is left out first: the task, the tokens, what it
// does, the time.
func (l line) fit(width int) string {
	head := strings.Repeat("  ", min(l.indent, max(width/8, 1))) + l.mark + " "
	room := width - columns.Of(head)
	name, least := columns.Of(l.name), leastName
	if l.whole { // an id is of use only whole
		least = wholeName
	}
	if used := min(name, least); room < used {
		return columns.First(head+l.name, max(width, 0))
	}
	room -= min(name, least)
	take := func(text string, least int) bool {
		needs := len(gap) + min(columns.Of(text), least)
		if text == "" || needs > room {
			return false
		}
		room -= needs
		return true
	}
	const whole = 1 << 20
	hasTime := take(l.time, whole)
	does := leastDoes
	if l.whole {
		does = max(room-len(gap)-max(name-least, 0), 1)
	}
	hasDoes := take(l.does, does)
	about := leastAbout
	if !l.whole && room < 2*len(gap)+columns.Of(l.tokens)+about {
		about = shortAbout // a piece of the task tells lines apart
	}
	hasAbout := !l.whole && take(l.about, about)
	hasTokens := take(l.tokens, whole)
	hasAbout = hasAbout || take(l.about, about)
	grow := func(text string, least int) string { // with what is left
		more := min(max(columns.Of(text)-least, 0), room)
		room -= more
		return cut(text, min(columns.Of(text), least)+more)
	}
	text := head + grow(l.name, least)
	if hasDoes {
		text += gap + grow(l.does, does)
	}
	if hasTime {
		text += gap + l.time
	}
	if hasTokens {
		text += gap + l.tokens
	}
	if hasAbout {
		text += gap + grow(l.about, about)
	}
	return text
}

// cut returns s in at most n columns, with a … at its end when s is longer.
func cut(s string, n int) string {
	if columns.Of(s) <= n {
		return s
	}
	return strings.TrimRight(columns.First(s, n-1), " ") + "…"
}

// maxText bounds the texts of a line before they are measured.
const maxText = 400

// row returns text on one row.
func row(text string) string { return output.OneLine(task.Shorten(text, maxText)) }

// Does returns what a job does now, in a few words.
func Does(j *board.Job) string {
	switch j.Doing {
	case board.Tool:
		return call(j)
	case board.Approval:
		return "waits for your approval"
	case board.Server:
		return "waits for the model server"
	case jobs.Retries:
		return "waits for its next attempt"
	case jobs.AwaitsSlot:
		return "waits for its turn"
	case jobs.AwaitsLease:
		return "waits for files in use"
	case jobs.Starts:
		return "starts"
	case jobs.Asks:
		return asksModel(j)
	case jobs.Streams:
		return "writes"
	case jobs.Awaits:
		if j.Total > 0 {
			return fmt.Sprintf("waits for its children, %d of %d done", j.Done, j.Total)
		}
		return "waits for its children"
	case jobs.Joins:
		return "its changes are joined"
	}
	switch {
	case j.State == task.Queued:
		return "queued"
	case j.Call != nil:
		return call(j)
	case j.State == task.Waiting:
		return "waits"
	}
	return ""
}

// call returns the last call of a job.
func call(j *board.Job) string {
	if j.Call == nil {
		return "calls a tool"
	}
	text := row(j.Call.Text)
	if text == "" {
		text = row(j.Call.Tool)
	}
	if j.Call.Failed {
		text += " failed"
	}
	return text
}

// asksModel says which model a job asks, without its provider.
func asksModel(j *board.Job) string {
	_, name, found := strings.Cut(j.Model, ":")
	if !found {
		name = j.Model
	}
	if name = row(name); name == "" {
		return "waits for its model"
	}
	return "waits for " + name
}

// live returns the line of a live job.
func live(j *board.Job, indent int, now time.Time) line {
	l := line{indent: indent, mark: works, name: row(j.Agent), does: Does(j), tokens: output.BriefTokens(j.Subtree),
		about: row(j.Task)}
	switch {
	case j.Doing == board.Approval:
		l.mark = asks
	case j.State != task.Running:
		l.mark = waits
	}
	if !j.Started.IsZero() {
		l.time = output.Clock(now.Sub(j.Started))
	}
	return l
}

// ended returns the line of a job that has ended.
func ended(e *board.Ended, indent int) line {
	l := line{indent: indent, mark: success, name: row(e.Agent), tokens: output.BriefTokens(e.Usage),
		about: row(e.Task)}
	if l.does = row(e.Summary); e.Status != task.Completed {
		l.mark, l.does = failure, string(e.Status)
		if e.Error != "" {
			l.does += ": " + row(e.Error)
		}
	}
	if e.DurationMS > 0 {
		l.time = output.Clock(time.Duration(e.DurationMS) * time.Millisecond)
	}
	return l
}
