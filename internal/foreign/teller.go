package foreign

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"qq/internal/foreign/wire"
	"qq/pkg/event"
	"qq/pkg/llm"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// Limits of what a program says about itself.
const (
	maxText    = 1 << 20 // bytes of one message in the transcript
	maxCalls   = 10_000  // calls that are shown in one turn
	maxShownAt = 200     // characters of an error or a call in an event
	maxTokens  = 1 << 40
)

// call is a call that has begun.
type call struct {
	name  string
	since time.Time
}

// teller implements wire.Reporter: it passes on what a program does in one turn.
type teller struct {
	*backend
	ctx    context.Context
	cancel context.CancelCauseFunc
	yield  func(llm.Chunk)
	start  time.Time

	mu     sync.Mutex // guards the fields below
	first  time.Duration
	text   strings.Builder // pieces of the answer that is being written
	held   *llm.Entry      // the last message, which may be the answer: that is not told twice
	began  map[string]call
	calls  int
	denied map[string]tool.Decision // the last refusal of a tool, which did not work later
	so     task.Usage               // used so far, as the gates know it
	ending bool
}

var _ wire.Reporter = (*teller)(nil)

// Text implements wire.Reporter.
func (t *teller) Text(piece string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ending || piece == "" {
		return
	}
	if t.first == 0 {
		t.first = time.Since(t.start)
	}
	if t.text.Len() < maxText {
		t.text.WriteString(piece)
	}
	t.yield(llm.Chunk{Text: piece})
}

// written returns what the model of the program has written since its last message.
func (t *teller) written() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.text.Len() == 0 && t.held != nil {
		return t.held.Content
	}
	return t.text.String()
}

// Message implements wire.Reporter. A message of the model is held back until the next one comes: the last one is the
// answer, which the agent adds itself.
func (t *teller) Message(m llm.Entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ending {
		return
	}
	m.Content = tool.First(m.Content, maxText, "\n[cut]")
	t.release()
	if m.Role == llm.Assistant {
		t.text.Reset()
		if len(m.Calls) == 0 {
			t.held = &m
			return
		}
	}
	t.agent.Transcript.Append(m)
}

// release adds the message that was held back. The caller holds t.mu.
func (t *teller) release() {
	if t.held != nil {
		t.agent.Transcript.Append(*t.held)
		t.held = nil
	}
}

// Began implements wire.Reporter.
func (t *teller) Began(c tool.Call) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, twice := t.began[c.ID]; twice || t.ending || t.calls == maxCalls {
		return
	}
	t.calls++
	name := clean(c.Name, 64)
	t.began[c.ID] = call{name, time.Now()}
	t.backend.mu.Lock()
	t.did.Call(name)
	t.backend.mu.Unlock()
	t.emit(event.Event{Type: event.ToolStart, CallID: callID(c.ID), Tool: name,
		Arguments: task.Shorten(string(c.Arguments), maxShownAt),
		Text:      clean(tool.Call{Name: name, Arguments: c.Arguments}.Line(), maxShownAt)})
}

// Finished implements wire.Reporter.
func (t *teller) Finished(id string, failed bool, result string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c, ok := t.began[id]
	if !ok || t.ending {
		return
	}
	delete(t.began, id)
	t.end(id, c, failed, result)
}

// end reports the end of a call. The caller holds t.mu.
func (t *teller) end(id string, c call, failed bool, result string) {
	e := event.Event{Type: event.ToolEnd, CallID: callID(id), Tool: c.name, Failed: failed,
		DurationMS: time.Since(c.since).Milliseconds()}
	if failed {
		e.Error = clean(result, maxShownAt)
	}
	t.emit(e)
}

func (t *teller) emit(e event.Event) {
	t.parent.Active()
	t.agent.Process.Widen(e)
	t.parent.Emit(e)
}

// callID returns id if it can be that of a call.
func callID(id string) string {
	if tool.ValidID(id) {
		return id
	}
	return ""
}

// Turn implements wire.Reporter.
func (t *teller) Turn(n int) {
	t.parent.Emit(event.Event{Type: event.SubAgentProgress, Phase: event.PhaseModel, Done: max(n-1, 0), Total: t.turns})
}

// Used implements wire.Reporter. The gates of the root are told what is new, as of a request to a model server: they
// know the budget of the whole tree. If that is spent, the program is ended.
func (t *teller) Used(u task.Usage) {
	u = t.priced(u.Bounded(maxTokens))
	t.mu.Lock()
	more := difference(u, t.so)
	if t.ending || more == (task.Usage{}) {
		t.mu.Unlock()
		return
	}
	t.so = t.so.Add(more)
	t.mu.Unlock()
	err := t.pay(more)
	if e, ok := errors.AsType[*llm.Error](err); ok && e.Kind == llm.Spent {
		t.cancel(err)
	}
}

// pay reports usage to the gates of the root. The error says that the budget is spent.
func (t *teller) pay(u task.Usage) error {
	permit, err := t.parent.Enter(t.ctx, t.String(), false)
	if err != nil {
		return err
	}
	permit.Leave(llm.Report{Usage: u})
	permit, err = t.parent.Enter(t.ctx, t.String(), false)
	if err != nil {
		return err
	}
	permit.Leave(llm.Report{Cancelled: true})
	return nil
}

// used returns the usage of the turn, of which u is what the program said at its end, and reports what is new of it.
func (t *teller) used(u task.Usage) task.Usage {
	if u != (task.Usage{}) {
		t.mu.Lock()
		more := difference(t.priced(u.Bounded(maxTokens)), t.so)
		t.so = t.so.Add(more)
		t.mu.Unlock()
		if more != (task.Usage{}) {
			_ = t.pay(more) // the result is there all the same
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.so
}

// priced returns u with its cost at the price that the user has set, if any.
func (t *teller) priced(u task.Usage) task.Usage {
	if t.at.Price == nil {
		return u
	}
	return u.At(*t.at.Price, 0)
}

// difference returns what u is more than v; nothing is less than 0.
func difference(u, v task.Usage) task.Usage {
	return task.Usage{
		InputTokens: max(u.InputTokens-v.InputTokens, 0), OutputTokens: max(u.OutputTokens-v.OutputTokens, 0),
		CachedTokens: max(u.CachedTokens-v.CachedTokens, 0), Cost: max(u.Cost-v.Cost, 0),
		PricedTokens: max(u.PricedTokens-v.PricedTokens, 0),
	}
}

// refusal returns the error of a turn in which a call was refused that was not allowed later, or nil.
func (t *teller) refusal() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(t.denied)) {
		d := t.denied[name]
		return &task.Error{Status: task.Refused, Hint: d.Hint,
			Problem: fmt.Sprintf("%s was refused: %s", clean(name, maxShownAt), clean(d.Reason, maxSaid))}
	}
	return nil
}

// Note implements wire.Reporter.
func (t *teller) Note(format string, args ...any) {
	t.parent.Emit(event.Event{Type: event.SubAgentProgress, Text: clean(fmt.Sprintf(format, args...), maxSaid)})
}

// Warn implements wire.Reporter.
func (t *teller) Warn(format string, args ...any) {
	t.warn("%s", clean(fmt.Sprintf(format, args...), maxSaid))
}

// Inbox implements wire.Reporter.
func (t *teller) Inbox() <-chan string { return t.parent.Inbox() }

// close ends the report: calls that are open have failed, and nothing more is passed on.
func (t *teller) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ending {
		return
	}
	t.ending = true
	for id, c := range t.began {
		t.end(id, c, true, "the program ended")
	}
}
