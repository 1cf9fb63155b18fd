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
	"qq/internal/control"
	"qq/internal/tools/edit"
	"qq/pkg/llm"
	"qq/pkg/session"
	"qq/pkg/task"
	"qq/pkg/tool"
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
	run, err := s.store.whole(id)
	if err != nil {
		return err
	}
	it := run.byID[id]
	for whole, one := range run.byID { // people may write the end of an id
		if it == nil && (strings.HasSuffix(whole, id) || strings.HasPrefix(whole, id)) {
			it = one
		}
	}
	if it == nil {
		http.Redirect(w, r, s.runURL(run.ID), http.StatusSeeOther)
		return nil
	}
	data := page.Job{
		Frame: page.Frame{Title: page.Line(it.Task, 80)}, Head: s.jobHead(run, it), Notices: s.jobNotices(run, it),
		Task: page.Clean(shorten(it.Task, maxEntry)), Error: page.Clean(it.Error), Attempts: s.attempts(it),
		Below: s.rows(run, it.below[:min(len(it.below), rowsPerPage)], false),
	}
	if left := len(it.below) - len(data.Below); left > 0 {
		part, page1, count := s.more(run.ID, it.ID, len(data.Below), left)
		data.Below = append(data.Below, page.Row{ID: "more", Task: page.Clean(count), URL: page1})
		_ = part
	}
	if it.now != nil {
		return s.showLive(w, run, it, data)
	}
	if res, ok, err := s.store.Answer(it.ID); err == nil && ok {
		data.Answer = page.Clean(shorten(res.Output, maxAnswer))
		if len(res.Output) > maxAnswer {
			data.AnswerNote = page.Clean(fmt.Sprintf("This is the beginning of %s bytes.", thousands(len(res.Output))))
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
	data.Files = changes(it.Changed, t.Entries)
	from := min(number(r, "from"), len(t.Entries))
	to := min(from+talkPerPage, len(t.Entries))
	data.Talk = talk(t.Entries[from:to])
	if to < len(t.Entries) {
		data.TalkMore = &page.Link{URL: fmt.Sprintf("%s?from=%d#transcript", s.jobURL(it.ID), to),
			Text: page.Clean(plural(len(t.Entries)-to, "more message"))}
	}
	return s.show(w, "job", data)
}

// showLive shows a job that is at work or queued.
func (s *server) showLive(w http.ResponseWriter, run whole, it *item, data page.Job) error {
	data.Live, data.Doing = true, page.Line(doing(it.now), 300)
	data.Questions = s.questions(run.root, it.ID)
	act := page.Act{Root: run.root.ID, ID: it.ID}
	data.Message = &act
	cancel := act
	cancel.URL, cancel.Text, cancel.Harm = s.root+"cancel", "Cancel this job", true
	cancel.Ask = "End this job, with all that it has started?"
	data.Head.Acts = append(data.Head.Acts, cancel)
	var entries []llm.Entry
	var next int64
	err := s.hub.Steer(run.root.ID, func(c *control.Client) error {
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
	data.Files = changes(it.now.Changed, entries)
	if cut := len(entries) - talkPerPage; cut > 0 {
		entries = entries[cut:]
		data.TalkNote = page.Clean(fmt.Sprintf("The last %d messages.", talkPerPage))
	}
	data.Talk = talk(entries)
	data.Events = s.jobURL(it.ID) + "/events?" + url.Values{"from": {fmt.Sprint(next)}}.Encode()
	return s.show(w, "job", data)
}

// decode returns the messages of lines of a transcript that belong to a job.
func decode(lines []json.RawMessage, it *item) (entries []llm.Entry) {
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
func (s *server) jobHead(run whole, it *item) page.Head {
	h := page.Head{
		Trail: []page.Link{{URL: s.root, Text: page.Clean("Runs")}, {URL: s.runURL(run.ID), Text: s.titleOf(run)}},
		Name:  page.Line(it.Task, maxTitle), State: s.row(it, run.killed()).State,
	}
	if h.Trail[1].Text.String() == h.Name.String() {
		h.Trail[1].Text = page.Clean("The whole run")
	} else {
		h.Trail[1].Text = page.Line(h.Trail[1].Text.String(), 60)
	}
	if above := run.byID[it.Parent]; above != nil && above.Parent != "" {
		h.Trail = append(h.Trail, page.Link{URL: s.jobURL(above.ID), Text: page.Line(above.Task, 40)})
	}
	add := func(name, key, value, note string) {
		if value != "" {
			h.Facts = append(h.Facts, page.Fact{Name: name, Key: key, Value: page.Line(value, 200), Note: page.Clean(note)})
		}
	}
	add("Agent", "", it.Agent, "")
	add("Model", "", it.Model, "")
	add("Started", "", second(it.Started), "")
	row := s.row(it, run.killed())
	h.Facts = append(h.Facts, page.Fact{Name: "Time", Key: "time", Value: page.Clean(row.Time), Since: row.Since})
	if it.QueuedMS >= 50 {
		add("In the queue", "", took(it.QueuedMS), "")
	}
	own, all := it.Usage, it.TotalUsage
	if it.now != nil {
		own, all = it.now.Usage, it.now.Subtree
	}
	if all.Tokens() > 0 {
		note := output.Usage(all)
		if own != all {
			note += "; its own: " + output.Usage(own)
		}
		add("Tokens", "tokens", tokens(all), note)
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

func (s *server) jobNotices(run whole, it *item) (all []page.Notice) {
	if run.killed() && it.Live {
		all = append(all, page.Notice{Class: page.Bad, Text: page.Clean(killedText(run.root))})
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
func (s *server) attempts(it *item) (rows []page.Attempt) {
	for _, a := range it.Earlier {
		rows = append(rows, page.Attempt{
			Number: a.Number, State: stateOf(a.Status), Started: second(a.Started), Time: output.Roundly(a.Ended.Sub(a.Started)),
			Tokens: tokens(a.Usage), Error: page.Line(a.Error, 400),
		})
	}
	if len(rows) > 0 {
		last := s.row(it, false)
		rows = append(rows, page.Attempt{
			Number: cmp.Or(it.Attempts, len(rows)+1), State: stateOf(it.Status), Started: second(it.Earlier[len(it.Earlier)-1].Ended),
			Time: last.Time, Error: page.Line(it.Error, 400),
		})
	}
	return rows
}

// shorten returns the beginning of a text that is too long, with a line that says how much is missing.
func shorten(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + fmt.Sprintf("\n[%d more bytes are not shown]", len(text)-most)
}

// talk shows the messages of a transcript.
func talk(entries []llm.Entry) []page.Entry {
	views := make([]page.Entry, len(entries))
	for i, e := range entries {
		v := page.Entry{Text: page.Clean(shorten(e.Content, maxEntry)), Failed: e.Failed,
			Thinking: page.Clean(shorten(e.Thinking, maxEntry))}
		v.Who = page.Line(strings.TrimSpace(map[llm.Role]string{llm.User: "Task", llm.Assistant: "Agent",
			llm.ToolRole: "Result of " + e.Tool, llm.System: "System"}[e.Role]), 60)
		meta := []string{e.Time.Local().Format("15:04:05")}
		if !e.Started.IsZero() {
			meta = append(meta, took(e.DurationMS))
		}
		if e.Usage != (task.Usage{}) {
			meta = append(meta, output.Tokens(e.Usage)+" tokens")
		}
		if e.Attempt > 1 {
			meta = append(meta, fmt.Sprintf("attempt %d begins", e.Attempt))
		}
		if e.Failed {
			meta = append(meta, "failed")
		}
		for _, m := range meta {
			v.Meta = append(v.Meta, page.Clean(m))
		}
		if e.Role == llm.ToolRole && (len(e.Content) > foldFrom || strings.Count(e.Content, "\n") > 8) {
			v.Folded = page.Line(e.Content, 120)
		}
		for _, c := range e.Calls {
			line := strings.TrimPrefix(c.Line(), c.Name)
			v.Calls = append(v.Calls, page.Call{Tool: page.Line(c.Name, 60), Brief: page.Line(line, 160),
				Arguments: page.Clean(shorten(indented(c.Arguments), maxEntry))})
		}
		for _, image := range e.Images {
			v.Meta = append(v.Meta, page.Line(image.String(), 200))
		}
		views[i] = v
	}
	return views
}

// indented is the JSON of arguments as people read it.
func indented(args json.RawMessage) string {
	var fields map[string]any
	if json.Unmarshal(args, &fields) != nil {
		return string(args)
	}
	out := new(strings.Builder)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if enc.Encode(fields) != nil {
		return string(args)
	}
	return strings.TrimSpace(strings.ReplaceAll(out.String(), `\n`, "\n    "))
}

// changes are what a job has changed: the calls of its transcript that changed a file, and the names of the other files
// that changed.
func changes(changed []string, entries []llm.Entry) (files []page.File) {
	failed, done := map[string]bool{}, map[string]bool{}
	for _, e := range entries {
		if e.Role == llm.ToolRole {
			failed[e.CallID], done[e.CallID] = e.Failed, true
		}
	}
	named := map[string]bool{}
	for _, e := range entries {
		for _, c := range e.Calls {
			name, f, ok := change(c)
			if !ok || failed[c.ID] || !done[c.ID] {
				continue
			}
			named[name] = true
			if files = append(files, f); len(files) == maxDiffs {
				return files
			}
		}
	}
	for _, name := range changed {
		if !named[name] {
			files = append(files, page.File{Name: page.Line(name, 300), Note: "changed by a command, or by a job below"})
		}
	}
	return files
}

// change is what a call has changed in a file.
func change(c tool.Call) (name string, f page.File, ok bool) {
	var args struct {
		Path    string `json:"path"`
		Content string `json:"content"`
		Old     string `json:"old_text"`
		New     string `json:"new_text"`
	}
	if json.Unmarshal(tool.Unwrap(c.Arguments), &args) != nil || args.Path == "" {
		return "", f, false
	}
	f.Name = page.Line(args.Path, 300)
	before, after := "", ""
	switch c.Name {
	case "edit_file":
		before, after = args.Old, args.New
	case "write_file":
		f.Note, after = "written whole", args.Content
	case "create_file":
		f.Note, after = "created", args.Content
	case "delete_file":
		f.Note = "deleted"
		return args.Path, f, true
	default:
		return "", f, false
	}
	f.Lines = diff(before, after)
	return args.Path, f, true
}

// diff are the lines of a unified diff, without those that name the file.
func diff(before, after string) []page.Piece {
	text, _ := edit.Diff("file", []byte(before), []byte(after))
	lines := pieces(shorten(text, maxDiffSize))
	for len(lines) > 0 && lines[0].Class == "gap" && !strings.HasPrefix(lines[0].Text.String(), "@@") {
		lines = lines[1:]
	}
	return lines
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
