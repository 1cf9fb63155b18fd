package view

import (
	"path/filepath"
	"strings"

	"qq/internal/app/serve/page"
	"qq/internal/app/serve/talk"
	"qq/internal/app/serve/words"
	"qq/internal/approval"
	"qq/internal/control"
	"qq/pkg/task"
)

// Questions are the open questions of a root: all, or those of one job.
func (v View) Questions(st State, job string) (open []page.Question) {
	for _, q := range st.Questions {
		if job == "" || q.ExecutionID == job {
			open = append(open, v.questionOf(q, st))
		}
	}
	return open
}

// questionOf is a question as a page asks it. What was not shown whole cannot be allowed.
func (v View) questionOf(q control.Question, st State) page.Question {
	about := q.Task
	if q.Input != "" {
		about = q.Input
	}
	dir := q.Folder
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(st.Root.Dir, dir)
	}
	view := page.Question{
		ID: q.QuestionID, Root: st.ID, Run: page.Link{URL: v.RunURL(st.Run()), Text: v.RootName(st)},
		Folder: whole(dir), Asked: st.Asked[q.QuestionID], When: words.Second(st.Asked[q.QuestionID]),
		Summary: whole(q.Intent.Summary), Later: q.Later,
		Who: page.Line(strings.Join(q.Chain, " › "), 200), Risk: page.Clean("risk: " + string(q.Intent.Risk)),
		Task: page.Line(about, 300), Preview: talk.Lines(q.Intent.Preview),
	}
	for _, t := range q.Tasks {
		view.Preview = append(view.Preview, page.Piece{Text: page.Clean(t)})
	}
	no := page.Answer{Value: "no", Text: "Refuse", Class: "harm"}
	if q.Intent.Cut {
		view.Cut = "This is too long to be shown whole, so it cannot be allowed."
		if q.Later {
			view.Cut = "There is no room to show this whole now. Answer the questions before it first."
		}
		view.Answers = []page.Answer{no}
		return view
	}
	view.Answers = []page.Answer{{Value: "once", Text: "Allow once", Class: "main"}}
	if !q.Intent.Special {
		view.Answers = append(view.Answers,
			page.Answer{Value: "session", Text: "Allow every " + whole(q.Intent.Tool) + " in this run (" +
				page.Text(approval.Widely(q.Intent.Effect)) + ", any agent)"})
	}
	if q.Lasting != "" {
		view.Answers = append(view.Answers,
			page.Answer{Value: "folder", Text: "Allow always in this folder (" + whole(q.Lasting) + ")"})
	}
	view.Answers = append(view.Answers, no)
	return view
}

// whole is all of text as one line.
func whole(text string) page.Text { return page.Clean(strings.Join(strings.Fields(text), " ")) }

// RootName names the run of a root at work as the list of runs does, with the id that commands take.
func (v View) RootName(st State) page.Text {
	name := st.Root.Command + " in " + filepath.Base(st.Root.Dir)
	if st.Batch != nil && st.Batch.Total > 0 {
		name = "Batch of " + words.Plural(st.Batch.Total, "task") + " in " + filepath.Base(st.Root.Dir)
	}
	for _, j := range st.Jobs {
		if j.ExecutionID == st.Run() {
			name = j.Task
		}
	}
	return page.Line(name, MaxTitle) + page.Text(" ("+task.ShortID(st.Run())+")")
}
