package serve

import (
	"fmt"
	"net/http"

	"qq/internal/app/serve/page"
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
	run, err := s.store.whole(r.PathValue("id"))
	if err != nil {
		return err
	}
	e := page.Export{Frame: page.Frame{Title: s.titleOf(run), Export: true}, Head: s.runHead(run), Notices: s.notices(run)}
	e.Head.Trail, e.Head.Links, e.Head.Acts = nil, nil, nil
	if bars := s.bars(run, 0); len(bars) > 0 {
		if e.Drawings, err = drawTimeline(s.pages.DrawExport, bars, 0, run.root.Max, s.now()); err != nil {
			return err
		}
	}
	x := exporter{server: s, run: run}
	e.Jobs = x.jobs(run.items)
	if left := len(run.byID) - x.written; left > 0 {
		e.Left = fmt.Sprintf("%s are not in this file: it has the first %s.", plural(left, "more job"), thousands(maxExported))
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="qq-%s.html"`, task.ShortID(run.ID)))
	return s.pages.Export(w, e)
}

// exporter collects the jobs of a file.
type exporter struct {
	*server
	run         whole
	written     int
	transcripts int
}

func (x *exporter) jobs(items []*item) (all []page.ExportJob) {
	for _, it := range items {
		if x.written == maxExported {
			return all
		}
		x.written++
		j := page.ExportJob{Row: x.row(it, x.run.killed()), Task: page.Clean(shorten(it.Task, maxText)),
			Error: page.Clean(shorten(it.Error, maxText)), Answer: page.Clean(shorten(it.Summary, maxText))}
		j.Row.URL = ""
		if res, ok, err := x.store.Answer(it.ID); err == nil && ok && x.transcripts < maxTranscripts {
			j.Answer = page.Clean(shorten(res.Output, maxText))
		}
		if x.transcripts < maxTranscripts {
			if t, err := x.store.Transcript(it.Run); err == nil {
				x.transcripts++
				j.Files = changes(it.Changed, t.Entries)
				j.Talk = talk(t.Entries[:min(len(t.Entries), talkPerPage)])
			}
		}
		j.Jobs = x.jobs(it.below)
		all = append(all, j)
	}
	return all
}
