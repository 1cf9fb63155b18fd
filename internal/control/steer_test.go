package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/approval"
	"qq/pkg/event"
	"qq/pkg/supervisor/jobs"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// TestComeAgain: a subscriber that was dropped comes again from its number and misses nothing, once, also of what
// happened while nobody had a subscription. Too late is said.
func TestComeAgain(t *testing.T) {
	f, s := serve(t, t.TempDir())
	f.grow("before")
	c := dial(t, f)
	snap, err := c.Subscribe(Subscribe{})
	require.NoError(t, err)
	last := snap.Seq
	for n := range 10 {
		f.grow(fmt.Sprint(n))
	}
	for range 4 {
		e, err := c.Next()
		require.NoError(t, err)
		last++
		require.Equal(t, last, e.Seq)
	}
	c.Close()
	require.Eventually(t, func() bool { return waiting(s) == 0 && s.clients() == 0 }, soon, time.Millisecond)
	for n := range 10 {
		f.grow(fmt.Sprint("later ", n))
	}
	again := dial(t, f)
	snap, err = again.Subscribe(Subscribe{From: last})
	require.NoError(t, err)
	assert.Equal(t, last, snap.Seq)
	f.grow("now")
	for last < 22 {
		e, err := again.Next()
		require.NoError(t, err)
		last++
		require.Equal(t, last, e.Seq)
	}
	_, err = dial(t, f).Subscribe(Subscribe{From: 23})
	assertFault(t, err, CodeGone, "a number that no event has yet")
	for range 2*maxEvents + 1 {
		f.stream.Emit(event.Event{Type: event.Token, ExecutionID: "now", Text: "x"})
	}
	late := dial(t, f)
	_, err = late.Subscribe(Subscribe{From: 1})
	assertFault(t, err, CodeGone, "")
	_, err = late.Subscribe(Subscribe{})
	require.NoError(t, err, "without a number it can")
}

// TestDroppedComesAgain: a subscriber that was dropped because its queue was full comes again from the last event that
// it has read, and misses nothing.
func TestDroppedComesAgain(t *testing.T) {
	f, s := serve(t, t.TempDir())
	slow := dial(t, f)
	_, err := slow.Subscribe(Subscribe{})
	require.NoError(t, err)
	all := int64(0)
	for s.subscribed() > 0 {
		f.stream.Emit(event.Event{Type: event.Token, ExecutionID: "a", Text: strings.Repeat("x", 500)})
		all++
	}
	var last int64
	for {
		e, err := slow.Next()
		if err != nil {
			require.ErrorIs(t, err, ErrDropped)
			break
		}
		last = e.Seq
	}
	require.Less(t, last, all)
	again := dial(t, f)
	_, err = again.Subscribe(Subscribe{From: last})
	require.NoError(t, err)
	for last < all {
		e, err := again.Next()
		require.NoError(t, err)
		last++
		require.Equal(t, last, e.Seq)
	}
}

func (s *Server) subscribed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.subscribers()
}

func (s *Server) clients() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.peers)
}

func assertFault(t *testing.T, err error, code Code, why string) {
	t.Helper()
	var fault *Fault
	if assert.ErrorAs(t, err, &fault, why) {
		assert.Equal(t, code, fault.Code, why)
	}
}

// TestNothingIsKeptForNobody: events are not even encoded if nobody has had a subscription, or a minute after the last.
func TestNothingIsKeptForNobody(t *testing.T) {
	var b backlog
	now := time.Now()
	assert.False(t, b.wanted(false, now))
	assert.True(t, b.wanted(true, now))
	b.add(kept{seq: 1, line: []byte("x")})
	b.left = now
	assert.True(t, b.wanted(false, now.Add(keepFor-1)))
	assert.False(t, b.wanted(false, now.Add(keepFor)))
	assert.Empty(t, b.events)
	for n := range 40 {
		b.add(kept{seq: int64(n), line: make([]byte, 1<<20)})
	}
	assert.LessOrEqual(t, b.bytes, 2*MaxQueued)
	assert.Equal(t, 2*MaxQueued>>20, len(b.events))
}

// TestLight: who wants no text gets no tokens, and does not make children send any.
func TestLight(t *testing.T) {
	f, _ := serve(t, t.TempDir())
	light := dial(t, f)
	_, err := light.Subscribe(Subscribe{Light: true})
	require.NoError(t, err)
	assert.False(t, f.stream.Watched())
	f.stream.Emit(event.Event{Type: event.Token, Text: "x"})
	f.grow("a")
	e, err := light.Next()
	require.NoError(t, err)
	assert.Equal(t, event.SubAgentStart, e.Type)
	all := dial(t, f)
	_, err = all.Subscribe(Subscribe{})
	require.NoError(t, err)
	assert.True(t, f.stream.Watched())
	_, err = all.Subscribe(Subscribe{})
	assertFault(t, err, CodeSubscribed, "a second one")
	_, err = dial(t, f).Subscribe(Subscribe{From: 99})
	assertFault(t, err, CodeGone, "from the future")
	all.Close()
	assert.Eventually(t, func() bool { return !f.stream.Watched() }, soon, time.Millisecond,
		"nobody wants the text of models any more")

	_, err = dial(t, f).Subscribe(Subscribe{}) // and never reads
	require.NoError(t, err)
	for f.stream.Watched() {
		f.stream.Emit(event.Event{Type: event.Token, Text: strings.Repeat("x", 100_000)})
	}
}

// TestEnds: who asks for the ends of jobs gets nothing else.
func TestEnds(t *testing.T) {
	f, _ := serve(t, t.TempDir())
	c := dial(t, f)
	_, err := c.Subscribe(Subscribe{Ends: true})
	require.NoError(t, err)
	assert.False(t, f.stream.Watched())
	for _, kind := range []event.Type{event.Token, event.ToolStart, event.SubAgentStart, event.SubAgentProgress} {
		f.stream.Emit(event.Event{Type: kind, ExecutionID: "a"})
	}
	f.stream.Emit(event.Event{Type: event.SubAgentError, ExecutionID: "a"})
	e, err := c.Next()
	require.NoError(t, err)
	assert.Equal(t, event.SubAgentError, e.Type)
}

// TestForgotten: a client that is gone is not subscribed by a request that it had sent before: its events would be made
// for nobody until the end.
func TestForgotten(t *testing.T) {
	f, s := serve(t, t.TempDir())
	p := &peer{server: s}
	s.forget(p)
	_, _, fault := s.subscribe(p, nil)
	assert.NotNil(t, fault)
	assert.False(t, f.stream.Watched())
}

// TestSteer: messages, the cap and the pause reach the tree.
func TestSteer(t *testing.T) {
	f, _ := serve(t, t.TempDir())
	mail := f.live.Add(task.Job{ExecutionID: "a"}, nil, func(error) {})
	inbox := mail.Open()
	c := dial(t, f)
	require.NoError(t, c.Message("a", "look at b.go as well"))
	assert.Equal(t, "[message from the user]\nlook at b.go as well", <-inbox)
	assertFault(t, c.Message("b", "x"), CodeUnknownJob, "")
	for range 64 {
		require.NoError(t, c.Message("a", "x"))
	}
	assertFault(t, c.Message("a", "one too many"), CodeRefused, "")
	assertFault(t, c.Message("a", strings.Repeat("x", task.MaxMessage+1)), CodeRefused, "")
	require.NoError(t, c.Jobs(5))
	require.NoError(t, c.Pause(true))
	snap, err := c.Snapshot()
	require.NoError(t, err)
	assert.Equal(t, []any{5, 0, true}, []any{snap.Max, snap.AtWork, snap.Paused})
	require.NoError(t, c.Pause(false))
	assert.True(t, f.slots.Try())
}

// TestQuestions: a face that can answer keeps questions open. The first answer counts, and the others are told so.
func TestQuestions(t *testing.T) {
	f, _ := serve(t, t.TempDir())
	ask := func() <-chan tool.Decision {
		got := make(chan tool.Decision, 1)
		go func() {
			got <- f.questions.Ask(context.Background(), tool.Question{
				ExecutionID: "a", Chain: []string{"default", "coder"}, Intent: tool.Intent{
					Tool: "write_file", Effect: tool.Writes, Risk: tool.Medium, Summary: "write x", Preview: "+x"},
			})
		}()
		return got
	}
	assert.False(t, (<-ask()).Allowed, "nobody can be asked")
	face, other := dial(t, f), dial(t, f)
	_, err := face.Subscribe(Subscribe{Answers: true})
	require.NoError(t, err)
	f.mu.Lock()
	f.jobs = []jobs.Job{{ExecutionID: "a", State: task.Waiting}}
	f.mu.Unlock()
	decision := ask()
	var open []Question
	require.Eventually(t, func() bool {
		snap, err := other.Snapshot()
		open = snap.Questions
		return err == nil && len(open) == 1 && snap.Jobs[0].Doing == "approval"
	}, soon, time.Millisecond)
	q := open[0]
	assert.Equal(t, []any{"a", "+x", "write_file"}, []any{q.ExecutionID, q.Intent.Preview, q.Intent.Tool})
	assertFault(t, other.Answer("nothing", approval.Once), CodeAnswered, "")
	require.NoError(t, other.Answer(q.QuestionID, approval.Once))
	assertFault(t, face.Answer(q.QuestionID, approval.No), CodeAnswered, "the first counts")
	assert.True(t, (<-decision).Allowed)
	for {
		e, err := face.Next()
		require.NoError(t, err)
		if e.Type == event.ValidationResolved {
			assert.Equal(t, []any{q.QuestionID, "once", "socket"}, []any{e.QuestionID, e.Decision, e.AnsweredBy})
			break
		}
	}
	decision = ask()
	face.Close()
	assert.False(t, (<-decision).Allowed, "the face that could answer is gone")
}

// TestLog: the transcript of a job comes in parts that end with whole lines, with what is written now.
func TestLog(t *testing.T) {
	f, _ := serve(t, t.TempDir())
	c := dial(t, f)
	_, err := c.Log("a", 0)
	assertFault(t, err, CodeUnknownJob, "there is none")
	f.mu.Lock()
	f.jobs = []jobs.Job{{ExecutionID: "a", State: task.Queued}}
	f.mu.Unlock()
	e, err := c.Log("a", 0)
	require.NoError(t, err)
	assert.Equal(t, Entries{Entries: []json.RawMessage{}}, e, "it has not started")
	path := filepath.Join(f.dir, "a.jsonl")
	long, huge := strings.Repeat("x", maxEntries), strings.Repeat("y", maxEntry)
	require.NoError(t, os.WriteFile(path, []byte(`{"n":1}`+"\n"+`{"n":"`+long+"\"}\n"+`{"n":3}`+"\n"+`{"n":"`+huge+"\"}\n"+
		"no json\n"+`{"half":`), 0o600))
	f.grow("a")
	f.stream.Emit(event.Event{Type: event.Token, ExecutionID: "a", Text: "Well, "})
	first, err := c.Log("a", 0)
	require.NoError(t, err)
	assert.Len(t, first.Entries, 2)
	assert.JSONEq(t, `{"n":1}`, string(first.Entries[0]))
	assert.Equal(t, []any{true, "Well, "}, []any{first.More, first.Text})
	rest, err := c.Log("a", first.Next)
	require.NoError(t, err)
	var got []string
	for _, line := range rest.Entries {
		got = append(got, string(line))
	}
	assert.Equal(t, []string{`{"n":3}`, fmt.Sprintf(`{"left_out":%d}`, maxEntry+9)}, got)
	rest, err = c.Log("a", rest.Next)
	require.NoError(t, err)
	assert.Equal(t, []json.RawMessage{json.RawMessage(`{"left_out":8}`)}, rest.Entries, "half a line is none")
	again, err := c.Log("a", rest.Next)
	require.NoError(t, err)
	assert.Equal(t, []any{rest.Next, 0}, []any{again.Next, len(again.Entries)})
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Symlink("/etc/passwd", path))
	_, err = c.Log("a", 0)
	assertFault(t, err, CodeUnknownJob, "a link is not followed")
}

// TestSubscribersComeAndGo: 1,000 subscribers come and go, some without a word and some that never read, while events
// are told. No event waits for one of them, whoever stays misses nothing, and nothing of them is left.
func TestSubscribersComeAndGo(t *testing.T) {
	f, s := serve(t, t.TempDir())
	stays := dial(t, f)
	_, err := stays.Subscribe(Subscribe{})
	require.NoError(t, err)
	missed := make(chan error, 1)
	go func() {
		for last := int64(0); ; last++ {
			e, err := stays.Next()
			if err == nil && e.Seq != last+1 {
				err = fmt.Errorf("event %d after %d", e.Seq, last)
			}
			if err != nil {
				missed <- err
				return
			}
		}
	}()
	done := make(chan struct{})
	told := make(chan time.Duration)
	go func() {
		var longest time.Duration
		for n := 0; ; n++ {
			select {
			case <-done:
				told <- longest
				return
			case <-time.After(100 * time.Microsecond):
			}
			start := time.Now()
			f.stream.Emit(event.Event{Type: event.Token, ExecutionID: "a", Text: strings.Repeat("x", 500)})
			longest = max(longest, time.Since(start))
		}
	}()
	const all, atOnce = 1000, 8
	var coming sync.WaitGroup
	var busy atomic.Int64
	for first := range atOnce {
		coming.Go(func() {
			for n := first; n < all; n += atOnce {
				c, err := Dial(f.path())
				if err == nil && n%3 > 0 {
					_, err = c.Subscribe(Subscribe{Light: n%2 == 0})
				}
				var fault *Fault
				switch {
				case errors.As(err, &fault) && fault.Code == CodeBusy:
					busy.Add(1)
				case err != nil:
					assert.NoError(t, err)
				case n%3 == 1:
					_, _ = c.Snapshot()
				}
				if c != nil {
					c.Close()
				}
			}
		})
	}
	coming.Wait()
	close(done)
	assert.Less(t, <-told, time.Second)
	require.Eventually(t, func() bool { return s.clients() == 1 }, soon, time.Millisecond)
	s.Close()
	assert.ErrorIs(t, <-missed, io.EOF)
	assert.Less(t, busy.Load(), int64(all/2))
}

// TestManyLargeQuestions: questions with large previews never make a snapshot too long. Those without room are cut
// until others are answered.
func TestManyLargeQuestions(t *testing.T) {
	if testing.Short() {
		t.Skip("a snapshot of 8 MiB takes longer under the race detector than a client waits")
	}
	f, _ := serve(t, t.TempDir())
	c := dial(t, f)
	_, err := c.Subscribe(Subscribe{Answers: true, Light: true})
	require.NoError(t, err)
	go func() { // it reads what comes
		for err := error(nil); err == nil; {
			_, err = c.Next()
		}
	}()
	const all = 20
	preview := strings.Repeat("\x01", 100_000) // six times as long in JSON
	var asking sync.WaitGroup
	for n := range all {
		asking.Go(func() {
			f.questions.Ask(context.Background(), tool.Question{ExecutionID: fmt.Sprint(n), Intent: tool.Intent{
				Tool: "write_file", Effect: tool.Writes, Risk: tool.Medium, Summary: "write", Preview: preview}})
		})
	}
	looks := dial(t, f)
	look := func() []Question {
		snap, err := looks.Snapshot()
		require.NoError(t, err)
		return snap.Questions
	}
	require.Eventually(t, func() bool { return len(look()) == all }, soon, 10*time.Millisecond)
	for n := range all {
		open := look()
		require.Len(t, open, all-n)
		first, last := open[0], open[len(open)-1]
		assert.Equal(t, []any{false, preview}, []any{first.Later, first.Intent.Preview})
		assert.Equal(t, last.Later, last.Intent.Cut)
		assert.Equal(t, all-n > maxPreviews/len(preview), last.Later, n)
		require.NoError(t, looks.Answer(first.QuestionID, approval.No))
	}
	asking.Wait()
}
