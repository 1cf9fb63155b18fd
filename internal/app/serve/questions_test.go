package serve

import (
	"html"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/app/serve/view"
	"qq/internal/control"
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
