package childproc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/llm"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// started shakes hands with a root that says s.
func (w *wire) started(s Start) {
	w.t.Helper()
	s.Protocol = Version
	w.say(Frame{Type: TypeStart, Start: &s})
	_, _, err := w.Handshake("test")
	require.NoError(w.t, err)
	f, err := w.said.next() // without a deadline: the clock may be a fake
	require.NoError(w.t, err)
	require.Equal(w.t, TypeHello, f.Type)
}

// heard are all the frames that the child has sent, which sends no more.
func (w *wire) heard() (all []Frame) {
	w.t.Helper()
	require.NoError(w.t, w.end.Close())
	for {
		f, err := w.said.next()
		if err != nil {
			return all
		}
		all = append(all, f)
	}
}

type entered struct {
	permit llm.Permit
	err    error
}

// entering is an Enter under way.
func entering(w *wire, ctx context.Context) <-chan entered {
	got := make(chan entered, 1)
	go func() {
		p, err := w.Enter(ctx, "m", false)
		got <- entered{p, err}
	}()
	return got
}

func TestConnEnter(t *testing.T) {
	w := newWire(t)
	ctx := w.listening()
	got := entering(w, ctx)
	f := w.hear()
	require.Equal(t, &Ask{ID: 1, Enter: &Enter{Model: "m"}}, f.Ask)
	w.last(1)
	p := <-got
	require.NoError(t, p.err)
	p.permit.Leave(callerReport())
	p.permit.Leave(llm.Report{})
	p.permit.Active()
	assert.Equal(t, &Leave{ID: 1, Report: callerReport()}, w.hear().Leave)

	got = entering(w, ctx)
	w.say(Frame{Type: TypeAnswer, Answer: &Answer{ID: w.hear().Ask.ID, Last: true,
		Fault: &Fault{Kind: llm.Spent, Problem: "p", Hint: "h"}}})
	assert.Equal(t, entered{err: &llm.Error{Kind: llm.Spent, Problem: "p", Hint: "h"}}, <-got)

	got = entering(w, ctx)
	w.say(Frame{Type: TypeAnswer, Answer: &Answer{ID: w.hear().Ask.ID, Last: true, Error: "no room"}})
	assert.EqualError(t, (<-got).err, "no room")

	got = entering(w, t.Context())
	w.hear()
	w.fromRoot.Close()
	assert.Equal(t, entered{err: ErrRootGone}, <-got)
	assert.Empty(t, w.permits)
	assert.Empty(t, w.heard())
}

// When there is a use in asking again, the root is asked for that and says when.
func TestConnEnterAgain(t *testing.T) {
	w := newWire(t)
	ctx := w.listening()
	got := entering(w, ctx)
	w.say(Frame{Type: TypeAnswer, Answer: &Answer{ID: w.hear().Ask.ID, Last: true,
		Fault: &Fault{Kind: llm.Open, Problem: "p", RetryAfterMS: 1500}}})
	assert.Equal(t, entered{err: &llm.Error{Kind: llm.Open, Problem: "p", RetryAfter: 1500 * time.Millisecond}}, <-got)
	again := make(chan entered, 1)
	go func() {
		p, err := w.Enter(ctx, "m", true)
		again <- entered{p, err}
	}()
	f := w.hear()
	assert.Equal(t, &Enter{Model: "m", Again: true}, f.Ask.Enter)
	w.last(f.Ask.ID)
	assert.NoError(t, (<-again).err)
}

// Whoever gives up says so, as the permit may be on its way.
func TestConnEnterGivenUp(t *testing.T) {
	w := newWire(t)
	w.listening()
	ctx, cancel := context.WithCancelCause(t.Context())
	got := entering(w, ctx)
	id := w.hear().Ask.ID
	enough := errors.New("enough")
	cancel(enough)
	assert.Equal(t, entered{err: enough}, <-got)
	w.last(id)
	assert.Equal(t, &Leave{ID: id, Report: llm.Report{Cancelled: true}}, w.hear().Leave)
	_, err := w.Enter(ctx, "m", false)
	assert.Equal(t, enough, err)
	assert.Empty(t, w.heard(), "nothing was asked")
}

// The permit of the start frame serves one request, whoever comes first.
func TestConnEnterFirst(t *testing.T) {
	w := newWire(t)
	w.started(Start{Permit: true})
	dead, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := w.Enter(dead, "m", false)
	require.ErrorIs(t, err, context.Canceled, "it is not used up by who may not send")

	one, two := entering(w, t.Context()), entering(w, t.Context())
	f := w.hear()
	assert.NotNil(t, f.Ask.Enter, "one of them asks")
	var p entered
	select {
	case p = <-one:
	case p = <-two:
	}
	p.permit.Leave(llm.Report{})
	assert.Equal(t, &Leave{}, w.hear().Leave)
	w.file(Answer{ID: f.Ask.ID, Last: true})
	select {
	case p = <-one:
	case p = <-two:
	}
	p.permit.Leave(llm.Report{})
	assert.Equal(t, &Leave{ID: f.Ask.ID}, w.hear().Leave)
}

// Nobody goes on before effects are recorded, or when they cannot be.
func TestConnEffects(t *testing.T) {
	for _, why := range []string{"", "the disk is full"} {
		w := newWire(t)
		w.started(Start{})
		w.listening()
		told := make(chan error, 1)
		go func() { told <- w.Effects() }()
		ask := w.hear()
		require.Equal(t, TypeAsk, ask.Type)
		assert.True(t, ask.Ask.Effects)
		assert.Empty(t, told)
		w.say(Frame{Type: TypeAnswer, Answer: &Answer{ID: ask.Ask.ID, Error: why, Last: true}})
		if err := <-told; why != "" {
			assert.ErrorContains(t, err, why)
		} else {
			assert.NoError(t, err)
		}
	}
}

func TestCancelledCause(t *testing.T) {
	w := newWire(t)
	ctx := w.listening()
	w.say(Frame{Type: TypeCancel, Cancel: &Cancel{Reason: "late", GraceMS: 5000}})
	<-ctx.Done()
	err := context.Cause(ctx)
	assert.Equal(t, &Cancelled{Reason: "late", Grace: 5 * time.Second}, err)
	assert.NotErrorIs(t, err, ErrRootGone)
	assert.EqualError(t, err, "cancelled: late")
}

// A result is whole without its reads, when they are too many or too long.
func TestFinishWithReads(t *testing.T) {
	read := task.Read{Tool: "t", Arguments: json.RawMessage(`"x"`), Digest: strings.Repeat("0f", 32)}
	long := read
	long.Arguments = json.RawMessage(`"` + strings.Repeat("x", maxArguments-2) + `"`)
	longer := read
	longer.Arguments = json.RawMessage(`"` + strings.Repeat("x", maxArguments-1) + `"`)
	many := func(n int, r task.Read) (reads []task.Read) {
		for range n {
			reads = append(reads, r)
		}
		return reads
	}
	for name, c := range map[string]struct{ reads, want []task.Read }{
		"unknown":      {nil, nil},
		"none":         {[]task.Read{}, []task.Read{}},
		"some":         {many(3, read), many(3, read)},
		"most":         {many(maxReads, read), many(maxReads, read)},
		"too many":     {many(maxReads+1, read), nil},
		"long":         {many(1, long), many(1, long)},
		"too long":     {many(1, longer), nil},
		"all too long": {many(100, long), nil},
	} {
		w := newWire(t)
		w.started(Start{})
		finished := make(chan error, 1)
		go func() { finished <- w.Finish(Result{Status: task.Completed, Bytes: 5, Reads: c.reads}) }()
		got := w.hear().Result
		require.NoError(t, <-finished)
		assert.Equal(t, Result{Status: task.Completed, Bytes: 5, Reads: c.want}, *got, name)
	}
}

// witness is the root's end of a wire whose clock is a fake: it notes which permits
// are named as active, and when.
type witness struct {
	t     *testing.T
	start time.Time
	said  []string
}

func (l *witness) Write(line []byte) (int, error) {
	f, err := decode(line)
	require.NoError(l.t, err)
	if f.Type == TypeActive {
		l.said = append(l.said, fmt.Sprintf("%v%v", time.Since(l.start), f.Active.Permits))
	}
	return len(line), nil
}

// said is what a child with that idle time says of itself while f runs.
func said(t *testing.T, idle time.Duration, f func(c *Conn)) (said []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &witness{t: t, start: time.Now()}
		c := newConn(nil, l)
		c.heartbeat.Begin(idle.Milliseconds())
		c.granted.Store(true)
		f(c)
		said = l.said
	})
	return said
}

// busily calls each act every millisecond.
func busily(total time.Duration, acts ...func()) {
	for range total / time.Millisecond {
		time.Sleep(time.Millisecond)
		for _, act := range acts {
			act()
		}
	}
}

func TestActiveIsThrottled(t *testing.T) {
	for idle, want := range map[time.Duration][]string{
		0:                      nil,
		time.Millisecond:       {"10ms[]", "20ms[]", "30ms[]"},
		900 * time.Millisecond: {"45ms[]", "90ms[]", "135ms[]"},
		20 * time.Second:       {"250ms[]", "1.25s[]", "2.25s[]"},
		5 * time.Minute:        {"250ms[]", "5.25s[]", "10.25s[]"},
		1 << 62:                {"250ms[]", "5.25s[]", "10.25s[]"},
	} {
		got := said(t, idle, func(c *Conn) { busily(11*time.Second, c.Active) })
		assert.Equal(t, want, got[:min(len(got), 3)], idle)
		if idle >= time.Minute {
			assert.Len(t, got, 3)
		}
	}
	assert.Empty(t, said(t, time.Minute, func(c *Conn) { busily(249*time.Millisecond, c.Active) }),
		"a short child says nothing")
	assert.Equal(t, []string{"250ms[]"}, said(t, time.Hour, func(c *Conn) {
		time.Sleep(250 * time.Millisecond)
		var together sync.WaitGroup
		for range 20 {
			together.Go(c.Active)
		}
		together.Wait()
	}), "one of those who speak at once")
}

// enter is a request of c that nobody has to be asked for.
func enter(t *testing.T, c *Conn) llm.Permit {
	p, err := c.Enter(t.Context(), "m", false)
	require.NoError(t, err)
	return p
}

func TestPermitIsActive(t *testing.T) {
	for name, c := range map[string]struct {
		idle time.Duration
		acts func(*Conn)
		want []string
	}{
		"no idle time: once for each request": {0, func(c *Conn) {
			for range 2 {
				p := enter(t, c)
				busily(300*time.Millisecond, p.Active, c.Active)
				p.Leave(llm.Report{})
				c.granted.Store(true)
			}
		}, []string{"250ms[0]", "550ms[0]"}},
		"a short request": {0, func(c *Conn) {
			p := enter(t, c)
			busily(249*time.Millisecond, p.Active)
			p.Leave(llm.Report{})
			busily(time.Second, p.Active)
		}, nil},
		"a long request": {time.Minute, func(c *Conn) {
			busily(7*time.Second, c.Active, enter(t, c).Active)
		}, []string{"250ms[0]", "3.25s[0]", "6.25s[0]"}},
		"the permit speaks for the child": {time.Minute, func(c *Conn) {
			busily(7*time.Second, enter(t, c).Active, c.Active)
		}, []string{"250ms[0]", "3.25s[0]", "6.25s[0]"}},
		"a slow first token": {time.Minute, func(c *Conn) {
			p := enter(t, c)
			busily(4*time.Second, c.Active)
			busily(time.Second, p.Active, c.Active)
		}, []string{"250ms[]", "3.25s[]", "4.001s[0]"}},
		"a silent one is not named": {time.Minute, func(c *Conn) {
			enter(t, c)
			busily(7*time.Second, c.Active)
		}, []string{"250ms[]", "3.25s[]", "6.25s[]"}},
		"two at once": {200 * time.Millisecond, func(c *Conn) {
			one, two := enter(t, c), c.admitted(9)
			busily(30*time.Millisecond, one.Active, two.Active)
			one.Leave(llm.Report{})
			busily(10*time.Millisecond, one.Active, two.Active)
		}, []string{"10ms[0 9]", "20ms[0 9]", "30ms[0 9]", "40ms[9]"}},
	} {
		assert.Equal(t, c.want, said(t, c.idle, c.acts), name)
	}
}

// A call for each token must not cost anything.
func BenchmarkActive(b *testing.B) {
	c := newConn(nil, io.Discard)
	c.heartbeat.Begin(time.Hour.Milliseconds())
	c.granted.Store(true)
	p, err := c.Enter(b.Context(), "m", false)
	require.NoError(b, err)
	c.Active()
	b.Run("conn", func(b *testing.B) {
		for b.Loop() {
			c.Active()
		}
	})
	b.Run("permit", func(b *testing.B) {
		for b.Loop() {
			p.Active()
		}
	})
}

// The permit of the start frame goes back before a question that may take long.
func TestConnGivesItsPermitBack(t *testing.T) {
	for what, ask := range map[string]func(c *Conn, ctx context.Context){
		"delegate": func(c *Conn, ctx context.Context) { c.Delegate(ctx, []task.Task{{Text: "x"}}) },
		"spawn":    func(c *Conn, ctx context.Context) { c.Spawn(ctx, task.Task{Text: "x"}) },
		"wait":     func(c *Conn, ctx context.Context) { c.Wait(ctx, nil, 0) },
		"approve":  func(c *Conn, ctx context.Context) { c.Approve(ctx, tool.Intent{}) },
	} {
		w := newWire(t)
		w.started(Start{Permit: true})
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // nobody answers
		ask(w.Conn, ctx)
		ask(w.Conn, ctx)
		said := w.heard()
		require.Len(t, said, 3, what)
		assert.Equal(t, &Leave{Report: llm.Report{Cancelled: true}}, said[0].Leave, what)
		assert.Equal(t, TypeAsk, said[1].Type, what)
		assert.Equal(t, TypeAsk, said[2].Type, "%s: once", what)
	}
}
