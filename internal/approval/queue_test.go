package approval

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"qq/pkg/event"
	"qq/pkg/tool"
)

// saying is what a person says after a while; a zero one is nothing at all.
type saying struct {
	after  time.Duration
	answer Answer
	err    error // the prompter fails
	panics bool
}

// person is a Prompter. It says its sayings one after the other.
type person struct {
	mu      sync.Mutex
	says    []saying
	shown   []string // the summaries, in the order in which they were shown
	now     int
	most    int // questions that were shown at once
	answers int
	broken  bool
}

// Ask implements Prompter.
func (p *person) Ask(ctx context.Context, q tool.Question, desk Desk) error {
	desk.Shown(q.ID)
	answer, err := p.say(ctx, q)
	if err == nil && answer.given() {
		_ = desk.Answer(q.ID, answer, ByTerminal) // it may be over
	}
	return err
}

func (p *person) say(ctx context.Context, q tool.Question) (Answer, error) {
	p.mu.Lock()
	var s saying
	if len(p.shown) < len(p.says) {
		s = p.says[len(p.shown)]
	}
	p.shown = append(p.shown, q.Intent.Summary)
	p.now++
	p.most = max(p.most, p.now)
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.now--
	}()
	var said <-chan time.Time
	if s != (saying{}) {
		said = time.After(s.after)
	}
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case <-said:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers++
	p.broken = p.broken || s.panics || s.err != nil
	if s.panics {
		panic("as told")
	}
	return s.answer, s.err
}

// hearing is a queue, the person who is asked, and what was emitted.
type hearing struct {
	*Queue
	*person
	start  time.Time
	mu     sync.Mutex
	events []event.Event
	wg     sync.WaitGroup
	got    map[string]heard // by the summary
}

// heard is what one Ask returned, and when.
type heard struct {
	tool.Decision
	at time.Duration
}

func newHearing(cfg QueueConfig, says ...saying) *hearing {
	h := &hearing{person: &person{says: says}, start: time.Now(), got: map[string]heard{}}
	cfg.Prompter, cfg.Events = h.person, h
	h.Queue = NewQueue(cfg)
	return h
}

// Emit implements Emitter.
func (h *hearing) Emit(e event.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
}

// emitterFunc is an Emitter.
type emitterFunc func(event.Event)

func (f emitterFunc) Emit(e event.Event) { f(e) }

// ask asks for a call of a tool, and waits until the queue has it.
func (h *hearing) ask(ctx context.Context, name, summary string) {
	h.wg.Go(func() {
		d := h.Queue.Ask(ctx, tool.Question{Chain: []string{"default", "coder"}, Intent: intent(name, summary)})
		h.mu.Lock()
		defer h.mu.Unlock()
		h.got[summary] = heard{d, time.Since(h.start)}
	})
	synctest.Wait()
}

func intent(name, summary string) tool.Intent {
	return tool.Intent{Tool: name, Risk: tool.Medium, Summary: summary}
}

// decided lists the decisions of the events that resolve, by the summary.
func (h *hearing) decided() map[string]string {
	m := map[string]string{}
	for _, e := range h.events {
		if e.Type == event.ValidationResolved {
			m[e.Intent.Summary] = e.Decision
		}
	}
	return m
}

// yes is the answer to a question that was shown, unasked what an earlier answer allows.
var (
	yes     = tool.Decision{Allowed: true, Shown: true}
	unasked = tool.Decision{Allowed: true}
)

func TestQueueAnswers(t *testing.T) {
	for answer, want := range map[Answer]tool.Decision{
		Once: yes, Session: yes, No: {Reason: "the user said no"}, "maybe": {Reason: "the user said no"},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := newHearing(QueueConfig{Timeout: time.Minute}, saying{after: time.Second, answer: answer})
			h.ask(t.Context(), "edit", "1")
			h.wg.Wait()
			assert.Equal(t, heard{want, time.Second}, h.got["1"], answer)
			assert.Equal(t, answer != Session, h.Needs(tool.Question{Intent: intent("edit", "")}), answer)
			assert.True(t, h.Needs(tool.Question{Intent: intent("other", "")}), answer)
		})
	}
}

func TestQueueEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHearing(QueueConfig{}, saying{after: time.Second, answer: Once})
		q := tool.Question{
			ExecutionID: "e", ParentExecutionID: "p", BatchID: "b", CallID: "c", Depth: 2,
			Chain: []string{"default", "coder"}, Intent: intent("run_parallel_tasks", "delegate 30 tasks"),
		}
		for i := range 30 {
			q.Intent.Tasks = append(q.Intent.Tasks, fmt.Sprintf("coder: task %d", i))
		}
		assert.Equal(t, yes, h.Queue.Ask(t.Context(), q))
		require.Len(t, h.events, 2)
		id := h.events[0].QuestionID
		assert.NotEmpty(t, id)
		want := event.Event{
			Type: event.ValidationRequired, ExecutionID: "e", ParentExecutionID: "p", BatchID: "b", Agent: "coder",
			CallID: "c", Depth: 2,
			QuestionID: id, Chain: q.Chain, Intent: &q.Intent,
			Operation: "run_parallel_tasks", Risk: tool.Medium, Count: 30, Tasks: q.Intent.Tasks[:20],
		}
		resolved := want
		resolved.Type, resolved.Decision = event.ValidationResolved, "once"
		resolved.AnsweredBy = ByTerminal
		assert.Equal(t, []event.Event{want, resolved}, h.events)
	})
}

// That a call is refused because nobody can be asked is told as if somebody had been asked.
func TestQueueEventsWithoutAPerson(t *testing.T) {
	for name, in := range map[string]tool.Intent{
		"nobody": intent("edit", "edit a.go"), "too long": {Tool: "edit", Risk: tool.High, Cut: true},
	} {
		var events []event.Event
		sink := event.SinkFunc(func(e event.Event) { events = append(events, e) })
		cfg := QueueConfig{Events: event.NewStream("", sink)}
		if in.Cut {
			cfg.Prompter = &person{}
		}
		d := NewQueue(cfg).Ask(t.Context(), tool.Question{ExecutionID: "e", CallID: "c", Intent: in})
		assert.False(t, d.Allowed, name)
		require.Len(t, events, 2, name)
		for i, want := range []event.Event{
			{Type: event.ValidationRequired}, {Type: event.ValidationResolved, Decision: "unanswered"},
		} {
			e := events[i]
			assert.Equal(t, want.Type, e.Type, name)
			assert.Equal(t, want.Decision, e.Decision, name)
			assert.Equal(t, []any{"e", "c", "edit", in.Risk, events[0].QuestionID},
				[]any{e.ExecutionID, e.CallID, e.Operation, e.Risk, e.QuestionID}, name)
		}
		assert.NotEmpty(t, events[0].QuestionID, name)
	}
}

// What was decided beforehand is not asked, and is no event.
func TestQueuePolicy(t *testing.T) {
	h := newHearing(QueueConfig{Policy: Policy{Allow: whole("shell"), Deny: whole("fetch")}})
	ask := func(in tool.Intent) tool.Decision {
		assert.False(t, h.Needs(tool.Question{Intent: in}))
		return h.Queue.Ask(t.Context(), tool.Question{Intent: in})
	}
	assert.Equal(t, unasked, ask(intent("shell", "")))
	assert.Equal(t, tool.Decision{Reason: "it is denied in this run"}, ask(intent("fetch", "")))
	assert.Equal(t, unasked, ask(tool.Intent{Tool: "read", Risk: tool.Low}))
	assert.Empty(t, h.events)
	assert.Empty(t, h.shown)
}

// Where nobody can be asked, a hint names the call, and a rule that allows no more than it needs if there is one.
func TestQueueNobodyHint(t *testing.T) {
	const none = "the call was "
	edit := func(summary string, paths ...string) tool.Intent {
		return tool.Intent{Tool: "edit_file", Effect: tool.Writes, Paths: paths, Summary: summary}
	}
	run := func(line string) tool.Intent {
		return tool.Intent{Tool: "run_pty_cmd", Command: line, Summary: "run: " + line}
	}
	below := edit("edit a", "a")
	below.Dir = "sub"
	special := edit("edit .env", ".env")
	special.Special = true
	for name, tt := range map[string]struct {
		in        tool.Intent
		dir, want string
	}{
		"file": {edit("edit a.go", "a.go"), "", `--allow 'edit_file(a.go)' is enough for this call: "edit a.go"`},
		"command with quotes": {run("git log 'a b'"), "",
			`--allow 'run_pty_cmd(git log '\''a b'\'')' is enough for this call: "run: git log 'a b'"`},
		"no rule":          {run("ls | sh"), "", none + `"run: ls | sh"`},
		"two files":        {edit("a and b", "a", "b"), "", none + `"a and b"`},
		"folder of a task": {below, "/work/sub", none + `"edit a"`},
		"home":             {edit("edit a", "a"), "/home/me", none + `"edit a"`},
		"strange characters": {edit("edit \x1b[2J\u202ea\n\"b", "\u202ea"), "",
			none + `"edit \x1b[2J\u202ea \"b"`},
		"special": {special, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			q := NewQueue(QueueConfig{Policy: Policy{Mode: Ask, Root: "/work", Home: "/home/me"}})
			tt.in.Risk = tool.High
			d := q.Ask(t.Context(), tool.Question{Intent: tt.in, Folder: tt.dir})
			assert.False(t, d.Allowed)
			assert.Equal(t, tt.want, d.Hint)
		})
	}
	q := NewQueue(QueueConfig{Policy: Policy{Mode: Ask}})
	long := edit(strings.Repeat("y", 9999))
	long.Risk = tool.High
	d := q.Ask(t.Context(), tool.Question{Intent: long})
	assert.Less(t, len(d.Hint), 300)
}

func TestQueueNobody(t *testing.T) {
	d := NewQueue(QueueConfig{})
	assert.False(t, d.Needs(tool.Question{Intent: intent("run_pty_cmd", "")}))
	assert.Equal(t, tool.Decision{Reason: "it needs an approval and nobody can be asked here: " +
		"allow it with --allow run_pty_cmd, or everything with --auto-approve"},
		d.Ask(t.Context(), tool.Question{Intent: intent("run_pty_cmd", "")}))
	assert.Contains(t, d.Ask(t.Context(),
		tool.Question{Intent: tool.Intent{Tool: "edit", Risk: tool.High, Special: true}}).Reason, "only --auto-approve")
}

// One question at a time is shown, in the order in which they came.
func TestQueueOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHearing(QueueConfig{}, saying{time.Second, Once, nil, false}, saying{time.Second, No, nil, false},
			saying{time.Second, Once, nil, false})
		for i := range 3 {
			h.ask(t.Context(), "edit", fmt.Sprint(i))
		}
		h.mu.Lock()
		assert.Empty(t, h.got)
		h.mu.Unlock()
		h.wg.Wait()
		assert.Equal(t, []string{"0", "1", "2"}, h.shown)
		assert.Equal(t, 1, h.most)
		assert.Equal(t, map[string]heard{
			"0": {yes, time.Second}, "1": {tool.Decision{Reason: "the user said no"}, 2 * time.Second},
			"2": {yes, 3 * time.Second},
		}, h.got)
	})
}

// What is allowed for the session answers those who wait for the same, and those
// who come later.
func TestQueueSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHearing(QueueConfig{}, saying{time.Second, Session, nil, false}, saying{time.Second, No, nil, false})
		for i, name := range []string{"edit", "shell", "edit", "edit"} {
			h.ask(t.Context(), name, fmt.Sprint(i))
		}
		h.wg.Wait()
		h.ask(t.Context(), "edit", "later")
		assert.Equal(t, []string{"0", "1"}, h.shown)
		assert.Equal(t, map[string]heard{
			"0": {yes, time.Second}, "2": {unasked, time.Second}, "3": {unasked, time.Second},
			"1": {tool.Decision{Reason: "the user said no"}, 2 * time.Second}, "later": {unasked, 2 * time.Second},
		}, h.got)
		assert.Equal(t, map[string]string{"0": "session", "1": "no", "2": "session", "3": "session"}, h.decided())
	})
}

// What is allowed for the session is not allowed for what is special, whether
// that waits or comes later, and a yes to what is special is for that alone.
func TestQueueSpecial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		once, no, session := saying{time.Second, Once, nil, false}, saying{time.Second, No, nil, false},
			saying{time.Second, Session, nil, false}
		h := newHearing(QueueConfig{Policy: Policy{Allow: whole("shell")}}, session, session, once, no, session)
		ask := func(name, summary string, special bool) {
			h.wg.Go(func() {
				in := intent(name, summary)
				in.Special = special
				d := h.Queue.Ask(t.Context(), tool.Question{Intent: in})
				h.mu.Lock()
				defer h.mu.Unlock()
				h.got[summary] = heard{d, time.Since(h.start)}
			})
			synctest.Wait()
		}
		ask("edit", "special first", true) // a session for it is once
		ask("edit", "plain", false)        // has to be asked about, and is for the session
		ask("edit", "special waits", true) // in spite of that
		ask("edit", "plain waits", false)  // because of that
		ask("shell", "special shell", true)
		h.wg.Wait()
		ask("edit", "special later", true)
		h.wg.Wait()
		ask("edit", "plain later", false)
		h.wg.Wait()
		assert.Equal(t, []string{"special first", "plain", "special waits", "special shell", "special later"}, h.shown)
		assert.Equal(t, map[string]string{"special first": "once", "plain": "session", "special waits": "once",
			"plain waits":   "session",
			"special shell": "no", "special later": "once"}, h.decided())
		assert.Equal(t, heard{unasked, 2 * time.Second}, h.got["plain waits"])
		assert.True(t, h.got["plain later"].Allowed)
		assert.True(t, h.Needs(tool.Question{Intent: tool.Intent{Tool: "edit", Risk: tool.High, Special: true}}))
	})
}

// What cannot be shown whole is refused and not asked about, unless its tool is allowed for the session.
func TestQueueCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHearing(QueueConfig{}, saying{time.Second, Session, nil, false})
		ask := func(special bool) tool.Decision {
			in := intent("edit", "long")
			in.Cut, in.Special = true, special
			assert.False(t, h.Needs(tool.Question{Intent: in}))
			return h.Queue.Ask(t.Context(), tool.Question{Intent: in})
		}
		const why = "it is too long to be shown to the user whole, and the user can only allow what was shown: " +
			"make it in smaller steps; without a question it runs with "
		assert.Equal(t, tool.Decision{Reason: why + "--allow edit"}, ask(false))
		assert.Equal(t, tool.Decision{Reason: why + "--auto-approve"}, ask(true))
		h.ask(t.Context(), "edit", "short")
		h.wg.Wait()
		assert.Equal(t, unasked, ask(false))
		assert.False(t, ask(true).Allowed)
		assert.Equal(t, []string{"short"}, h.shown)
	})
}

// What is settled while a question is on its way to the queue is not asked again.
func TestQueueSettledMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHearing(QueueConfig{}, saying{time.Second, Session, nil, false})
		h.cfg.Events = emitterFunc(func(e event.Event) {
			if h.Emit(e); e.Type == event.ValidationRequired && e.Intent.Summary == "1" {
				time.Sleep(time.Minute)
			}
		})
		h.ask(t.Context(), "edit", "0")
		h.ask(t.Context(), "edit", "1")
		h.wg.Wait()
		assert.Equal(t, []string{"0"}, h.shown)
		assert.Equal(t, map[string]heard{"0": {yes, time.Second}, "1": {unasked, time.Minute}}, h.got)
	})
}

// The time for an answer begins when the question is shown.
func TestQueueShortTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHearing(QueueConfig{Timeout: time.Nanosecond}, saying{})
		h.ask(t.Context(), "edit", "0")
		h.wg.Wait()
		assert.Equal(t, "unanswered: nobody answered within 0.000000001s", h.got["0"].Reason)
	})
}

func TestQueueTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHearing(QueueConfig{Timeout: 300 * time.Second}, saying{}, saying{200 * time.Second, Once, nil, false})
		h.ask(t.Context(), "edit", "0")
		h.ask(t.Context(), "edit", "1")
		h.wg.Wait()
		assert.Equal(t, map[string]heard{
			"0": {tool.Decision{
				Reason: "unanswered: nobody answered within 300s",
				Hint:   "QQ_APPROVAL_TIMEOUT sets how many seconds a question waits; 0 means no limit",
			}, 300 * time.Second},
			"1": {yes, 500 * time.Second},
		}, h.got)
		assert.Equal(t, map[string]string{"0": "unanswered", "1": "once"}, h.decided())
		assert.True(t, h.Needs(tool.Question{Intent: intent("edit", "")}), "who was away may be back")
	})
}

// A question whose asker has gone is taken off the screen, or never shown.
func TestQueueCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHearing(QueueConfig{Timeout: time.Minute}, saying{}, saying{time.Second, Once, nil, false})
		first, stopFirst := context.WithCancelCause(t.Context())
		second, stopSecond := context.WithCancelCause(t.Context())
		h.ask(first, "edit", "0")
		h.ask(second, "edit", "1")
		h.ask(t.Context(), "edit", "2")
		stopSecond(errors.New("timed out"))
		synctest.Wait()
		stopFirst(errors.New("Ctrl-C"))
		h.wg.Wait()
		assert.Equal(t, heard{tool.Decision{Reason: "no longer needed: timed out"}, 0}, h.got["1"])
		assert.Equal(t, heard{tool.Decision{Reason: "no longer needed: Ctrl-C"}, 0}, h.got["0"])
		assert.Equal(t, heard{yes, time.Second}, h.got["2"])
		assert.Equal(t, []string{"0", "2"}, h.shown)
		assert.Equal(t, map[string]string{"0": "cancelled", "1": "cancelled", "2": "once"}, h.decided())

		h.ask(first, "edit", "gone before")
		assert.False(t, h.got["gone before"].Allowed)
		assert.Len(t, h.decided(), 3, "nobody was asked")
	})
}

// When the prompter has failed, the queue refuses whatever waits or comes later.
func TestQueuePrompterFails(t *testing.T) {
	for name, end := range map[string]saying{
		"error": {after: time.Second, err: errors.New("hung up")}, "panic": {after: time.Second, panics: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := newHearing(QueueConfig{}, end)
			h.ask(t.Context(), "edit", "0")
			h.ask(t.Context(), "edit", "1")
			h.ask(t.Context(), "shell", "2")
			h.wg.Wait()
			h.ask(t.Context(), "edit", "later")
			assert.Equal(t, []string{"0"}, h.shown, name)
			assert.Contains(t, h.got["0"].Reason, "nobody can be asked", name)
			for summary, tool := range map[string]string{"1": "edit", "2": "shell", "later": "edit"} {
				assert.Contains(t, h.got[summary].Reason, "--allow "+tool, name)
				assert.Equal(t, time.Second, h.got[summary].at, name)
			}
			assert.Equal(t, map[string]string{"0": "unanswered", "1": "unanswered", "2": "unanswered",
				"later": "unanswered"}, h.decided(), name)
			assert.False(t, h.Needs(tool.Question{Intent: intent("edit", "")}), name)
		})
	}
}

// A call that comes while qq is in the background of its shell is refused; later ones are asked about.
func TestQueueInBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHearing(QueueConfig{}, saying{after: time.Second, err: ErrBackground},
			saying{after: time.Second, answer: Once})
		h.ask(t.Context(), "edit", "0")
		h.wg.Wait()
		h.ask(t.Context(), "edit", "1")
		h.wg.Wait()
		assert.Contains(t, h.got["0"].Reason, "nobody can be asked")
		assert.True(t, h.got["1"].Allowed)
	})
}

// asker is one call of a random scene.
type asker struct {
	tool   string
	from   time.Duration
	cancel time.Duration // after from; 0 is never
}

// Whoever asks when, goes away when, and is answered what: each Ask returns
// exactly once, one question at a time is shown, and each that is required is
// resolved exactly once.
func TestAnyScene(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		times := rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.IntRange(0, 6).Draw(t, "s")) * time.Second
		})
		askers := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) asker {
			return asker{rapid.SampledFrom([]string{"edit", "shell", "denied"}).Draw(t, "tool"), times.Draw(t, "from"),
				times.Draw(t, "cancel")}
		}), 1, 12).Draw(rt, "askers")
		says := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) saying {
			s := saying{after: times.Draw(t, "after"),
				answer: rapid.SampledFrom([]Answer{Once, Once, Session, No, ""}).Draw(t, "answer")}
			if rapid.IntRange(0, 9).Draw(t, "break") == 0 {
				s.err = errors.New("hung up")
			}
			return s
		}), 0, 12).Draw(rt, "says")
		var h *hearing
		synctest.Test(t, func(t *testing.T) {
			h = newHearing(QueueConfig{Timeout: 4 * time.Second, Policy: Policy{Deny: whole("denied")}}, says...)
			h.play(t.Context(), askers)
		})
		h.check(rt, askers)
	})
}

func (h *hearing) play(ctx context.Context, askers []asker) {
	for i, a := range askers {
		h.wg.Go(func() {
			ctx, stop := context.WithCancel(ctx)
			defer stop()
			time.Sleep(a.from)
			if a.cancel > 0 {
				defer time.AfterFunc(a.cancel, stop).Stop()
			}
			name := fmt.Sprint(i)
			d := h.Queue.Ask(ctx, tool.Question{ExecutionID: name, Intent: intent(a.tool, name)})
			h.mu.Lock()
			defer h.mu.Unlock()
			h.got[name] = heard{d, time.Since(h.start) - a.from}
		})
	}
	h.wg.Wait()
}

func (h *hearing) check(t *rapid.T, askers []asker) {
	assert.Len(t, h.got, len(askers), "each has its decision")
	assert.LessOrEqual(t, h.most, 1, "one question at a time")
	assert.Nil(t, h.turn)
	assert.Empty(t, h.open)
	assert.Equal(t, h.broken, h.gone)

	open, required, resolved := map[string]string{}, map[string]int{}, map[string]Answer{}
	for _, e := range h.events {
		if e.Type == event.ValidationRequired {
			open[e.QuestionID] = e.ExecutionID
			required[e.ExecutionID]++
			continue
		}
		assert.Equal(t, e.ExecutionID, open[e.QuestionID], "resolved what was not required, or twice")
		delete(open, e.QuestionID)
		resolved[e.ExecutionID] = Answer(e.Decision)
	}
	assert.Empty(t, open, "required and never resolved")
	for _, summary := range h.shown {
		assert.Contains(t, resolved, summary)
	}
	for i, a := range askers {
		name := fmt.Sprint(i)
		got, word := h.got[name], resolved[name]
		assert.LessOrEqual(t, required[name], 1)
		assert.Equal(t, got.Allowed, got.Reason == "")
		assert.False(t, got.Allowed && a.tool == "denied")
		if a.tool == "denied" {
			assert.Empty(t, word)
		}
		if a.cancel > 0 {
			assert.LessOrEqual(t, got.at, a.cancel, "asker %d waits on", i)
		}
		if word != "" {
			assert.Contains(t, []Answer{Once, Session, No, Unanswered, Cancelled}, word)
			assert.Equal(t, word == Once || word == Session, got.Allowed)
			assert.False(t, word == Cancelled && a.cancel == 0)
		}
	}
}
