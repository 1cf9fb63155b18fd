package serve

import (
	"html"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/app/serve/view"
	"qq/internal/control"
	"qq/internal/control/board"
	"qq/pkg/supervisor/jobs"
	"qq/pkg/tool"
)

// card is a question as a page shows it.
func (s *site) card(st view.State) string {
	s.t.Helper()
	list := s.web.view().Questions(st, "")
	require.Len(s.t, list, 1)
	text, err := s.web.pages.HTML("question", list[0])
	require.NoError(s.t, err)
	return html.UnescapeString(text)
}

// What is allowed was shown whole: also the end of a long path, of a rule and of a command behind empty lines.
func TestQuestionIsShownWhole(t *testing.T) {
	s := newSite(t)
	long := strings.Repeat("d/", 400) + "the-end.txt"
	st := view.State{ID: "root-1"}
	st.Questions = []control.Question{{QuestionID: "1", Lasting: "delete_file(" + long + ")", Intent: tool.Intent{
		Tool: "delete_file", Summary: "delete " + long, Preview: "ls" + strings.Repeat("\n", 60) + "echo evil"}}}
	text := s.card(st)
	assert.Equal(t, 2, strings.Count(text, long), "the summary and the rule")
	preview, _, _ := strings.Cut(text, "<form")
	assert.Contains(t, preview, "echo evil", "above the buttons")
	assert.Equal(t, 60, strings.Count(preview, "\n</span><span>"))
	assert.NotContains(t, text, "<details")
	assert.NotContains(t, text, "…")

	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:4711"+s.web.root+"assets/page.css", nil)
	r.AddCookie(s.cookie)
	w := httptest.NewRecorder()
	s.all.ServeHTTP(w, r)
	rules := regexp.MustCompile(`(?m)^\.question[^{]*\{[^}]*\}`).FindAllString(w.Body.String(), -1)
	assert.Greater(t, len(rules), 2)
	for _, rule := range rules {
		assert.NotRegexp(t, `max-height|overflow:|overflow-[xy]|line-clamp|nowrap|ellipsis`, rule, "nothing is out of sight")
	}
}

// A question for which there is no room now cannot be allowed, and says when it can.
func TestQuestionWithoutRoom(t *testing.T) {
	s := newSite(t)
	st := view.State{ID: "root-1"}
	st.Questions = []control.Question{{QuestionID: "1", Later: true, Lasting: "x",
		Intent: tool.Intent{Tool: "write_file", Summary: "create a", Cut: true}}}
	text := s.card(st)
	assert.Contains(t, text, "Answer the questions before it first")
	assert.Contains(t, text, "data-later")
	assert.Equal(t, 1, strings.Count(text, "<button"), "only to refuse")
}

// Two runs ask. Each card says whose question it is and what an answer would allow; the oldest comes first.
func TestQuestionSaysWhoseItIs(t *testing.T) {
	s := newSite(t)
	now := time.Now()
	for i, id := range []string{"root-late", "root-early"} {
		st := view.State{ID: id}
		st.Root = control.Root{ExecutionID: id, BatchID: "batch-of-" + id, Dir: "/project-" + id, Started: now}
		st.Batch = &board.Batch{Total: 8}
		st.Jobs = []board.Job{{Job: jobs.Job{ExecutionID: "job"}, Call: &board.Call{Running: true,
			Started: now.Add(-time.Duration(i) * time.Minute)}}}
		st.Questions = []control.Question{{QuestionID: "q-" + id, ExecutionID: "job", Folder: "sub",
			Lasting: "run_pty_cmd(go test)", Intent: tool.Intent{Tool: "run_pty_cmd", Effect: tool.Executes}}}
		s.web.hub.Publish(st)
	}
	text := html.UnescapeString(s.page(""))
	early, late := strings.Index(text, `id="q-q-root-early"`), strings.Index(text, `id="q-q-root-late"`)
	require.Positive(t, early)
	assert.Less(t, early, late)
	for id, card := range map[string]string{"root-early": text[early:late], "root-late": text[late:]} {
		assert.Contains(t, card, `run/batch-of-`+id+`">Batch of 8 tasks in project-`+id)
		assert.Contains(t, card, "<code>/project-"+id+"/sub</code>")
		assert.Regexp(t, `asked \d+ \w+ \d+ \d\d:\d\d:\d\d`, card)
		assert.Contains(t, card, "Allow every run_pty_cmd in this run (any command, any agent)")
		assert.Contains(t, card, "Allow always in this folder (run_pty_cmd(go test))")
	}
	assert.Equal(t, 2, strings.Count(text, `<span class="state s-ask">asks you</span>`), "in the list of runs")
	assert.Equal(t, 2, strings.Count(text, `<span>1 question</span>`))
	assert.Contains(t, s.page("run/batch-of-root-late"), `<span class="state s-ask">asks you</span>`, "on its own page")
}
