// Package words says in words what a state is, how long something took, and how much there is of it, for the pages.
package words

import (
	"fmt"
	"time"

	"qq/internal/app/figures"
	"qq/internal/app/serve/page"
	"qq/internal/control/board"
	"qq/pkg/event"
	"qq/pkg/supervisor/jobs"
	"qq/pkg/task"
)

// Status is a status as a page shows it.
func Status(s task.Status) page.State {
	switch s {
	case task.Completed:
		return page.State{Class: page.OK, Word: "completed"}
	case task.Queued:
		return page.State{Class: page.Idle, Word: "queued"}
	case task.Running, task.Starting:
		return page.State{Class: page.Run, Word: "at work"}
	case task.Waiting:
		return page.State{Class: page.Wait, Word: "waiting"}
	case task.Cancelled, task.Interrupted, task.Terminated, task.Skipped:
		return page.State{Class: page.Off, Word: string(s)}
	}
	return page.State{Class: page.Bad, Word: Plain(string(s))}
}

// Plain is the name of a status in words.
func Plain(s string) string {
	b := []byte(page.Line(s, 30).String())
	for i := range b {
		if b[i] == '_' {
			b[i] = ' '
		}
	}
	return string(b)
}

// Live is what a live job does.
func Live(j *board.Job) page.State {
	words := map[jobs.Doing]page.State{
		jobs.AwaitsLease: {Class: page.Idle, Word: "queued, lease"}, jobs.Starts: {Class: page.Run, Word: "starting"},
		jobs.Asks: {Class: page.Run, Word: "asks model"}, jobs.Streams: {Class: page.Run, Word: "answers"},
		jobs.Awaits: {Class: page.Wait, Word: "waits for jobs"}, jobs.Joins: {Class: page.Wait, Word: "joins changes"},
		board.Tool: {Class: page.Run, Word: "runs a tool"}, board.Approval: {Class: page.Ask, Word: "asks you"},
		board.Server: {Class: page.Wait, Word: "waits, server"}, jobs.Retries: {Class: page.Wait, Word: "waits, retry"},
		jobs.AwaitsSlot: {Class: page.Wait, Word: "queued again"},
	}
	if s, ok := words[j.Doing]; ok {
		return s
	}
	return Status(j.State)
}

// Doing is the line below a live job: its last call, or what it waits for.
func Doing(j *board.Job) string {
	switch {
	case j.Call != nil && j.Call.Running:
		return j.Call.Text
	case j.Note != "":
		return j.Note
	case j.Phase == event.PhaseModel && j.Total > 0:
		return fmt.Sprintf("turn %d of at most %d", j.Done+1, j.Total)
	case (j.Phase == event.PhaseDelegating || j.Phase == event.PhaseParts) && j.Total > 0:
		return fmt.Sprintf("%d of %d ended", j.Done, j.Total)
	case j.Call != nil:
		return j.Call.Text
	}
	return ""
}

// Tokens are the tokens of u in few characters; "" if there are none.
func Tokens(u task.Usage) string {
	if u.Tokens() == 0 {
		return ""
	}
	return figures.Tokens(u)
}

// Took is a number of milliseconds as a duration in few characters.
func Took(ms int64) string { return figures.Roundly(time.Duration(ms) * time.Millisecond) }

// When is a time in few characters: today the time alone.
func When(t, now time.Time) string {
	t, now = t.Local(), now.Local()
	switch {
	case t.IsZero():
		return ""
	case t.Format(time.DateOnly) == now.Format(time.DateOnly):
		return t.Format("15:04")
	case t.Year() == now.Year():
		return t.Format("2 Jan 15:04")
	}
	return t.Format("2 Jan 2006")
}

// Second is a time to the second.
func Second(t time.Time) string { return t.Local().Format("2 Jan 2006 15:04:05") }

// Millis is a time as the script of a page has it; 0 for none.
func Millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// Plural returns a number with its noun.
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return Thousands(n) + " " + noun + "s"
}

// Thousands returns a number with commas.
func Thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", Thousands(n/1000), n%1000)
}
