package serve

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"qq/internal/app/output"
	"qq/internal/app/serve/page"
	"qq/internal/app/serve/watch"
	"qq/pkg/task"
)

const (
	rowsPerPage  = 100 // jobs of the top
	rowsBelow    = 20  // jobs below a job that is shown open
	openUpTo     = 40  // a run of so many jobs is shown whole
	seenAtOnce   = 15  // a run of so many jobs needs no list of those that are at work
	maxAtWork    = 50  // rows of jobs at work
	longestTask  = 160 // characters of a task in a row
	longestBelow = 200 // characters of the line below it
)

func (s *server) showRun(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	s.hub.Refresh()
	run, err := s.store.whole(id)
	if err != nil {
		return err
	}
	from := number(r, "from")
	data := page.Tree{
		Frame: page.Frame{Title: s.titleOf(run), Tab: "run"}, Head: s.runHead(run), Notices: s.notices(run),
		Tabs: s.tabs(run.ID, ""), Comparing: r.URL.Query().Get("choose") != "",
	}
	top, under := run.items, ""
	if at := run.byID[r.URL.Query().Get("at")]; at != nil {
		top, under = at.below, at.ID
		data.Head.Trail = append(data.Head.Trail, page.Link{URL: s.jobURL(at.ID), Text: page.Line(at.Task, 60)})
	}
	data.Heading = plural(len(run.byID), "job")
	if run.Batch != nil && len(run.items) < run.Batch.Count {
		data.Heading = fmt.Sprintf("%s of %s have started", thousands(len(run.items)), plural(run.Batch.Count, "task"))
	}
	data.Rows = s.rows(run, top[min(from, len(top)):min(from+rowsPerPage, len(top))], data.Comparing)
	data.Newer, data.Older, data.Span = s.span(r.URL, from, rowsPerPage, len(top))
	if run.live {
		if len(run.byID) > seenAtOnce {
			data.Work = s.atWork(run)
		}
		data.Questions = s.questions(run.root, "")
		data.Control = s.control(run.root)
		data.Events = s.runURL(run.ID) + "/events?" + url.Values{"from": {fmt.Sprint(from)}, "at": {under}}.Encode()
	}
	return s.show(w, "tree", data)
}

// span returns the links to the pages around a page of a list.
func (s *server) span(u *url.URL, from, count, all int) (before, after, span string) {
	if all <= count && from == 0 {
		return "", "", ""
	}
	at := func(n int) string {
		q := u.Query()
		q.Set("from", fmt.Sprint(n))
		return s.root + strings.TrimPrefix(u.Path, "/") + "?" + q.Encode()
	}
	if from > 0 {
		before = at(max(from-count, 0))
	}
	if from+count < all {
		after = at(from + count)
	}
	return before, after, fmt.Sprintf("%s to %s of %s", thousands(min(from+1, all)), thousands(min(from+count, all)),
		thousands(all))
}

// titleOf names a run: a prompt by its task, a batch by its folder.
func (s *server) titleOf(w whole) page.Text {
	switch {
	case w.Batch != nil:
		return batchName(w.Batch)
	case len(w.items) > 0 && w.items[0].ID == w.ID:
		return page.Line(w.items[0].Task, maxTitle)
	case w.live && w.root.Batch != nil:
		return page.Clean("Batch of " + plural(w.root.Batch.Total, "task"))
	}
	return page.Clean("Run " + task.ShortID(w.ID))
}

// runHead is the head of the pages of a run.
func (s *server) runHead(w whole) page.Head {
	h := page.Head{
		Trail: []page.Link{{URL: s.root, Text: page.Clean("Runs")}}, Name: s.titleOf(w), State: stateOf(w.status()),
		Links: []page.Link{{URL: s.runURL(w.ID) + "?choose=1", Text: page.Clean("Compare two jobs")},
			{URL: s.runURL(w.ID) + "/export", Text: page.Clean("Save as a file"), Download: true}},
	}
	if len(w.byID) < 2 {
		h.Links = h.Links[1:]
	}
	if w.killed() {
		h.State = page.State{Class: page.Bad, Word: "killed"}
	}
	used := w.Usage()
	if w.live {
		used = w.root.Used
		h.Acts = []page.Act{{URL: s.root + "cancel", Root: w.root.ID, ID: w.ID, Text: "Cancel the run", Harm: true,
			Ask: "End this run, with all its jobs?"}}
	}
	add := func(name, key, value, note string) {
		if value != "" {
			f := page.Fact{Name: name, Key: key, Value: page.Clean(value), Note: page.Clean(note)}
			if key == "time" && w.live {
				f.Since = millis(w.root.Root.Started)
			}
			h.Facts = append(h.Facts, f)
		}
	}
	done, failed, all := w.done()
	if all > 0 {
		note := ""
		if failed > 0 {
			note = thousands(failed) + " failed"
		}
		add("Done", "done", thousands(done)+" of "+thousands(all), note)
	}
	began, took := w.took(s.now())
	add("Started", "", second(began), "")
	add("Time", "time", took, "")
	if w.live {
		add("At work", "work", fmt.Sprintf("%d of at most %d", w.root.AtWork, w.root.Max), "")
	}
	if used.Tokens() > 0 || w.live {
		add("Tokens", "tokens", cmp.Or(tokens(used), "0"), output.Usage(used))
		add("Cost", "cost", output.WholeCost(used), "")
	}
	dir := w.root.Root.Dir
	if w.Batch != nil {
		dir = w.Batch.Dir
	}
	if dir != "" {
		h.Facts = append(h.Facts, page.Fact{Name: "Folder", Value: page.Line(dir, 300)})
	}
	if w.Batch == nil && len(w.items) == 1 {
		h.Facts = append(h.Facts, page.Fact{Name: "Agent", Value: page.Line(w.items[0].Agent, 60)})
		if w.items[0].Model != "" {
			h.Facts = append(h.Facts, page.Fact{Name: "Model", Value: page.Line(w.items[0].Model, 80)})
		}
	}
	return h
}

// done returns how many tasks of a batch have ended, how many of them failed, and how many there are. All are 0 for a
// prompt.
func (w whole) done() (done, failed, all int) {
	if w.live && w.root.Batch != nil {
		return w.root.Batch.Done, w.root.Batch.Failed, w.root.Batch.Total
	}
	if w.Batch == nil {
		return 0, 0, 0
	}
	done, failed = w.Batch.Done()
	return done, failed, w.Batch.Count
}

// took returns when a run began, and how long it took.
func (w whole) took(now time.Time) (began time.Time, text string) {
	switch {
	case w.live:
		return w.root.Root.Started, output.Roundly(now.Sub(w.root.Root.Started))
	case w.Batch != nil:
		if w.Batch.DurationMS > 0 {
			text = took(w.Batch.DurationMS)
		}
		return w.Batch.Started, text
	case len(w.items) > 0:
		i := w.items[0]
		if i.DurationMS > 0 {
			text = took(i.DurationMS)
		}
		return i.Started, text
	}
	return w.root.Root.Started, ""
}

// notices are what a reader of a run must not miss.
func (s *server) notices(w whole) (all []page.Notice) {
	if w.killed() {
		all = append(all, page.Notice{Class: page.Bad, Text: page.Clean(killedText(w.root))})
	}
	if w.live && w.root.Paused {
		all = append(all, page.Notice{Class: page.Wait, Text: page.Clean("Paused: no further job starts.")})
	}
	if !w.live && w.Batch != nil && !w.killed() && w.Batch.Status == task.Interrupted {
		all = append(all, page.Notice{Class: page.Off, Text: page.Clean("The qq that worked on it has died. " +
			"qq batch --resume goes on with what is left.")})
	}
	if w.Batch == nil && len(w.items) == 1 && w.items[0].Error != "" {
		all = append(all, page.Notice{Class: page.Bad, Text: page.Clean(w.items[0].Error)})
	}
	return all
}

// killedText says that a root was killed, and what that means.
func killedText(st watch.State) string {
	n := 0
	for _, j := range st.Jobs {
		if j.State != task.Queued {
			n++
		}
	}
	text := fmt.Sprintf("The qq of this run (process %d) was killed at %s. ", st.Root.PID,
		st.When.Local().Format("15:04:05"))
	if n > 0 {
		text += plural(n, "job") + " ended with it. "
	}
	return text + "What is shown is what was recorded before."
}

// tabs are the views of a run. here is the one that is shown.
func (s *server) tabs(id, here string) (all []page.Link) {
	for _, t := range [][2]string{{"", "Jobs"}, {"/timeline", "Timeline"}, {"/plan", "Plan"}} {
		all = append(all, page.Link{URL: s.runURL(id) + t[0], Text: page.Clean(t[1]), Here: t[0] == here})
	}
	return all
}

// control has the buttons of a run at work.
func (s *server) control(st watch.State) *page.Control {
	pause := page.Act{URL: s.root + "pause", Root: st.ID, Text: "Pause"}
	if st.Paused {
		pause = page.Act{URL: s.root + "resume", Root: st.ID, Text: "Go on"}
	}
	return &page.Control{Root: st.ID, Acts: []page.Act{pause}, Cap: st.Max}
}

// rows are the rows of items, with those below them as far as they are shown open.
func (s *server) rows(w whole, items []*item, choose bool) []page.Row {
	rows := make([]page.Row, len(items))
	for i, it := range items {
		rows[i] = s.row(it, w.killed())
		rows[i].Choose = choose
		if len(it.below) == 0 {
			continue
		}
		shown := it.below
		if len(w.byID) > openUpTo {
			shown = nil
		}
		rows[i].Open = len(shown) > 0
		rows[i].Rows = s.rows(w, shown[:min(len(shown), rowsBelow)], choose)
		if left := len(it.below) - len(rows[i].Rows); left > 0 {
			rows[i].Part, rows[i].Page, rows[i].Count = s.more(w.ID, it.ID, len(rows[i].Rows), left)
		}
	}
	return rows
}

// more returns where the jobs below a job come from, from a number on.
func (s *server) more(run, under string, from, left int) (part, whole, count string) {
	at := url.Values{"at": {under}, "from": {fmt.Sprint(from)}}.Encode()
	return s.runURL(run) + "/part?" + at, s.runURL(run) + "?" + at, plural(left, "more job")
}

// row is the row of one job. interrupted says that its root was killed.
func (s *server) row(it *item, interrupted bool) page.Row {
	row := page.Row{
		ID: it.ID, URL: s.jobURL(it.ID), Agent: page.Line(it.Agent, 24), Task: page.Line(it.Task, longestTask),
		Tokens: tokens(it.TotalUsage),
	}
	switch {
	case it.now != nil:
		row.State, row.Below = liveState(it.now), page.Line(doing(it.now), longestBelow)
		row.Tokens = tokens(it.now.Subtree)
		if it.now.State != task.Queued {
			row.Since = millis(it.now.Started)
		}
		row.Time = output.Roundly(s.now().Sub(cmpTime(it.now.Started, it.now.Queued)))
	case it.Live && !interrupted:
		row.State, row.Since = stateOf(task.Running), millis(it.Started)
	default:
		row.State = stateOf(it.Status)
		if it.Live {
			row.State = stateOf(task.Interrupted)
		}
		if !it.Ended.IsZero() {
			row.Time = took(it.DurationMS)
		}
		if row.Failed = it.Error != ""; row.Failed {
			row.Below = page.Line(it.Error, longestBelow)
		}
	}
	if it.Attempts > 1 {
		row.State.Word += fmt.Sprintf(" (%d×)", it.Attempts)
	}
	return row
}

func cmpTime(a, b time.Time) time.Time {
	if a.IsZero() {
		return b
	}
	return a
}

// atWork are the rows of the jobs that are at work, those first that began first.
func (s *server) atWork(w whole) []page.Row {
	rows := []page.Row{}
	for i := range w.root.Jobs {
		j := &w.root.Jobs[i]
		it := w.byID[j.ExecutionID]
		if j.State == task.Queued || it == nil || it.now == nil || len(w.root.Jobs) > 1 && j.ExecutionID == w.root.ID {
			continue
		}
		row := s.row(it, false)
		row.Loose = true
		if rows = append(rows, row); len(rows) == maxAtWork {
			break
		}
	}
	return rows
}

// showPart answers with the rows below a job.
func (s *server) showPart(w http.ResponseWriter, r *http.Request) error {
	run, err := s.store.whole(r.PathValue("id"))
	if err != nil {
		return err
	}
	at := run.byID[r.URL.Query().Get("at")]
	if at == nil {
		return errNoPage
	}
	from := min(number(r, "from"), len(at.below))
	to := min(from+rowsPerPage, len(at.below))
	rows := s.rows(run, at.below[from:to], false)
	html, err := s.pages.HTML("rows", rows)
	if err != nil {
		return err
	}
	if left := len(at.below) - to; left > 0 {
		part, whole, count := s.more(run.ID, at.ID, to, left)
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

// atTop reports whether a job is one of the top of its run.
func (w whole) atTop(id string) bool {
	return slices.ContainsFunc(w.items, func(i *item) bool { return i.ID == id })
}
