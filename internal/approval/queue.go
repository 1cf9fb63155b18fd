package approval

import (
	"cmp"
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
	Unanswered Answer = "unanswered"
	Cancelled  Answer = "cancelled"
)

// Where an answer came from, in events.
const (
	ByTerminal = "terminal" // of the run
	BySocket   = "socket"   // a face that is connected to it
)

// Prompter asks a person about calls.
type Prompter interface {
	// Ask shows q and waits until that is answered, which it tells the desk. It is called for one question at a
	// time, but may show the others of the desk beside it, and tell it answers to them.
	//
	// It returns ctx.Err() soon after ctx has ended: the cause is an [*OverError] if q was answered elsewhere. It
	// returns [ErrPutOff] if q was put off, and [ErrBackground] if nobody can be asked about this call but about a
	// later one. After any other error it is not called again. Without an error and an answer, the answer is No.
	Ask(ctx context.Context, q tool.Question, desk Desk) error
}

// ErrBackground says that nobody can be asked now. A shell can bring the process back to the terminal.
var ErrBackground = errors.New("the terminal belongs to another job")

// ErrPutOff says that a person leaves a question to the faces.
var ErrPutOff = errors.New("the question is put off")

// Desk is what a Prompter knows of the open questions.
type Desk interface {
	// Waiting returns the open questions that are not put off, the oldest first.
	Waiting() []tool.Question
	// Changed returns a channel that is closed when Waiting may return something else.
	Changed() <-chan struct{}
	// Shown begins the time for the answers to open questions: a person can see them.
	Shown(ids ...string)
	// Answer answers an open question: see [Queue.Answer].
	Answer(id string, a Answer, by string) error
	// PutOff leaves an open question to the faces. It reports false if there are none.
	PutOff(id string) bool
	// Over returns how a question ended. It is nil if the question is open, or ended long ago.
	Over(id string) *OverError
}

// Lasting keeps the rules that a person made for folders, which are given by their real paths.
type Lasting interface {
	Rules(folder string) []rules.Rule
	// Add reports whether the rule is kept.
	Add(folder string, r rules.Rule) bool
}

// Emitter receives events.
type Emitter interface{ Emit(event.Event) }

// Faces knows of faces that have not found the root yet.
type Faces interface {
	// Near reports whether one is there that will answer questions.
	Near() bool
}

// findTime is how long after its start a Queue waits for a face that is near. It finds the root sooner.
const findTime = 3 * time.Second

// QueueConfig configures a Queue.
type QueueConfig struct {
	Policy   Policy
	Prompter Prompter // nil means that nobody can be asked
	Lasting  Lasting  // nil means that there are no lasting rules and none can be made
	Faces    Faces    // nil means that none is near
	// Timeout bounds how long a question is shown; 0 means no limit.
	Timeout time.Duration
	// Events receives a validation_required event for every question that a person must answer,
	// also if nobody can be asked, and then exactly one validation_resolved; nil drops the events.
	Events Emitter
}

// Queue is the approval queue at the root. It holds the questions that wait for a person, and the
// tools that are allowed for the session. A person answers them in any order: where the Prompter shows
// them, or at a face, with [Queue.Answer]. The first answer counts. Several goroutines may use it.
type Queue struct {
	cfg   QueueConfig
	began time.Time

	mu      sync.Mutex
	gone    bool            // there is no prompter, or it failed
	faces   int             // that can answer, see Attend
	allowed map[string]bool // tools, for the session
	wide    bool            // a person has confirmed a change in a wide folder, see [Policy]
	open    []*waiter       // in the order of arrival
	turn    *waiter         // the prompter is for it; nil means for none
	over    []OverError     // the last that ended
	changed chan struct{}   // closed when the open questions change
}

// waiter is one call of Ask that waits for an answer.
type waiter struct {
	question tool.Question
	ctx      context.Context // of the question: it ends with the asker, and with the outcome
	end      context.CancelCauseFunc
	timer    *time.Timer   // ends it; nil until it is shown
	turn     chan struct{} // gets a value when the prompter is to show it
	off      bool          // it waits for a face: a person put it off, or the prompter cannot ask
	done     chan struct{} // closed when it has an outcome
	out      outcome
}

// outcome is how a question ended; the zero outcome means that it is still open.
type outcome struct {
	answer Answer
	reason string // why the call may not run
	hint   string // how a person can allow it another time
	rule   string // the lasting rule that allows it
	shown  bool   // a person saw the call
	by     string // where it was answered; empty if no person did
}

func (o outcome) decision() tool.Decision {
	allowed := o.answer == Once || o.answer == Session || o.answer == Folder
	return tool.Decision{Allowed: allowed, Shown: allowed && o.shown, Reason: o.reason, Hint: o.hint, Rule: o.rule}
}

// NewQueue returns an empty Queue.
func NewQueue(cfg QueueConfig) *Queue {
	return &Queue{cfg: cfg, began: time.Now(), gone: cfg.Prompter == nil, allowed: map[string]bool{},
		changed: make(chan struct{})}
}

// Needs reports whether a person would be asked about the call of question.
func (q *Queue) Needs(question tool.Question) bool {
	verdict, _ := q.judge(&question)
	if verdict != Asked {
		return false
	}
	q.mu.Lock()
	out, alone := q.known(question), q.alone()
	q.mu.Unlock()
	return out.answer == "" || out.answer == Unanswered && alone && q.near()
}

// alone reports whether nobody can be asked. The caller holds q.mu.
func (q *Queue) alone() bool { return q.gone && q.faces == 0 }

// near reports whether a face is about to find the root.
func (q *Queue) near() bool {
	return q.cfg.Faces != nil && time.Since(q.began) < findTime && q.cfg.Faces.Near()
}

// await waits for a face that is about to find the root, if nobody else can be asked.
func (q *Queue) await(ctx context.Context) {
	for {
		q.mu.Lock()
		alone, changed := q.alone(), q.changed
		q.mu.Unlock()
		if !alone || !q.near() {
			return
		}
		select {
		case <-changed:
		case <-time.After(findTime / 30): // it may have gone
		case <-ctx.Done():
			return
		}
	}
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
	if out.answer == Unanswered {
		q.await(ctx)
	}
	if ctx.Err() != nil {
		return withdrawn(ctx).decision()
	}
	question.ID, question.Lasting = task.NewID(), q.offer(question.Intent)
	w := q.enter(ctx, question) // before the event: who hears of it can answer it
	q.emit(event.ValidationRequired, question, outcome{})
	out = q.resolve(w)
	q.emit(event.ValidationResolved, question, out)
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
	case q.alone():
		return q.nobody(question)
	case in.Cut:
		return outcome{answer: Unanswered, reason: tooLong(in)}
	}
	return outcome{}
}

// nobody returns the outcome for a call when nobody can be asked.
func (q *Queue) nobody(question tool.Question) outcome {
	list := slices.Concat(q.cfg.Policy.Allow, q.lasting(question))
	return outcome{answer: Unanswered, reason: q.cfg.Policy.unasked(question.Intent, question.Folder, list),
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

// enter opens a question. It has an outcome at once if it is decided already.
func (q *Queue) enter(ctx context.Context, question tool.Question) *waiter {
	w := &waiter{question: question, turn: make(chan struct{}, 1), done: make(chan struct{})}
	w.ctx, w.end = context.WithCancelCause(ctx)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.open = append(q.open, w)
	q.tell()
	if out := q.known(question); out.answer != "" { // it may have been decided since Ask looked
		q.settle(w, out, nil)
	}
	q.next()
	return w
}

// resolve returns the outcome of the question of w. It shows the question when it has its turn.
func (q *Queue) resolve(w *waiter) outcome {
	for {
		select {
		case <-w.turn:
			q.show(w)
		case <-w.ctx.Done():
			q.mu.Lock()
			q.settle(w, withdrawn(w.ctx), nil)
			q.pass(w)
			q.mu.Unlock()
			<-w.done
			return w.out
		}
	}
}

// take closes the question of w, and reports whether it was open: then the caller must call finish. The
// caller holds q.mu.
func (q *Queue) take(w *waiter, answer Answer, by string) bool {
	i := slices.Index(q.open, w)
	if i < 0 {
		return false
	}
	q.open = slices.Delete(q.open, i, i+1)
	q.tell()
	q.over = append(q.over, OverError{w.question.ID, answer, by})
	q.over = q.over[max(0, len(q.over)-maxOver):]
	return true
}

// tell says that the open questions have changed. The caller holds q.mu.
func (q *Queue) tell() {
	close(q.changed)
	q.changed = make(chan struct{})
}

// finish gives w its outcome. why is for the prompter: nil says that it was answered. The caller holds q.mu.
func (q *Queue) finish(w *waiter, out outcome, why error) {
	if w.timer != nil {
		w.timer.Stop()
	}
	w.out = out
	w.end(cmp.Or(why, error(&OverError{w.question.ID, out.answer, out.by})))
	close(w.done)
}

// settle gives w its outcome, unless it has one. The caller holds q.mu.
func (q *Queue) settle(w *waiter, out outcome, why error) {
	if q.take(w, out.answer, out.by) {
		q.finish(w, out, why)
	}
}

// pass ends the turn of w. The caller holds q.mu.
func (q *Queue) pass(w *waiter) {
	if q.turn == w {
		q.turn = nil
	}
	q.next()
}

// decide ends all questions that are decided now; by is where the person decided. The caller holds q.mu.
func (q *Queue) decide(by string) {
	for _, w := range slices.Clone(q.open) {
		if out := q.known(w.question); out.answer != "" {
			if out.decision().Allowed {
				out.by = by
			}
			q.settle(w, out, nil)
		}
	}
	q.next()
}

// next lets the prompter ask about the oldest question. Where there is none, the time of all questions begins. The
// caller holds q.mu.
func (q *Queue) next() {
	for _, w := range q.open {
		switch {
		case q.gone:
			q.time(w)
		case q.turn == nil && !w.off:
			q.turn = w
			w.turn <- struct{}{}
		}
	}
}

// time begins the time for the answer to the question of w. The caller holds q.mu.
func (q *Queue) time(w *waiter) {
	if q.cfg.Timeout <= 0 || w.timer != nil {
		return
	}
	w.timer = time.AfterFunc(q.cfg.Timeout, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.settle(w, outcome{
			answer: Unanswered,
			reason: fmt.Sprintf("unanswered: nobody answered within %ss",
				strconv.FormatFloat(q.cfg.Timeout.Seconds(), 'f', -1, 64)),
			hint: "QQ_APPROVAL_TIMEOUT sets how many seconds a question waits; 0 means no limit",
		}, context.DeadlineExceeded)
	})
}

// show has the prompter ask about the question of w, unless it is over.
func (q *Queue) show(w *waiter) {
	q.mu.Lock()
	open := slices.Contains(q.open, w)
	q.mu.Unlock()
	if !open {
		return
	}
	err := q.prompt(w)
	q.mu.Lock()
	defer q.mu.Unlock()
	ended := w.ctx.Err()
	if ended != nil {
		q.settle(w, withdrawn(w.ctx), nil)
	}
	var broken *brokenError
	switch {
	case err == nil:
		q.settle(w, said(No, ByTerminal), nil) // if it was not answered
	case errors.Is(err, ErrPutOff), ended != nil && errors.Is(err, ended):
	case errors.Is(err, ErrBackground):
		if w.off = q.faces > 0; !w.off {
			q.settle(w, q.nobody(w.question), nil)
		} else {
			q.time(w)
		}
	default:
		q.gone = true
		if errors.As(err, &broken) && q.faces == 0 {
			q.settle(w, outcome{answer: Unanswered, reason: err.Error()}, nil)
		}
		q.decide("")
	}
	q.pass(w)
}

// brokenError says that the prompter panicked.
type brokenError struct{ panicked any }

// Error implements error.
func (e *brokenError) Error() string {
	return fmt.Sprintf("nobody can be asked any more: %v", e.panicked)
}

// prompt calls the prompter. A panic of the prompter counts as a failure; without that, other questions would wait
// forever.
func (q *Queue) prompt(w *waiter) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &brokenError{p}
		}
	}()
	return q.cfg.Prompter.Ask(w.ctx, w.question, q)
}

// withdrawn returns the outcome for a question whose context ctx has ended, with the cause as the reason.
func withdrawn(ctx context.Context) outcome {
	return outcome{answer: Cancelled, reason: "no longer needed: " + context.Cause(ctx).Error()}
}

func (q *Queue) emit(typ event.Type, question tool.Question, out outcome) {
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
		QuestionID: question.ID, Chain: question.Chain, Decision: string(out.answer), AnsweredBy: out.by,
		Operation: question.Intent.Tool, Risk: question.Intent.Risk, Intent: &question.Intent,
		Count: len(question.Intent.Tasks), Tasks: event.Listed(question.Intent.Tasks),
	})
}
