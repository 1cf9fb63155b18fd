package view

import (
	"strings"

	"qq/internal/app/serve/page"
	"qq/internal/app/serve/talk"
	"qq/internal/control"
)

// Questions are the open questions of a root: all, or those of one job.
func (v View) Questions(st State, job string) (open []page.Question) {
	for _, q := range st.Questions {
		if job == "" || q.ExecutionID == job {
			open = append(open, questionOf(q, st.ID))
		}
	}
	return open
}

// questionOf is a question as a page asks it. What was not shown whole cannot be allowed.
func questionOf(q control.Question, root string) page.Question {
	about := q.Task
	if q.Input != "" {
		about = q.Input
	}
	view := page.Question{
		ID: q.QuestionID, Root: root, Summary: whole(q.Intent.Summary), Later: q.Later,
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
			page.Answer{Value: "session", Text: "Allow " + whole(q.Intent.Tool) + " in this run"})
	}
	if q.Lasting != "" {
		view.Answers = append(view.Answers,
			page.Answer{Value: "folder", Text: "Always here: " + whole(q.Lasting)})
	}
	view.Answers = append(view.Answers, no)
	return view
}

// whole is all of text as one line.
func whole(text string) page.Text { return page.Clean(strings.Join(strings.Fields(text), " ")) }
