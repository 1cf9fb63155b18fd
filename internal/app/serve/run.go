package serve

import (
	"fmt"
	"net/http"
	"net/url"

	"qq/internal/app/serve/page"
	"qq/internal/app/serve/view"
	"qq/internal/app/serve/words"
)

func (s *server) showRun(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	s.hub.Refresh()
	begun, err := s.begin(w, id, "treehead", func(run view.Run) any {
		tree := page.Tree{
			Frame: page.Frame{Title: s.view().Title(run), Tab: "run"}, Head: s.view().Head(run),
			Notices: s.view().Notices(run), Tabs: s.view().Tabs(id, ""),
		}
		if run.AtWork {
			tree.Events = s.view().RunURL(id) + "/events?" + r.URL.RawQuery
		}
		return tree
	})
	if err != nil {
		return err
	}
	run, err := s.store.Whole(id)
	if err != nil {
		return err
	}
	from := number(r, "from")
	data := page.Tree{
		Frame: page.Frame{Title: s.view().Title(run), Tab: "run"}, Head: s.view().Head(run),
		Notices: s.view().Notices(run),
		Tabs:    s.view().Tabs(run.ID, ""), Comparing: r.URL.Query().Get("choose") != "",
	}
	top, under := run.Items, ""
	if at := run.ByID[r.URL.Query().Get("at")]; at != nil {
		top, under = at.Below, at.ID
		data.Head.Trail = append(data.Head.Trail, page.Link{URL: s.view().JobURL(at.ID), Text: page.Line(at.Task, 60)})
	}
	data.Heading = words.Plural(len(run.ByID), "job")
	switch {
	case run.Batch != nil && run.AtWork && under == "": // their number grows
		data.Heading = "Tasks that have started"
	case run.Batch != nil && len(run.Items) < run.Batch.Count && under == "":
		data.Heading = fmt.Sprintf("%s of %s have started", words.Thousands(len(run.Items)),
			words.Plural(run.Batch.Count, "task"))
	}
	data.Rows = s.view().Rows(run, top[min(from, len(top)):min(from+view.RowsPerPage, len(top))], data.Comparing)
	data.Newer, data.Older, data.Span = s.view().Span(r.URL, from, view.RowsPerPage, len(top))
	if run.AtWork {
		if len(run.ByID) > view.SeenAtOnce {
			data.Work = s.view().Working(run)
		}
		data.Questions = s.view().Questions(run.Root, "")
		data.Control = s.view().Control(run.Root)
		data.Events = s.view().RunURL(run.ID) + "/events?" + url.Values{"from": {fmt.Sprint(from)},
			"at": {under}}.Encode()
	}
	if begun {
		return s.more(w, "treebody", data)
	}
	return s.show(w, "tree", data)
}

// showPart answers with the rows below a job.
func (s *server) showPart(w http.ResponseWriter, r *http.Request) error {
	run, err := s.store.Whole(r.PathValue("id"))
	if err != nil {
		return err
	}
	at := run.ByID[r.URL.Query().Get("at")]
	if at == nil {
		return errNoPage
	}
	from := min(number(r, "from"), len(at.Below))
	to := min(from+view.RowsPerPage, len(at.Below))
	rows := s.view().Rows(run, at.Below[from:to], false)
	html, err := s.pages.HTML("rows", rows)
	if err != nil {
		return err
	}
	if left := len(at.Below) - to; left > 0 {
		part, whole, count := s.view().More(run.ID, at.ID, to, left)
		more, err := s.pages.HTML("more", page.Row{Part: part, Page: whole, Count: count})
		if err != nil {
			return err
		}
		html += more
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, err = w.Write([]byte(html))
	return err
}
