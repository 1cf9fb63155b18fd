package serve

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"qq/internal/app/serve/page"
	"qq/internal/approval"
	"qq/internal/control"
	"qq/pkg/task"
)

// acts are what a person can do to a run.
var acts = []string{"cancel", "answer", "message", "pause", "resume", "jobs"}

// steer answers a form. The answer is a line of text for the script; without it, the browser goes back to the page.
func (s *server) steer(act string) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		said := ""
		err := s.hub.Steer(r.PostForm.Get("root"), func(c *control.Client) (err error) {
			said, err = do(c, act, r.PostForm)
			return err
		})
		code := http.StatusOK
		if err != nil {
			code = http.StatusConflict
			problem, hint := task.Explain(err)
			if said = problem; hint != "" {
				said += ": " + hint
			}
			if errors.Is(err, control.ErrNoRoot) {
				said = "That run has ended."
			}
		}
		if code == http.StatusOK && !strings.Contains(r.Header.Get("Accept"), "text/plain") {
			back := s.root
			if ref, err := url.Parse(r.Referer()); err == nil && strings.HasPrefix(ref.Path, s.root) {
				back = ref.RequestURI()
			}
			http.Redirect(w, r, back, http.StatusSeeOther)
			return nil
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(code)
		_, err = w.Write([]byte(page.Line(said, 300).String()))
		return err
	}
}

// do asks a root to do what a form says, and returns what to tell the person.
func do(c *control.Client, act string, form url.Values) (said string, err error) {
	id := form.Get("id")
	switch act {
	case "cancel":
		return "Told to end.", c.Cancel(id)
	case "pause":
		return "No further job starts.", c.Pause(true)
	case "resume":
		return "Jobs start again.", c.Pause(false)
	case "jobs":
		n, err := strconv.Atoi(form.Get("max"))
		if err != nil || n < 1 {
			return "", task.Hinted("give a number of at least 1", "%.20q is no number of jobs", form.Get("max"))
		}
		return fmt.Sprintf("At most %d at once.", n), c.Jobs(n)
	case "message":
		return "Sent. It is read before the next turn.", c.Message(id, form.Get("text"))
	case "answer":
		a := approval.Answer(form.Get("answer"))
		if !slices.Contains([]approval.Answer{approval.Once, approval.Session, approval.Folder, approval.No}, a) {
			return "", task.Hinted("use the buttons", "%.20q is no answer", string(a))
		}
		said = "Allowed."
		if a == approval.No {
			said = "Refused."
		}
		return said, c.Answer(id, a)
	}
	return "", errNoPage
}
