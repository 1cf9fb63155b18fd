package serve

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"qq/internal/app/output"
	"qq/internal/app/serve/page"
	"qq/internal/app/serve/talk"
	"qq/internal/app/serve/view"
	"qq/internal/app/serve/words"
	"qq/internal/control"
	"qq/pkg/llm"
	"qq/pkg/session"
	"qq/pkg/task"
)

const (
	talkPerPage = 100       // entries of a transcript
	maxEntry    = 20_000    // bytes of a text of it
	maxAnswer   = 200_000   // bytes of an answer on the page of its job
	foldFrom    = 700       // bytes of the result of a tool that is folded
	maxDiffs    = 100       // changes of one job
	maxDiffSize = 100 << 10 // bytes of one
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
		Frame: page.Frame{Title: page.Line(it.Task, 80)}, Head: s.jobHead(run, it), Notices: s.jobNotices(run, it),
		Task: page.Clean(talk.Shorten(it.Task, maxEntry)), Error: page.Clean(it.Error), Attempts: s.attempts(it),
		Below: s.view().Rows(run, it.Below[:min(len(it.Below), view.RowsPerPage)], false),
	}
	if left := len(it.Below) - len(data.Below); left > 0 {
		part, page1, count := s.view().More(run.ID, it.ID, len(data.Below), left)
		data.Below = append(data.Below, page.Row{ID: "more", Task: page.Clean(count), URL: page1})
		_ = part
	}
	if it.Now != nil {
		return s.showLive(w, run, it, data)
	}
	if res, ok, err := s.store.Answer(it.ID); err == nil && ok {
		data.Answer = page.Clean(talk.Shorten(res.Output, maxAnswer))
		if len(res.Output) > maxAnswer {
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
		for err == nil && log.More {
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

// jobHead is the head of the page of a job.
func (s *server) jobHead(run view.Run, it *view.Item) page.Head {
	h := page.Head{
		Trail: []page.Link{{URL: s.root, Text: page.Clean("Runs")}, {URL: s.view().RunURL(run.ID),
			Text: s.view().Title(run)}},
		Name: page.Line(it.Task, view.MaxTitle), State: s.view().Row(it, run.Killed()).State,
	}
	if h.Trail[1].Text.String() == h.Name.String() {
		h.Trail[1].Text = page.Clean("The whole run")
	} else {
		h.Trail[1].Text = page.Line(h.Trail[1].Text.String(), 60)
	}
	if above := run.ByID[it.Parent]; above != nil && above.Parent != "" {
		h.Trail = append(h.Trail, page.Link{URL: s.view().JobURL(above.ID), Text: page.Line(above.Task, 40)})
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
	row := s.view().Row(it, run.Killed())
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

func (s *server) jobNotices(run view.Run, it *view.Item) (all []page.Notice) {
	if run.Killed() && it.Live {
		all = append(all, page.Notice{Class: page.Bad, Text: page.Clean(view.KilledText(run.Root))})
	}
	if it.Cached {
		all = append(all, page.Notice{Class: page.Off, Text: page.Clean("Nothing was run: an earlier result holds.")})
	}
	for _, w := range it.Warnings {
		all = append(all, page.Notice{Class: page.Wait, Text: page.Line(w, 600)})
	}
	return all
}

// attempts are the attempts of a job that was tried more than once.
func (s *server) attempts(it *view.Item) (rows []page.Attempt) {
	for _, a := range it.Earlier {
		rows = append(rows, page.Attempt{
			Number: a.Number, State: words.Status(a.Status), Started: words.Second(a.Started),
			Time:   output.Roundly(a.Ended.Sub(a.Started)),
			Tokens: words.Tokens(a.Usage), Error: page.Line(a.Error, 400),
		})
	}
	if len(rows) > 0 {
		last := s.view().Row(it, false)
		rows = append(rows, page.Attempt{
			Number: cmp.Or(it.Attempts, len(rows)+1), State: words.Status(it.Status),
			Started: words.Second(it.Earlier[len(it.Earlier)-1].Ended),
			Time:    last.Time, Error: page.Line(it.Error, 400),
		})
	}
	return rows
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
