package childproc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/event"
	"qq/pkg/task"
)

// wire is a Conn with the root's ends of its pipes in the hands of the test.
type wire struct {
	*Conn
	t        *testing.T
	fromRoot *os.File // what the root says
	toRoot   *os.File // what the child says
	end      *os.File // of the child
	said     *reader
}

func newWire(t *testing.T) *wire {
	t.Helper()
	downR, downW, err := os.Pipe()
	require.NoError(t, err)
	upR, upW, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, f := range []*os.File{downR, downW, upR, upW} {
			f.Close()
		}
	})
	return &wire{newConn(downR, upW), t, downW, upR, upW, newReader(upR, MaxUp)}
}

// say sends a frame to the child.
func (w *wire) say(f Frame) {
	w.t.Helper()
	line, err := encode(f)
	require.NoError(w.t, err)
	_, err = w.fromRoot.Write(line)
	require.NoError(w.t, err)
}

// hear is the next frame of the child.
func (w *wire) hear() Frame {
	w.t.Helper()
	require.NoError(w.t, w.toRoot.SetReadDeadline(time.Now().Add(10*time.Second)))
	f, err := w.said.next()
	require.NoError(w.t, err)
	return f
}

// listening shakes hands, listens until the test ends, and returns a context
// that ends when the root wants that.
func (w *wire) listening() context.Context {
	w.t.Helper()
	w.say(Frame{Type: TypeStart, Start: &Start{Protocol: Version}})
	_, listen, err := w.Handshake("test")
	require.NoError(w.t, err)
	require.Equal(w.t, TypeHello, w.hear().Type)
	ctx, cancel := context.WithCancelCause(w.t.Context())
	var listener sync.WaitGroup
	listener.Go(func() { listen(cancel) })
	w.t.Cleanup(func() {
		w.fromRoot.Close()
		listener.Wait()
	})
	return ctx
}

// answer sends results of an ask without saying that they are all.
func (w *wire) answer(id int64, outputs ...string) {
	for i, out := range outputs {
		r := task.Task{}.Ended(task.Completed, "")
		r.Index, r.Output = i, out
		w.say(Frame{Type: TypeAnswer, Answer: &Answer{ID: id, Result: &r}})
	}
}

func (w *wire) last(id int64) { w.say(Frame{Type: TypeAnswer, Answer: &Answer{ID: id, Last: true}}) }

// delegated is a Delegate under way.
func delegated(w *wire, ctx context.Context, texts ...string) <-chan []string {
	var tasks []task.Task
	for _, text := range texts {
		tasks = append(tasks, task.Task{Text: text})
	}
	got := make(chan []string, 1)
	go func() { got <- brief(w.Delegate(ctx, tasks)) }()
	return got
}

func brief(results []task.Result) (s []string) {
	for _, r := range results {
		s = append(s, fmt.Sprintf("%d %s %s%s", r.Index, r.Status, r.Output, r.Err()))
	}
	return s
}

func TestHandshake(t *testing.T) {
	w := newWire(t)
	w.say(Frame{Type: TypeCancel, Cancel: &Cancel{}})
	_, err := w.fromRoot.WriteString(`{"type":"telepathy"}` + "\n")
	require.NoError(t, err)
	w.say(Frame{Type: TypeStart, Start: &Start{Protocol: Version, ExecutionID: "e"}})
	start, _, err := w.Handshake("1.2")
	require.NoError(t, err)
	assert.Equal(t, "e", start.ExecutionID, "what comes before is passed over")
	assert.Equal(t, Frame{Type: TypeHello, Hello: &Hello{Protocol: Version, Version: "1.2"}}, w.hear())
}

func TestHandshakeFails(t *testing.T) {
	for said, want := range map[string]string{
		`{"type":"start","start":{"protocol":99}}` + "\n": "the root speaks version 99 of the protocol, this qq 2",
		`{"type":"start"}` + "\n":                         `read the start frame: broken frame: "start" without its content`,
		`{"type":"start","start":{"protocol":1}}`:         "read the start frame: EOF",
		"": "read the start frame: EOF",
	} {
		w := newWire(t)
		_, err := w.fromRoot.WriteString(said)
		require.NoError(t, err)
		require.NoError(t, w.fromRoot.Close())
		_, _, err = w.Handshake("1.2")
		assert.EqualError(t, err, want, said)
	}
	w := newWire(t)
	require.NoError(t, w.toRoot.Close())
	_, _, err := w.Handshake("1.2")
	assert.ErrorContains(t, err, "say hello to the root: ")
}

// Several may ask at once, and the root answers when it can: each gets its own,
// whatever is answered first, and an answer to nobody is dropped.
func TestAnswersInAnyOrder(t *testing.T) {
	w := newWire(t)
	ctx := w.listening()
	asks := map[string]int64{}
	got := map[string]<-chan []string{}
	for _, name := range []string{"a", "b", "c"} {
		got[name] = delegated(w, ctx, name+"0", name+"1")
		f := w.hear()
		require.Equal(t, TypeAsk, f.Type)
		require.Equal(t, []string{name + "0", name + "1"}, []string{f.Ask.Delegate[0].Text, f.Ask.Delegate[1].Text})
		asks[name] = f.Ask.ID
	}
	w.answer(99, "nobody asked")
	w.last(99)
	w.answer(asks["c"], "c0")
	w.answer(asks["b"], "b0", "b1")
	w.last(asks["b"])
	assert.Equal(t, []string{"0 completed b0", "1 completed b1"}, <-got["b"])
	w.answer(asks["b"], "too late")
	w.last(asks["b"])
	w.answer(asks["a"], "a0", "a1", "one too many")
	w.last(asks["a"])
	assert.Equal(t, []string{"0 completed a0", "1 completed a1"}, <-got["a"])
	res := task.Task{}.Ended(task.Failed, "as told")
	res.Index = 1
	w.say(Frame{Type: TypeAnswer, Answer: &Answer{ID: asks["c"], Result: &res, Last: true}})
	assert.Equal(t, []string{"0 completed c0", "1 failed as told"}, <-got["c"])
	assert.NoError(t, ctx.Err())
	assert.Empty(t, w.asks, "nothing is kept of what was answered")
}

// When the root goes away, what it had answered is kept, every other task is
// interrupted, and the child is told to end.
func TestRootGone(t *testing.T) {
	for name, leave := range map[string]func(*wire){
		"closed": func(w *wire) { w.fromRoot.Close() },
		"torn": func(w *wire) {
			_, err := w.fromRoot.WriteString(`{"type":"answer","answer":{"id":1,"last":tr`)
			require.NoError(w.t, err)
			w.fromRoot.Close()
		},
		"broken": func(w *wire) {
			_, err := w.fromRoot.WriteString("gibberish\n")
			require.NoError(w.t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWire(t)
			ctx := w.listening()
			half, none := delegated(w, t.Context(), "x", "y", "z"), delegated(w, t.Context(), "x")
			for range 2 {
				if f := w.hear(); len(f.Ask.Delegate) == 3 {
					w.answer(f.Ask.ID, "done")
				}
			}
			leave(w)
			const gone = "interrupted interrupted: the root process is gone"
			assert.Equal(t, []string{"0 completed done", "1 " + gone, "2 " + gone}, <-half)
			assert.Equal(t, []string{"0 " + gone}, <-none)
			<-ctx.Done()
			assert.Equal(t, ErrRootGone, context.Cause(ctx))
			assert.Equal(t, []string{"0 " + gone}, <-delegated(w, t.Context(), "later"), "nobody is asked any more")
			assert.Empty(t, w.asks)
		})
	}
}

// A root that does not even take the question is gone as well.
func TestRootGoneBeforeTheQuestion(t *testing.T) {
	w := newWire(t)
	ctx := w.listening()
	require.NoError(t, w.toRoot.Close())
	assert.Equal(t, []string{"0 interrupted interrupted: the root process is gone"}, <-delegated(w, ctx, "x"))
	assert.Error(t, w.Finish(Result{Status: task.Completed}))
	w.Emit(event.Event{Type: event.Token})
}

func TestDelegateIsCancelled(t *testing.T) {
	w := newWire(t)
	w.listening()
	ctx, cancel := context.WithCancelCause(t.Context())
	got := delegated(w, ctx, "x", "y")
	id := w.hear().Ask.ID
	cancel(errors.New("enough"))
	assert.Equal(t, []string{"0 interrupted interrupted: enough", "1 interrupted interrupted: enough"}, <-got)
	w.answer(id, "too late")
	w.last(id)
	got = delegated(w, t.Context(), "z")
	id = w.hear().Ask.ID
	w.answer(id, "z")
	w.last(id)
	assert.Equal(t, []string{"0 completed z"}, <-got)
}

func TestCancelFrame(t *testing.T) {
	w := newWire(t)
	ctx := w.listening()
	got := delegated(w, ctx, "x")
	w.hear()
	w.say(Frame{Type: TypeCancel, Cancel: &Cancel{Reason: "enough"}})
	assert.Equal(t, []string{"0 interrupted interrupted: cancelled: enough"}, <-got)
	assert.Equal(t, &Cancelled{Reason: "enough"}, context.Cause(ctx))
}

// What does not fit into a frame is not sent, each task says why, and the next
// question goes through.
func TestAskTooLong(t *testing.T) {
	w := newWire(t)
	ctx := w.listening()
	big := strings.Repeat("x", MaxUp)
	for _, line := range <-delegated(w, ctx, "small", big) {
		assert.Contains(t, line, "usage not started: frame too long: ask frame of 4194")
		assert.Contains(t, line, "at most 4194304: hand over files, or fewer tasks at once")
	}
	many := <-delegated(w, ctx, make([]string, MaxAsk+1)...)
	assert.Len(t, many, MaxAsk+1)
	assert.Equal(t, "1000 usage not started: 1001 tasks at once, at most 1000", many[MaxAsk])

	got := delegated(w, ctx, make([]string, MaxAsk)...)
	f := w.hear()
	assert.Len(t, f.Ask.Delegate, MaxAsk)
	w.last(f.Ask.ID)
	assert.Len(t, <-got, MaxAsk)
}

func TestFinish(t *testing.T) {
	w := newWire(t)
	want := Result{Status: task.Completed, Usage: task.Usage{InputTokens: 1}, Bytes: 5}
	require.NoError(t, w.Finish(want))
	assert.Equal(t, &want, w.hear().Result)

	want.Warnings = []string{strings.Repeat("x", MaxUp)}
	require.NoError(t, w.Finish(want))
	got := w.hear().Result
	assert.Equal(t, task.Failed, got.Status)
	assert.Contains(t, got.Error, "report the result: frame too long: result frame of ")
	assert.Equal(t, want.Usage, got.Usage)
	assert.Equal(t, want.Bytes, got.Bytes)
}

// Frames of several speakers do not mix, long ones included.
func TestSpeakersDoNotMix(t *testing.T) {
	w := newWire(t)
	const speakers, each = 8, 30
	var talk sync.WaitGroup
	for who := range speakers {
		talk.Go(func() {
			for n := range each {
				w.Emit(event.Event{Type: event.Token, Depth: who, Count: n, Text: strings.Repeat("x", n*7000)})
			}
		})
	}
	next := map[int]int{}
	for range speakers * each {
		e := w.hear().Event
		require.Equal(t, next[e.Depth], e.Count)
		require.Len(t, e.Text, e.Count*7000)
		next[e.Depth]++
	}
	talk.Wait()
}

func TestConnect(t *testing.T) {
	c, err := Connect(func(string) string { return "" })
	require.NoError(t, err)
	assert.Nil(t, c, "this process is no child")
}

// A child that does not read its pipe does not hold up its own end, though an
// answer for it is stuck there.
func TestCancelStuffed(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	j := job("stuffed", "")
	j.Delegate = func(context.Context, []task.Task) []task.Result {
		time.AfterFunc(300*time.Millisecond, func() { cancel(errors.New("enough")) })
		r := task.Task{}.Ended(task.Completed, "")
		r.Output = string(bytes.Repeat([]byte("x"), 1<<20))
		return []task.Result{r}
	}
	start := time.Now()
	r := launcher(t, nil).Launch(ctx, j)
	assert.Contains(t, []task.Status{task.Killed, task.NoResult}, r.Status,
		"by a signal, or by what the runtime makes of it")
	assert.Less(t, time.Since(start), 5*time.Second)
}
