package serve

import (
	"net/http"
	"time"

	"qq/internal/app/serve/page"
	"qq/internal/app/serve/timeline"
	"qq/internal/app/serve/view"
)

func (s *server) showTimeline(w http.ResponseWriter, r *http.Request) error {
	s.hub.Refresh()
	id := r.PathValue("id")
	begun, err := s.begin(w, id, "drawinghead", func(run view.Run) any {
		data := page.Drawn{
			Frame: page.Frame{Title: page.Clean("Timeline")}, Head: s.view().Head(run), Tabs: s.view().Tabs(id,
				"/timeline"),
		}
		data.Head.Links, data.Head.Acts = nil, nil
		return data
	})
	if err != nil {
		return err
	}
	run, err := s.store.Whole(id)
	if err != nil {
		return err
	}
	from := number(r, "from")
	bars := s.view().Bars(run, from)
	data := page.Drawn{
		Frame: page.Frame{Title: page.Clean("Timeline")}, Head: s.view().Head(run), Tabs: s.view().Tabs(run.ID,
			"/timeline"),
	}
	data.Head.Links, data.Head.Acts = nil, nil
	if len(bars) == 0 {
		data.Note = "No job has started."
		return s.show(w, "drawing", data)
	}
	data.Note = s.view().ChainNote(bars)
	data.Drawings, err = drawTimeline(s.pages.Draw, bars, from, run.Cap(), s.now())
	if err != nil {
		return err
	}
	data.Newer, data.Older, data.Span = s.view().Span(r.URL, from, view.LanesPerPage, len(bars))
	if begun {
		return s.more(w, "drawingbody", data)
	}
	return s.show(w, "drawing", data)
}

// drawer makes a drawing with a template.
type drawer func(name string, data any) (page.SVG, error)

// drawTimeline draws how many jobs were at work, and the lanes of some of them.
func drawTimeline(draw drawer, bars []timeline.Job, from, most int, now time.Time) ([]page.Drawing, error) {
	load, err := draw("load", timeline.Working(bars, most, now))
	if err != nil {
		return nil, err
	}
	lanes, err := draw("lanes", timeline.Lanes(bars, from, view.LanesPerPage, now))
	return []page.Drawing{{Name: "At work at once", SVG: load}, {Name: "Jobs", SVG: lanes, Legend: page.Timeline()}},
		err
}

func (s *server) showPlan(w http.ResponseWriter, r *http.Request) error {
	s.hub.Refresh()
	run, err := s.store.Whole(r.PathValue("id"))
	if err != nil {
		return err
	}
	data := page.Drawn{
		Frame: page.Frame{Title: page.Clean("Plan")}, Head: s.view().Head(run), Tabs: s.view().Tabs(run.ID, "/plan"),
	}
	data.Head.Links, data.Head.Acts = nil, nil
	d, note := s.view().Plan(run)
	data.Note = note
	svg, err := s.pages.Draw("graph", d)
	if err != nil {
		return err
	}
	if len(d.Nodes) > 0 {
		data.Drawings = []page.Drawing{{Name: "Plan", SVG: svg}}
	}
	return s.show(w, "drawing", data)
}
