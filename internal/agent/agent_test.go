package agent

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/models/gate"
	"qq/internal/standin"
	"qq/pkg/agents"
	"qq/pkg/childproc"
	"qq/pkg/event"
	"qq/pkg/llm"
	"qq/pkg/supervisor"
	"qq/pkg/task"
)

// chat is a model of a server that is a function, which says something when it has
// not failed.
type chat func(ctx context.Context, yield func(llm.Chunk)) error

func (c chat) Chat(ctx context.Context, _ llm.Request, yield func(llm.Chunk)) (llm.Response, error) {
	err := c(ctx, yield)
	return llm.Response{Message: llm.Message{Content: "You are one."}, Stop: llm.StopEnd}, err
}

func (chat) String() string         { return "ollama:m" }
func (chat) Served() (string, bool) { return "m", true }
func (chat) CallsTools() bool       { return false }
func (chat) BuiltIn() bool          { return false }
func (chat) Sees() bool             { return false }
func (chat) Blind() bool            { return false }
func (chat) Tokens(string) int      { return 0 }
func (chat) Room(llm.Request) int   { return 0 }

const patience = 10 * time.Second

// late is what may come on top of the patience: activity is reported now and then.
const late = patience / 20

// silent sends nothing until ctx ends, and then returns the error that a model client
// returns.
func silent(ctx context.Context, _ func(llm.Chunk)) error {
	<-ctx.Done()
	return &llm.Error{Kind: llm.BrokenStream, Problem: "the answer broke off", Err: context.Cause(ctx)}
}

func broken(context.Context, func(llm.Chunk)) error { return &llm.Error{Kind: llm.Server} }

// admission lets requests pass a gate.
type admission struct{ *gate.Gate }

func (a admission) Enter(ctx context.Context, model string, again bool, who supervisor.Waiter) (llm.Permit, error) {
	return a.Gate.Enter(ctx, model, again, who)
}
func (admission) First(task.Task, supervisor.Waiter) llm.Permit { return nil }
func (a admission) Refusal(task.Task) error                     { return a.Gate.Refusal("m") }
func (a admission) Ready(task.Task) time.Duration               { return 0 }

// asking runs an agent as job zero, with a given model, the gate g and the idle timeout
// patience.
func asking(t *testing.T, g supervisor.Gate) func(context.Context, chat) task.Result {
	return func(ctx context.Context, c chat) task.Result {
		one := agents.Agent{Name: "one"}
		a := Agent{
			Definition: one, Model: c, Registry: team{agents.Load(nil), one}, Setup: Setup{Retries: 2},
			Transcript: Nobody{}, Screen: Nobody{},
		}
		return zeroOf(ctx, t, a, task.Task{Text: "Who are you?"}, func(cfg *supervisor.Config) {
			cfg.Gate, cfg.Limits.IdleTimeout = g, patience
		})
	}
}

// line is a parent with a long line before its server.
type line struct {
	supervisor.Parent
	wait    time.Duration
	reports []llm.Report
}

func (l *line) Enter(context.Context, string, bool) (llm.Permit, error) {
	time.Sleep(l.wait)
	return l, nil
}
func (*line) Delegate(context.Context, []task.Task) []task.Result { return nil }

func (*line) Allowed(llm.Allowance) {}
func (*line) Active()               {}
func (*line) Emit(event.Event)      {}
func (l *line) Leave(r llm.Report)  { l.reports = append(l.reports, r) }

// TestPromptTime: the time limit for writing a prompt starts when the request is sent. A
// request that exceeds it is neither retried nor counted as a fault of the server.
func TestPromptTime(t *testing.T) {
	for _, c := range []struct {
		name    string
		takes   time.Duration
		written bool
	}{{"in time", promptTime - time.Second, true}, {"too late", promptTime + time.Second, false}} {
		synctest.Test(t, func(t *testing.T) {
			up := &line{wait: time.Hour}
			slow := chat(func(ctx context.Context, _ func(llm.Chunk)) error {
				select {
				case <-time.After(c.takes):
					return nil
				case <-ctx.Done():
					return silent(ctx, nil)
				}
			})
			a := Agent{Definition: agents.Agent{PromptTemplate: "Write it."}, Model: slow, Screen: Nobody{}}
			a.Setup.Retries = 3
			r := &run{Agent: a, parent: up}
			begin := time.Now()
			text, _ := r.generatePrompt(t.Context())
			assert.Zero(t, r.repeats)
			assert.Equal(t, c.written, text != "", c.name)
			assert.Equal(t, time.Hour+min(c.takes, promptTime), time.Since(begin))
			assert.Equal(t, []llm.Report{{Cancelled: !c.written}}, up.reports)
		})
	}
}

// TestIdle: a request without any response is given up and not retried; a slow one that
// still sends something is not given up.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ask := asking(t, admission{gate.NewGate(gate.Config{MaxInFlight: 2})})
		begin, asked := time.Now(), 0
		r := ask(t.Context(), func(ctx context.Context, yield func(llm.Chunk)) error {
			asked++
			return silent(ctx, yield)
		})
		assert.Equal(t, task.Idle, r.Status)
		assert.Equal(t, (&task.ClockError{Status: task.Idle, After: patience}).Error(), r.Err())
		assert.Equal(t, patience+late, time.Since(begin))
		assert.Equal(t, 1, asked)
		r = ask(t.Context(), func(_ context.Context, yield func(llm.Chunk)) error {
			for range 5 {
				time.Sleep(patience * 9 / 10)
				yield(llm.Chunk{Text: "x"})
			}
			return nil
		})
		assert.Equal(t, task.Completed, r.Status, r.Err())
		ctx, cancel := context.WithTimeoutCause(t.Context(), patience/2, os.ErrClosed)
		defer cancel()
		r = ask(ctx, silent)
		assert.Equal(
			t,
			[]any{task.Interrupted, os.ErrClosed.Error()},
			[]any{r.Status, r.Err()},
			"that was somebody else",
		)
		r = ask(t.Context(), func(context.Context, func(llm.Chunk)) error {
			time.Sleep(2 * patience) // it does not hear that it is given up
			return nil
		})
		assert.Equal(t, task.Completed, r.Status, "an answer is an answer")
		time.Sleep(time.Hour) // no timer is left that could end anything
		r = ask(t.Context(), func(ctx context.Context, _ func(llm.Chunk)) error { return ctx.Err() })
		assert.Equal(t, task.Completed, r.Status, r.Err())
	})
}

// TestIdleBehindOthers: the idle time does not count while the server is busy with other
// requests.
func TestIdleBehindOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := gate.NewGate(gate.Config{MaxInFlight: 2})
		other, err := gate.Enter(t.Context(), "m", false, nil)
		require.NoError(t, err)
		go func() {
			for range 10 {
				time.Sleep(patience / 2)
				other.Active()
			}
		}()
		begin := time.Now()
		assert.Equal(t, task.Idle, asking(t, admission{gate})(t.Context(), silent).Status)
		assert.Equal(t, 6*patience+late, time.Since(begin))
	})
}

// TestIdleInLine: the idle time does not count while a request waits for a slot.
func TestIdleInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := gate.NewGate(gate.Config{MaxInFlight: 1})
		other, err := gate.Enter(t.Context(), "m", false, nil)
		require.NoError(t, err)
		time.AfterFunc(5*patience, func() { other.Leave(llm.Report{}) })
		r := asking(t, admission{gate})(t.Context(), func(context.Context, func(llm.Chunk)) error { return nil })
		assert.Equal(t, task.Completed, r.Status, r.Err())
	})
}

// TestIdleTellsNothing: a request that was given up changes nothing in the breaker of the
// server.
func TestIdleTellsNothing(t *testing.T) {
	open := func(t *testing.T, chats ...chat) bool {
		gate := gate.NewGate(gate.Config{MaxInFlight: 2})
		for _, c := range chats {
			assert.False(t, asking(t, admission{gate})(t.Context(), c).Success)
		}
		return gate.Refusal("m") != nil
	}
	synctest.Test(t, func(t *testing.T) {
		assert.True(t, open(t, broken, broken, broken))
		assert.False(t, open(t, silent, silent, silent, silent))
		assert.False(t, open(t, broken, broken, silent))
		assert.True(t, open(t, broken, broken, silent, broken), "it is no success between them")
	})
}

// events are a screen and a parent that keep what they are told.
type events struct {
	supervisor.Parent
	texts []string
	ends  []bool
}

func (e *events) Emit(ev event.Event) { e.texts = append(e.texts, ev.Text) }
func (e *events) Chunk(llm.Chunk)     {}
func (e *events) TurnEnd(final bool)  { e.ends = append(e.ends, final) }

// TestRepeated: a retried request is one progress line, and one more attempt in the
// result.
func TestRepeated(t *testing.T) {
	told := &events{}
	r := &run{Agent: Agent{Screen: told}, parent: told}
	r.Repeated(2, 1500*time.Millisecond, &llm.Error{Problem: "busy", Hint: "wait"})
	r.Repeated(3, time.Second, &llm.Error{Problem: "busy\nas it said"})
	assert.Equal(t, []string{
		"request to the model repeated (2) in 1.5s: busy", "request to the model repeated (3) in 1s: busy",
	}, told.texts)
	assert.Equal(t, []bool{false, false}, told.ends, "what stood there is no answer")
	assert.Equal(t, 2, r.repeats)
}

// TestRepeatsAreAttempts: retries count as attempts in the result, also those of the
// prompt.
func TestRepeatsAreAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		definition := agents.Agent{Name: "one", PromptTemplate: "Write it."}
		a := Agent{
			Definition: definition, Registry: team{agents.Load(nil), definition}, Setup: Setup{Retries: 2},
			Transcript: Nobody{}, Screen: Nobody{},
			Model: chat(func(context.Context, func(llm.Chunk)) error {
				if n++; n%2 == 1 {
					return &llm.Error{Kind: llm.Busy, Problem: "busy"}
				}
				return nil
			}),
		}
		r := zeroOf(t.Context(), t, a, task.Task{Text: "Who are you?"}, nil)
		assert.Equal(t, task.Completed, r.Status, r.Err())
		assert.Equal(t, 4, n)
		assert.Equal(t, 3, r.Attempts)
	})
}

// counted is a gate that counts, and refuses when it is told to.
type counted struct {
	admission
	entered atomic.Int64
	refuse  int64 // the request that is refused
	reports chan llm.Report
}

func (c *counted) Enter(context.Context, string, bool, supervisor.Waiter) (llm.Permit, error) {
	if c.entered.Add(1) == c.refuse {
		return nil, &llm.Error{Kind: llm.Open, Problem: "open", RetryAfter: time.Hour}
	}
	return c, nil
}
func (*counted) Allowed(llm.Allowance) {}
func (*counted) Active()               {}
func (c *counted) Leave(r llm.Report)  { c.reports <- r }

// TestFinalAnswerIsAdmitted: the request for a final answer passes the gate and is
// counted there like any other, but is not retried when the gate refuses it.
func TestFinalAnswerIsAdmitted(t *testing.T) {
	server := standin.Start(t, standin.Reply(func(p standin.Prompt) string {
		if p.Last("tool") == "" {
			return `<tool_call>{"name":"read_file","arguments":{"path":"a.md"}}</tool_call>`
		}
		return "so far"
	}))
	for _, c := range []struct {
		refuse int64
		grace  time.Duration
		want   string
		asked  int64
	}{{0, 10 * time.Second, "so far", 2}, {2, 10 * time.Second, "", 2}, {0, 0, "", 1}} {
		gate := &counted{refuse: c.refuse, reports: make(chan llm.Report, 9)}
		a := agentOf(t, modelOf(t, server), agents.Agent{Name: "reader", Tools: []string{"read_file"}})
		a.Setup.Retries = 5
		require.NoError(t, os.WriteFile("a.md", []byte("a fact\n"), 0o600))
		ctx, cancel := context.WithCancelCause(t.Context())
		begin := time.Now()
		r := zeroOf(ctx, t, a, task.Task{Text: "Read a.md"}, func(cfg *supervisor.Config) {
			cfg.Gate = gate
			cfg.Events = event.NewStream("trace", event.SinkFunc(func(e event.Event) {
				if e.Type == event.ToolEnd {
					cancel(&childproc.Cancelled{Reason: "as told", Grace: c.grace})
				}
			}))
		})
		assert.Equal(t, []any{task.Interrupted, c.want}, []any{r.Status, r.Output})
		assert.Equal(t, c.asked, gate.entered.Load())
		assert.Less(t, time.Since(begin), 5*time.Second)
		require.Len(t, gate.reports, len(c.want)/len("so far")+1)
		close(gate.reports)
		for report := range gate.reports {
			assert.Positive(t, report.Usage.InputTokens)
			assert.Empty(t, report.Kind)
		}
	}
}

// TestWithoutDirectory: to start in a directory that does not exist is a usage error.
func TestWithoutDirectory(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("a removed folder can still be opened")
	}
	gone := exec.Command("sleep", "60")
	require.NoError(t, gone.Start())
	t.Chdir(fmt.Sprintf("/proc/%d", gone.Process.Pid)) // which ends with the process
	require.NoError(t, gone.Process.Kill())
	assert.Error(t, gone.Wait())
	r := Agent{}.Run(t.Context(), nil, task.Job{Task: task.Task{Text: "hello", Agent: "one"}})
	assert.Equal(t, task.Misused, r.Status)
	problem, hint, _ := strings.Cut(r.Err(), "\nhint: ")
	assert.Contains(t, problem, "open the working directory: ")
	assert.Equal(t, "run qq in a directory that exists, or name one with -C", hint)
}

// TestHurry: a run that may go on with another model does not wait for one whose server is busy for long. One that has
// begun to change something cannot go on with another, and waits.
func TestHurry(t *testing.T) {
	for acted, want := range map[bool][2]int{false: {1, 1}, true: {2, 0}} {
		var asked [2]int
		first := chat(func(context.Context, func(llm.Chunk)) error {
			if asked[0]++; asked[0] == 1 {
				return &llm.Error{Kind: llm.Busy, RetryAfter: time.Hour}
			}
			return nil
		})
		other := chat(func(context.Context, func(llm.Chunk)) error { asked[1]++; return nil })
		r := &run{
			Agent:   Agent{Model: first, Fallback: []Model{other}, Transcript: Nobody{}, Screen: Nobody{}},
			parent:  &line{},
			helpers: &helpers{}, acted: acted, deeds: &deeds{},
		}
		_, err := inTurn{r, 2}.Chat(t.Context(), llm.Request{}, nil)
		require.NoError(t, err)
		assert.Equal(t, want, asked, "acted: %v", acted)
	}
}

// TestNoFallback: another model is asked only for the class of a failure. It is not once the agent has handed on a task
// that may have changed something, nor when the run is to end.
func TestNoFallback(t *testing.T) {
	away := &llm.Error{Kind: llm.Unreachable, Problem: "away"}
	for name, c := range map[string]struct {
		err                     error
		handsOn, readOnly, ends bool
		other                   int // requests to the other model
	}{
		"away":            {err: away, other: 1},
		"rejected":        {err: &llm.Error{Kind: llm.Rejected, Problem: "connection refused: insufficient_quota"}},
		"handed on":       {err: away, handsOn: true},
		"asked to read":   {err: away, handsOn: true, readOnly: true, other: 1},
		"the run is over": {err: away, ends: true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			asked := 0
			r := &run{deeds: &deeds{}, parent: &line{},
				helpers: &helpers{Parent: &line{}, only: c.readOnly}, Agent: Agent{
					Model: chat(func(context.Context, func(llm.Chunk)) error {
						if c.ends {
							cancel()
						}
						return c.err
					}),
					Fallback:   []Model{chat(func(context.Context, func(llm.Chunk)) error { asked++; return nil })},
					Transcript: Nobody{}, Screen: Nobody{},
				}}
			if c.handsOn {
				r.helpers.Delegate(ctx, nil)
			}
			_, err := inTurn{r, 0}.Chat(ctx, llm.Request{}, nil)
			assert.Equal(t, c.other, asked)
			assert.Equal(t, c.other == 0, err != nil)
		})
	}
}
