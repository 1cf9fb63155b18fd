package serve

import (
	"fmt"
	"net/http"
	"time"

	"qq/internal/app/serve/graph"
	"qq/internal/app/serve/page"
	"qq/internal/app/serve/timeline"
	"qq/pkg/llm"
)

const (
	lanesPerPage = 100
	maxNodes     = 300
)

func (s *server) showTimeline(w http.ResponseWriter, r *http.Request) error {
	s.hub.Refresh()
	run, err := s.store.whole(r.PathValue("id"))
	if err != nil {
		return err
	}
	from := number(r, "from")
	bars := s.bars(run, from)
	data := page.Drawn{
		Frame: page.Frame{Title: page.Clean("Timeline")}, Head: s.runHead(run), Tabs: s.tabs(run.ID, "/timeline"),
	}
	data.Head.Links, data.Head.Acts = nil, nil
	if len(bars) == 0 {
		data.Note = "No job has started."
		return s.show(w, "drawing", data)
	}
	data.Note = s.chainNote(bars)
	data.Drawings, err = drawTimeline(s.pages.Draw, bars, from, run.root.Max, s.now())
	if err != nil {
		return err
	}
	data.Newer, data.Older, data.Span = s.span(r.URL, from, lanesPerPage, len(bars))
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
	lanes, err := draw("lanes", timeline.Lanes(bars, from, lanesPerPage, now))
	return []page.Drawing{{Name: "At work at once", SVG: load}, {Name: "Jobs", SVG: lanes, Legend: page.Timeline()}}, err
}

// bars are the jobs of a run that have started, in the order of the tree, with when those of one page waited for their
// model.
func (s *server) bars(run whole, from int) (bars []timeline.Job) {
	var add func(list []*item)
	add = func(list []*item) {
		for _, it := range list {
			if !it.Started.IsZero() {
				bars = append(bars, s.bar(run, it))
			}
			add(it.below)
		}
	}
	add(run.items)
	for i := from; i < min(from+lanesPerPage, len(bars)); i++ {
		bars[i].Models = s.waits(run.byID[bars[i].ID])
	}
	return bars
}

func (s *server) bar(run whole, it *item) timeline.Job {
	row := s.row(it, run.killed())
	b := timeline.Job{
		ID: it.ID, Parent: it.Parent, Label: it.Agent + ": " + page.Line(it.Task, 100).String(), Class: row.State.Class,
		Queued: it.Queued, Started: it.Started, Ended: it.Ended, Slotless: it.Parent == "" && it.Batch == "",
	}
	for _, a := range it.Earlier {
		b.Earlier = append(b.Earlier, timeline.Span{From: a.Started, To: a.Ended})
	}
	if n := len(it.Earlier); n > 0 && !it.Ended.IsZero() { // the last attempt began so long before the end
		b.Started = cmpTime(it.Ended.Add(-time.Duration(it.DurationMS)*time.Millisecond), it.Started)
	}
	if b.Ended.IsZero() && !run.live { // it ended with its root, nobody knows when
		b.Ended = cmpTime(run.root.When, it.Started)
	}
	return b
}

// waits are when a job waited for its model: before each of its messages.
func (s *server) waits(it *item) (spans []timeline.Span) {
	t, err := s.store.Transcript(it.Run)
	if err != nil || it.now != nil {
		return nil
	}
	last := it.Started
	for _, e := range t.Entries {
		if e.Role == llm.Assistant && e.Time.After(last) {
			spans = append(spans, timeline.Span{From: last, To: e.Time})
		}
		if e.Time.After(last) {
			last = e.Time
		}
	}
	return spans
}

// chainNote describes the longest chain.
func (s *server) chainNote(bars []timeline.Job) string {
	chain := timeline.Chain(bars, s.now())
	retries := 0
	for _, b := range bars {
		retries += len(b.Earlier)
	}
	text := ""
	if len(chain) > 1 {
		text = fmt.Sprintf("The longest chain has %s: each began when the one before it had ended. ", plural(len(chain), "job"))
	}
	if retries > 0 {
		text += plural(retries, "attempt") + " failed and " + map[bool]string{true: "was", false: "were"}[retries == 1] +
			" repeated. "
	}
	return text
}

func (s *server) showPlan(w http.ResponseWriter, r *http.Request) error {
	s.hub.Refresh()
	run, err := s.store.whole(r.PathValue("id"))
	if err != nil {
		return err
	}
	data := page.Drawn{
		Frame: page.Frame{Title: page.Clean("Plan")}, Head: s.runHead(run), Tabs: s.tabs(run.ID, "/plan"),
	}
	data.Head.Links, data.Head.Acts = nil, nil
	d, note := s.plan(run)
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

// plan lays out the plan of a run: of a planned batch what each task waits for, else which job has started which.
func (s *server) plan(run whole) (graph.Drawing, string) {
	if p, ok := s.store.plan(run.Run); ok {
		tasks := make([]graph.Task, len(p.Tasks))
		byIndex := map[int]*item{}
		for _, it := range run.items {
			byIndex[it.Index] = it
		}
		for i, t := range p.Tasks {
			tasks[i] = graph.Task{ID: t.ID, Label: t.ID, Class: page.Idle, Word: "not started"}
			if it := byIndex[t.Index]; it != nil {
				state := s.row(it, run.killed()).State
				tasks[i].Label, tasks[i].Class, tasks[i].Word = t.ID+" "+it.Task, state.Class, state.Word
				tasks[i].Link = s.jobURL(it.ID)
			}
			for _, a := range t.WaitsFor {
				tasks[i].After = append(tasks[i].After, graph.After{ID: a.ID, Reason: plain(string(a.Reason))})
			}
		}
		note := fmt.Sprintf("%s in %s. An arrow leads to a task that waits for another one; the thick ones are the longest "+
			"chain.", plural(len(p.Tasks), "task"), plural(p.Summary.Stages, "stage"))
		return graph.Layout(tasks, p.Summary.LongestChain), note
	}
	var tasks []graph.Task
	left := 0
	var add func(list []*item, above string)
	add = func(list []*item, above string) {
		for _, it := range list {
			if len(tasks) == maxNodes {
				left++
				continue
			}
			state := s.row(it, run.killed()).State
			t := graph.Task{ID: it.ID, Label: it.Agent + ": " + it.Task, Class: state.Class, Word: state.Word,
				Link: s.jobURL(it.ID)}
			if above != "" {
				t.After = []graph.After{{ID: above, Reason: "started by it"}}
			}
			tasks = append(tasks, t)
			add(it.below, it.ID)
		}
	}
	add(run.items, "")
	note := "This run had no plan. The graph shows which job has started which."
	if left > 0 {
		note += fmt.Sprintf(" %s are not shown.", plural(left, "more job"))
	}
	return graph.Layout(tasks, nil), note
}
