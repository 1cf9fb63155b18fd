package approval

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"qq/internal/approval/rules"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// maxOver is how many questions that ended are remembered, for who answers too late.
const maxOver = 100

// ErrUnknownQuestion says that there is no question with an id, or that it ended long ago.
var ErrUnknownQuestion = errors.New("no such question is open")

// OverError says that a question is over: it was answered, or it has ended without an answer.
type OverError struct {
	QuestionID string
	Answer     Answer // also unanswered or cancelled
	By         string // where it was answered; empty if no person did
}

// Error implements error.
func (e *OverError) Error() string {
	id := task.ShortID(e.QuestionID)
	if e.By == "" {
		return fmt.Sprintf("question %s is over: %s", id, e.Answer)
	}
	where := "at the terminal of its run"
	if e.By == BySocket {
		where = "elsewhere"
	}
	return fmt.Sprintf("question %s was already answered %s: %s", id, where, e.Answer)
}

// given reports whether a is an answer of a person.
func (a Answer) given() bool { return a == Once || a == Session || a == Folder || a == No }

// said returns the outcome of an answer that a person gave.
func said(a Answer, by string) outcome {
	if a == No {
		return outcome{answer: No, reason: "the user said no", by: by}
	}
	return outcome{answer: a, shown: true, by: by}
}

// Open returns the questions that wait for a person, the oldest first.
func (q *Queue) Open() []tool.Question {
	q.mu.Lock()
	defer q.mu.Unlock()
	open := make([]tool.Question, len(q.open))
	for i, w := range q.open {
		open[i] = w.question
	}
	return open
}

// Answer answers the open question with that id. by is [ByTerminal] or [BySocket]. An answer that allows more than
// the question offers counts as Once. The error is an [*OverError] if the question is over, or
// [ErrUnknownQuestion].
func (q *Queue) Answer(id string, a Answer, by string) error {
	if !a.given() {
		return fmt.Errorf("no answer %q. The answers are: once, session, folder, no", a)
	}
	w, err := q.claim(id, a, by)
	if err != nil {
		return err
	}
	question := w.question
	if a == Session && question.Intent.Special || a == Folder && question.Lasting == "" {
		a = Once // nothing more general was offered
	}
	out := said(a, by)
	if a == Folder {
		// The call is allowed even if the rule cannot be kept.
		if r, ok := rules.Exactly(question.Intent); ok && q.cfg.Lasting.Add(place(question), r) {
			out.rule = question.Lasting
		} else {
			out.answer = Once
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if a == Session {
		q.allowed[question.Intent.Tool] = true
	}
	q.wide = q.wide || out.decision().Allowed && q.cfg.Policy.wide(question.Intent, question.Folder) != ""
	q.finish(w, out, nil)
	q.decide(by)
	return nil
}

// claim closes the open question with that id. The caller must call finish.
func (q *Queue) claim(id string, a Answer, by string) (*waiter, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, w := range q.open {
		if w.question.ID == id {
			q.take(w, a, by)
			return w, nil
		}
	}
	if over := q.ended(id); over != nil {
		return nil, over
	}
	return nil, ErrUnknownQuestion
}

// ended returns how a question ended, or nil. The caller holds q.mu.
func (q *Queue) ended(id string) *OverError {
	i := slices.IndexFunc(q.over, func(o OverError) bool { return o.QuestionID == id })
	if i < 0 {
		return nil
	}
	over := q.over[i]
	return &over
}

// Over implements [Desk].
func (q *Queue) Over(id string) *OverError {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ended(id)
}

// Waiting implements [Desk].
func (q *Queue) Waiting() (questions []tool.Question) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, w := range q.open {
		if !w.off {
			questions = append(questions, w.question)
		}
	}
	return questions
}

// Changed implements [Desk].
func (q *Queue) Changed() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.changed
}

// Shown implements [Desk].
func (q *Queue) Shown(ids ...string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, w := range q.open {
		if slices.Contains(ids, w.question.ID) {
			q.time(w)
		}
	}
}

// PutOff implements [Desk]. The time for an answer begins.
func (q *Queue) PutOff(id string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, w := range q.open {
		if w.question.ID == id && q.faces > 0 {
			w.off = true
			q.time(w)
			q.tell()
			return true
		}
	}
	return false
}

// Attend counts a face that can answer questions, until it calls leave. While there is one, questions wait for it
// that the prompter cannot ask.
func (q *Queue) Attend() (leave func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.faces++
	q.tell()
	return sync.OnceFunc(func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.faces--; q.faces > 0 {
			return
		}
		for _, w := range q.open {
			w.off = false // the prompter is asked again
		}
		q.tell()
		q.decide("")
	})
}
