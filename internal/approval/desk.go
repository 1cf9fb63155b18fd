package approval

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"qq/pkg/event"
	"qq/pkg/tool"
)

// Question is a call that waits for a person.
type Question = tool.Question

// Answer is what a person says to a Question.
type Answer string

// Answers. Whatever is none of them means No.
const (
	Once    Answer = "once"
	Session Answer = "session" // and every other call of this tool that is not special
	No      Answer = "no"
)

// What becomes of a Question that no person answered, in events.
const (
	unanswered Answer = "unanswered"
	cancelled  Answer = "cancelled"
)

// Face is where a person can be asked.
type Face interface {
	// Ask shows q and waits for the answer. It is called for one question at a
	// time and returns ctx.Err() soon after ctx has ended. Any other error says
	// that nobody is there any more: it is not called again.
	Ask(ctx context.Context, q Question) (Answer, error)
}

// DeskConfig is what a Desk needs.
type DeskConfig struct {
	Policy Policy
	Face   Face // nil says that nobody can be asked
	// Timeout bounds how long a question is shown; 0 is for ever.
	Timeout time.Duration
	// Emit takes a validation_required event for every question that a person has
	// to answer, and then exactly one validation_resolved; nil drops them.
	Emit  func(event.Event)
	NewID func() string // names a Question
}

// Desk is at the root of a tree: it holds what was allowed for the session, the
// questions that wait, and the face. It may be used by several goroutines at once.
type Desk struct {
	cfg DeskConfig

	mu      sync.Mutex
	gone    bool            // there is no face, or it broke
	allowed map[string]bool // tools, for the session
	busy    bool            // somebody has the turn
	waiting []*waiter       // for the turn, in the order of arrival
}

// waiter is one Ask that waits for its turn to show its question, or for another
// question that settles its own.
type waiter struct {
	in    tool.Intent
	ready chan struct{} // closed when it has the turn, or an outcome
	out   outcome
}

// outcome is what became of a question; the zero one is none yet.
type outcome struct {
	answer Answer
	reason string // why not
}

func (o outcome) decision() tool.Decision {
	return tool.Decision{Allowed: o.answer == Once || o.answer == Session, Reason: o.reason}
}

// NewDesk returns a Desk with nothing on it.
func NewDesk(cfg DeskConfig) *Desk {
	return &Desk{cfg: cfg, gone: cfg.Face == nil, allowed: map[string]bool{}}
}

// Needs reports whether a person would be asked about a call.
func (d *Desk) Needs(in tool.Intent) bool {
	verdict, _ := d.cfg.Policy.Judge(in)
	d.mu.Lock()
	defer d.mu.Unlock()
	return verdict == Asked && d.known(in).answer == ""
}

// Ask decides about the call of q, and waits for a person where one has to be
// asked. The Policy is judged again: the process that asks is not trusted.
func (d *Desk) Ask(ctx context.Context, q Question) tool.Decision {
	switch verdict, reason := d.cfg.Policy.Judge(q.Intent); verdict {
	case Allowed:
		return tool.Decision{Allowed: true}
	case Refused:
		return tool.Decision{Reason: reason}
	}
	d.mu.Lock()
	out := d.known(q.Intent)
	d.mu.Unlock()
	if out.answer != "" {
		return out.decision()
	}
	if ctx.Err() != nil {
		return withdrawn(ctx).decision()
	}
	q.ID = d.cfg.NewID()
	d.emit(event.ValidationRequired, q, "")
	out = d.resolve(ctx, q)
	d.emit(event.ValidationResolved, q, out.answer)
	return out.decision()
}

// known is what holds for a call without asking about it.
func (d *Desk) known(in tool.Intent) outcome {
	switch {
	case d.allowed[in.Tool] && !in.Special:
		return outcome{answer: Session}
	case d.gone:
		return outcome{unanswered, nobody(in)}
	}
	return outcome{}
}

// resolve waits for the turn of q and shows it, unless that is no longer needed.
func (d *Desk) resolve(ctx context.Context, q Question) outcome {
	w := d.enter(q.Intent)
	select {
	case <-w.ready:
	case <-ctx.Done():
	}
	d.mu.Lock()
	switch {
	case w.out.answer != "":
		d.mu.Unlock()
		return w.out
	case ctx.Err() != nil:
		d.leave(w)
		d.mu.Unlock()
		return withdrawn(ctx)
	}
	d.mu.Unlock()

	out, broken := d.show(ctx, q)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gone = d.gone || broken
	if out.answer == Session {
		d.allowed[w.in.Tool] = true
	}
	d.next()
	return out
}

// enter puts a question into the queue.
func (d *Desk) enter(in tool.Intent) *waiter {
	w := &waiter{in: in, ready: make(chan struct{})}
	d.mu.Lock()
	defer d.mu.Unlock()
	w.out = d.known(in) // it may have been settled since it was looked at
	switch {
	case w.out.answer != "":
		close(w.ready)
	case d.busy:
		d.waiting = append(d.waiting, w)
	default:
		d.busy = true
		close(w.ready)
	}
	return w
}

// leave takes out a question that is not to be shown. The desk is locked.
func (d *Desk) leave(w *waiter) {
	if i := slices.Index(d.waiting, w); i >= 0 {
		d.waiting = slices.Delete(d.waiting, i, i+1)
		return
	}
	d.next() // it had the turn already
}

// next settles what can be settled now, and hands the turn on. The desk is locked.
func (d *Desk) next() {
	d.waiting = slices.DeleteFunc(d.waiting, func(w *waiter) bool {
		if w.out = d.known(w.in); w.out.answer == "" {
			return false
		}
		close(w.ready)
		return true
	})
	d.busy = len(d.waiting) > 0
	if d.busy {
		close(d.waiting[0].ready)
		d.waiting = slices.Delete(d.waiting, 0, 1)
	}
}

// show puts q before a person. broken says that the face is of no use any more: a
// panic says so too, or the others would wait for ever.
func (d *Desk) show(ctx context.Context, q Question) (out outcome, broken bool) {
	defer func() {
		if p := recover(); p != nil {
			out, broken = outcome{unanswered, fmt.Sprintf("nobody can be asked any more: %v", p)}, true
		}
	}()
	shown := ctx
	if d.cfg.Timeout > 0 {
		var cancel context.CancelFunc
		shown, cancel = context.WithTimeout(ctx, d.cfg.Timeout)
		defer cancel()
	}
	answer, err := d.cfg.Face.Ask(shown, q)
	if answer == Session && q.Intent.Special {
		answer = Once // nothing more general was shown
	}
	switch {
	case err == nil && (answer == Once || answer == Session):
		return outcome{answer: answer}, false
	case err == nil:
		return outcome{No, "the user said no"}, false
	}
	broken = shown.Err() == nil || !errors.Is(err, shown.Err())
	switch {
	case ctx.Err() != nil:
		return withdrawn(ctx), broken
	case !broken:
		return outcome{unanswered, fmt.Sprintf("unanswered: nobody answered within %gs", d.cfg.Timeout.Seconds())}, false
	}
	return outcome{unanswered, nobody(q.Intent)}, true
}

// withdrawn is the outcome for an asker that has gone.
func withdrawn(ctx context.Context) outcome {
	return outcome{cancelled, "no longer needed: " + context.Cause(ctx).Error()}
}

func (d *Desk) emit(typ event.Type, q Question, answer Answer) {
	if d.cfg.Emit == nil {
		return
	}
	agent := ""
	if n := len(q.Chain); n > 0 {
		agent = q.Chain[n-1]
	}
	d.cfg.Emit(event.Event{
		Type: typ, ExecutionID: q.ExecutionID, ParentExecutionID: q.ParentExecutionID, BatchID: q.BatchID, Agent: agent, Depth: q.Depth,
		QuestionID: q.ID, Chain: q.Chain, Intent: &q.Intent, Decision: string(answer),
	})
}
