package top

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"qq/internal/app/columns"
	"qq/internal/app/command/block"
	"qq/internal/app/joblines"
	"qq/internal/app/output"
	"qq/internal/app/pane"
	"qq/internal/app/steering"
	"qq/internal/control"
	"qq/internal/control/board"
	"qq/pkg/task"
)

// entry is one row of the tree, with what a key does to it.
type entry struct {
	id   string // of the job, or of the root
	name string // what a person calls it
	path string // of the socket of its root; empty if that has ended
	root bool   // it is a whole run
	job  bool   // it is a job, which has a transcript and reads messages
	text string
	past bool // it has ended
}

// tree is the rows of all runs, and what the person has done with them. Its methods are pure.
type tree struct {
	closed map[string]bool // ids below which nothing is shown
	chosen string
	at     int // of the chosen one
	first  int // the first one that is on the screen
	list   []entry
}

// update makes the rows.
func (t *tree) update(runs []run, now time.Time, width int) {
	t.list = nil
	for i := range runs {
		t.add(&runs[i], now, width)
	}
	for i, e := range t.list {
		if e.id == t.chosen && e.id != "" {
			t.at = i
			return
		}
	}
	t.at = max(min(t.at, len(t.list)-1), 0)
	if len(t.list) > 0 && t.chosen == "" {
		t.chosen = t.list[0].id
	}
}

// add adds the rows of a run.
func (t *tree) add(r *run, now time.Time, width int) {
	head := entry{id: r.ID, path: r.Path, root: true, past: !r.ended.IsZero()}
	if head.past {
		now, head.path = r.ended, ""
	}
	agent, root := "", (*board.Job)(nil)
	for i := range r.Jobs {
		if j := &r.Jobs[i]; j.ExecutionID == r.Root.ExecutionID {
			agent, root = j.Agent, j
		}
	}
	var does, about string
	switch {
	case r.Err != nil:
		does, _ = task.Explain(r.Err)
	case head.past:
		does = r.how()
	case r.Batch != nil:
		does = progress(r.Batch, now, width, r.Paused)
	case root != nil:
		does = joblines.Does(root)
	}
	if r.Paused && !head.past {
		does = "paused, " + does
	}
	if n := len(r.Questions); n > 0 && !head.past {
		does = several(n, "question") + " for you, " + does
	}
	if root != nil {
		about, head.job = root.Task, !head.past
	}
	if about == "" && r.Root.Dir != "" {
		about = "in " + r.Root.Dir
	} else if r.Root.Dir != "" {
		about += " (" + filepath.Base(r.Root.Dir) + ")"
	}
	name := cmp.Or(agent, r.Root.Command, "run") + " " + task.ShortID(r.called())
	head.name = steering.Name(cmp.Or(agent, "run"), r.called())
	closed := t.closed[r.ID]
	head.text = joblines.Head(closed, name, does, about, now.Sub(r.Root.Started), r.Used, width)
	t.list = append(t.list, head)
	if closed {
		return
	}
	t.addJobs(r, head, now, width)
}

// addJobs adds the rows of the jobs of a run.
func (t *tree) addJobs(r *run, head entry, now time.Time, width int) {
	if head.past {
		return
	}
	if len(r.Questions) > 0 {
		t.list = append(t.list, entry{text: "    ? " + toAnswer})
	}
	if text := slowest(r, now); text != "" {
		t.list = append(t.list, entry{text: "    " + text})
	}
	names := map[string]string{}
	for i := range r.Jobs {
		names[r.Jobs[i].ExecutionID] = steering.Name(r.Jobs[i].Agent, r.Jobs[i].ExecutionID)
	}
	for _, e := range r.Ended {
		names[e.ExecutionID] = steering.Name(e.Agent, e.ExecutionID)
	}
	lines, count := joblines.Tree(r.Jobs, r.Ended, t.closed, now, width)
	for _, l := range lines {
		t.list = append(t.list, entry{id: l.ID, name: names[l.ID], path: head.path, text: l.Text, job: true,
			past: !l.Live})
	}
	count = count.InBatch(r.Batch, r.Jobs)
	count.AtWork = 0
	if text := count.String(); text != "" {
		t.list = append(t.list, entry{text: "    " + text})
	}
}

// progress returns how far a batch is, with a bar if there is room. Its counts are those of qq runs. While it is paused
// nobody knows when it ends.
func progress(b *board.Batch, now time.Time, width int, paused bool) string {
	done := b.Done - b.Cancelled
	text := fmt.Sprintf("%d done", done)
	if b.Total > 0 {
		text = fmt.Sprintf("%d/%d done", done, b.Total)
	}
	if b.Failed > 0 {
		text += fmt.Sprintf(", %d failed", b.Failed)
	}
	if b.Cancelled > 0 {
		text += fmt.Sprintf(", %d cancelled", b.Cancelled)
	}
	if paused {
		return text
	}
	took, worked := now.Sub(b.Started).Seconds(), done-b.Cached
	if worked > 0 && took > 0 {
		rate := float64(worked) / took
		if rate >= 1 {
			text += fmt.Sprintf(", %.1f/s", rate)
		} else {
			text += fmt.Sprintf(", %.1f/min", rate*60)
		}
		if b.Total > b.Done {
			text += ", " + output.Left(time.Duration(float64(b.Total-b.Done)/rate*float64(time.Second))) + " left"
		}
	}
	if wide := min(width-besides-len(text), longest); wide >= shortestBar && b.Total > 0 {
		full := min(b.Done, b.Total) * wide / b.Total
		return strings.Repeat("█", full) + strings.Repeat("░", wide-full) + " " + text
	}
	return text
}

// Columns of the bar of a batch, and of what is in its row besides the bar and the text about it.
const (
	shortestBar = 8
	longest     = 24
	besides     = 40
)

// slowest tells of the task of a batch that is at work for the longest time.
func slowest(r *run, now time.Time) string {
	if r.Batch == nil {
		return ""
	}
	var found *board.Job
	for i := range r.Jobs {
		j := &r.Jobs[i]
		if j.ParentExecutionID == "" && j.State != task.Queued && !j.Started.IsZero() &&
			(found == nil || j.Started.Before(found.Started)) {
			found = j
		}
	}
	if found == nil {
		return ""
	}
	return fmt.Sprintf("slowest: %s  %s", output.Clock(now.Sub(found.Started)), output.OneLine(found.Task))
}

// toAnswer says where questions are answered.
const toAnswer = "answer in the terminal of the run, or with qq serve"

// move chooses another row: those without an id are passed over.
func (t *tree) move(by int) {
	step := 1
	if by < 0 {
		step = -1
	}
	for _, step := range [2]int{step, -step} { // behind the last one there may be only counts
		at := max(min(t.at+by, len(t.list)-1), 0)
		for at >= 0 && at < len(t.list) && t.list[at].id == "" {
			at += step
		}
		if at >= 0 && at < len(t.list) {
			t.at, t.chosen = at, t.list[at].id
			return
		}
	}
}

// it returns the chosen row, or nil if it is not there any more.
func (t *tree) it() *entry {
	if t.at < len(t.list) && t.list[t.at].id == t.chosen && t.chosen != "" {
		return &t.list[t.at]
	}
	return nil
}

// open shows what is below the chosen row, or hides it.
func (t *tree) open(open bool) {
	if it := t.it(); it != nil {
		if t.closed[it.id] = !open; open {
			delete(t.closed, it.id)
		}
	}
}

// rows returns the screen: a head, the tree, and at its end what is told.
func (t *tree) rows(head, foot string, below []string, size block.Size) []pane.Row {
	room := max(size.Rows-2-len(below), 1)
	if t.at < t.first {
		t.first = t.at
	}
	t.first = max(min(max(t.first, t.at-room+1), len(t.list)-room), 0)
	rows := []pane.Row{{Text: head, Style: pane.Head}}
	for i := t.first; i < min(t.first+room, len(t.list)); i++ {
		e := t.list[i]
		row := pane.Row{Text: "  " + e.text}
		switch {
		case e.id != "" && e.id == t.chosen:
			row = pane.Row{Text: "› " + e.text, Style: pane.Chosen}
		case e.root && !e.past:
			row.Style = pane.Head
		case e.past || e.id == "":
			row.Style = pane.Faint
		}
		rows = append(rows, row)
	}
	for len(rows) < size.Rows-1-len(below) {
		rows = append(rows, pane.Row{})
	}
	for _, text := range below {
		rows = append(rows, pane.Row{Text: text})
	}
	return append(rows, pane.Row{Text: columns.Cut(foot, size.Columns-1), Style: pane.Faint})
}

// head returns the first row in at most that many columns: what the person must do comes first.
func head(name string, runs []run, now time.Time, width int) string {
	atWork, queued, asking, live := 0, 0, 0, 0
	for _, r := range runs {
		if !r.ended.IsZero() {
			continue
		}
		live++
		asking += len(r.Questions)
		var c joblines.Count
		asks := func(id string) bool {
			return slices.ContainsFunc(r.Questions, func(q control.Question) bool { return q.ExecutionID == id })
		}
		for _, j := range r.Jobs {
			switch {
			case j.ExecutionID == r.Root.ExecutionID, asks(j.ExecutionID): // it waits for the person
			case j.State == task.Queued:
				c.Queued++
			default:
				c.AtWork++
			}
		}
		c = c.InBatch(r.Batch, r.Jobs)
		atWork, queued = atWork+c.AtWork, queued+c.Queued
	}
	text := name + "  " + now.Local().Format("15:04:05") + "  "
	if asking > 0 {
		text += several(asking, "question") + " for you, "
	}
	text += fmt.Sprintf("%s, %d at work, %d queued", several(live, "run"), atWork, queued)
	if columns.Of(text) > width {
		return columns.First(text, width-1) + "…"
	}
	return text
}

func several(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
