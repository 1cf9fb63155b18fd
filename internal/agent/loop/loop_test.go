package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"qq/pkg/event"
	"qq/pkg/llm"
	"qq/pkg/session"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// step is what the model does with one request.
type step func(ctx context.Context, yield func(llm.Chunk)) (llm.Response, error)

// script is a model that follows a list of steps, and keeps what it was asked.
type script struct {
	steps []step
	asked []llm.Request
}

var _ llm.Backend = (*script)(nil)

func (s *script) Chat(ctx context.Context, r llm.Request, yield func(llm.Chunk)) (llm.Response, error) {
	r.Messages = slices.Clone(r.Messages)
	s.asked = append(s.asked, r)
	if len(s.asked) > len(s.steps) {
		return llm.Response{}, fmt.Errorf("request %d is not in the script", len(s.asked))
	}
	return s.steps[len(s.asked)-1](ctx, yield)
}

// says is a response with that text and those calls, of ten input tokens and one output
// token.
func says(text string, calls ...tool.Call) step {
	return func(_ context.Context, yield func(llm.Chunk)) (llm.Response, error) {
		yield(llm.Chunk{Text: text})
		return llm.Response{
			Message: llm.Message{Content: text, Calls: calls},
			Stop:    llm.StopEnd,
			Usage:   task.Usage{InputTokens: 10, OutputTokens: 1},
		}, nil
	}
}

// breaks is a response that streams text and then fails.
func breaks(text string, err error) step {
	return func(context.Context, func(llm.Chunk)) (llm.Response, error) {
		return llm.Response{
			Message: llm.Message{Content: text, Calls: []tool.Call{calling("half")}},
			Usage:   task.Usage{InputTokens: 10},
		}, err
	}
}

// cut is a response that hits the token limit after text.
func cut(text string) step {
	return func(context.Context, func(llm.Chunk)) (llm.Response, error) {
		return llm.Response{Message: llm.Message{Content: text}, Stop: llm.StopLength}, nil
	}
}

// hangs blocks until ctx ends.
func hangs(ctx context.Context, _ func(llm.Chunk)) (llm.Response, error) {
	<-ctx.Done()
	return llm.Response{Message: llm.Message{Content: "so f"}}, context.Cause(ctx)
}

func calling(name string) tool.Call {
	return tool.Call{ID: "id-" + name, Name: name, Arguments: json.RawMessage(`{"of":"` + name + `"}`)}
}

// fn is a tool made of a function.
type fn struct {
	name   string
	effect tool.Effect
	run    func(ctx context.Context) tool.Result
}

func (f fn) Spec() tool.Spec { return tool.Spec{Name: f.name, Effect: f.effect} }

func (f fn) Run(ctx context.Context, args json.RawMessage) tool.Result { return f.run(ctx) }

func reading(name string, run func(ctx context.Context) tool.Result) fn {
	return fn{name, tool.Reads, run}
}

// recorder is where a run leaves its traces.
type recorder struct {
	kept     session.Transcript
	messages []llm.Message // of the entries
	ends     []bool
	text     strings.Builder
	mu       sync.Mutex
	events   []event.Event
	phases   []string
}

// hooks are whoever started an agent and looks on: what is nil brings nothing and
// allows everything, and rec keeps the rest.
type hooks struct {
	messages func() []string
	pending  func() string
	changed  func(paths []string)
	effects  func() error
	ran      func(s tool.Spec, c tool.Call, r tool.Result)
	rec      *recorder
}

func (h hooks) Messages() []string {
	if h.messages == nil {
		return nil
	}
	return h.messages()
}

func (h hooks) Pending() string {
	if h.pending == nil {
		return ""
	}
	return h.pending()
}

func (h hooks) Changed(paths []string) {
	if h.changed != nil {
		h.changed(paths)
	}
}

func (h hooks) Effects() error {
	if h.effects == nil {
		return nil
	}
	return h.effects()
}

func (h hooks) Ran(s tool.Spec, c tool.Call, r tool.Result) { h.ran(s, c, r) }
func (h hooks) TurnEnd(final bool)                          { h.rec.ends = append(h.rec.ends, final) }
func (h hooks) Chunk(c llm.Chunk)                           { h.rec.text.WriteString(c.Text) }

func (h hooks) Append(e llm.Entry) {
	h.rec.mu.Lock()
	defer h.rec.mu.Unlock()
	h.rec.kept.Add(e)
}

func (h hooks) Emit(e event.Event) {
	h.rec.mu.Lock()
	defer h.rec.mu.Unlock()
	if e.Phase != "" {
		line := fmt.Sprintf("%s %d/%d %s", e.Phase, e.Done, e.Total, strings.Join(e.Tasks, ", "))
		h.rec.phases = append(h.rec.phases, strings.TrimSpace(line))
		return
	}
	h.rec.events = append(h.rec.events, e)
}

// start runs cfg and checks what holds for every run: the transcript is the conversation,
// and each call in it has a result.
func start(t require.TestingT, ctx context.Context, cfg Config, history []llm.Message) (task.Result, *recorder) {
	rec := &recorder{}
	h, _ := cfg.Host.(hooks)
	h.rec = rec
	cfg.Host, cfg.Transcript, cfg.Screen = h, h, h
	if h.ran != nil {
		cfg.Observer = h
	}
	out := Run(ctx, cfg, history, "the task")
	rec.messages = rec.kept.Messages() // as a session continues it
	assert.Equal(t, out.Status == task.Completed, out.Success)
	assert.Equal(t, out.Success, out.Error == nil)
	assert.Equal(t, out.Status.ExitCode(), out.ExitCode)
	assert.True(t, out.Status.Final())
	continuable(t, rec.messages)
	if s, ok := cfg.Backend.(*script); ok && len(s.asked) > 0 {
		last := s.asked[len(s.asked)-1].Messages
		whole := append(slices.Clone(history), rec.messages...)
		require.LessOrEqual(t, len(last), len(whole))
		assert.Equal(t, whole[:len(last)], last, "what the model saw is what was recorded")
		assert.Len(t, rec.ends, len(s.asked), "each turn ends once")
	}
	return out, rec
}

// continuable checks that each call is followed by its result, in order.
func continuable(t require.TestingT, messages []llm.Message) {
	var open []tool.Call
	for _, m := range messages {
		if m.Role == llm.ToolRole {
			require.NotEmpty(t, open, "an answer without a call: %v", m)
			assert.Equal(t, []string{open[0].ID, open[0].Name}, []string{m.CallID, m.Tool})
			open = open[1:]
			continue
		}
		require.Empty(t, open, "calls without an answer")
		open = m.Calls
	}
	require.Empty(t, open, "calls without an answer at the end")
}

func roles(messages []llm.Message) (s []string) {
	for _, m := range messages {
		s = append(s, string(m.Role))
	}
	return s
}

// written returns the results of calls in the transcript so far.
func (r *recorder) written() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return answersOf(r.kept.Messages())
}

func answersOf(messages []llm.Message) (s []string) {
	for _, m := range messages {
		if m.Role == llm.ToolRole {
			s = append(s, m.Content)
		}
	}
	return s
}

func TestAnswer(t *testing.T) {
	model := &script{steps: []step{says(" forty-two\n")}}
	history := []llm.Message{{Role: llm.User, Content: "before"}, {Role: llm.Assistant, Content: "yes"}}
	tools := tool.Set{reading("look", nil)}
	out, rec := start(t, t.Context(), Config{Backend: model, System: "be good", Tools: tools, MaxTokens: 7}, history)
	assert.Equal(t, task.Result{Output: "forty-two", Status: task.Completed, Success: true,
		Usage: task.Usage{InputTokens: 10, OutputTokens: 1}}, out)
	assert.Equal(t, []llm.Request{{System: "be good", Tools: tools.Specs(), MaxTokens: 7,
		Messages: append(history, llm.Message{Role: llm.User, Content: "the task"})}}, model.asked)
	assert.Equal(
		t,
		[]llm.Message{{Role: llm.User, Content: "the task"}, {Role: llm.Assistant, Content: " forty-two\n"}},
		rec.messages,
	)
	assert.Equal(t, []bool{true}, rec.ends)
	assert.Equal(t, " forty-two\n", rec.text.String())
	assert.Len(t, history, 2)
}

// The status, the error and the kept text for each way in which a run ends.
func TestEnds(t *testing.T) {
	fails := func(kind llm.Kind) error {
		return fmt.Errorf("wrapped: %w", &llm.Error{Kind: kind, Problem: "as told", Hint: "do this"})
	}
	look := reading("look", func(context.Context) tool.Result { return tool.Text("seen") })
	for name, c := range map[string]struct {
		steps  []step
		status task.Status
		text   string
		err    string
		ends   []bool
	}{
		"empty": {[]step{says(" \n")}, task.Empty, "", "the agent gave an empty answer", []bool{true}},
		"empty after tools": {[]step{says("let me look", calling("look")), says("")}, task.Empty, "",
			"the agent gave an empty answer", []bool{false, true}},
		"cut": {[]step{cut("half an ans")}, task.Limit, "half an ans",
			"the answer was cut: it reached the limit of tokens", []bool{true}},
		"cut before a word": {[]step{cut("")}, task.Limit, "", "the answer was cut: it reached the limit of tokens",
			[]bool{true}},
		"unreachable": {[]step{breaks("", fails(llm.Unreachable))}, task.Unavailable, "",
			"wrapped: as told\nhint: do this", []bool{false}},
		"busy": {[]step{breaks("", fails(llm.Busy))}, task.Unavailable, "",
			"wrapped: as told\nhint: do this", []bool{false}},
		"overflow": {[]step{breaks("", fails(llm.ContextOverflow))}, task.Failed, "",
			"wrapped: as told\nhint: do this", []bool{false}},
		"unknown model": {[]step{breaks("", fails(llm.UnknownModel))}, task.Misused, "",
			"wrapped: as told\nhint: do this", []bool{false}},
		"broken stream": {[]step{breaks("half an ans", fails(llm.BrokenStream))}, task.Broken, "half an ans",
			"wrapped: as told\nhint: do this", []bool{true}},
		"another error": {[]step{breaks("half", io.ErrUnexpectedEOF)}, task.Failed, "half", "unexpected EOF",
			[]bool{true}},
		"error after a remark": {[]step{says("so far so good", calling("look")), breaks("", fails(llm.Busy))},
			task.Unavailable, "so far so good", "wrapped: as told\nhint: do this", []bool{false, false}},
	} {
		t.Run(name, func(t *testing.T) {
			out, rec := start(
				t,
				t.Context(),
				Config{Backend: &script{steps: c.steps}, Tools: tool.Set{look}, MaxTurns: 5},
				nil,
			)
			assert.Equal(t, c.status, out.Status)
			assert.Equal(t, c.err, out.Err())
			assert.Equal(t, c.text, out.Output)
			assert.Equal(t, c.ends, rec.ends)
			if c.text != "" && c.ends[len(c.ends)-1] {
				assert.Equal(t, c.text, rec.messages[len(rec.messages)-1].Content)
			}
		})
	}
}

func TestToolsRunInOrder(t *testing.T) {
	var ran []string
	tools := tool.Set{}
	for _, name := range []string{"a", "b"} {
		tools = append(tools, fn{name, tool.Writes, func(context.Context) tool.Result {
			ran = append(ran, name)
			return tool.Text("seen by " + name)
		}})
	}
	model := &script{
		steps: []step{says("a remark", calling("b"), calling("a"), calling("b")), says("", calling("a")), says("done")},
	}
	out, rec := start(t, t.Context(), Config{Backend: model, Tools: tools, MaxTurns: 9}, nil)
	assert.Equal(t, task.Completed, out.Status)
	assert.Equal(t, "done", out.Output)
	assert.Equal(t, []string{"b", "a", "b", "a"}, ran)
	assert.Equal(t, []string{"seen by b", "seen by a", "seen by b", "seen by a"}, answersOf(rec.messages))
	assert.Equal(
		t,
		[]string{"user", "assistant", "tool", "tool", "tool", "assistant", "tool", "assistant"},
		roles(rec.messages),
	)
	assert.Equal(t, task.Usage{InputTokens: 30, OutputTokens: 3}, out.Usage)
	assert.Equal(t, []bool{false, false, true}, rec.ends)
}

// A wrong tool call gets an error as its result and does not end the run.
func TestToolsThatDoNotWork(t *testing.T) {
	tools := tool.Set{
		reading("fail", func(context.Context) tool.Result { return tool.Failure("Error: no such file") }),
		reading("panic", func(context.Context) tool.Result { panic("index out of range") }),
	}
	model := &script{steps: []step{says("", calling("fail"), calling("panic"), calling("write_file")), says("done")}}
	out, rec := start(t, t.Context(), Config{Backend: model, Tools: tools, MaxTurns: 2}, nil)
	assert.Equal(t, task.Completed, out.Status)
	assert.Equal(t, []string{
		"Error: no such file",
		"Error: panic broke down: index out of range",
		`Error: no tool "write_file". The tools are: fail, panic`,
	}, answersOf(rec.messages))

	model = &script{steps: []step{says("", calling("fail")), says("done")}}
	_, rec = start(t, t.Context(), Config{Backend: model, MaxTurns: 2}, nil)
	assert.Equal(t, []string{`Error: no tool "fail". The tools are: none`}, answersOf(rec.messages))
}

func TestToolEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tools := tool.Set{
			fn{"slow", tool.Writes, func(context.Context) tool.Result {
				time.Sleep(1500 * time.Millisecond)
				return tool.Text("ok")
			}},
			reading("panic", func(context.Context) tool.Result { panic("x") }),
		}
		model := &script{steps: []step{says("", calling("slow"), calling("panic"), calling("nobody")), says("done")}}
		_, rec := start(t, t.Context(), Config{Backend: model, Tools: tools, MaxTurns: 2}, nil)
		assert.Equal(t, []event.Event{
			{Type: event.ToolStart, CallID: "id-slow", Tool: "slow", Arguments: `{"of":"slow"}`, Text: "slow slow"},
			{Type: event.ToolEnd, CallID: "id-slow", Tool: "slow", DurationMS: 1500},
			{Type: event.ToolStart, CallID: "id-panic", Tool: "panic", Arguments: `{"of":"panic"}`, Text: "panic panic"},
			{Type: event.ToolEnd, CallID: "id-panic", Tool: "panic", Failed: true, Error: "Error: panic broke down: x"},
			{Type: event.ToolStart, CallID: "id-nobody", Tool: "nobody", Arguments: `{"of":"nobody"}`, Text: "nobody nobody"},
			{
				Type:   event.ToolEnd,
				CallID: "id-nobody",
				Tool:   "nobody",
				Failed: true,
				Error:  `Error: no tool "nobody". The tools are: slow, panic`,
			},
		}, rec.events)
	})
}

// Delegations and reads run in parallel, other calls in their place, and results keep the
// order of the calls.
func TestDelegationsAndReadsRunAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var mu sync.Mutex
		spans := map[string][2]time.Duration{}
		takes := func(name string, effect tool.Effect, d time.Duration) fn {
			return fn{name, effect, func(context.Context) tool.Result {
				from := time.Since(began)
				time.Sleep(d)
				mu.Lock()
				defer mu.Unlock()
				spans[name] = [2]time.Duration{from, time.Since(began)}
				return tool.Text("by " + name)
			}}
		}
		s := time.Second
		tools := tool.Set{
			takes("read1", tool.Reads, s), takes("d1", tool.Delegates, 3*s), takes("read2", tool.Reads, 2*s),
			takes("write", tool.Writes, s), takes("d2", tool.Delegates, s), takes("read3", tool.Reads, s),
			takes("wait", tool.Attends, s), takes("fetch", tool.Network, s), takes("run", tool.Executes, s),
			takes("read4", tool.Reads, s), takes("d3", tool.Delegates, s),
		}
		var calls []tool.Call
		var answers []string
		for _, name := range tools.Names() {
			calls, answers = append(calls, calling(name)), append(answers, "by "+name)
		}
		_, rec := start(
			t,
			t.Context(),
			Config{Backend: &script{steps: []step{says("", calls...), says("done")}}, Tools: tools, MaxTurns: 2},
			nil,
		)
		assert.Equal(t, map[string][2]time.Duration{
			"read1": {0, s}, "d1": {0, 3 * s}, "read2": {0, 2 * s}, "write": {3 * s, 4 * s},
			"d2": {4 * s, 5 * s}, "read3": {4 * s, 5 * s}, "wait": {5 * s, 6 * s}, "fetch": {6 * s, 7 * s},
			"run": {7 * s, 8 * s}, "read4": {8 * s, 9 * s}, "d3": {8 * s, 9 * s},
		}, spans)
		assert.Equal(t, answers, answersOf(rec.messages))
	})
}

// Many reads of one answer do not all run at once.
func TestReadsAtOnceAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		look := reading("look", func(context.Context) tool.Result { time.Sleep(time.Second); return tool.Text("seen") })
		var calls []tool.Call
		for i := range 2*maxReads + 1 {
			calls = append(calls, with(fmt.Sprint(i)))
		}
		began := time.Now()
		start(t, t.Context(), Config{Backend: &script{steps: []step{says("", calls...), says("done")}},
			Tools: tool.Set{look}, MaxTurns: 2}, nil)
		assert.Equal(t, 3*time.Second, time.Since(began))
	})
}

// After the last turn there is one more model call, without tools.
func TestTurnLimit(t *testing.T) {
	look := reading("look", func(context.Context) tool.Result { return tool.Text("seen") })
	model := &script{steps: []step{says("one", calling("look")), says("two", calling("look")), says("what I have")}}
	out, rec := start(
		t,
		t.Context(),
		Config{Backend: model, System: "be good", Tools: tool.Set{look}, MaxTurns: 2, MaxTokens: 5},
		nil,
	)
	assert.Equal(t, task.TurnLimit, out.Status)
	assert.Equal(t, "the agent used all its 2 turns", out.Err())
	assert.Equal(t, "what I have", out.Output)
	assert.Equal(t, task.Usage{InputTokens: 30, OutputTokens: 3}, out.Usage)
	assert.NotEmpty(t, model.asked[1].Tools)
	assert.Empty(t, model.asked[2].Tools)
	assert.Equal(t, "be good", model.asked[2].System)
	assert.Equal(t, 5, model.asked[2].MaxTokens)
	assert.Contains(t, rec.messages[len(rec.messages)-2].Content, "You have used all your turns.")
	assert.Equal(t, []bool{false, false, true}, rec.ends)

	model = &script{steps: []step{says("", calling("look")), says("x")}}
	out, _ = start(t, t.Context(), Config{Backend: model, Tools: tool.Set{look}}, nil)
	assert.Equal(t, task.TurnLimit, out.Status)
	assert.Len(t, model.asked, 2, "no limit is one turn")
}

// Tool calls in the last model call are neither run nor kept in the conversation.
func TestLastWordWithCalls(t *testing.T) {
	ran := 0
	look := reading("look", func(context.Context) tool.Result { ran++; return tool.Text("seen") })
	model := &script{steps: []step{says("a remark", calling("look")), says("", calling("look"))}}
	out, rec := start(t, t.Context(), Config{Backend: model, Tools: tool.Set{look}, MaxTurns: 1}, nil)
	assert.Equal(t, task.TurnLimit, out.Status)
	assert.Equal(t, "a remark", out.Output, "the last that it said is kept")
	assert.Equal(t, 1, ran)
	assert.Empty(t, rec.messages[len(rec.messages)-1].Calls)
}

func TestLastWordBreaks(t *testing.T) {
	look := reading("look", func(context.Context) tool.Result { return tool.Text("seen") })
	broken := &llm.Error{Kind: llm.BrokenStream, Problem: "it broke off"}
	model := &script{steps: []step{says("", calling("look")), breaks("half a", broken)}}
	out, _ := start(t, t.Context(), Config{Backend: model, Tools: tool.Set{look}, MaxTurns: 1}, nil)
	assert.Equal(t, task.Broken, out.Status)
	assert.Equal(t, "half a", out.Output)
}

var errEnough = errors.New("enough")

func TestCancelDuringModelCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errEnough) })
		out, rec := start(t, ctx, Config{Backend: &script{steps: []step{hangs}}, MaxTurns: 3}, nil)
		assert.Equal(t, task.Interrupted, out.Status)
		assert.Equal(t, "enough", out.Err())
		assert.Equal(t, "so f", out.Output)
		assert.Equal(t, []string{"user", "assistant"}, roles(rec.messages))
	})
}

// A cancellation ends running tools; calls that have not started get an error as their
// result, and the model is not called again.
func TestCancelDuringTools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errEnough) })
		ends := func(ctx context.Context) tool.Result {
			<-ctx.Done()
			return tool.Failure("Error: ended")
		}
		never := fn{"never", tool.Writes, func(context.Context) tool.Result { panic("it must not run") }}
		tools := tool.Set{fn{"d1", tool.Delegates, ends}, fn{"d2", tool.Delegates, ends}, never}
		model := &script{steps: []step{says("a remark", calling("d1"), calling("d2"), calling("never"))}}
		out, rec := start(t, ctx, Config{Backend: model, Tools: tools, MaxTurns: 3}, nil)
		assert.Equal(t, task.Interrupted, out.Status)
		assert.Equal(t, "enough", out.Err())
		assert.Equal(t, "a remark", out.Output)
		assert.Equal(t, []string{"Error: ended", "Error: ended", "Error: not run: enough"}, answersOf(rec.messages))
	})
}

// A tool that does not end is left behind: the run ends all the same, with what it has.
func TestCancelDuringToolThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		begun := time.Now()
		time.AfterFunc(time.Second, func() { cancel(errEnough) })
		free := make(chan struct{})
		hang := reading("hang", func(context.Context) tool.Result { <-free; panic("too late") })
		model := &script{steps: []step{says("a remark", calling("hang"))}}
		out, rec := start(t, ctx, Config{Backend: model, Tools: tool.Set{hang}, MaxTurns: 3}, nil)
		assert.Equal(t, time.Second+overtime, time.Since(begun))
		assert.Equal(t, task.Interrupted, out.Status)
		assert.Equal(t, "a remark", out.Output)
		assert.Equal(t, []string{"Error: hang did not end: enough"}, answersOf(rec.messages))
		close(free)
	})
}

// A command has time to end and to be looked at: what it says then counts.
func TestCancelDuringCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errEnough) })
		slow := fn{"slow", tool.Executes, func(context.Context) tool.Result {
			time.Sleep(10 * time.Second)
			return tool.Result{Content: "ended", Warnings: []string{".env is put back"}}
		}}
		model := &script{steps: []step{says("a remark", calling("slow"))}}
		out, rec := start(t, ctx, Config{Backend: model, Tools: tool.Set{slow}, MaxTurns: 3}, nil)
		assert.Equal(t, task.Interrupted, out.Status)
		assert.Equal(t, []string{".env is put back"}, out.Warnings)
		assert.Equal(t, []string{"ended"}, answersOf(rec.messages))
	})
}

// An answer that came before the cancellation counts.
func TestCancelAfterAnswer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	late := func(ctx context.Context, yield func(llm.Chunk)) (llm.Response, error) {
		cancel()
		return says("done")(ctx, yield)
	}
	out, _ := start(t, ctx, Config{Backend: &script{steps: []step{late}}}, nil)
	assert.Equal(t, task.Completed, out.Status)
}

// For any model responses: the run ends within its turns, and its conversation can be
// continued.
func TestAnyModel(t *testing.T) {
	names := []string{"read", "delegate", "panic", "nobody"}
	tools := tool.Set{
		reading("read", func(context.Context) tool.Result { return tool.Text("seen") }),
		fn{"delegate", tool.Delegates, func(context.Context) tool.Result { return tool.Text("done") }},
		reading("panic", func(context.Context) tool.Result { panic("x") }),
	}
	rapid.Check(t, func(t *rapid.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		turns := rapid.IntRange(0, 4).Draw(t, "turns")
		cfg := Config{MaxTurns: turns}
		if rapid.Bool().Draw(t, "tools") {
			cfg.Tools = tools
		}
		if rapid.Bool().Draw(t, "schema") {
			cfg.Schema = json.RawMessage(`{"type":"object"}`)
		}
		if rapid.Bool().Draw(t, "references") {
			cfg.References = project
		}
		if rapid.Bool().Draw(t, "gate") {
			refused := rapid.SampledFrom(append(names, "")).Draw(t, "refused")
			cfg.Gate = refusing(tools, func(c tool.Call) bool { return c.Name == refused })
		}
		if rapid.Bool().Draw(t, "inbox") {
			cfg.Host = hooks{
				messages: func() []string {
					return slices.Repeat([]string{"news"}, max(0, rapid.IntRange(-3, 2).Draw(t, "news")))
				},
				pending: func() string { return "a child is at work" },
			}
		}
		texts := rapid.SampledFrom(
			[]string{"", " ", "text", "{}", "```json\n{}\n```", "[1]", `{"at":"a.go:1"}`, "a.go:99"},
		)
		next := func(ctx context.Context, yield func(llm.Chunk)) (llm.Response, error) {
			r := llm.Response{
				Message: llm.Message{Content: texts.Draw(t, "text")},
				Stop:    rapid.SampledFrom([]llm.Stop{llm.StopEnd, llm.StopLength, ""}).Draw(t, "stop"),
			}
			for i := range rapid.IntRange(0, 4).Draw(t, "calls") {
				c := calling(rapid.SampledFrom(names).Draw(t, "call"))
				c.ID = fmt.Sprint(i)
				r.Message.Calls = append(r.Message.Calls, c)
			}
			switch rapid.IntRange(0, 9).Draw(t, "trouble") {
			case 0:
				return r, &llm.Error{Kind: llm.BrokenStream, Problem: "as told"}
			case 1:
				cancel()
			}
			return r, ctx.Err()
		}
		model := &script{steps: slices.Repeat([]step{next}, 20)}
		cfg.Backend = model
		out, _ := start(t, ctx, cfg, nil)
		assert.LessOrEqual(t, len(model.asked), max(1, turns)+2*repairs+1)
		if out.Status == task.Completed {
			assert.NotEmpty(t, out.Output)
			assert.Equal(t, cfg.Schema != nil, out.Structured != nil)
		}
	})
}
