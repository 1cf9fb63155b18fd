package serve

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/app/serve/guard"
	"qq/internal/app/serve/page"
	"qq/internal/app/serve/view"
	"qq/internal/record/history"
	"qq/internal/record/ledger"
	"qq/pkg/llm"
	"qq/pkg/session"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// site is a server with a ledger that a test fills, and a browser that has been let in.
type site struct {
	*ledger.Recorder
	t      testing.TB
	home   string
	web    *server
	all    http.Handler
	cookie *http.Cookie
}

const evil = `<script>alert(1)</script> " onload="x" ` + "\u202e\u0085\x1b[31m" + ` javascript:alert(1)`

func newSite(t testing.TB) *site {
	t.Helper()
	home := t.TempDir()
	by := ledger.NewRecorder(home, ledger.Root{ID: "root-1", Dir: "/project", Command: "batch", Slots: 4},
		ledger.Options{})
	led, err := ledger.Open(home, ledger.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, led.Close()) })
	const host = "127.0.0.1:4711"
	web, err := newServer(host, &view.Store{History: history.New(led, home), Hub: view.New(home), Home: home},
		make(chan struct{}))
	require.NoError(t, err)
	s := &site{Recorder: by, t: t, home: home, web: web, all: web.guard.Wrap(web.handler(), web.opened())}
	r := httptest.NewRequest(http.MethodGet, web.guard.Address(), nil)
	w := httptest.NewRecorder()
	s.all.ServeHTTP(w, r)
	require.Len(t, w.Result().Cookies(), 1)
	s.cookie = w.Result().Cookies()[0]
	return s
}

// ask asks for a path below the root.
func (s *site) ask(path string) (int, string) {
	s.t.Helper()
	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:4711"+s.web.root+path, nil)
	r.AddCookie(s.cookie)
	w := httptest.NewRecorder()
	s.all.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// page asks for a page that must be there.
func (s *site) page(path string) string {
	s.t.Helper()
	code, text := s.ask(path)
	require.Equal(s.t, http.StatusOK, code, "%s: %s", path, text)
	return text
}

func (s *site) claim(e ledger.Execution) {
	s.t.Helper()
	e.Root = "root-1"
	require.NoError(s.t, s.Claim(e))
}

func (s *site) finish(id string, status task.Status, output, problem string, in int) {
	s.t.Helper()
	r := task.Task{}.Ended(status, problem)
	r.Output, r.Attempts, r.Usage, r.DurationMS = output, 1, task.Usage{InputTokens: in, OutputTokens: 7}, 1500
	if id == "job-a-1" {
		r.Attempts = 2
	}
	r.Did = &task.Did{Calls: map[string]int{"edit_file": 1}}
	require.NoError(s.t, s.Finish("", id, r))
}

// fill records a batch of three tasks, and a prompt.
func (s *site) fill() {
	s.t.Helper()
	begun := time.Now().Add(-time.Minute)
	require.NoError(s.t, s.Begin(ledger.Batch{ID: "batch-1", Root: "root-1", Dir: "/project", Count: 3,
		Started: begun}))
	for i, name := range []string{"a", "b", "c"} {
		s.claim(ledger.Execution{ID: "job-" + name, Batch: "batch-1", Key: name, Index: i, Agent: "coder", Model: "m",
			Task: "Task " + name + " of them", Queued: begun})
	}
	s.claim(ledger.Execution{ID: "job-a-1", Parent: "job-a", Agent: "scout", Depth: 1, Task: "Look at it: " + evil})
	s.Attempt("job-a-1", 1, begun, task.Task{}.Ended(task.Timeout, "too slow"))
	s.finish("job-a-1", task.Completed, "found it", "", 5)
	s.finish("job-a", task.Completed, "the answer is\nforty-two\n", "", 1000)
	s.finish("job-b", task.Failed, "", evil, 10)
	s.finish("job-c", task.Completed, "the answer is\nforty-three\n", "", 20)
	s.claim(ledger.Execution{ID: "prompt-1", Agent: "default", Task: "Hello, you", Session: "s"})
	s.finish("prompt-1", task.Completed, "hello", "", 3)
	t, err := session.Archive{Dir: ledger.Transcripts(s.home)}.Of("root-1").Begin(session.Header{ID: "job-a"})
	require.NoError(s.t, err)
	say := func(m llm.Message) { require.NoError(s.t, t.Add(llm.Entry{Message: m})) }
	args, _ := json.Marshal(map[string]string{"path": "a.go", "old_text": "x := 1", "new_text": "x := 2 // " + evil})
	say(llm.Message{Role: llm.User, Content: "Task a of them"})
	say(llm.Message{Role: llm.Assistant, Calls: []tool.Call{{ID: "1", Name: "edit_file", Arguments: args}}})
	say(llm.Message{Role: llm.ToolRole, CallID: "1", Tool: "edit_file", Content: "edited a.go, line 1"})
	say(llm.Message{Role: llm.Assistant, Content: "the answer is " + evil})
	require.NoError(s.t, t.Close())
}

// pages are paths of all pages about what fill records.
var pages = []string{"", "run/batch-1", "run/batch-1?choose=1", "run/batch-1/timeline", "run/batch-1/plan",
	"run/batch-1/export", "job/job-a", "job/job-b", "job/job-a-1", "run/prompt-1", "search?q=answer", "search",
	"run/batch-1/part?at=job-a", "compare?job=job-a&job=job-c", "run/batch-1?at=job-a"}

// Nothing that a model, a task or a file says is more than text, on any page.
func TestStrangersTextIsText(t *testing.T) {
	s := newSite(t)
	s.fill()
	attribute := regexp.MustCompile(`\son[a-z]+="|javascript:[^a]|(href|src)="(javascript|data|http)`)
	for _, path := range append(pages, "search?q="+url.QueryEscape(evil)) {
		text := s.page(path)
		assert.NotContains(t, text, "<script>alert", path)
		assert.NotContains(t, text, `" onload="`, path)
		assert.NotRegexp(t, attribute, text, path)
		for _, r := range "\u202e\u0085\x1b" {
			assert.NotContains(t, text, string(r), "%s: %U", path, r)
		}
		assert.NotContains(t, text, ` style="`, "%s: the policy forbids it", path)
	}
}

func TestPages(t *testing.T) {
	s := newSite(t)
	assert.Contains(t, s.page(""), "No runs yet")
	s.fill()
	has := func(path string, texts ...string) {
		t.Helper()
		page := html.UnescapeString(s.page(path))
		for _, text := range texts {
			if !strings.Contains(page, text) { // the page is long
				t.Errorf("%s has no %q", path, text)
			}
		}
	}
	require.Eventually(t, func() bool { return strings.Contains(s.page(""), "prompt-1") }, 5*time.Second,
		time.Millisecond)
	has("", "Batch of 3 tasks in project", "Hello, you", "1 failed", "3 of 3 done")
	has("run/batch-1", "Task a of them", "completed", "failed", "1.5s", "4 jobs", "Look at it", "<script>")
	has("job/job-a", "forty-two", "Changes", "a.go", "-x := 1", "+x := 2", "Result of edit_file", "edited a.go",
		"Jobs that it started", "1019", "1005 in, 14 out; its own: 1000 in, 7 out")
	has("job/job-a-1", "Attempts", "timeout", "too slow", "None was kept")
	has("run/batch-1/timeline", "<svg", "at most", "the cap: 4", "a new attempt", "scout: Look at it")
	has("run/batch-1/plan", "<svg", "had no plan")
	has("search?q=forty", "forty</mark>", "2 jobs")
	has("search?q=zzz", "Nothing.")
	has("compare?job=job-a&job=job-c", "-forty-two", "+forty-three", "Calls of edit_file")
	has("job/ob-c", "forty-three") // the end of an id
	has("job/job-a/answer", "the answer is\nforty-two\n")
	for _, path := range []string{"run/nothing", "job/nothing", "nothing", "run/job-", "job/",
		"run/batch-1/part?at=x"} {
		code, text := s.ask(path)
		assert.Equal(t, http.StatusNotFound, code, path)
		assert.Contains(t, text, "<h1>", path)
	}
	code, _ := s.ask("compare?job=job-a")
	assert.GreaterOrEqual(t, code, 400)
}

// Two batches are compared as qq runs diff does it: their tasks in the order of the input, each with both results.
func TestTwoBatches(t *testing.T) {
	s := newSite(t)
	s.fill()
	require.NoError(t, s.Begin(ledger.Batch{ID: "batch-2", Root: "root-1", Dir: "/project", Count: 3,
		Started: time.Now()}))
	for i, name := range []string{"c", "b", "a"} { // they start in another order
		s.claim(ledger.Execution{ID: "new-" + name, Batch: "batch-2", Key: name, Index: 2 - i, Agent: "coder",
			Model: "n", Task: "Task " + name + " of them"})
	}
	s.finish("new-a", task.Completed, "the answer is\nforty-two\n", "", 900)
	s.finish("new-b", task.Completed, "it works", "", 11)
	s.finish("new-c", task.Completed, "another answer", "", 20)
	require.Eventually(t, func() bool { return strings.Contains(s.page(""), "batch-2") }, 5*time.Second,
		time.Millisecond)
	text := s.page("compare?run=batch-1&run=batch-2")
	assert.Contains(t, text, "1 of 4 answers are the same")
	var rows []string
	tags := regexp.MustCompile(`<[^>]*>`)
	for _, row := range regexp.MustCompile(`(?s)<tr><td class="num">.*?</tr>`).FindAllString(text, -1) {
		row = tags.ReplaceAllString(strings.ReplaceAll(row, "</", " </"), "")
		row = strings.Join(strings.Fields(row), " ")
		rows = append(rows, row[:min(len(row), 62)])
	}
	assert.Equal(t, []string{
		"1 Task a of them completed completed 1.5s 1.5s 1019 907 same",
		"↳ Look at it: &lt;script&gt;alert(1)&lt;/script&gt; &#34; on",
		"2 Task b of them failed completed 1.5s 1.5s 17 18 different",
		"3 Task c of them completed completed 1.5s 1.5s 27 27 different",
	}, rows)
	assert.Contains(t, text, "compare?job=job-b&amp;job=new-b")
	assert.Contains(t, s.page("?choose=1"), `name="run" value="batch-2"`)
	for path, want := range map[string]int{"compare?run=batch-1&run=prompt-1": http.StatusBadRequest,
		"compare?run=batch-1": http.StatusBadRequest, "compare?run=batch-1&run=nothing": http.StatusNotFound} {
		code, text := s.ask(path)
		assert.Equal(t, want, code, path)
		assert.NotContains(t, text, "Not found</title>", path)
	}
}

// The file of a run needs nothing else, and runs nothing.
func TestExport(t *testing.T) {
	s := newSite(t)
	s.fill()
	text := s.page("run/batch-1/export")
	shown := html.UnescapeString(text)
	for _, part := range []string{"forty-two", "+x := 2", "found it", "<svg", "the cap: 4", "--ground",
		"Content-Security-Policy"} {
		assert.True(t, strings.Contains(shown, part), part)
	}
	assert.NotContains(t, text, "<script")
	assert.NotContains(t, text, "<form")
	assert.NotContains(t, text, "<link")
	assert.NotContains(t, text, s.web.root, "nothing leads back to the server")
	assert.NotContains(t, text, s.web.guard.Form(), "no secret is in it")
	for _, ref := range regexp.MustCompile(`(?:href|src)="([^"]*)"`).FindAllStringSubmatch(text, -1) {
		assert.True(t, strings.HasPrefix(ref[1], "#"), ref[1])
	}
}

// A page cannot be had, and nothing done, without what the guard asks for: each page and each form has it.
func TestEveryPathIsGuarded(t *testing.T) {
	s := newSite(t)
	s.fill()
	for _, path := range append(pages, "assets/page.js", "events", "run/batch-1/events") {
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:4711"+s.web.root+path, nil)
		w := httptest.NewRecorder()
		s.all.ServeHTTP(w, r)
		assert.Equal(t, http.StatusForbidden, w.Code, path)
		assert.NotContains(t, w.Body.String(), "Task a", path)
	}
	for _, act := range acts {
		form := url.Values{"root": {"root-1"}, "id": {"job-a"}}
		post := func() *httptest.ResponseRecorder {
			r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:4711"+s.web.root+act, strings.NewReader(form.Encode()))
			r.AddCookie(s.cookie)
			r.Header.Set("Origin", "http://127.0.0.1:4711")
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			w := httptest.NewRecorder()
			s.all.ServeHTTP(w, r)
			return w
		}
		assert.Equal(t, http.StatusForbidden, post().Code, act)
		form.Set(guard.FormField, s.web.guard.Form())
		w := post()
		assert.Equal(t, http.StatusConflict, w.Code, act)
		assert.Contains(t, w.Body.String(), "has ended", act)
		code, _ := s.ask(act)
		assert.Equal(t, http.StatusNotFound, code, "GET %s does nothing", act)
	}
}

// The assets are there, with the types that a browser needs, and a folder is not listed.
func TestAssets(t *testing.T) {
	s := newSite(t)
	for path, is := range map[string][]string{"assets/page.css": {"text/css", "/* The look"},
		"assets/page.js": {"text/javascript", "// The live part"}, "assets/icon.svg": {"image/svg+xml", "<svg"}} {
		w := httptest.NewRecorder()
		page.Assets().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/"+path, http.NoBody))
		assert.Equal(t, is[0]+"; charset=utf-8", w.Header().Get("Content-Type"))
		assert.True(t, strings.HasPrefix(s.page(path), is[1]), path)
	}
	for _, path := range []string{"assets/", "assets/../templates/runs.html", "templates/runs.html"} {
		code, _ := s.ask(path)
		assert.NotEqual(t, http.StatusOK, code, path)
	}
}

// BenchmarkLarge asks for pages of a run of 10,000 jobs.
func BenchmarkLarge(b *testing.B) {
	s := newSite(b)
	require.NoError(b, s.Begin(ledger.Batch{ID: "large", Root: "root-1", Dir: "/p", Count: 10_000,
		Started: time.Now()}))
	done := make(chan struct{}, 100)
	for i := range 10_000 {
		id := fmt.Sprintf("job-%d", i)
		s.claim(ledger.Execution{ID: id, Batch: "large", Key: id, Index: i, Agent: "coder", Task: "Summarize it."})
	}
	for i := range 100 {
		go func() {
			for n := i; n < 10_000; n += 100 {
				s.finish(fmt.Sprintf("job-%d", n), task.Completed, "An answer.", "", 100)
			}
			done <- struct{}{}
		}()
	}
	for range 100 {
		<-done
	}
	s.page("run/large")
	for _, path := range []string{"run/large", "run/large?from=5000", "run/large/timeline", "run/large/plan"} {
		b.Run(path, func(b *testing.B) {
			for b.Loop() {
				s.page(path)
			}
		})
	}
}

// turn follows the links to older ones from a page, and counts how often each link of a row was shown.
func (s *site) turn(path string, row *regexp.Regexp) map[string]int {
	s.t.Helper()
	shown := map[string]int{}
	older := regexp.MustCompile(`<a href="([^"]*)" rel="next"`)
	for range 100 {
		text := s.page(path)
		for _, m := range row.FindAllStringSubmatch(text, -1) {
			shown[m[1]]++
		}
		next := older.FindStringSubmatch(text)
		if next == nil {
			return shown
		}
		path = strings.TrimPrefix(html.UnescapeString(next[1]), s.web.root)
	}
	s.t.Fatal("the pages do not end")
	return nil
}

// Each run is on exactly one page, though many begin in the same millisecond.
func TestPagesOfAListLoseNothing(t *testing.T) {
	s := newSite(t)
	begun := time.Now()
	for i := range 160 {
		id := fmt.Sprintf("b-%03d", i)
		require.NoError(t, s.Begin(ledger.Batch{ID: id, Root: "root-1", Dir: "/p", Count: 1, Started: begun}))
		s.claim(ledger.Execution{ID: fmt.Sprintf("p-%03d", i), Agent: "a", Task: "needle"})
		s.claim(ledger.Execution{ID: fmt.Sprintf("t-%03d", i), Batch: id, Key: "k", Agent: "a", Task: "needle"})
	}
	require.Eventually(t, func() bool { return strings.Contains(s.page("search?q=needle"), "job/t-159") },
		5*time.Second, 10*time.Millisecond)
	once := func(shown map[string]int, all int) {
		t.Helper()
		assert.Len(t, shown, all)
		for id, n := range shown {
			assert.Equal(t, 1, n, id)
		}
	}
	once(s.turn("search?q=needle", regexp.MustCompile(`class="name" href="[^"]*job/([^"]*)"`)), 320)
	once(s.turn("", regexp.MustCompile(`<li id="r-([^"]*)"`)), 320)
}
