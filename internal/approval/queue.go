package approval

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"qq/pkg/event"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// Answer is a person's answer to a question.
type Answer string

// Answers. Any other text means No.
const (
	Once    Answer = "once"
	Session Answer = "session" // and every other call of this tool that is not special
	No      Answer = "no"
)

// Decisions in events about questions that no person answered.
const (
	unanswered Answer = "unanswered"
	cancelled  Answer = "cancelled"
)

// Prompter asks a person about calls.
type Prompter interface {
	// Ask shows q and waits for the answer. It is called for one question at a time and returns
	// ctx.Err() soon after ctx has ended. After any other error it is not called again.
	Ask(ctx context.Context, q tool.Question) (Answer, error)
}

// Emitter receives events.
type Emitter interface{ Emit(event.Event) }

// QueueConfig configures a Queue.
type QueueConfig struct {
	Policy   Policy
	Prompter Prompter // nil means that nobody can be asked
	// Timeout bounds how long a question is shown; 0 means no limit.
	Timeout time.Duration
	// Events receives a validation_required event for every question that a person must answer,
	// and then exactly one validation_resolved; nil drops the events.
	Events Emitter
}

// Queue is the approval queue at the root. It holds the questions that wait for a person, and the
// tools that are allowed for the session. Several goroutines may use it.
type Queue struct {
	cfg QueueConfig

	mu      sync.Mutex
	gone    bool            // there is no prompter, or it failed
	allowed map[string]bool // tools, for the session
	busy    bool            // a question is shown
	waiting []*waiter       // in the order of arrival
}

// waiter is one call of Ask that waits until its question may be shown, or until the answer to
// another question decides its own.
type waiter struct {
	in    tool.Intent
	ready chan struct{} // closed when it may be shown, or has an outcome
	out   outcome
}

// outcome is how a question ended; the zero outcome means that it is still open.
type outcome struct {
	answer Answer
	reason string // why the call may not run
}

func (o outcome) decision() tool.Decision {
	return tool.Decision{Allowed: o.answer == Once || o.answer == Session, Reason: o.reason}
}

// NewQueue returns an empty Queue.
func NewQueue(cfg QueueConfig) *Queue {
	return &Queue{cfg: cfg, gone: cfg.Prompter == nil, allowed: map[string]bool{}}
}

// Needs reports whether a person would be asked about a call.
func (q *Queue) Needs(in tool.Intent) bool {
	verdict, _ := q.cfg.Policy.Judge(in)
	q.mu.Lock()
	defer q.mu.Unlock()
	return verdict == Asked && q.known(in).answer == ""
}

// Ask decides about the call of question, and waits for a person's answer if the Policy demands
// one. It applies the Policy again, because the root does not trust the process that asks.
func (q *Queue) Ask(ctx context.Context, question tool.Question) tool.Decision {
	switch verdict, reason := q.cfg.Policy.Judge(question.Intent); verdict {
	case Allowed:
		return tool.Decision{Allowed: true}
	case Refused:
		return tool.Decision{Reason: reason}
	}
	q.mu.Lock()
	out := q.known(question.Intent)
	q.mu.Unlock()
	if out.answer != "" {
		return out.decision()
	}
	if ctx.Err() != nil {
		return withdrawn(ctx).decision()
	}
	question.ID = task.NewID()
	q.emit(event.ValidationRequired, question, "")
	out = q.resolve(ctx, question)
	q.emit(event.ValidationResolved, question, out.answer)
	return out.decision()
}

// known returns the outcome for a call that is already decided, or the zero outcome if it is not. The caller holds
// q.mu.
func (q *Queue) known(in tool.Intent) outcome {
	switch {
	case q.allowed[in.Tool] && !in.Special:
		return outcome{answer: Session}
	case q.gone:
		return outcome{unanswered, nobody(in)}
	}
	return outcome{}
}

// resolve returns the outcome of question. It waits for its turn and shows the question, unless it is decided or
// withdrawn before.
func (q *Queue) resolve(ctx context.Context, question tool.Question) outcome {
	w := q.enter(question.Intent)
	select {
	case <-w.ready:
	case <-ctx.Done():
	}
	q.mu.Lock()
	switch {
	case w.out.answer != "":
		q.mu.Unlock()
		return w.out
	case ctx.Err() != nil:
		q.leave(w)
		q.mu.Unlock()
		return withdrawn(ctx)
	}
	q.mu.Unlock()

	out, failed := q.show(ctx, question)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.gone = q.gone || failed
	if out.answer == Session {
		q.allowed[w.in.Tool] = true
	}
	q.next()
	return out
}

// enter adds a question to the queue. Its waiter is ready at once if no other question is shown or if it is decided
// already.
func (q *Queue) enter(in tool.Intent) *waiter {
	w := &waiter{in: in, ready: make(chan struct{})}
	q.mu.Lock()
	defer q.mu.Unlock()
	w.out = q.known(in) // it may have been decided since Ask looked
	switch {
	case w.out.answer != "":
		close(w.ready)
	case q.busy:
		q.waiting = append(q.waiting, w)
	default:
		q.busy = true
		close(w.ready)
	}
	return w
}

// leave removes w, whose question need not be shown any more, from the queue. The caller holds q.mu.
func (q *Queue) leave(w *waiter) {
	if i := slices.Index(q.waiting, w); i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
		return
	}
	q.next() // it was the turn of w: now the next one has it
}

// next decides all questions that can be decided now, and lets the next one be shown. The caller
// holds q.mu.
func (q *Queue) next() {
	q.waiting = slices.DeleteFunc(q.waiting, func(w *waiter) bool {
		if w.out = q.known(w.in); w.out.answer == "" {
			return false
		}
		close(w.ready)
		return true
	})
	q.busy = len(q.waiting) > 0
	if q.busy {
		close(q.waiting[0].ready)
		q.waiting = slices.Delete(q.waiting, 0, 1)
	}
}

// show asks a person. failed means that the prompter must not be used again. A panic of the prompter counts as a
// failure; without that, other questions would wait forever.
func (q *Queue) show(ctx context.Context, question tool.Question) (out outcome, failed bool) {
	defer func() {
		if p := recover(); p != nil {
			out, failed = outcome{unanswered, fmt.Sprintf("nobody can be asked any more: %v", p)}, true
		}
	}()
	shown := ctx
	if q.cfg.Timeout > 0 {
		var cancel context.CancelFunc
		shown, cancel = context.WithTimeout(ctx, q.cfg.Timeout)
		defer cancel()
	}
	answer, err := q.cfg.Prompter.Ask(shown, question)
	if answer == Session && question.Intent.Special {
		answer = Once // the prompter offered nothing more general
	}
	switch {
	case err == nil && (answer == Once || answer == Session):
		return outcome{answer: answer}, false
	case err == nil:
		return outcome{No, "the user said no"}, false
	}
	failed = shown.Err() == nil || !errors.Is(err, shown.Err())
	switch {
	case ctx.Err() != nil:
		return withdrawn(ctx), failed
	case !failed:
		why := fmt.Sprintf("unanswered: nobody answered within %gs", q.cfg.Timeout.Seconds())
		return outcome{unanswered, why}, false
	}
	return outcome{unanswered, nobody(question.Intent)}, true
}

// withdrawn returns the outcome for a question whose context ctx has ended, with the cause as the reason.
func withdrawn(ctx context.Context) outcome {
	return outcome{cancelled, "no longer needed: " + context.Cause(ctx).Error()}
}

func (q *Queue) emit(typ event.Type, question tool.Question, answer Answer) {
	if q.cfg.Events == nil {
		return
	}
	agent := ""
	if n := len(question.Chain); n > 0 {
		agent = question.Chain[n-1]
	}
	q.cfg.Events.Emit(event.Event{
		Type: typ, ExecutionID: question.ExecutionID, ParentExecutionID: question.ParentExecutionID,
		BatchID: question.BatchID, Agent: agent, Depth: question.Depth,
		QuestionID: question.ID, Chain: question.Chain, Intent: &question.Intent, Decision: string(answer),
	})
}
