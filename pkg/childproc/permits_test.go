package childproc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"qq/pkg/childproc/plausible"
	"qq/pkg/event"
	"qq/pkg/llm"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// gate counts the permits of a test.
type gate struct {
	mu      sync.Mutex
	granted int
	active  int
	reports []llm.Report
	allowed []llm.Allowance
}

// countedPermit is one of a gate. It is no use to leave it twice.
type countedPermit struct{ g *gate }

func (g *gate) permit() llm.Permit {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.granted++
	return countedPermit{g}
}

func (g *gate) enter(context.Context, task.Job, Enter) (llm.Permit, error) { return g.permit(), nil }

func (p countedPermit) Active() {
	p.g.mu.Lock()
	defer p.g.mu.Unlock()
	p.g.active++
}

func (p countedPermit) Allowed(a llm.Allowance) {
	p.g.mu.Lock()
	defer p.g.mu.Unlock()
	p.g.allowed = append(p.g.allowed, a)
}

func (p countedPermit) Leave(r llm.Report) {
	p.g.mu.Lock()
	defer p.g.mu.Unlock()
	p.g.reports = append(p.g.reports, r)
}

// callerReport is what the role "caller" says of each of its requests.
func callerReport() llm.Report {
	return llm.Report{Kind: llm.Busy, RetryAfter: 3 * time.Second, Usage: task.Usage{OutputTokens: 7},
		Timing: llm.Timing{Served: time.Minute}}
}

// Each request is let pass by the root, outside the time of the job, and what
// came of it gets there.
func TestEnter(t *testing.T) {
	g := &gate{}
	var models []string
	l := launcher(t, func(c *testConfig) {
		c.Admit = func(ctx context.Context, j task.Job, in Enter) (llm.Permit, error) {
			models = append(models, j.ExecutionID+" "+in.Model)
			return g.enter(ctx, j, in)
		}
	})
	j := job("caller", "2")
	queued, active := 0, 0
	j.Queue = func(f func()) {
		queued++
		f()
	}
	j.Active = func() { active++ }
	r := l.Launch(t.Context(), j)
	assert.Equal(t, "in\nin\n", r.Output, r.Err())
	assert.Equal(t, []string{"id-caller m", "id-caller m"}, models)
	assert.Equal(t, []llm.Report{callerReport(), callerReport()}, g.reports)
	assert.Equal(t, 2, queued)
	assert.Equal(t, 6, active, "hello, two questions, two reports, the result")
	assert.Equal(t, 1, r.Attempts)
	assert.False(t, r.Effects)
}

// TestAllowed: what a server says about further requests gets to the gate before the end of the request.
func TestAllowed(t *testing.T) {
	g := &gate{}
	l := launcher(t, func(c *testConfig) { c.Admit = g.enter })
	r := l.Launch(t.Context(), job("allowed", ""))
	assert.Equal(t, "ok", r.Output, r.Err())
	assert.Equal(t, []llm.Allowance{{Requests: llm.Meter{Limit: 2, Left: 1, Reset: time.Second}}}, g.allowed)
	assert.Zero(t, g.active, "nothing was answered yet")
	assert.Equal(t, []llm.Report{{Kind: llm.Quota, RetryAfter: time.Hour}}, g.reports)
}

// TestPaid: the tokens of requests count even if the child dies or says less.
func TestPaid(t *testing.T) {
	for how, status := range map[string]task.Status{"dies": task.NoResult, "lies": task.Completed} {
		g := &gate{}
		l := launcher(t, func(c *testConfig) { c.Admit = g.enter })
		r := l.Launch(t.Context(), job("spender", how))
		assert.Equal(t, status, r.Status, r.Err())
		assert.Equal(t, task.Usage{InputTokens: 10, OutputTokens: 14, CachedTokens: 8, Cost: 18, PricedTokens: 24},
			r.Usage, how)
	}
}

// A child of a root that counts no permits gets as many as it likes.
func TestEnterUncounted(t *testing.T) {
	r := launcher(t, nil).Launch(t.Context(), job("caller", "30"))
	assert.Equal(t, strings.Repeat("in\n", 30), r.Output, r.Err())
}

func TestEnterRefused(t *testing.T) {
	for said, refusal := range map[string]error{
		"open: the server rests: the server rests\nhint: wait\n": fmt.Errorf("wrapped: %w",
			&llm.Error{Kind: llm.Open, Problem: "the server rests", Hint: "wait"}),
		"no room\n": errors.New("no room"),
	} {
		l := launcher(t, func(c *testConfig) {
			c.Admit = func(context.Context, task.Job, Enter) (llm.Permit, error) { return nil, refusal }
		})
		assert.Equal(t, said, l.Launch(t.Context(), job("caller", "1")).Output)
	}
}

// A child that may come back waits at the root, outside its time, and is told when
// there is a use in that.
func TestEnterAgain(t *testing.T) {
	g := &gate{}
	var asked []Enter
	l := launcher(t, func(c *testConfig) {
		c.Admit = func(ctx context.Context, j task.Job, in Enter) (llm.Permit, error) {
			if asked = append(asked, in); !in.Again {
				return nil, &llm.Error{Kind: llm.Open, Problem: "the server rests", RetryAfter: time.Microsecond}
			}
			return g.enter(ctx, j, in)
		}
	})
	j := job("returner", "")
	queued := 0
	j.Queue = func(f func()) {
		queued++
		f()
	}
	r := l.Launch(t.Context(), j)
	assert.Equal(t, "in, 1ms later", r.Output, r.Err())
	assert.Equal(t, []Enter{{Model: "m"}, {Model: "m", Again: true}}, asked)
	assert.Equal(t, 2, queued)
	assert.Equal(t, []llm.Report{{}}, g.reports)
}

// The permit that comes with the start is used for the first request, without a
// question; a child that sends none gives it back at its end.
func TestFirstPermit(t *testing.T) {
	g := &gate{}
	var asked int
	l := launcher(t, func(c *testConfig) {
		c.First = func(j task.Job, s Start) llm.Permit {
			assert.Equal(t, j.ExecutionID, s.ExecutionID)
			return g.permit()
		}
		c.Admit = func(ctx context.Context, j task.Job, in Enter) (llm.Permit, error) {
			asked++
			return g.enter(ctx, j, in)
		}
	})
	r := l.Launch(t.Context(), job("caller", "2"))
	assert.Equal(t, "in\nin\n", r.Output, r.Err())
	assert.Equal(t, 1, asked)
	assert.Equal(t, []llm.Report{callerReport(), callerReport()}, g.reports)

	g.reports = nil
	s := l.Stage(job("echo", "x"))
	require.NotNil(t, s)
	assert.Equal(t, "got: x", s.Launch(t.Context(), job("echo", "x")).Output)
	assert.Equal(t, []llm.Report{{Cancelled: true}}, g.reports)

	l.cfg.First = func(task.Job, Start) llm.Permit { return nil }
	l.Launch(t.Context(), job("caller", "1"))
	assert.Equal(t, 2, asked)
}

// The permit of a killed child comes back, once.
func TestPermitOfTheKilled(t *testing.T) {
	g := &gate{}
	l, working := awake(t, func(c *testConfig) { c.Admit = g.enter })
	s := l.Stage(job("holder", ""))
	require.NotNil(t, s)
	go func() {
		<-working
		s.proc.Kill()
	}()
	r := s.Launch(t.Context(), job("holder", ""))
	assert.Equal(t, task.Killed, r.Status)
	assert.Equal(t, []llm.Report{{Cancelled: true}}, g.reports)
}

// Nobody waits any more for a child that was killed.
func TestWaitOfTheKilled(t *testing.T) {
	waiting := make(chan struct{})
	l := launcher(t, func(c *testConfig) {
		c.Admit = func(ctx context.Context, _ task.Job, _ Enter) (llm.Permit, error) {
			close(waiting)
			<-ctx.Done()
			return nil, ctx.Err()
		}
	})
	s := l.Stage(job("holder", ""))
	require.NotNil(t, s)
	go func() {
		<-waiting
		s.proc.Kill()
	}()
	assert.Equal(t, task.Killed, s.Launch(t.Context(), job("holder", "")).Status)
}

// A permit that is granted when nobody waits any more goes back at once.
func TestGrantedTooLate(t *testing.T) {
	g := &gate{}
	ctx, cancel := context.WithCancelCause(t.Context())
	l := launcher(t, func(c *testConfig) {
		c.Admit = func(ctx context.Context, _ task.Job, _ Enter) (llm.Permit, error) {
			cancel(errors.New("enough"))
			<-ctx.Done()
			return g.permit(), nil
		}
	})
	l.Launch(ctx, job("holder", ""))
	assert.Equal(t, 1, g.granted)
	assert.Equal(t, []llm.Report{{Cancelled: true}}, g.reports)
}

// relatives are a family that tells of each question that may take long.
type relatives struct {
	task.Family
	asked func()
}

func (r relatives) Spawn(context.Context, task.Task) (task.Child, error) {
	r.asked()
	return task.Child{}, nil
}

func (r relatives) Wait(context.Context, []string, time.Duration) ([]task.Result, error) {
	r.asked()
	return nil, nil
}

func (relatives) Children(context.Context) ([]task.Child, error) { return nil, nil }

// waiting runs a child that got a permit in advance, and returns what had come
// back of it when the root was asked to do something that others may wait for.
func waiting(t *testing.T, j testJob) (before, all []llm.Report, admitted int, err string) {
	g := &gate{}
	asked := func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		before = append([]llm.Report{}, g.reports...)
	}
	j.Family = relatives{asked: asked}
	j.Delegate = func(_ context.Context, tasks []task.Task) []task.Result {
		asked()
		return []task.Result{tasks[0].Ended(task.Completed, "")}
	}
	l := launcher(t, func(c *testConfig) {
		c.First = func(task.Job, Start) llm.Permit { return g.permit() }
		c.Approve = func(context.Context, task.Job, tool.Intent) tool.Decision {
			asked()
			return tool.Decision{Allowed: true}
		}
		c.Admit = func(ctx context.Context, j task.Job, in Enter) (llm.Permit, error) {
			admitted++
			return g.enter(ctx, j, in)
		}
	})
	r := l.Launch(t.Context(), j)
	return before, g.reports, admitted, r.Err()
}

// Who waits for others has no permit meanwhile: they may need it.
func TestNoPermitWhileWaiting(t *testing.T) {
	unused := llm.Report{Cancelled: true}
	for _, what := range []string{"delegate", "spawn", "wait", "approve"} {
		before, all, admitted, err := waiting(t, job("waiter", what))
		assert.Empty(t, err)
		assert.Equal(t, []llm.Report{unused}, before, what)
		assert.Equal(t, []llm.Report{unused, {}}, all, what)
		assert.Equal(t, 1, admitted, "%s: its request is let pass like any other", what)
	}
	_, all, admitted, _ := waiting(t, job("waiter", "children"))
	assert.Equal(t, []llm.Report{{}}, all, "that takes no time")
	assert.Zero(t, admitted)
}

// Also one that would rather keep it.
func TestPermitIsTakenBack(t *testing.T) {
	for _, ask := range []string{
		`"delegate":[{"task":"x"}]`, `"spawn":{"task":"x"}`, `"wait":{}`, `"approve":{"tool":"t"}`,
	} {
		before, all, _, err := waiting(t, job("parrot", `{"type":"ask","ask":{"id":1,`+ask+"}}\n"+
			`{"type":"leave","leave":{"id":0}}`+"\n"))
		assert.Empty(t, err)
		assert.Equal(t, []llm.Report{{Cancelled: true}}, before, ask)
		assert.Equal(t, before, all, "%s: once", ask)
	}
}

func enterFrame(id int) string {
	return fmt.Sprintf(`{"type":"ask","ask":{"id":%d,"enter":{}}}`+"\n", id)
}

// A child that breaks the rules loses its own task, and no permit.
func TestPermitsOfAParrot(t *testing.T) {
	const second = "child broke the protocol: broken frame: a permit is asked for while there is one already"
	for said, want := range map[string]struct {
		err     string
		reports int
	}{
		enterFrame(5) + enterFrame(6):              {second, 1},
		enterFrame(5) + enterFrame(5):              {second, 1},
		enterFrame(5):                              {"", 1},
		`{"type":"leave","leave":{"id":9}}` + "\n": {"", 0},
		enterFrame(1) + `{"type":"leave","leave":{"id":1}}` + "\n" + `{"type":"leave","leave":{"id":1}}` + "\n": {"", 1},
		`{"type":"active","active":{"permits":[1,2,` + strings.Repeat("3,", 1000) + "4]}}\n" + enterFrame(1):    {"", 1},
		strings.Repeat(enterFrame(1)+`{"type":"leave","leave":{"id":1}}`+"\n", 200):                             {"", 200},
	} {
		g := &gate{}
		r := launcher(t, func(c *testConfig) { c.Admit = g.enter }).Launch(t.Context(), job("parrot", said))
		assert.Equal(t, want.err, r.Err(), "%.200s", said)
		assert.Len(t, g.reports, g.granted, "what was granted comes back, once")
		assert.LessOrEqual(t, g.granted, want.reports)
	}
}

// The names of permits in an active frame reach them, and no other.
func TestActivePermits(t *testing.T) {
	g := &gate{}
	l := launcher(t, func(c *testConfig) { c.First = func(task.Job, Start) llm.Permit { return g.permit() } })
	beats := 0
	j := job("parrot", `{"type":"active","active":{"permits":[0,7]}}`+"\n"+`{"type":"active","active":{}}`+"\n"+
		`{"type":"leave","leave":{}}`+"\n"+`{"type":"active","active":{"permits":[0]}}`+"\n")
	j.Active = func() { beats++ }
	r := l.Launch(t.Context(), j)
	assert.Empty(t, r.Err())
	assert.Equal(t, 1, g.active)
	assert.Equal(t, []llm.Report{{}}, g.reports)
	assert.Equal(t, 6, beats)
}

// Of a report only what can be is believed.
func TestPlausible(t *testing.T) {
	assert.Equal(t, callerReport(), plausible.Report(callerReport()))
	assert.Equal(t, llm.Report{
		Kind: llm.Busy, RetryAfter: time.Hour, Usage: task.Usage{InputTokens: 1e9},
		Timing: llm.Timing{Served: 24 * time.Hour},
	}, plausible.Report(llm.Report{
		Kind: llm.Busy, RetryAfter: 1 << 62, Usage: task.Usage{InputTokens: 1 << 62, OutputTokens: -1},
		Timing: llm.Timing{Queued: -1, Served: 1 << 62},
	}))
	for _, kind := range []llm.Kind{"splendid", llm.Open, llm.Spent} {
		assert.Equal(
			t,
			llm.Report{Kind: llm.Rejected},
			plausible.Report(llm.Report{Kind: kind, RetryAfter: 1}),
			"no server says so",
		)
	}
	assert.Equal(t, llm.Report{Kind: llm.Server}, plausible.Report(llm.Report{Kind: llm.Server, RetryAfter: 1}),
		"nobody waits for that")
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.Map(rapid.Int64(), func(n int64) time.Duration { return time.Duration(n) })
		r := plausible.Report(llm.Report{
			Kind:       llm.Kind(rapid.SampledFrom([]string{"", "busy", "open", "BUSY", "x"}).Draw(t, "kind")),
			RetryAfter: d.Draw(t, "after"),
			Usage:      task.Usage{InputTokens: rapid.Int().Draw(t, "in"), OutputTokens: rapid.Int().Draw(t, "out")},
			Timing:     llm.Timing{Queued: d.Draw(t, "queued"), Served: d.Draw(t, "served")},
		})
		assert.Contains(t, []llm.Kind{"", llm.Busy, llm.Rejected}, r.Kind)
		assert.True(t, r.RetryAfter >= 0 && r.RetryAfter <= plausible.RetryAfter)
		assert.True(
			t,
			min(r.Timing.Queued, r.Timing.Served) >= 0 && max(r.Timing.Queued, r.Timing.Served) <= 24*time.Hour,
		)
		assert.True(t, min(r.Usage.InputTokens, r.Usage.OutputTokens) >= 0 &&
			max(r.Usage.InputTokens, r.Usage.OutputTokens) <= 1e9)
		assert.Equal(t, r, plausible.Report(r))
	})
}

// A child holds the requests of others back for so long altogether, and without a
// permit not at all.
func TestHoldsAreBounded(t *testing.T) {
	leave := fmt.Sprintf(`{"type":"leave","leave":{"id":1,"report":{"kind":"busy","retry_after":%d}}}`+"\n", time.Hour)
	g := &gate{}
	r := launcher(t, func(c *testConfig) { c.Admit = g.enter }).Launch(t.Context(),
		job("parrot", leave+strings.Repeat(enterFrame(1)+leave+leave, 5)))
	assert.Empty(t, r.Err())
	require.Len(t, g.reports, g.granted)
	var total time.Duration
	for _, report := range g.reports {
		assert.LessOrEqual(t, report.RetryAfter, plausible.RetryAfter)
		total += report.RetryAfter
	}
	assert.LessOrEqual(t, total, plausible.Kept)
	p := permits{held: map[int64]*held{}}
	for range 5 {
		p.held[0] = &held{permit: g.permit(), cancel: func() {}}
		p.leave(0, llm.Report{Kind: llm.Busy, RetryAfter: 18 * time.Minute})
	}
	var last []time.Duration
	for _, report := range g.reports[len(g.reports)-5:] {
		last = append(last, report.RetryAfter/time.Minute)
	}
	assert.Equal(t, []time.Duration{18, 18, 18, 6, 0}, last)
}

// awake is a launcher that tells when its child is at work, and what Launch of it
// needs to be cancelled then.
func awake(t *testing.T, change func(*testConfig)) (*testLauncher, <-chan struct{}) {
	working := make(chan struct{})
	return launcher(t, func(c *testConfig) {
		c.Event = func(event.Event) { close(working) }
		change(c)
	}), working
}

// A child whose time has run out gets one more turn, with a request to the
// model, for longer than the grace of a signal, and what it hands back is kept.
func TestHandBack(t *testing.T) {
	g := &gate{}
	l, working := awake(t, func(c *testConfig) {
		c.HandBack, c.Grace = 20*time.Second, 50*time.Millisecond
		c.Admit = func(ctx context.Context, _ task.Job, _ Enter) (llm.Permit, error) {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(200 * time.Millisecond):
			}
			return g.permit(), nil
		}
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-working
		cancel(fmt.Errorf("wrapped: %w", &task.ClockError{Status: task.Idle, After: time.Second}))
	}()
	r := l.Launch(ctx, job("last-turn", ""))
	assert.Equal(t, "20s to say it", r.Output)
	assert.Equal(t, task.Failed, r.Status, "the supervisor knows better")
	assert.Equal(t, "cancelled: wrapped: Sub-agent inactive for 1 seconds", r.Err())
	assert.Equal(t, []string{"notes.md"}, r.ChangedFiles)
	assert.Equal(t, task.Usage{InputTokens: 3}, r.Usage)
	assert.Equal(t, 3, r.Attempts)
	assert.True(t, r.Effects)
	assert.Equal(t, []llm.Report{{}}, g.reports)
}

// There is no such turn for any other reason: its request is not let pass.
func TestNoHandBack(t *testing.T) {
	admitted := make(chan error, 1)
	l, working := awake(t, func(c *testConfig) {
		c.HandBack = time.Hour
		c.Admit = func(ctx context.Context, _ task.Job, _ Enter) (llm.Permit, error) {
			admitted <- ctx.Err()
			return nil, ctx.Err()
		}
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-working
		cancel(errors.New("enough"))
	}()
	r := l.Launch(ctx, job("last-turn", ""))
	assert.Contains(t, []task.Status{task.Killed, task.NoResult}, r.Status)
	assert.ErrorIs(t, <-admitted, context.Canceled)
}

// A child that hands nothing back is ended by the ladder after its turn.
func TestHandsNothingBack(t *testing.T) {
	l, working := awake(t, func(c *testConfig) { c.HandBack = 300 * time.Millisecond })
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-working
		cancel(&task.ClockError{Status: task.Timeout, After: time.Second})
	}()
	start := time.Now()
	r := l.Launch(ctx, job("deaf", ""))
	assert.Equal(t, task.Killed, r.Status)
	assert.Equal(t, "so far", r.Output)
	assert.GreaterOrEqual(t, time.Since(start), 500*time.Millisecond)
	assert.Less(t, time.Since(start), 10*time.Second)
}

// A child that was stopped hears nothing and ends all the same.
func TestStopped(t *testing.T) {
	g := &gate{}
	l, working := awake(t, func(c *testConfig) {
		c.HandBack = 100 * time.Millisecond
		c.First = func(task.Job, Start) llm.Permit { return g.permit() }
	})
	s := l.Stage(job("deaf", ""))
	require.NotNil(t, s)
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := make(chan bool, 1)
	go func() {
		<-working
		pid := s.proc.PID()
		stopped <- syscall.Kill(pid, syscall.SIGSTOP) == nil && assert.Eventually(t, func() bool {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			return err == nil && strings.Contains(string(stat), ") T ")
		}, 10*time.Second, time.Millisecond)
		cancel(&task.ClockError{Status: task.Idle, After: time.Second})
	}()
	r := s.Launch(ctx, job("deaf", ""))
	assert.True(t, <-stopped)
	assert.Equal(t, task.Killed, r.Status)
	assert.Equal(t, "so far", r.Output)
	assert.Equal(t, 137, r.ExitCode)
	assert.Equal(t, []llm.Report{{Cancelled: true}}, g.reports)
}

// What decides about another run of the task, or about none.
func TestRepeatable(t *testing.T) {
	const effects = `{"type":"ask","ask":{"id":1,"effects":true}}` + "\n"
	result := func(rest string) string {
		return `{"type":"result","result":{"status":"completed","bytes":2` + rest + "}}\n"
	}
	read := func(size int, digest string) string {
		return result(fmt.Sprintf(`,"reads":[{"tool":"t","arguments":"%s","digest":%q}]`,
			strings.Repeat("x", size-2), digest))
	}
	digest := strings.Repeat("0f", 32)
	for said, want := range map[string]struct {
		effects  bool
		attempts int
		reads    []task.Read
	}{
		"":      {attempts: 1},
		effects: {effects: true, attempts: 1},
		`{"type":"changed","changed":{"paths":["a"]}}` + "\n":                          {effects: true, attempts: 1},
		result(`,"changed_files":["a"],"reads":[]`):                                    {effects: true, attempts: 1},
		effects + result(`,"reads":[]`):                                                {effects: true, attempts: 1},
		`{"type":"result","result":{"status":"failed","repeats":4,"reads":[]}}` + "\n": {attempts: 5},
		`{"type":"result"}` + "\n":                                                     {effects: true, attempts: 1},
		result(`,"repeats":3`):                                                         {attempts: 4},
		result(`,"repeats":-3`):                                                        {attempts: 1},
		result(`,"repeats":999999`):                                                    {attempts: 1001},
		result(`,"reads":[]`):                                                          {attempts: 1, reads: []task.Read{}},
		read(4, digest): {attempts: 1,
			reads: []task.Read{{Tool: "t", Arguments: []byte(`"xx"`), Digest: digest}}},
		read(maxArguments+1, digest):      {attempts: 1},
		read(4, digest[2:]):               {attempts: 1},
		read(4, strings.Repeat("xy", 32)): {attempts: 1},
		read(4, ""):                       {attempts: 1},
		read(4, digest) + result(``):      {attempts: 1},
	} {
		r := launcher(t, nil).Launch(t.Context(), job("mimic", said))
		assert.Equal(t, want.effects, r.Effects, said)
		assert.Equal(t, want.attempts, r.Attempts, said)
		assert.Equal(t, want.reads, r.Reads, said)
	}
}

// What a child that has ended says of its tokens counts for a budget.
func TestUsageIsPlausible(t *testing.T) {
	r := launcher(t, nil).Launch(t.Context(), job(
		"mimic",
		`{"type":"result","result":{"status":"completed","bytes":2,"usage":{"input_tokens":-5,"output_tokens":9000000000}}}`+
			"\n",
	))
	assert.Equal(t, task.Usage{OutputTokens: 1e9}, r.Usage)
}
