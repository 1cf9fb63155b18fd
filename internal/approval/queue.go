package approval

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"qq/internal/approval/rules"
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
	Folder  Answer = "folder"  // and each time again in this folder: Question.Lasting becomes a rule
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
	// ctx.Err() soon after ctx has ended, and errBackground if nobody can be asked about this call
	// but about a later one. After any other error it is not called again.
	Ask(ctx context.Context, q tool.Question) (Answer, error)
}

// Lasting keeps the rules that a person made for folders, which are given by their real paths.
type Lasting interface {
	Rules(folder string) []rules.Rule
	// Add reports whether the rule is kept.
	Add(folder string, r rules.Rule) bool
}

// Emitter receives events.
type Emitter interface{ Emit(event.Event) }

// QueueConfig configures a Queue.
type QueueConfig struct {
	Policy   Policy
	Prompter Prompter // nil means that nobody can be asked
	Lasting  Lasting  // nil means that there are no lasting rules and none can be made
	// Timeout bounds how long a question is shown; 0 means no limit.
	Timeout time.Duration
	// Events receives a validation_required event for every question that a person must answer,
	// also if nobody can be asked, and then exactly one validation_resolved; nil drops the events.
	Events Emitter
}

// Queue is the approval queue at the root. It holds the questions that wait for a person, and the
// tools that are allowed for the session. Several goroutines may use it.
type Queue struct {
	cfg QueueConfig

	mu      sync.Mutex
	gone    bool            // there is no prompter, or it failed
	allowed map[string]bool // tools, for the session
	wide    bool            // a person has confirmed a change in a wide folder, see [Policy]
	busy    bool            // a question is shown
	waiting []*waiter       // in the order of arrival
}

// waiter is one call of Ask that waits until its question may be shown, or until the answer to
// another question decides its own.
type waiter struct {
	question tool.Question
	ready    chan struct{} // closed when it may be shown, or has an outcome
	out      outcome
}

// outcome is how a question ended; the zero outcome means that it is still open.
type outcome struct {
	answer Answer
	reason string // why the call may not run
	hint   string // how a person can allow it another time
	rule   string // the lasting rule that allows it
	shown  bool   // a person saw the call
}

func (o outcome) decision() tool.Decision {
	allowed := o.answer == Once || o.answer == Session || o.answer == Folder
	return tool.Decision{Allowed: allowed, Shown: allowed && o.shown, Reason: o.reason, Hint: o.hint, Rule: o.rule}
}

// NewQueue returns an empty Queue.
func NewQueue(cfg QueueConfig) *Queue {
	return &Queue{cfg: cfg, gone: cfg.Prompter == nil, allowed: map[string]bool{}}
}

// Needs reports whether a person would be asked about the call of question.
func (q *Queue) Needs(question tool.Question) bool {
	verdict, _ := q.judge(&question)
	q.mu.Lock()
	defer q.mu.Unlock()
	return verdict == Asked && q.known(question).answer == ""
}

// judge applies the Policy to the call of question, and sets its Folder and what a denying rule suspects.
func (q *Queue) judge(question *tool.Question) (v Verdict, why string) {
	if question.Folder == "" {
		question.Folder = q.cfg.Policy.Root
		if question.Dir != "" {
			question.Folder = filepath.Join(question.Folder, question.Dir)
			if real, err := filepath.EvalSymlinks(question.Folder); err == nil {
				question.Folder = real
			}
		}
	}
	question.Intent = suspected(question.Intent, q.cfg.Policy.Deny)
	return q.cfg.Policy.Judge(question.Intent, question.Folder)
}

// Ask decides about the call of question, and waits for a person's answer if the Policy demands
// one. It applies the Policy again, because the root does not trust the process that asks.
func (q *Queue) Ask(ctx context.Context, question tool.Question) tool.Decision {
	switch verdict, why := q.judge(&question); verdict {
	case Allowed:
		return tool.Decision{Allowed: true, Rule: why}
	case Refused:
		return tool.Decision{Reason: why}
	}
	q.mu.Lock()
	out := q.known(question)
	q.mu.Unlock()
	if out.decision().Allowed {
		return out.decision()
	}
	if ctx.Err() != nil {
		return withdrawn(ctx).decision()
	}
	question.ID, question.Lasting = task.NewID(), q.offer(question.Intent)
	q.emit(event.ValidationRequired, question, "")
	if out.answer == "" { // somebody can be asked
		out = q.resolve(ctx, question)
	}
	q.emit(event.ValidationResolved, question, out.answer)
	return out.decision()
}

// known returns the outcome for a call that is already decided, or the zero outcome if it is not. The caller holds
// q.mu.
func (q *Queue) known(question tool.Question) outcome {
	in := question.Intent
	if q.allowed[in.Tool] && !in.Special {
		return outcome{answer: Session}
	}
	r, ok := covering(q.cfg.Policy.Allow, in, q.cfg.Policy.folder(question.Folder))
	if ok && q.wide {
		if r.Pattern == "" {
			return outcome{answer: Session}
		}
		return outcome{answer: Session, rule: r.String()}
	}
	in.Dir = "" // the paths of a lasting rule begin in its folder
	r, ok = covering(q.lasting(question), in, "")
	switch {
	case ok:
		return outcome{answer: Folder, rule: r.String()}
	case q.gone:
		return q.nobody(question)
	case in.Cut:
		return outcome{answer: unanswered, reason: tooLong(in)}
	}
	return outcome{}
}

// nobody returns the outcome for a call when nobody can be asked.
func (q *Queue) nobody(question tool.Question) outcome {
	list := slices.Concat(q.cfg.Policy.Allow, q.lasting(question))
	return outcome{answer: unanswered, reason: q.cfg.Policy.unasked(question.Intent, question.Folder, list),
		hint: q.cfg.Policy.narrow(question.Intent, question.Folder)}
}

// lasting returns the lasting rules for the folder of the call of question.
func (q *Queue) lasting(question tool.Question) []rules.Rule {
	if q.cfg.Lasting == nil {
		return nil
	}
	return q.cfg.Lasting.Rules(place(question))
}

// place returns the folder that a lasting rule about the call of question is for.
func place(question tool.Question) string { return filepath.Join(question.Folder, question.Intent.Dir) }

// offer returns the lasting rule that a person can make about a call; empty if there is none.
func (q *Queue) offer(in tool.Intent) string {
	if r, ok := exactly(in); ok && q.cfg.Lasting != nil {
		return r.String()
	}
	return ""
}

// resolve returns the outcome of question. It waits for its turn and shows the question, unless it is decided or
// withdrawn before.
func (q *Queue) resolve(ctx context.Context, question tool.Question) outcome {
	w := q.enter(question)
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
		q.allowed[question.Intent.Tool] = true
	}
	q.wide = q.wide || out.decision().Allowed && q.cfg.Policy.wide(question.Intent, question.Folder) != ""
	q.next()
	return out
}

// enter adds a question to the queue. Its waiter is ready at once if no other question is shown or if it is decided
// already.
func (q *Queue) enter(question tool.Question) *waiter {
	w := &waiter{question: question, ready: make(chan struct{})}
	q.mu.Lock()
	defer q.mu.Unlock()
	w.out = q.known(question) // it may have been decided since Ask looked
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
		if w.out = q.known(w.question); w.out.answer == "" {
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
			out = outcome{answer: unanswered, reason: fmt.Sprintf("nobody can be asked any more: %v", p)}
			failed = true
		}
	}()
	shown := ctx
	if q.cfg.Timeout > 0 {
		var cancel context.CancelFunc
		shown, cancel = context.WithTimeout(ctx, q.cfg.Timeout)
		defer cancel()
	}
	answer, err := q.cfg.Prompter.Ask(shown, question)
	if answer == Session && question.Intent.Special || answer == Folder && question.Lasting == "" {
		answer = Once // the prompter offered nothing more general
	}
	switch {
	case err == nil && answer == Folder:
		return q.keep(question), false
	case err == nil && (answer == Once || answer == Session):
		return outcome{answer: answer, shown: true}, false
	case err == nil:
		return outcome{answer: No, reason: "the user said no"}, false
	}
	failed = shown.Err() == nil || !errors.Is(err, shown.Err())
	switch {
	case errors.Is(err, errBackground):
		return q.nobody(question), false
	case ctx.Err() != nil:
		return withdrawn(ctx), failed
	case !failed:
		why := fmt.Sprintf("unanswered: nobody answered within %ss",
			strconv.FormatFloat(q.cfg.Timeout.Seconds(), 'f', -1, 64))
		const hint = "QQ_APPROVAL_TIMEOUT sets how many seconds a question waits; 0 means no limit"
		return outcome{answer: unanswered, reason: why, hint: hint}, false
	}
	return q.nobody(question), true
}

// keep makes the rule that question offered. The call is allowed even if the rule cannot be kept.
func (q *Queue) keep(question tool.Question) outcome {
	if r, ok := rules.Exactly(question.Intent); !ok || !q.cfg.Lasting.Add(place(question), r) {
		return outcome{answer: Once, shown: true}
	}
	return outcome{answer: Folder, rule: question.Lasting, shown: true}
}

// withdrawn returns the outcome for a question whose context ctx has ended, with the cause as the reason.
func withdrawn(ctx context.Context) outcome {
	return outcome{answer: cancelled, reason: "no longer needed: " + context.Cause(ctx).Error()}
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
		BatchID: question.BatchID, CallID: question.CallID, Agent: agent, Depth: question.Depth,
		QuestionID: question.ID, Chain: question.Chain, Decision: string(answer),
		Operation: question.Intent.Tool, Risk: question.Intent.Risk, Intent: &question.Intent,
		Count: len(question.Intent.Tasks), Tasks: event.Listed(question.Intent.Tasks),
	})
}
