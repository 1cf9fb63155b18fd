package view

import (
	"cmp"
	"fmt"

	"qq/internal/app/figures"
	"qq/internal/app/output"
	"qq/internal/app/serve/page"
	"qq/internal/app/serve/words"
	"qq/pkg/task"
)

// JobHead is the head of the page of a job.
func (v View) JobHead(run Run, it *Item) page.Head {
	h := page.Head{
		Trail: []page.Link{{URL: v.Root, Text: page.Clean("Runs")}, {URL: v.RunURL(run.ID),
			Text: v.Title(run)}},
		Name: page.Line(it.Task, MaxTitle), State: v.Row(it, run.Killed()).State,
	}
	if h.Trail[1].Text.String() == h.Name.String() {
		h.Trail[1].Text = page.Clean("The whole run")
	} else {
		h.Trail[1].Text = page.Line(h.Trail[1].Text.String(), 60)
	}
	if above := run.ByID[it.Parent]; above != nil && above.Parent != "" {
		h.Trail = append(h.Trail, page.Link{URL: v.JobURL(above.ID), Text: page.Line(above.Task, 40)})
	}
	add := func(name, key, value, note string) {
		if value != "" {
			h.Facts = append(h.Facts, page.Fact{Name: name, Key: key, Value: page.Line(value, 200),
				Note: page.Clean(note)})
		}
	}
	add("Agent", "", it.Agent, "")
	add("Model", "", it.Model, "")
	add("Started", "", words.Second(it.Started), "")
	row := v.Row(it, run.Killed())
	h.Facts = append(h.Facts, page.Fact{Name: "Time", Key: "time", Value: page.Clean(row.Time), Since: row.Since})
	if it.QueuedMS >= 50 {
		add("In the queue", "", words.Took(it.QueuedMS), "")
	}
	own, all := it.Usage, it.TotalUsage
	if it.Now != nil {
		own, all = it.Now.Usage, it.Now.Subtree
	}
	if all.Tokens() > 0 {
		note := output.Usage(all)
		if own != all {
			note += "; its own: " + output.Usage(own)
		}
		add("Tokens", "tokens", words.Tokens(all), note)
		add("Cost", "cost", output.WholeCost(all), "")
	}
	if it.Attempts > 1 {
		add("Attempts", "", fmt.Sprint(it.Attempts), "")
	}
	if it.Did != nil {
		add("Calls", "", calls(it.Did), "")
	}
	add("Id", "", it.ID, "")
	return h
}

// calls counts the calls of tools.
func calls(did *task.Did) string {
	n := 0
	for _, c := range did.Calls {
		n += c
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// JobNotices are what a reader of a job must not miss.
func (v View) JobNotices(run Run, it *Item) (all []page.Notice) {
	if run.Killed() && it.Live {
		all = append(all, page.Notice{Class: page.Bad, Text: page.Clean(KilledText(run.Root))})
	}
	if it.Cached {
		all = append(all, page.Notice{Class: page.Off, Text: page.Clean("Nothing was run: an earlier result holds.")})
	}
	for _, w := range it.Warnings {
		all = append(all, page.Notice{Class: page.Wait, Text: page.Line(w, 600)})
	}
	return all
}

// Attempts are the attempts of a job that was tried more than once.
func (v View) Attempts(it *Item) (rows []page.Attempt) {
	for _, a := range it.Earlier {
		rows = append(rows, page.Attempt{
			Number: a.Number, State: words.Status(a.Status), Started: words.Second(a.Started),
			Time:   figures.Roundly(a.Ended.Sub(a.Started)),
			Tokens: words.Tokens(a.Usage), Error: page.Line(a.Error, 400),
		})
	}
	if len(rows) > 0 {
		last := v.Row(it, false)
		rows = append(rows, page.Attempt{
			Number: cmp.Or(it.Attempts, len(rows)+1), State: words.Status(it.Status),
			Started: words.Second(it.Earlier[len(it.Earlier)-1].Ended),
			Time:    last.Time, Error: page.Line(it.Error, 400),
		})
	}
	return rows
}
