package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"qq/internal/app/serve/page"
	"qq/internal/app/serve/talk"
	"qq/internal/app/serve/view"
	"qq/internal/app/serve/words"
	"qq/internal/control"
	"qq/pkg/llm"
	"qq/pkg/session"
)

const (
	maxReplies  = 32      // of a root with a part of a transcript, for one page
	talkPerPage = 100     // entries of a transcript
	maxEntry    = 20_000  // bytes of a text of it
	maxAnswer   = 200_000 // bytes of an answer on the page of its job
)

func (s *server) showJob(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	s.hub.Refresh()
	run, err := s.store.Whole(id)
	if err != nil {
		return err
	}
	it := run.ByID[id]
	for whole, one := range run.ByID { // people may write the end of an id
		if it == nil && (strings.HasSuffix(whole, id) || strings.HasPrefix(whole, id)) {
			it = one
		}
	}
	if it == nil {
		http.Redirect(w, r, s.view().RunURL(run.ID), http.StatusSeeOther)
		return nil
	}
	data := page.Job{
		Frame: page.Frame{Title: page.Line(it.Task, 80)}, Head: s.view().JobHead(run, it),
		Notices: s.view().JobNotices(run, it),
		Task:    page.Clean(talk.Shorten(it.Task, maxEntry)), Error: page.Clean(it.Error),
		Attempts: s.view().Attempts(it),
		Below:    s.view().Rows(run, it.Below[:min(len(it.Below), view.RowsPerPage)], false),
	}
	if left := len(it.Below) - len(data.Below); left > 0 {
		_, rest, count := s.view().More(run.ID, it.ID, len(data.Below), left)
		data.Below = append(data.Below, page.Row{ID: "more", Task: page.Clean(count), URL: rest})
	}
	if it.Now != nil {
		return s.showLive(w, run, it, data)
	}
	if res, ok, err := s.store.Answer(it.ID); err == nil && ok {
		data.Answer = page.Clean(talk.Shorten(res.Output, maxAnswer))
		if len(res.Output) > maxAnswer {
			data.AnswerURL = s.view().JobURL(it.ID) + "/answer"
			data.AnswerNote = page.Clean(fmt.Sprintf("This is the beginning of %s bytes.",
				words.Thousands(len(res.Output))))
		}
	}
	t, err := s.store.Transcript(it.Run)
	switch {
	case errors.Is(err, session.ErrNotFound):
		data.TalkNote = page.Clean("None was kept.")
	case err != nil:
		data.TalkNote = page.Line(err.Error(), 300)
	default:
		data.TalkNote = page.Line(strings.Join(t.Damaged, "; "), 600)
	}
	data.Files = talk.Changes(it.Changed, t.Entries)
	from := min(number(r, "from"), len(t.Entries))
	to := min(from+talkPerPage, len(t.Entries))
	data.Talk = talk.Entries(t.Entries[from:to])
	if to < len(t.Entries) {
		data.TalkMore = &page.Link{URL: fmt.Sprintf("%s?from=%d#transcript", s.view().JobURL(it.ID), to),
			Text: page.Clean(words.Plural(len(t.Entries)-to, "more message"))}
	}
	return s.show(w, "job", data)
}

// showLive shows a job that is at work or queued.
func (s *server) showLive(w http.ResponseWriter, run view.Run, it *view.Item, data page.Job) error {
	data.Live, data.Doing = true, page.Line(words.Doing(it.Now), 300)
	data.Questions = s.view().Questions(run.Root, it.ID)
	act := page.Act{Root: run.Root.ID, ID: it.ID}
	data.Message = &act
	cancel := act
	cancel.URL, cancel.Text, cancel.Harm = s.root+"cancel", "Cancel this job", true
	cancel.Ask = "End this job, with all that it has started?"
	data.Head.Acts = append(data.Head.Acts, cancel)
	var entries []llm.Entry
	var next int64
	err := s.hub.Steer(run.Root.ID, func(c *control.Client) error {
		log, err := c.Log(it.ID, 0)
		for n := 0; err == nil && log.More && n < maxReplies; n++ {
			entries, next = append(entries, decode(log.Entries, it)...), log.Next
			log, err = c.Log(it.ID, next)
		}
		if err == nil {
			entries, next = append(entries, decode(log.Entries, it)...), log.Next
		}
		return err
	})
	if err != nil {
		data.TalkNote = page.Line(err.Error(), 300)
	}
	data.Files = talk.Changes(it.Now.Changed, entries)
	if cut := len(entries) - talkPerPage; cut > 0 {
		entries = entries[cut:]
		data.TalkNote = page.Clean(fmt.Sprintf("The last %d messages.", talkPerPage))
	}
	data.Talk = talk.Entries(entries)
	data.Events = s.view().JobURL(it.ID) + "/events?" + url.Values{"from": {fmt.Sprint(next)}}.Encode()
	return s.show(w, "job", data)
}

// decode returns the messages of lines of a transcript that belong to a job.
func decode(lines []json.RawMessage, it *view.Item) (entries []llm.Entry) {
	for _, line := range lines {
		var e llm.Entry
		if json.Unmarshal(line, &e) != nil || e.Role == "" || e.Run != "" && e.Run != it.ID {
			continue
		}
		entries = append(entries, e)
	}
	return entries
}

// wholeAnswer answers with an answer as it was given, as plain text.
func (s *server) wholeAnswer(w http.ResponseWriter, r *http.Request) error {
	res, ok, err := s.store.Answer(r.PathValue("id"))
	if err != nil {
		return err
	}
	if !ok {
		return errNoPage
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, err = w.Write([]byte(res.Output))
	return err
}
