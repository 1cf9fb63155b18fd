package serve

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"qq/internal/app/output"
	"qq/internal/app/serve/page"
	"qq/internal/app/serve/talk"
	"qq/internal/app/serve/view"
	"qq/internal/app/serve/words"
	"qq/pkg/task"
)

// compare shows two jobs side by side.
func (s *server) compare(w http.ResponseWriter, r *http.Request) error {
	ids := r.URL.Query()["job"]
	if len(ids) != 2 || ids[0] == ids[1] {
		return task.Hinted("go back and choose two jobs", "two jobs can be compared, not %d", len(ids))
	}
	var both [2]*view.Item
	var answers [2]task.Result
	for i, id := range ids {
		run, err := s.store.Whole(id)
		if err != nil {
			return err
		}
		if both[i] = run.ByID[id]; both[i] == nil {
			return task.Hinted("choose two jobs", "%.64q is no job", id)
		}
		answers[i], _, err = s.store.Answer(id)
		if err != nil {
			return err
		}
	}
	a, b := both[0], both[1]
	data := page.Compared{
		Frame:  page.Frame{Title: page.Clean("Comparison")},
		A:      page.Link{URL: s.view().JobURL(a.ID), Text: page.Line(a.Task, 120)},
		B:      page.Link{URL: s.view().JobURL(b.ID), Text: page.Line(b.Task, 120)},
		StateA: s.view().Row(a, false).State, StateB: s.view().Row(b, false).State,
		Same: answers[0].Output == answers[1].Output,
	}
	add := func(name, a, b string) {
		if a != "" || b != "" {
			data.Facts = append(data.Facts, page.Pair{Name: name, A: page.Line(a, 300), B: page.Line(b, 300)})
		}
	}
	add("Agent", a.Agent, b.Agent)
	add("Model", a.Model, b.Model)
	add("Time", words.Took(a.DurationMS), words.Took(b.DurationMS))
	add("In the queue", words.Took(a.QueuedMS), words.Took(b.QueuedMS))
	add("Tokens", usage(a.TotalUsage), usage(b.TotalUsage))
	add("Cost", output.WholeCost(a.TotalUsage), output.WholeCost(b.TotalUsage))
	add("Attempts", fmt.Sprint(a.Attempts), fmt.Sprint(b.Attempts))
	add("Jobs below", fmt.Sprint(a.All), fmt.Sprint(b.All))
	add("Error", a.Error, b.Error)
	did := [2]map[string]int{counts(a), counts(b)}
	names := map[string]bool{}
	for _, d := range did {
		for name := range d {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		add("Calls of "+page.Line(name, 60).String(), fmt.Sprint(did[0][name]), fmt.Sprint(did[1][name]))
	}
	changes := talk.Diff(line(answers[0].Output), line(answers[1].Output))
	data.Files = []page.File{{Name: page.Clean("answer"), Lines: changes}}
	return s.show(w, "compare", data)
}

// line returns text with a newline at its end, so that nothing is said about that.
func line(text string) string { return strings.TrimSuffix(text, "\n") + "\n" }

func usage(u task.Usage) string {
	if u.Tokens() == 0 {
		return "0"
	}
	return output.Usage(u)
}

func counts(it *view.Item) map[string]int {
	if it.Did == nil {
		return nil
	}
	return it.Did.Calls
}
