package view

import (
	"fmt"
	"time"

	"qq/internal/app/serve/graph"
	"qq/internal/app/serve/page"
	"qq/internal/app/serve/timeline"
	"qq/internal/app/serve/words"
	"qq/pkg/llm"
	"qq/pkg/task"
)

// LanesPerPage is how many lanes a page of a timeline has, and maxNodes how many jobs a graph.
const (
	LanesPerPage = 100
	maxNodes     = 300
)

// Bars are the jobs of a run that have started, in the order of the tree, with when those of one page waited for their
// model.
func (v View) Bars(run Run, from int) (bars []timeline.Job) {
	var add func(list []*Item)
	add = func(list []*Item) {
		for _, it := range list {
			if !it.Started.IsZero() {
				bars = append(bars, v.bar(run, it))
			}
			add(it.Below)
		}
	}
	add(run.Items)
	from = min(from, len(bars))
	for i := from; i < min(from+LanesPerPage, len(bars)); i++ {
		it := run.ByID[bars[i].ID]
		bars[i].Models, bars[i].Label = v.waits(it), it.Agent+": "+page.Line(it.Task, 100).String()
	}
	return bars
}

func (v View) bar(run Run, it *Item) timeline.Job {
	b := timeline.Job{
		ID: it.ID, Parent: it.Parent, Class: v.State(it, run.Killed()).Class,
		Queued: it.Queued, Started: it.Started, Ended: it.Ended, Slotless: it.Parent == "" && it.Batch == "",
	}
	for _, a := range it.Earlier {
		b.Earlier = append(b.Earlier, timeline.Span{From: a.Started, To: a.Ended})
	}
	begun := it.Queued.Add(time.Duration(it.QueuedMS) * time.Millisecond) // when it got its slot
	if b.Known = !it.Ended.IsZero() && run.slots > 0; b.Known {
		b.Work = worked(begun, it.DurationMS, it.Away)
	}
	if n := len(it.Earlier); n > 0 { // the last attempt began when the pause after the one before was over
		b.Started = it.Earlier[n-1].Ended
		for _, a := range it.Away {
			if to := begun.Add(time.Duration(a.To) * time.Millisecond); to.After(b.Started) {
				b.Started = to
				break
			}
		}
	}
	if b.Ended.IsZero() && !run.AtWork { // it ended with its root, nobody knows when
		b.Ended = cmpTime(run.Root.When, it.Started)
	}
	return b
}

// worked is when a job had its slot: in all of its time but that in which it had lent it.
func worked(begun time.Time, ms int64, away []task.Span) (spans []timeline.Span) {
	at := func(ms int64) time.Time { return begun.Add(time.Duration(ms) * time.Millisecond) }
	from := int64(0)
	for _, a := range append(away[:len(away):len(away)], task.Span{From: ms, To: ms}) {
		if to := min(a.From, ms); to > from {
			spans = append(spans, timeline.Span{From: at(from), To: at(to)})
		}
		from = max(from, a.To)
	}
	return spans
}

// waits are when a job waited for its model: before each of its messages.
func (v View) waits(it *Item) (spans []timeline.Span) {
	if it.Now != nil {
		return nil
	}
	t, err := v.Store.Transcript(it.Run)
	if err != nil {
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

// ChainNote describes the longest chain.
func (v View) ChainNote(bars []timeline.Job) string {
	chain := timeline.Chain(bars, v.Now)
	retries := 0
	for _, b := range bars {
		retries += len(b.Earlier)
	}
	text := ""
	if len(chain) > 1 {
		text = fmt.Sprintf("The longest chain has %s: each began when the one before it had ended. ",
			words.Plural(len(chain), "job"))
	}
	if retries > 0 {
		text += words.Plural(retries, "attempt") + " failed and " + map[bool]string{true: "was",
			false: "were"}[retries == 1] +
			" repeated. "
	}
	return text
}

// Plan lays out the plan of a run: of a planned batch what each task waits for, else which job has started which.
func (v View) Plan(run Run) (graph.Drawing, string) {
	if p, ok := v.Store.plan(run.Run); ok {
		tasks := make([]graph.Task, len(p.Tasks))
		byIndex := map[int]*Item{}
		for _, it := range run.Items {
			byIndex[it.Index] = it
		}
		for i, t := range p.Tasks {
			tasks[i] = graph.Task{ID: t.ID, Label: t.ID, Class: page.Idle, Word: "not started"}
			if it := byIndex[t.Index]; it != nil {
				state := v.State(it, run.Killed())
				tasks[i].Label, tasks[i].Class, tasks[i].Word = t.ID+" "+it.Task, state.Class, state.Word
				tasks[i].Link = v.JobURL(it.ID)
			}
			for _, a := range t.WaitsFor {
				tasks[i].After = append(tasks[i].After, graph.After{ID: a.ID, Reason: words.Plain(string(a.Reason))})
			}
		}
		note := fmt.Sprintf("%s in %s. An arrow leads to a task that waits for another one; the thick ones are the "+
			"longest chain.", words.Plural(len(p.Tasks), "task"), words.Plural(p.Summary.Stages, "stage"))
		return graph.Layout(tasks, p.Summary.LongestChain), note
	}
	var tasks []graph.Task
	left := 0
	var add func(list []*Item, above string)
	add = func(list []*Item, above string) {
		for _, it := range list {
			if len(tasks) == maxNodes {
				left++
				continue
			}
			state := v.State(it, run.Killed())
			t := graph.Task{ID: it.ID, Label: it.Agent + ": " + it.Task, Class: state.Class, Word: state.Word,
				Link: v.JobURL(it.ID)}
			if above != "" {
				t.After = []graph.After{{ID: above, Reason: "started by it"}}
			}
			tasks = append(tasks, t)
			add(it.Below, it.ID)
		}
	}
	add(run.Items, "")
	note := "This run had no plan. The graph shows which job has started which."
	if left > 0 {
		note += fmt.Sprintf(" %s are not shown.", words.Plural(left, "more job"))
	}
	return graph.Layout(tasks, nil), note
}
