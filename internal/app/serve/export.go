package serve

import (
	"fmt"
	"net/http"

	"qq/internal/app/serve/page"
	"qq/internal/app/serve/talk"
	"qq/internal/app/serve/view"
	"qq/internal/app/serve/words"
	"qq/pkg/task"
)

const (
	// maxExported is how many jobs of a run its file has whole, and maxTranscripts how many transcripts.
	maxExported    = 2000
	maxTranscripts = 200
	maxText        = 20_000 // bytes of a text in a file
)

// export answers with a run as one file.
func (s *server) export(w http.ResponseWriter, r *http.Request) error {
	run, err := s.store.Whole(r.PathValue("id"))
	if err != nil {
		return err
	}
	e := page.Export{Frame: page.Frame{Title: s.view().Title(run), Export: true}, Head: s.view().Head(run),
		Notices: s.view().Notices(run)}
	e.Head.Trail, e.Head.Links, e.Head.Acts = nil, nil, nil
	if bars := s.view().Bars(run, 0); len(bars) > 0 {
		if e.Drawings, err = drawTimeline(s.pages.DrawExport, bars, 0, run.Cap(), s.now()); err != nil {
			return err
		}
	}
	x := exporter{server: s, run: run}
	e.Jobs = x.jobs(run.Items)
	if left := len(run.ByID) - x.written; left > 0 {
		e.Left = fmt.Sprintf("%s are not in this file: it has the first %s.", words.Plural(left, "more job"),
			words.Thousands(maxExported))
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="qq-%s.html"`, task.ShortID(run.ID)))
	return s.pages.Export(w, e)
}

// exporter collects the jobs of a file.
type exporter struct {
	*server
	run         view.Run
	written     int
	transcripts int
}

func (x *exporter) jobs(items []*view.Item) (all []page.ExportJob) {
	for _, it := range items {
		if x.written == maxExported {
			return all
		}
		x.written++
		j := page.ExportJob{Row: x.view().Row(it, x.run.Killed()), Task: page.Clean(talk.Shorten(it.Task, maxText)),
			Error: page.Clean(talk.Shorten(it.Error, maxText)), Answer: page.Clean(talk.Shorten(it.Summary, maxText))}
		j.Row.URL = ""
		if res, ok, err := x.store.Answer(it.ID); err == nil && ok && x.transcripts < maxTranscripts {
			j.Answer = page.Clean(talk.Shorten(res.Output, maxText))
		}
		if x.transcripts < maxTranscripts {
			if t, err := x.store.Transcript(it.Run); err == nil {
				x.transcripts++
				j.Files = talk.Changes(it.Changed, t.Entries)
				j.Talk = talk.Entries(t.Entries[:min(len(t.Entries), talkPerPage)])
			}
		}
		j.Jobs = x.jobs(it.Below)
		all = append(all, j)
	}
	return all
}
