package view

import (
	"cmp"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"qq/internal/app/figures"
	"qq/internal/app/output"
	"qq/internal/app/serve/page"
	"qq/internal/app/serve/words"
	"qq/internal/control"
	"qq/internal/record/ledger"
	"qq/pkg/task"
)

// Span returns the links to the pages around a page of a list.
func (v View) Span(u *url.URL, from, count, all int) (before, after, span string) {
	if all <= count && from == 0 {
		return "", "", ""
	}
	at := func(n int) string {
		q := u.Query()
		q.Set("from", fmt.Sprint(n))
		return v.Root + strings.TrimPrefix(u.Path, "/") + "?" + q.Encode()
	}
	if from > 0 {
		before = at(max(from-count, 0))
	}
	if from+count < all {
		after = at(from + count)
	}
	return before, after, fmt.Sprintf("%s to %s of %s", words.Thousands(min(from+1, all)),
		words.Thousands(min(from+count, all)),
		words.Thousands(all))
}

// Title names a run: a prompt by its task, a batch by its folder.
func (v View) Title(w Run) page.Text {
	switch {
	case w.Batch != nil:
		return BatchName(w.Batch)
	case len(w.Items) > 0 && w.Items[0].ID == w.ID:
		return page.Line(w.Items[0].Task, MaxTitle)
	case w.AtWork && w.Root.Batch != nil:
		return page.Clean("Batch of " + words.Plural(w.Root.Batch.Total, "task"))
	}
	return page.Clean("Run " + task.ShortID(w.ID))
}

// Head is the head of the pages of a run.
func (v View) Head(w Run) page.Head {
	h := page.Head{
		Trail: []page.Link{{URL: v.Root, Text: page.Clean("Runs")}}, Name: v.Title(w), State: words.Status(w.Status()),
		Links: []page.Link{{URL: v.RunURL(w.ID) + "?choose=1", Text: page.Clean("Compare two jobs")},
			{URL: v.RunURL(w.ID) + "/export", Text: page.Clean("Save as a file"), Download: true}},
	}
	if w.Batch == nil && len(w.ByID) < 2 {
		h.Links = h.Links[1:]
	}
	if w.Killed() {
		h.State = words.Status(task.Interrupted)
	}
	used := w.used()
	if w.AtWork {
		used, h.State = w.Root.Used, w.Root.Shown()
		h.Acts = []page.Act{{URL: v.Root + "cancel", Root: w.Root.ID, ID: w.ID, Text: "Cancel the run", Harm: true,
			Ask: "End this run, with all its jobs?"}}
	}
	add := func(name, key, value, note string) {
		if value != "" {
			f := page.Fact{Name: name, Key: key, Value: page.Clean(value), Note: page.Clean(note)}
			if key == "time" && w.AtWork {
				f.Since = words.Millis(w.Root.Root.Started)
			}
			h.Facts = append(h.Facts, f)
		}
	}
	done, failed, all := w.done()
	if all > 0 {
		note := ""
		if failed > 0 {
			note = words.Thousands(failed) + " failed"
		}
		add("Done", "done", words.Thousands(done)+" of "+words.Thousands(all), note)
	}
	began, took := w.took(v.Now)
	add("Started", "", words.Second(began), "")
	add("Time", "time", took, "")
	if w.AtWork {
		add("At work", "work", fmt.Sprintf("%d of at most %d", w.Root.AtWork, w.Root.Max), "")
	}
	if used.Tokens() > 0 || w.AtWork {
		add("Tokens", "tokens", cmp.Or(words.Tokens(used), "0"), output.Usage(used))
		add("Cost", "cost", output.WholeCost(used), "")
	}
	dir := w.Root.Root.Dir
	if w.Batch != nil {
		dir = w.Batch.Dir
	}
	if dir != "" {
		h.Facts = append(h.Facts, page.Fact{Name: "Folder", Value: page.Line(dir, 300)})
	}
	if w.Batch == nil && len(w.Items) == 1 {
		h.Facts = append(h.Facts, page.Fact{Name: "Agent", Value: page.Line(w.Items[0].Agent, 60)})
		if w.Items[0].Model != "" {
			h.Facts = append(h.Facts, page.Fact{Name: "Model", Value: page.Line(w.Items[0].Model, 80)})
		}
	}
	return h
}

// used is what the run has used, as qq runs says it. Of a batch whose qq was killed, it is what its jobs have used.
func (w Run) used() task.Usage {
	if w.Batch != nil && w.Batch.Usage.Tokens() > 0 {
		return w.Batch.Usage
	}
	return w.Usage()
}

// done returns how many tasks of a batch have ended, how many of them failed, and how many there are. All are 0 for a
// prompt.
func (w Run) done() (done, failed, all int) {
	if w.AtWork && w.Root.Batch != nil {
		return w.Root.Batch.Done, w.Root.Batch.Failed, w.Root.Batch.Total
	}
	if w.Batch == nil {
		return 0, 0, 0
	}
	done, failed = w.Batch.Done()
	return done, failed, w.Batch.Count
}

// took returns when a run began, and how long it took.
func (w Run) took(now time.Time) (began time.Time, text string) {
	switch {
	case w.AtWork && w.Batch != nil: // as its record says later
		return w.Batch.Started, figures.Roundly(now.Sub(w.Root.Root.Started))
	case w.AtWork:
		return w.Root.Root.Started, figures.Roundly(now.Sub(w.Root.Root.Started))
	case w.Batch != nil:
		if w.Batch.DurationMS > 0 {
			text = words.Took(w.Batch.DurationMS)
		}
		return w.Batch.Started, text
	case len(w.Items) > 0:
		i := w.Items[0]
		if i.DurationMS > 0 {
			text = words.Took(i.DurationMS)
		}
		return i.Started, text
	}
	return w.Root.Root.Started, ""
}

// Notices are what a reader of a run must not miss.
func (v View) Notices(w Run) (all []page.Notice) {
	if w.Killed() {
		all = append(all, page.Notice{Class: page.Bad, Text: page.Clean(KilledText(w.Root))})
	}
	for _, st := range v.Store.Hub.Closed() {
		if w.AtWork && st.Silent() {
			continue // it is told below
		}
		if st.ID == w.ID || w.Batch != nil && w.Batch.Root == st.ID {
			all = append(all, page.Notice{Class: page.Wait, Text: ClosedText(st)})
		}
	}
	if w.AtWork {
		all = append(all, page.Notice{Class: page.Wait, Text: page.Clean("Paused: no further job starts."),
			When: "paused", Hidden: !w.Root.Paused},
			page.Notice{Class: page.Wait, Text: ClosedText(State{ID: w.Root.ID, Err: control.ErrSilent}),
				When: "silent", Hidden: !w.Root.Silent()})
	}
	if !w.AtWork && w.Batch != nil && !w.Killed() && w.Batch.Status == task.Interrupted {
		all = append(all, page.Notice{Class: page.Off, Text: page.Clean("The qq that worked on it has died. " +
			"qq batch --resume goes on with what is left.")})
	}
	if w.Batch == nil && len(w.Items) == 1 && w.Items[0].Error != "" {
		all = append(all, page.Notice{Class: page.Bad, Text: page.Clean(w.Items[0].Error)})
	}
	return all
}

// ClosedText says why a root cannot be followed.
func ClosedText(st State) page.Text {
	if st.Silent() {
		return page.Line(fmt.Sprintf("Run %s does not reply: it may be stopped. "+
			"What is shown is what it has said last. It is asked again each second.", task.ShortID(st.ID)), 600)
	}
	problem, hint := task.Explain(st.Err)
	text := fmt.Sprintf("Run %s works, but this page cannot follow it: %s", task.ShortID(st.ID), problem)
	if hint != "" {
		text += " (" + hint + ")"
	}
	return page.Line(text+". It is tried again each second.", 600)
}

// KilledText says that a root was killed, and what that means.
func KilledText(st State) string {
	n := 0
	for _, j := range st.Jobs {
		if j.State != task.Queued {
			n++
		}
	}
	text := fmt.Sprintf("The qq of this run (process %d) was killed at %s. ", st.Root.PID,
		st.When.Local().Format("15:04:05"))
	if n > 0 {
		text += words.Plural(n, "job") + " ended with it. "
	}
	return text + "What is shown is what was recorded before."
}

// Tabs are the views of a run. here is the one that is shown.
func (v View) Tabs(id, here string) (all []page.Link) {
	for _, t := range [][2]string{{"", "Jobs"}, {"/timeline", "Timeline"}, {"/plan", "Plan"}} {
		all = append(all, page.Link{URL: v.RunURL(id) + t[0], Text: page.Clean(t[1]), Here: t[0] == here})
	}
	return all
}

// Control has the buttons of a run at work.
func (v View) Control(st State) *page.Control {
	return &page.Control{Root: st.ID, Cap: st.Max, Acts: []page.Act{
		{URL: v.Root + "pause", Root: st.ID, Text: "Pause", When: "on", Hidden: st.Paused},
		{URL: v.Root + "resume", Root: st.ID, Text: "Go on", When: "paused", Hidden: !st.Paused},
	}}
}

// BatchName names a batch by its folder.
func BatchName(b *ledger.BatchRow) page.Text {
	return page.Line(fmt.Sprintf("Batch of %s in %s", words.Plural(b.Count, "task"), filepath.Base(b.Dir)), MaxTitle)
}
