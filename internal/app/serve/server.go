package serve

import (
	"cmp"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"qq/internal/app/serve/guard"
	"qq/internal/app/serve/page"
	"qq/internal/app/serve/view"
	"qq/internal/record/ledger"
	"qq/pkg/task"
)

// server answers requests.
type server struct {
	store *view.Store
	hub   *view.Hub
	pages *page.Pages
	guard *guard.Guard
	root  string // the path with which all others begin
	now   func() time.Time
	// ends is closed when the server ends, so that streams do.
	ends <-chan struct{}
	// streams has a value for each page that follows what happens.
	streams chan struct{}
}

// maxStreams is how many pages can follow what happens at once.
const maxStreams = 32

// handler returns what answers all requests that the guard lets through.
func (s *server) handler() http.Handler {
	m := http.NewServeMux()
	m.Handle("GET /assets/", page.Assets())
	get := map[string]func(http.ResponseWriter, *http.Request) error{
		"/{$}": s.showRuns, "/run/{id}": s.showRun, "/run/{id}/part": s.showPart, "/run/{id}/timeline": s.showTimeline,
		"/run/{id}/plan": s.showPlan, "/run/{id}/export": s.export, "/job/{id}": s.showJob, "/search": s.search,
		"/compare": s.compare, "/events": s.followRuns, "/run/{id}/events": s.followRun,
		"/job/{id}/events": s.followJob,
		"/job/{id}/answer": s.wholeAnswer,
	}
	for path, f := range get {
		m.Handle("GET "+path, s.answer(f))
	}
	for _, act := range acts {
		m.Handle("POST /"+act, s.answer(s.steer(act)))
	}
	m.Handle("/", s.answer(func(http.ResponseWriter, *http.Request) error { return errNoPage }))
	return m
}

var (
	errNoPage = errors.New("there is no such page")
	errChoice = errors.New("this cannot be compared")
)

// answer makes a handler of f. An error that comes before anything is written is shown as a page.
func (s *server) answer(f func(http.ResponseWriter, *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		written := &writer{ResponseWriter: w}
		err := f(written, r)
		if err == nil || written.begun {
			return
		}
		code, title := http.StatusInternalServerError, "Failed"
		problem, hint := task.Explain(err)
		switch {
		case errors.Is(err, ledger.ErrNone):
			code, title = http.StatusNotFound, "Not found"
			problem, hint = "there is no run and no job with this id", "The list of all runs shows what there is"
		case errors.Is(err, ledger.ErrAmbiguous), errors.Is(err, errNoPage):
			code, title = http.StatusNotFound, "Not found"
		case errors.Is(err, errChoice):
			code, title = http.StatusBadRequest, "Cannot be compared"
		case errors.Is(err, errBusy):
			code, title = http.StatusServiceUnavailable, "Busy"
		}
		_ = s.pages.Show(w, code, "failed", page.Failure{ // the client is gone, or sees it
			Frame: page.Frame{Title: page.Clean(title)}, Problem: sentence(cmp.Or(problem, err.Error())),
			Hint: sentence(hint)})
	})
}

// sentence is a line of an error as a page says it. A command keeps its name.
func sentence(line string) page.Text {
	if line == "" {
		return ""
	}
	if !strings.HasPrefix(line, "qq ") {
		line = strings.ToUpper(line[:1]) + line[1:]
	}
	return page.Line(line+".", 300)
}

// writer knows whether anything was written.
type writer struct {
	http.ResponseWriter
	begun bool
}

// WriteHeader implements [http.ResponseWriter].
func (w *writer) WriteHeader(code int) {
	w.begun = true
	w.ResponseWriter.WriteHeader(code)
}

// Write implements [http.ResponseWriter].
func (w *writer) Write(b []byte) (int, error) {
	w.begun = true
	return w.ResponseWriter.Write(b)
}

// Unwrap is for [http.ResponseController].
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// show writes a page.
func (s *server) show(w http.ResponseWriter, name string, data any) error {
	return s.pages.Show(w, http.StatusOK, name, data)
}

// begin writes the head of the page of a long batch, before its jobs are read: a person sees it at once. It reports
// whether it did.
func (s *server) begin(w http.ResponseWriter, id, name string, head func(view.Run) any) (bool, error) {
	run, long := s.store.Head(id)
	if !long {
		return false, nil
	}
	if err := s.show(w, name, head(run)); err != nil {
		return true, err
	}
	return true, http.NewResponseController(w).Flush()
}

// more writes the rest of a page.
func (s *server) more(w http.ResponseWriter, name string, data any) error {
	html, err := s.pages.HTML(name, data)
	if err == nil {
		_, err = w.Write([]byte(html))
	}
	return err
}

// refused shows why the guard has refused a request.
func (s *server) refused(w http.ResponseWriter, r guard.Refusal) {
	_ = s.pages.Show(w, r.Code, "refused", page.Failure{ // the client is gone, or sees it
		Frame: page.Frame{Title: page.Clean("Refused")}, Problem: page.Clean(r.Problem), Hint: page.Clean(r.Hint)})
}

// number returns a number of the query; 0 if there is none.
func number(r *http.Request, name string) int {
	n, _ := strconv.Atoi(r.URL.Query().Get(name))
	return max(n, 0)
}

// view makes the parts of pages, as of now.
func (s *server) view() view.View {
	return view.View{Root: s.root, Now: s.now(), Store: s.store}
}
