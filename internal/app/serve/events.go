package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"qq/internal/app/output"
	"qq/internal/app/serve/page"
	"qq/internal/app/serve/talk"
	"qq/internal/app/serve/view"
	"qq/internal/app/serve/words"
	"qq/internal/control"
	"qq/internal/control/board"
	"qq/internal/record/history"
	"qq/internal/record/ledger"
	"qq/pkg/task"
)

const (
	sendEvery = 250 * time.Millisecond // at most
	sendCalm  = time.Second            // even if nothing was said: times go on, and the ledger
	writeTime = 10 * time.Second       // for a browser to read what is sent
	quietTime = 15 * time.Second       // after which a comment shows that the server is there
	maxSent   = 300                    // rows in one message
	maxLive   = 20_000                 // bytes of the text that a model writes
)

var errBusy = errors.New("too many pages follow what happens")

// stream is an open stream of events to one page.
type stream struct {
	w    http.ResponseWriter
	ctl  *http.ResponseController
	last map[string]string // what was sent, by the name of the event
	when time.Time
}

// follow sends what next returns each time that a root has said something new, until the page is closed, the server
// ends, or next says that there is no more.
func (s *server) follow(w http.ResponseWriter, r *http.Request, name string, next func() (data any, more bool,
	err error),
) error {
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		return errBusy
	}
	st := stream{w: w, ctl: http.NewResponseController(w), last: map[string]string{}}
	w.Header().Set("Content-Type", "text/event-stream")
	news, stop := s.hub.View()
	defer stop()
	for {
		data, more, err := next()
		if err != nil {
			return err
		}
		if err := st.send(name, data); err != nil || !more {
			return err
		}
		select { // a page gets a few events in a second, however many there are
		case <-time.After(sendEvery):
		case <-r.Context().Done():
			return nil
		case <-s.ends:
			return nil
		}
		select {
		case <-news:
		case <-time.After(sendCalm):
		case <-r.Context().Done():
			return nil
		case <-s.ends:
			return nil
		}
	}
}

// send sends an event, if it differs from the last one with that name.
func (st *stream) send(name string, data any) error {
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(data); err != nil {
		return err
	}
	text := b.String()
	if text == st.last[name] {
		if time.Since(st.when) < quietTime {
			return nil
		}
		text = ":\n\n"
	} else {
		st.last[name] = text
		text = "event: " + name + "\ndata: " + text + "\n"
	}
	st.when = time.Now()
	_ = st.ctl.SetWriteDeadline(time.Now().Add(writeTime)) // an error of Write follows
	if _, err := st.w.Write([]byte(text)); err != nil {
		return err
	}
	return st.ctl.Flush()
}

// sentQuestion is an open question in an event.
type sentQuestion struct {
	ID      string `json:"id"`
	Summary string `json:"summary"`
	HTML    string `json:"html"`
	Later   bool   `json:"later,omitempty"`
}

func (s *server) sent(questions []page.Question) ([]sentQuestion, error) {
	all := []sentQuestion{}
	for _, q := range questions {
		html, err := s.pages.HTML("question", q)
		if err != nil {
			return nil, err
		}
		all = append(all, sentQuestion{q.ID, q.Summary.String(), html, q.Later})
	}
	return all, nil
}

// followRuns sends the list of runs.
func (s *server) followRuns(w http.ResponseWriter, r *http.Request) error {
	return s.follow(w, r, "runs", func() (any, bool, error) {
		data, err := s.runs(ledger.Filter{})
		if err != nil {
			return nil, false, err
		}
		html, err := s.pages.HTML("runlist", data)
		if err != nil {
			return nil, false, err
		}
		questions, err := s.sent(data.Questions)
		return map[string]any{"html": html, "questions": questions}, true, err
	})
}

// sentRow is a row of a job in an event.
type sentRow struct {
	ID     string    `json:"id"`
	State  [2]string `json:"state"`
	Since  int64     `json:"since,omitempty"`
	Time   string    `json:"time"`
	Tokens string    `json:"tokens"`
	Below  string    `json:"below"`
	Failed bool      `json:"failed,omitempty"`
	// Under is the job below which it is; empty is the top. HTML is the row, the first time that it is sent.
	Under *string `json:"under,omitempty"`
	HTML  string  `json:"html,omitempty"`
}

// sentRun is what is new about a run.
type sentRun struct {
	State     [2]string         `json:"state"`
	Facts     map[string]string `json:"facts"`
	Changed   []sentRow         `json:"changed"`
	Work      []sentRow         `json:"work"`
	Questions []sentQuestion    `json:"questions"`
	Paused    bool              `json:"paused,omitempty"`
	Silent    bool              `json:"silent,omitempty"`
	Gone      string            `json:"gone,omitempty"`
	Ended     string            `json:"ended,omitempty"`
	Told      string            `json:"told,omitempty"` // for screen readers
	Top       string            `json:"top,omitempty"`  // all rows of the list, while a long batch begins
}

// runView is what a page has been told about a run.
type runView struct {
	*server
	id      string
	from    int                // the first row of the page
	under   string             // the job whose children the page shows at its top; empty is the run
	sent    map[string]sentRow // rows, without HTML
	working map[string]bool    // rows that are in the list of work
	live    map[string]*board.Job
	total   int // tasks of the batch
	filled  time.Time
	full    bool // the list of the page needs no more rows
	done    int
	told    time.Time
}

func (s *server) followRun(w http.ResponseWriter, r *http.Request) error {
	v := runView{server: s, id: r.PathValue("id"), under: r.URL.Query().Get("at"), from: number(r, "from"),
		sent: map[string]sentRow{}}
	return s.follow(w, r, "run", v.next)
}

// next is what is new about the run.
func (v *runView) next() (any, bool, error) {
	st, ok := v.hub.Of(v.id)
	if !ok || st.End != view.Running {
		return v.last(st, ok)
	}
	m := sentRun{State: [2]string{st.Shown().Class, st.Shown().Word}, Facts: facts(st, v.now()), Paused: st.Paused,
		Silent: st.Silent(), Changed: []sentRow{}, Work: []sentRow{}}
	if st.Batch != nil {
		v.total = st.Batch.Total
	}
	working, live := map[string]bool{}, map[string]*board.Job{}
	for i := range st.Jobs {
		live[st.Jobs[i].ExecutionID] = &st.Jobs[i]
	}
	if err := v.ended(&m, st, live); err != nil {
		return nil, false, err
	}
	for i := range st.Jobs {
		j := &st.Jobs[i]
		it := &view.Item{Job: view.Record(j, st), Now: j}
		row := v.view().Row(it, false)
		if _, err := v.change(&m, row, j.ParentExecutionID); err != nil {
			return nil, false, err
		}
		if j.State == task.Queued || len(v.sent) <= view.SeenAtOnce || len(m.Work) == view.MaxAtWork ||
			len(st.Jobs) > 1 && j.ExecutionID == st.ID {
			continue
		}
		one := rowSent(row)
		if row.Loose = true; !v.working[row.ID] {
			html, err := v.pages.HTML("row", row)
			if err != nil {
				return nil, false, err
			}
			one.HTML = html
		}
		working[row.ID] = true
		m.Work = append(m.Work, one)
	}
	v.working, v.live = working, live
	if err := v.fill(&m); err != nil {
		return nil, false, err
	}
	if st.Batch != nil && st.Batch.Done != v.done && time.Since(v.told) > 10*time.Second {
		m.Told = fmt.Sprintf("%d of %d done", st.Batch.Done, st.Batch.Total)
		v.done, v.told = st.Batch.Done, time.Now()
	}
	var err error
	m.Questions, err = v.server.sent(v.view().Questions(st, ""))
	return m, true, err
}

// change adds a row to m if it is new or differs from what was sent. It reports false if m is full: the row has to come
// with the next message.
func (v *runView) change(m *sentRun, row page.Row, under string) (bool, error) {
	one := rowSent(row)
	before, known := v.sent[row.ID]
	if known && before == one {
		return true, nil
	}
	if len(m.Changed) == maxSent {
		return false, nil
	}
	v.sent[row.ID] = one
	if under == v.under || under == "" {
		under = ""
	}
	if !known && (under != "" || v.total <= view.RowsPerPage) { // of a long batch, the first ones come by fill
		html, err := v.pages.HTML("row", row)
		if err != nil {
			return false, err
		}
		one.HTML, one.Under = html, &under
	}
	m.Changed = append(m.Changed, one)
	return true, nil
}

// fillEvery is how often the list of a long batch is sent while it has not as many rows as a page.
const fillEvery = 2 * time.Second

// fill adds the whole list to m, if that is due: so many jobs of a long batch begin and end that not each is seen.
func (v *runView) fill(m *sentRun) error {
	if v.full || v.under != "" || v.from > 0 || v.total <= view.RowsPerPage || time.Since(v.filled) < fillEvery {
		return nil
	}
	run, err := v.store.Whole(v.id)
	if err != nil {
		return err
	}
	top := run.Items[:min(len(run.Items), view.RowsPerPage)]
	m.Top, err = v.pages.HTML("rows", v.view().Rows(run, top, false))
	v.full, v.filled = len(top) == view.RowsPerPage, time.Now()
	return err
}

// most is the larger one of two amounts of the same job, of which one was told earlier.
func most(a, b task.Usage) task.Usage {
	if b.Tokens() > a.Tokens() {
		return b
	}
	return a
}

// ended adds the jobs that have ended since the last time. Those for which m has no room stay in live: the next message
// has them.
func (v *runView) ended(m *sentRun, st view.State, live map[string]*board.Job) error {
	ends := map[string]board.Ended{}
	for _, e := range st.Ended {
		ends[e.ExecutionID] = e
	}
	var recorded history.Run
	for id, j := range v.live {
		if live[id] != nil {
			continue
		}
		it := &view.Item{Job: view.Record(j, st)}
		if e, ok := ends[id]; ok {
			it.Status, it.Error, it.TotalUsage, it.DurationMS, it.Ended, it.Live = e.Status, e.Error, most(j.Subtree,
				e.Usage), e.DurationMS,
				e.Ended, false
		} else { // more have ended than the root tells
			if recorded.ID == "" {
				recorded, _ = v.store.Recorded(v.id) // without it, the row stays as it is
			}
			found := false
			for r := range recorded.All() {
				if r.ID == id && !r.Ended.IsZero() {
					it.Job, found = r, true
				}
			}
			if !found {
				live[id] = j // the next time
				continue
			}
		}
		told, err := v.change(m, v.view().Row(it, false), j.ParentExecutionID)
		if err != nil {
			return err
		}
		if !told {
			live[id] = j
		}
	}
	return nil
}

// last is what is said of a run whose root is gone.
func (v *runView) last(st view.State, known bool) (any, bool, error) {
	m := sentRun{State: [2]string{page.Off, "ended"}, Facts: map[string]string{}, Changed: []sentRow{},
		Work:      []sentRow{},
		Questions: []sentQuestion{}, Ended: "ended"}
	v.store.Forget(v.id)
	if known && st.End == view.Lost {
		gone := words.Status(task.Interrupted)
		m.State, m.Gone, m.Ended = [2]string{gone.Class, gone.Word}, view.KilledText(st), "killed"
		for id, j := range v.live { // what was at work has ended with it
			it := &view.Item{Job: view.Record(j, st)}
			it.Live, it.Status, it.Now = false, task.Interrupted, nil
			told, err := v.change(&m, v.view().Row(it, true), j.ParentExecutionID)
			if err != nil {
				return nil, false, err
			}
			if told {
				delete(v.live, id)
			}
		}
		if len(v.live) > 0 { // the page goes on to listen
			m.Ended = ""
			return m, true, nil
		}
		run, err := v.store.Whole(v.id)
		if err != nil { // nothing was recorded
			return m, false, nil
		}
		m.Facts = v.view().Head(run).Live() // what was not recorded is lost
	}
	return m, false, nil
}

func rowSent(r page.Row) sentRow {
	one := sentRow{ID: r.ID, State: [2]string{r.State.Class, r.State.Word}, Since: r.Since, Time: r.Time,
		Tokens: r.Tokens, Below: r.Below.String(), Failed: r.Failed}
	if r.Since != 0 {
		one.Time = "" // the page counts
	}
	return one
}

// facts are the values in the head of a run that change.
func facts(st view.State, now time.Time) map[string]string {
	f := map[string]string{
		"work": fmt.Sprintf("%d of at most %d", st.AtWork, st.Max),
		"cost": output.WholeCost(st.Used),
	}
	if st.Used.Tokens() > 0 {
		f["tokens"] = words.Tokens(st.Used) + " " + output.Usage(st.Used)
	}
	if b := st.Batch; b != nil {
		f["done"] = words.Thousands(b.Done) + " of " + words.Thousands(b.Total)
		if b.Failed > 0 {
			f["done"] += " " + words.Thousands(b.Failed) + " failed"
		}
	}
	maps.DeleteFunc(f, func(_, v string) bool { return v == "" })
	return f
}

// sentJob is what is new about a job.
type sentJob struct {
	State     [2]string         `json:"state"`
	Facts     map[string]string `json:"facts"`
	Doing     string            `json:"doing"`
	Text      string            `json:"text"`
	Talk      string            `json:"talk,omitempty"`
	Questions []sentQuestion    `json:"questions"`
	Gone      string            `json:"gone,omitempty"`
	Ended     string            `json:"ended,omitempty"`
}

func (s *server) followJob(w http.ResponseWriter, r *http.Request) error {
	id, from := r.PathValue("id"), int64(number(r, "from"))
	root := ""
	return s.follow(w, r, "job", func() (any, bool, error) {
		st, ok := s.hub.Of(id)
		if !ok {
			for _, one := range s.hub.Roots() {
				if one.ID == root {
					st = one
				}
			}
		}
		root = st.ID
		var job *board.Job
		for i := range st.Jobs {
			if st.Jobs[i].ExecutionID == id {
				job = &st.Jobs[i]
			}
		}
		if job == nil || st.End != view.Running {
			m := sentJob{State: [2]string{page.Off, "ended"}, Facts: map[string]string{},
				Questions: []sentQuestion{}, Ended: "ended"}
			if st.End == view.Lost {
				m.State[1], m.Gone, m.Ended = string(task.Interrupted), view.KilledText(st), "killed"
			}
			s.store.Forget(id)
			return m, false, nil
		}
		return s.jobNews(st, job, &from)
	})
}

// jobNews is what is new about a job at work. from is how much of its transcript was sent.
func (s *server) jobNews(st view.State, job *board.Job, from *int64) (any, bool, error) {
	it := &view.Item{Job: view.Record(job, st), Now: job}
	row := s.view().Row(it, false)
	m := sentJob{State: [2]string{row.State.Class, row.State.Word}, Doing: page.Line(words.Doing(job), 300).String(),
		Facts: map[string]string{}}
	if job.Subtree.Tokens() > 0 {
		m.Facts["tokens"] = words.Tokens(job.Subtree) + " " + output.Usage(job.Subtree)
	}
	if row.Since == 0 {
		m.Facts["time"] = row.Time
	}
	var entries []json.RawMessage
	err := s.hub.Steer(st.ID, func(c *control.Client) error {
		log, err := c.Log(it.ID, *from)
		if err == nil {
			entries, *from, m.Text = log.Entries, log.Next, log.Text
		}
		return err
	})
	if err != nil && !errors.Is(err, control.ErrNoRoot) {
		if _, ok := errors.AsType[*control.Fault](err); !ok {
			return nil, false, err
		}
	}
	if cut := len(m.Text) - maxLive; cut > 0 {
		m.Text = "…" + strings.ToValidUTF8(m.Text[cut:], "")
	}
	m.Text = page.Clean(m.Text).String()
	if list := decode(entries, it); len(list) > 0 {
		if m.Talk, err = s.pages.HTML("talk", talk.Entries(list)); err != nil {
			return nil, false, err
		}
	}
	m.Questions, err = s.sent(s.view().Questions(st, it.ID))
	return m, true, err
}
