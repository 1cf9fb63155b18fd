package serve

import (
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"qq/internal/app/serve/page"
	"qq/internal/app/serve/view"
	"qq/internal/app/serve/words"
	"qq/internal/record/ledger"
	"qq/pkg/task"
)

// around is how many bytes of the text around what was found are shown.
const around = 120

func (s *server) search(w http.ResponseWriter, r *http.Request) error {
	data, err := s.found(r.URL.Query().Get("q"), r.URL.Query().Get("behind"))
	if err != nil {
		return err
	}
	return s.show(w, "search", data)
}

// found looks for a text in tasks, answers and errors. behind is the last job of the page before; empty is none.
func (s *server) found(text, behind string) (page.Found, error) {
	text = strings.TrimSpace(text)
	data := page.Found{Frame: page.Frame{Title: page.Clean("Search"), Query: page.Line(text, 200)}}
	if text == "" {
		data.Note = "Type a text that is in a task, an answer or an error."
		return data, nil
	}
	if err := s.store.Fresh(); err != nil {
		return data, err
	}
	list, err := s.store.Search(ledger.Filter{Text: text, Limit: perPage + 1, BehindRun: behind})
	if err != nil {
		return data, err
	}
	if len(list) > perPage {
		list = list[:perPage]
		data.Older = s.root + "search?" + url.Values{"q": {text}, "behind": {list[perPage-1].ID}}.Encode()
	}
	data.Note = "Nothing. Parts of words count, and so do all characters."
	if len(list) > 0 {
		data.Note = words.Plural(len(list), "job") + ", the newest first."
	}
	for _, r := range list {
		row := page.RunRow{
			ID: r.ID, URL: s.view().JobURL(r.ID), Name: page.Line(r.Task, view.MaxTitle), State: words.Status(r.Status),
			When: words.When(r.Started, s.now()), Stamp: page.Stamp(r.Started), Meta: []page.Text{page.Line(r.Agent,
				40)},
		}
		if r.Batch != "" {
			row.Meta = append(row.Meta, page.Clean("batch "+task.ShortID(r.Batch)))
		}
		found := []string{r.Summary, r.Error}
		if len(r.Task) > view.MaxTitle { // else the name has all of it
			found = append(found, r.Task)
		}
		for _, in := range found {
			if row.Pieces = excerpt(in, text); row.Pieces != nil {
				break
			}
		}
		data.Hits = append(data.Hits, row)
	}
	return data, nil
}

// excerpt is what is around the first place of what in text, with that place marked; nil if there is none.
func excerpt(text, what string) []page.Piece {
	at := strings.Index(text, what)
	if at < 0 {
		if lower := strings.ToLower(text); len(lower) == len(text) {
			at = strings.Index(lower, strings.ToLower(what))
		}
	}
	if at < 0 || at+len(what) > len(text) {
		return nil
	}
	from, to := max(at-around, 0), min(at+len(what)+around, len(text))
	for from > 0 && !utf8.RuneStart(text[from]) {
		from--
	}
	for to < len(text) && !utf8.RuneStart(text[to]) {
		to++
	}
	flat := func(s string) page.Text {
		lead, tail := "", ""
		if s != strings.TrimLeft(s, " \n\t") {
			lead = " "
		}
		if s != strings.TrimRight(s, " \n\t") {
			tail = " "
		}
		return page.Clean(lead + page.Line(s, 4*around).String() + tail)
	}
	return []page.Piece{{Text: flat(text[from:at])}, {Class: "hit", Text: flat(text[at : at+len(what)])},
		{Text: flat(text[at+len(what) : to])}}
}
