package view

import (
	"fmt"
	"net/url"
	"time"

	"qq/internal/app/figures"
	"qq/internal/app/serve/page"
	"qq/internal/app/serve/words"
	"qq/pkg/task"
)

// Limits of lists of jobs.
const (
	MaxTitle     = 240 // characters of a task as a title
	RowsPerPage  = 100 // jobs of the top
	rowsBelow    = 20  // jobs below a job that is shown open
	openUpTo     = 40  // a run of so many jobs is shown whole
	SeenAtOnce   = 15  // a run of so many jobs needs no list of those that are at work
	MaxAtWork    = 50  // rows of jobs at work
	longestTask  = 160 // characters of a task in a row
	longestBelow = 200 // characters of the line below it
)

// Rows are the rows of items, with those below them as far as they are shown open.
func (v View) Rows(w Run, items []*Item, choose bool) []page.Row {
	rows := make([]page.Row, len(items))
	for i, it := range items {
		rows[i] = v.Row(it, w.Killed())
		rows[i].Choose = choose
		if len(it.Below) == 0 {
			continue
		}
		shown := it.Below
		if len(w.ByID) > openUpTo {
			shown = nil
		}
		rows[i].Open = len(shown) > 0
		rows[i].Rows = v.Rows(w, shown[:min(len(shown), rowsBelow)], choose)
		if left := len(it.Below) - len(rows[i].Rows); left > 0 {
			rows[i].Part, rows[i].Page, rows[i].Count = v.More(w.ID, it.ID, len(rows[i].Rows), left)
		}
	}
	return rows
}

// More returns where the jobs below a job come from, from a number on.
func (v View) More(run, under string, from, left int) (part, whole, count string) {
	at := url.Values{"at": {under}, "from": {fmt.Sprint(from)}}.Encode()
	return v.RunURL(run) + "/part?" + at, v.RunURL(run) + "?" + at, words.Plural(left, "more job")
}

// Row is the row of one job. interrupted says that its root was killed.
func (v View) Row(it *Item, interrupted bool) page.Row {
	row := page.Row{
		State: v.State(it, interrupted), ID: it.ID, URL: v.JobURL(it.ID), Agent: page.Line(it.Agent, 24),
		Task:   page.Line(it.Task, longestTask),
		Tokens: words.Tokens(it.TotalUsage),
	}
	switch {
	case it.Now != nil:
		row.Below = page.Line(words.Doing(it.Now), longestBelow)
		row.Tokens = words.Tokens(it.Now.Subtree)
		if it.Now.State != task.Queued {
			row.Since = words.Millis(it.Now.Started)
		}
		row.Time = figures.Roundly(v.Now.Sub(cmpTime(it.Now.Started, it.Now.Queued)))
	case it.Live && !interrupted:
		row.Since = words.Millis(it.Started)
	default:
		if !it.Ended.IsZero() {
			row.Time = words.Took(it.DurationMS)
		}
		if row.Failed = it.Error != ""; row.Failed {
			row.Below = page.Line(it.Error, longestBelow)
		}
	}
	return row
}

// State is the state of a job. interrupted says that its root was killed.
func (v View) State(it *Item, interrupted bool) (s page.State) {
	switch {
	case it.Now != nil:
		s = words.Live(it.Now)
	case it.Live && interrupted:
		s = words.Status(task.Interrupted)
	default:
		s = words.Status(it.Status)
	}
	if it.Attempts > 1 {
		s.Word += fmt.Sprintf(" (%d×)", it.Attempts)
	}
	return s
}

func cmpTime(a, b time.Time) time.Time {
	if a.IsZero() {
		return b
	}
	return a
}

// Working are the rows of the jobs that are at work, those first that began first.
func (v View) Working(w Run) []page.Row {
	rows := []page.Row{}
	for i := range w.Root.Jobs {
		j := &w.Root.Jobs[i]
		it := w.ByID[j.ExecutionID]
		if j.State == task.Queued || it == nil || it.Now == nil || len(w.Root.Jobs) > 1 && j.ExecutionID == w.Root.ID {
			continue
		}
		row := v.Row(it, false)
		row.Loose = true
		if rows = append(rows, row); len(rows) == MaxAtWork {
			break
		}
	}
	return rows
}
