package serve

import (
	"fmt"
	"time"

	"qq/internal/app/output"
	"qq/internal/app/serve/page"
	"qq/internal/control/board"
	"qq/pkg/event"
	"qq/pkg/supervisor/jobs"
	"qq/pkg/task"
)

// stateOf is a status as a page shows it.
func stateOf(s task.Status) page.State {
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
	return page.State{Class: page.Bad, Word: plain(string(s))}
}

// plain is the name of a status in words.
func plain(s string) string {
	b := []byte(page.Line(s, 30).String())
	for i := range b {
		if b[i] == '_' {
			b[i] = ' '
		}
	}
	return string(b)
}

// liveState is what a live job does.
func liveState(j *board.Job) page.State {
	words := map[jobs.Doing]page.State{
		jobs.AwaitsLease: {Class: page.Idle, Word: "queued, lease"}, jobs.Starts: {Class: page.Run, Word: "starting"},
		jobs.Asks: {Class: page.Run, Word: "asks model"}, jobs.Streams: {Class: page.Run, Word: "answers"},
		jobs.Awaits: {Class: page.Wait, Word: "waits for jobs"}, jobs.Joins: {Class: page.Wait, Word: "joins changes"},
		board.Tool: {Class: page.Run, Word: "runs a tool"}, board.Approval: {Class: page.Ask, Word: "asks you"},
		board.Server: {Class: page.Wait, Word: "waits, server"}, board.Retry: {Class: page.Wait, Word: "waits, retry"},
	}
	if s, ok := words[j.Doing]; ok {
		return s
	}
	return stateOf(j.State)
}

// doing is the line below a live job: its last call, or what it waits for.
func doing(j *board.Job) string {
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

// tokens are the tokens of u in few characters; "" if there are none.
func tokens(u task.Usage) string {
	if u.Tokens() == 0 {
		return ""
	}
	return output.Tokens(u)
}

func took(ms int64) string { return output.Roundly(time.Duration(ms) * time.Millisecond) }

// when is a time in few characters: today the time alone.
func when(t, now time.Time) string {
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

func second(t time.Time) string { return t.Local().Format("2 Jan 2006 15:04:05") }

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// plural returns a number with its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return thousands(n) + " " + noun + "s"
}

// thousands returns a number with commas.
func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}
