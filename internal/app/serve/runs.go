package serve

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"qq/internal/app/figures"
	"qq/internal/app/output"
	"qq/internal/app/serve/page"
	"qq/internal/app/serve/view"
	"qq/internal/app/serve/words"
	"qq/internal/record/history"
	"qq/internal/record/ledger"
	"qq/pkg/task"
)

// perPage is how many runs a list has.
const perPage = 50

// warmed is how many runs of a list are read before somebody opens them.
const warmed = 3

func (s *server) showRuns(w http.ResponseWriter, r *http.Request) error {
	s.hub.Refresh()
	q := r.URL.Query()
	f := ledger.Filter{BehindRun: q.Get("run"), BehindBatch: q.Get("batch")}
	data, err := s.runs(f)
	if err != nil {
		return err
	}
	if q.Get("choose") == "" {
		if data.Newer == "" {
			data.Events = s.root + "events"
		}
		if q.Set("choose", "1"); len(data.Live)+len(data.Past) > 1 {
			data.Choosing = s.root + "?" + q.Encode()
		}
		return s.show(w, "runs", data)
	}
	data.Choose, data.Questions = true, nil // and nothing is live: what is chosen stays so
	for _, list := range [][]page.RunRow{data.Live, data.Past} {
		for i := range list {
			list[i].Choose = true
		}
	}
	if data.Older != "" {
		data.Older += "&choose=1"
	}
	return s.show(w, "runs", data)
}

// runs is the list of the runs that f selects, those that are at work first.
func (s *server) runs(f ledger.Filter) (page.Runs, error) {
	data := page.Runs{Frame: page.Frame{Title: page.Clean("Runs"), Tab: "runs"}}
	if err := s.store.Fresh(); err != nil {
		return data, err
	}
	first := f.BehindRun == "" && f.BehindBatch == ""
	if !first {
		data.Newer = s.root
	}
	f.Limit = perPage
	list, behind, err := s.store.Page(f)
	if err != nil {
		return data, err
	}
	if behind != nil {
		data.Older = s.root + "?" + url.Values{"run": {behind.BehindRun}, "batch": {behind.BehindBatch}}.Encode()
	}
	known := map[string]bool{}
	for _, e := range list {
		known[e.ID()] = true
		row := s.runRow(e)
		if len(known) <= warmed && e.Batch != nil {
			s.store.Warm(e.Batch)
		}
		if e.Live() {
			data.Live = append(data.Live, row)
		} else {
			data.Past = append(data.Past, row)
		}
	}
	for _, st := range s.hub.Roots() {
		if st.End != view.Running || !first {
			continue
		}
		if !known[st.Run()] { // the ledger does not know it, or not yet
			data.Live = append(data.Live, s.rootRow(st))
		}
		data.Questions = append(data.Questions, s.view().Questions(st, "")...)
	}
	for _, st := range s.hub.Closed() {
		data.Notices = append(data.Notices, page.Notice{Class: page.Wait, Text: view.ClosedText(st)})
	}
	slices.SortStableFunc(data.Questions, func(a, b page.Question) int { return a.Asked.Compare(b.Asked) })
	slices.SortStableFunc(data.Live, func(a, b page.RunRow) int { return cmp.Compare(b.Stamp, a.Stamp) })
	return data, nil
}

// runRow is a recorded run in the list.
func (s *server) runRow(e history.Entry) page.RunRow {
	row := page.RunRow{
		ID: e.ID(), URL: s.view().RunURL(e.ID()), State: words.Status(e.Status()), When: words.When(e.Started(),
			s.now()),
		Stamp: page.Stamp(e.Started()),
	}
	st, live := s.hub.Of(e.ID())
	if live = live && st.End == view.Running; live {
		row.State = st.Shown()
	}
	if b := e.Batch; b != nil {
		done, failed := b.Done()
		if live && st.Batch != nil {
			done, failed = st.Batch.Done, st.Batch.Failed
		}
		row.Name = view.BatchName(b)
		row.Meta = append(row.Meta, page.Clean(fmt.Sprintf("%s of %s done", words.Thousands(done),
			words.Thousands(b.Count))))
		if failed > 0 {
			row.Meta = append(row.Meta, page.Clean(words.Thousands(failed)+" failed"))
		}
		row.Meta = s.liveMeta(row.Meta, st, live, b.DurationMS, b.Usage)
		row.Shares = shares(done-failed, failed, b.Count)
		return row
	}
	p := e.Prompt
	row.Name = page.Line(p.Task, view.MaxTitle)
	row.Meta = append(row.Meta, page.Line(p.Agent, 40))
	if p.Model != "" {
		row.Meta = append(row.Meta, page.Line(p.Model, 60))
	}
	row.Meta = s.liveMeta(row.Meta, st, live, p.DurationMS, p.TotalUsage)
	return row
}

// liveMeta adds how long a run took and what it used, or what it does now.
func (s *server) liveMeta(meta []page.Text, st view.State, live bool, ms int64, used task.Usage) []page.Text {
	add := func(text string) { meta = append(meta, page.Clean(text)) }
	if live {
		queued := 0
		for _, j := range st.Jobs {
			if j.State == task.Queued {
				queued++
			}
		}
		add(fmt.Sprintf("%d at work", st.AtWork))
		if queued > 0 {
			add(fmt.Sprintf("%d next", queued))
		}
		if n := len(st.Questions); n > 0 {
			add(words.Plural(n, "question"))
		}
		if st.Paused {
			add("paused")
		}
		add(figures.Roundly(s.now().Sub(st.Root.Started)))
		used = st.Used
	} else if ms > 0 {
		add(words.Took(ms))
	}
	if t := words.Tokens(used); t != "" {
		add(t + " tokens")
	}
	if used.PricedTokens > 0 && used.Cost > 0 {
		add(output.Cost(used))
	}
	return meta
}

// rootRow is a run that only its root knows.
func (s *server) rootRow(st view.State) page.RunRow {
	return page.RunRow{
		ID: st.Run(), URL: s.view().RunURL(st.Run()), Name: s.view().RootName(st), State: st.Shown(),
		When: words.When(st.Root.Started, s.now()), Stamp: page.Stamp(st.Root.Started),
		Meta: s.liveMeta(nil, st, true, 0, task.Usage{}),
	}
}

// shares is a bar of those that succeeded, those that failed, and the rest.
func shares(ok, failed, all int) []page.Share {
	if all == 0 {
		return nil
	}
	a, b := ok*1000/all, failed*1000/all
	if failed > 0 {
		b = max(b, 4)
	}
	return []page.Share{{Class: page.OK, X: 0, Width: a}, {Class: page.Bad, X: a, Width: b}}
}
