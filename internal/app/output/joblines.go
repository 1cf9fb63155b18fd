package output

import (
	"time"

	"qq/internal/app/command"
)

// Jobs is what is shown of jobs.
type Jobs struct {
	Rows  []string // a line for each
	Count string   // of those at work and in the queue
	Said  string   // what a status line says instead of what it says always; empty for nothing
	// Paused says that no further job starts, and where a person lets them go on; empty if they start.
	Paused string
}

// JobLines are lines above a status line: what the jobs of the run do.
type JobLines interface {
	// Rows returns at most that many of them, with at most that many columns.
	Rows(now time.Time, width, most int) Jobs
	// Close is called when the status line goes for good.
	Close()
}

// Shown is a status line.
type Shown interface {
	// Below shows the line below rows, and returns those that it was below.
	Below(rows JobLines) JobLines
	// Redraw shows it as it is now.
	Redraw()
}

var (
	_ Shown = (*Waiting)(nil)
	_ Shown = (*Progress)(nil)
)

// jobsOf returns the lines of the jobs for the terminal w, on at most a third of the screen. Who has started a moment
// ago shows none.
func jobsOf(of JobLines, w *command.Output, start, now time.Time) Jobs {
	if most := w.Height()/3 - 1; of != nil && most > 0 && now.Sub(start) >= quiet {
		return of.Rows(now, columnsFor(w), most)
	}
	return Jobs{}
}
