package view

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"qq/internal/app/output"
	"qq/internal/app/serve/page"
	"qq/internal/app/serve/talk"
	"qq/internal/app/serve/words"
	"qq/internal/record/history"
	"qq/pkg/task"
)

// PairsPerPage is how many pairs of jobs a comparison of two runs has.
const PairsPerPage = 200

// Compared shows two runs side by side, with the pairs from that number on. Two batches are a table of their tasks, and
// two jobs are shown whole.
func (v View) Compared(a, b history.Run, from int) (page.Compared, error) {
	data := page.Compared{Frame: page.Frame{Title: page.Clean("Comparison")}, Heading: "Two jobs, side by side",
		A: v.compared(a), B: v.compared(b)}
	pairs, err := v.Store.Compare(a, b)
	if err != nil {
		return data, err
	}
	if a.Batch == nil {
		compareJobs(&data, a.Jobs[0], b.Jobs[0], pairs[0])
		pairs = pairs[1:]
	} else {
		compareBatches(&data, a, b)
	}
	data.Note, data.Count = sameNote(pairs), len(pairs)
	for _, p := range pairs[min(from, len(pairs)):min(from+PairsPerPage, len(pairs))] {
		data.Pairs = append(data.Pairs, v.pairRow(p))
	}
	return data, nil
}

// compared names a run or a job, with its status.
func (v View) compared(r history.Run) page.Compare {
	if b := r.Batch; b != nil {
		name := fmt.Sprintf("Batch %s of %s", task.ShortID(r.ID), words.Second(b.Started))
		return page.Compare{Link: page.Link{URL: v.RunURL(r.ID), Text: page.Clean(name)},
			State: words.Status(b.Status)}
	}
	j := r.Jobs[0]
	return page.Compare{Link: page.Link{URL: v.JobURL(j.ID), Text: page.Line(j.Task, 120)},
		State: words.Status(j.Status)}
}

func compareBatches(data *page.Compared, a, b history.Run) {
	data.Heading = "Two batches, side by side"
	done := func(r history.Run) string {
		done, failed := r.Batch.Done()
		return fmt.Sprintf("%s of %s, %s failed", words.Thousands(done), words.Thousands(r.Batch.Count),
			words.Thousands(failed))
	}
	data.Add("Done", done(a), done(b))
	data.Add("Time", words.Took(a.Batch.DurationMS), words.Took(b.Batch.DurationMS))
	data.Add("Tokens", usage(a.Usage()), usage(b.Usage()))
	data.Add("Cost", output.WholeCost(a.Usage()), output.WholeCost(b.Usage()))
}

func compareJobs(data *page.Compared, a, b *history.Job, p history.Pair) {
	data.Add("Agent", a.Agent, b.Agent)
	data.Add("Model", a.Model, b.Model)
	data.Add("Time", words.Took(a.DurationMS), words.Took(b.DurationMS))
	data.Add("In the queue", words.Took(a.QueuedMS), words.Took(b.QueuedMS))
	data.Add("Tokens", usage(a.TotalUsage), usage(b.TotalUsage))
	data.Add("Cost", output.WholeCost(a.TotalUsage), output.WholeCost(b.TotalUsage))
	data.Add("Attempts", fmt.Sprint(a.Attempts), fmt.Sprint(b.Attempts))
	below := func(j *history.Job) (n int) {
		for range (history.Run{Jobs: j.Jobs}).All() {
			n++
		}
		return n
	}
	data.Add("Jobs below", fmt.Sprint(below(a)), fmt.Sprint(below(b)))
	data.Add("Error", a.Error, b.Error)
	did := [2]map[string]int{counts(a.Did), counts(b.Did)}
	names := maps.Clone(did[0])
	maps.Copy(names, did[1])
	if len(names) == 0 {
		data.Add("Calls of tools", "0", "0")
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		data.Add("Calls of "+page.Line(name, 60).String(), fmt.Sprint(did[0][name]), fmt.Sprint(did[1][name]))
	}
	data.Answers, data.Same = true, p.Same
	changes := talk.Diff(line(p.A.Answer), line(p.B.Answer))
	data.Files = []page.File{{Name: page.Clean("answer"), Lines: changes}}
}

// sameNote counts the answers that are the same.
func sameNote(pairs []history.Pair) string {
	same := 0
	for _, p := range pairs {
		if p.Same {
			same++
		}
	}
	return fmt.Sprintf("%s of %s are the same.", words.Thousands(same), words.Plural(len(pairs), "answer"))
}

// pairRow is a row of two jobs.
func (v View) pairRow(p history.Pair) page.PairRow {
	row := page.PairRow{Depth: p.Depth, Answer: "different"}
	for i, side := range []*history.Side{p.A, p.B} {
		if side == nil {
			continue
		}
		if row.Task == "" {
			row.Number, row.Task = words.Thousands(side.Index+1), page.Line(side.Task, 160)
			row.URL = v.JobURL(side.ID)
		}
		row.Sides[i] = page.Side{State: words.Status(side.Status), Time: words.Took(side.DurationMS),
			Tokens: words.Tokens(side.TotalUsage)}
	}
	switch {
	case p.A == nil:
		row.Answer = "only right"
	case p.B == nil:
		row.Answer = "only left"
	case !p.A.Status.Final() || !p.B.Status.Final():
		row.Answer = "–"
	case p.Same:
		row.Answer = "same"
	}
	if p.A != nil && p.B != nil {
		row.URL = v.Root + "compare?job=" + p.A.ID + "&job=" + p.B.ID
	}
	if p.Depth > 0 {
		row.Number = ""
	}
	return row
}

// line returns text with a newline at its end, so that nothing is said about that.
func line(text string) string { return strings.TrimSuffix(text, "\n") + "\n" }

func usage(u task.Usage) string {
	if u.Tokens() == 0 {
		return "0"
	}
	return output.Usage(u)
}

// counts is how often each tool was called.
func counts(did *task.Did) map[string]int {
	if did == nil || did.Calls == nil {
		return map[string]int{}
	}
	return did.Calls
}
