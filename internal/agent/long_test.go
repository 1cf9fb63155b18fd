package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"qq/internal/agent/longtext"
	"qq/internal/models"
	"qq/internal/standin"
	"qq/pkg/agents"
	"qq/pkg/childproc"
	"qq/pkg/event"
	"qq/pkg/llm"
	"qq/pkg/task"
)

// paragraphs is a text of n paragraphs of some 100 characters.
func paragraphs(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "Paragraph %d tells of matter %d, of which nothing else in this text tells, and that at some length.\n\n", i, i)
	}
	return b.String()
}

// workOf is the work of an agent with a model of the server, which has parts
// summarised as children would do it, but in this process.
func workOf(t *testing.T, server *standin.Server, a agents.Agent) work {
	t.Helper()
	m, err := (&models.Resolver{Host: server.URL, Run: standin.DefaultModel, Notes: notes(t.Logf)}).Resolve(t.Context(), "")
	require.NoError(t, err)
	w := work{
		toolmaker: toolmaker{setup: Setup{Model: m}, agent: a, dir: t.TempDir(), limits: ceiling{readOnly: true}},
		note:      func(string, ...any) {}, lookup: agents.Load(nil).Lookup,
	}
	child := w
	w.summaries = summaries(func(ctx context.Context, tasks []task.Task) (results []task.Result) {
		for _, tk := range tasks {
			child.agent, err = w.lookup(tk.Agent)
			require.NoError(t, err)
			out, err := child.do(ctx, llm.WithContext(tk.Text, tk.Context))
			require.NoError(t, err)
			r := tk.Ended(out.Status, "")
			if out.Err != nil {
				r.End(out.Status, out.Err.Error())
			}
			r.Output, r.Usage = out.Text, out.Usage
			results = append(results, r)
		}
		return results
	}, m.String())
	return w
}

// narrow is a server whose model has a small context, and refuses what does not fit.
func narrow(t *testing.T) *standin.Server {
	return standin.Start(t, standin.Models(standin.Model{Name: standin.DefaultModel, Context: 4096}))
}

// TestFittedForWhoeverSummarises: the parts of a text fit the summarizer, also when
// the agent that answers needs less room for itself, or more.
func TestFittedForWhoeverSummarises(t *testing.T) {
	for _, a := range []agents.Agent{
		{Name: "small", Tools: []string{}, Prompt: "You answer."},
		{Name: "large", Tools: []string{}, Prompt: strings.Repeat("You answer. ", 400)},
		{Name: "handy", Tools: []string{"read_file", "list_files", "find_files", "grep_file"}, Prompt: "You answer."},
	} {
		t.Run(a.Name, func(t *testing.T) {
			w := workOf(t, narrow(t), a)
			w.reads = &history.Reads{}
			out, err := w.do(t.Context(), llm.WithContext("What is it about?", paragraphs(300)))
			require.NoError(t, err)
			require.Equal(t, task.Completed, out.Status, out.Err)
			assert.Equal(t, "What is it about?", out.Text)
			assert.Contains(t, out.Warnings[0], "the text was too long for the model")
			assert.Nil(t, out.Reads, "what the summaries rest on is not known")

			w.reads = &history.Reads{}
			out, err = w.do(t.Context(), "It is short.")
			require.NoError(t, err)
			assert.NotNil(t, out.Reads, "nothing was read")
			assert.Empty(t, out.Warnings)
		})
	}
}

// TestFittedRequest: what a text that is the task itself asks for is not replaced.
func TestFittedRequest(t *testing.T) {
	server := narrow(t)
	w := workOf(t, server, agents.Agent{Name: "small", Tools: []string{}})
	out, err := w.do(t.Context(), "Translate the following text into French.\n\n"+paragraphs(200))
	require.NoError(t, err)
	require.Equal(t, task.Completed, out.Status, out.Err)
	assert.Equal(t, "Translate the following text into French.", out.Text, "the echo of what was asked last")
	assert.Contains(t, strings.Join(out.Warnings, "\n"), `its beginning was kept as the request ("Translate the following text into French.")`)
}

func TestUnderstood(t *testing.T) {
	for text, want := range map[string][2]string{
		"Translate this.\n\nOne.\n\nTwo.":                                              {"Translate this.", "One.\n\nTwo."},
		"\n\nTranslate\nthis.\n\nOne.":                                                 {"Translate\nthis.", "One."},
		"Translate this.\r\n\r\nOne.\r\nTwo.":                                          {"Translate this.", "One.\r\nTwo."},
		"Translate:\n" + paragraphs(1)[:90] + strings.Repeat("long ", 99) + "\n\nTwo.": {"Translate:", paragraphs(1)[:90] + strings.Repeat("long ", 99) + "\n\nTwo."},
		"# Owls\n\nThey hunt.":                                                         {wholeRequest, "# Owls\n\nThey hunt."},
		"---\ntitle: owls\n---\n\nThey.":                                               {wholeRequest, "---\ntitle: owls\n---\n\nThey."},
		strings.Repeat("one line ", 99):                                                {wholeRequest, strings.Repeat("one line ", 99)},
	} {
		request, doc, note := understood(text, 50)
		assert.Equal(t, want, [2]string{request, doc})
		assert.Equal(t, request == wholeRequest, strings.Contains(note, "does not begin with a short request"), text)
	}
}

// TestPlan: what is shown is what is done, with the tools, the prompt and the
// history that the agent will have.
func TestPlan(t *testing.T) {
	e, _ := served(t, func(c *Config) { c.Settings.MaxDepth = 3 }, standin.Models(standin.Model{Name: standin.DefaultModel, Context: 4096}))
	explorer, m, err := e.Staff(t.Context(), task.Task{Agent: "explorer"})
	require.NoError(t, err)
	long := task.Task{Text: "What is it about?", Context: paragraphs(200), Agent: "explorer"}
	head := func(lines []string, err error) string {
		require.NoError(t, err)
		require.NotEmpty(t, lines)
		return lines[0]
	}
	plain := head(e.Outline(Run{Agent: agents.Agent{Name: "bare", Tools: []string{}}, Model: m}, long))
	own := head(e.Outline(Run{Agent: explorer, Model: m}, long))
	assert.NotEqual(t, plain, own, "tools and a prompt take room")
	assert.Equal(t, own, head(e.Plan(m, explorer.Prompt, long)), "the agent is that of the task")
	talked := head(e.Outline(Run{Agent: agents.Agent{Name: "bare", Tools: []string{}}, Model: m, History: []llm.Message{{Role: llm.User, Content: paragraphs(20)}}}, long))
	assert.NotEqual(t, plain, talked, "and so does what was said before")

	lines, err := e.Outline(Run{Agent: explorer, Model: m}, task.Task{Text: "short"})
	assert.NoError(t, err)
	assert.Empty(t, lines)
	lines, err = e.Outline(Run{Agent: explorer, Model: m}, task.Task{Text: "Translate it.\n\n" + paragraphs(200)})
	require.NoError(t, err)
	assert.Contains(t, lines[len(lines)-1], "its beginning was kept as the request")
	_, err = e.Plan(m, "", task.Task{Text: "x", Agent: "nobody"})
	assert.Error(t, err)
	assert.Empty(t, e.scratch.made(), "nothing is left of it")

	e.cfg.Settings.MaxDepth = 1
	_, err = e.Outline(Run{Agent: explorer, Model: m}, long)
	assert.ErrorContains(t, err, "agents at this depth cannot have it summarised")
}

// TestPlanIsWhatIsDone: as many parts as were foretold are summarised.
func TestPlanIsWhatIsDone(t *testing.T) {
	server := narrow(t)
	w := workOf(t, server, agents.Agent{Name: "small", Tools: []string{}})
	root, err := os.OpenRoot(w.dir)
	require.NoError(t, err)
	defer root.Close()
	parts := 0
	inner := w.summaries
	w.summaries = func(ctx context.Context, tasks []task.Task) []task.Result {
		parts = max(parts, len(tasks))
		return inner(ctx, tasks)
	}
	e := newEngine(t, func(c *Config) { c.Dir = w.dir; c.ReadOnly = true })
	text := llm.WithContext("What is it about?", paragraphs(200))
	lines, err := e.Outline(Run{Agent: w.agent, Model: w.setup.Model}, task.Task{Text: text})
	require.NoError(t, err)
	_, err = w.do(t.Context(), text)
	require.NoError(t, err)
	assert.Contains(t, lines[1], fmt.Sprintf("map: %d parts", parts))
}

// TestTooManyParts: that is known before the first one is summarised.
func TestTooManyParts(t *testing.T) {
	w := workOf(t, narrow(t), agents.Agent{Name: "small", Tools: []string{}})
	w.maxParts = 3
	out, err := w.do(t.Context(), llm.WithContext("What is it about?", paragraphs(300)))
	require.NoError(t, err)
	assert.Equal(t, task.Failed, out.Status)
	assert.ErrorContains(t, out.Err, "steps, and an agent may have 3")
}

// TestUnfitted: how it ends that a text cannot be made to fit.
func TestUnfitted(t *testing.T) {
	fail := func(all ...task.Status) error {
		e := &longtext.FailedError{}
		for _, s := range all {
			e.Failed = append(e.Failed, task.Task{}.Ended(s, ""))
		}
		return e
	}
	for _, c := range []struct {
		err  error
		want task.Status
	}{
		{fail(task.Empty), task.Empty},
		{fail(task.Empty, task.Limit), task.Limit},
		{&llm.Error{Kind: llm.ContextOverflow}, task.Failed},
		{errors.New("it does not get shorter"), task.Failed},
	} {
		out := unfitted(t.Context(), c.err)
		assert.Equal(t, c.want, out.Status)
		assert.Equal(t, c.err, out.Err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(os.ErrClosed)
	assert.Equal(t, task.Interrupted, unfitted(ctx, fail(task.Empty)).Status)
}

// TestUnfittedUsage: what the prompt cost that a model wrote before is told.
func TestUnfittedUsage(t *testing.T) {
	w := workOf(t, narrow(t), agents.Agent{Name: "written", Tools: []string{}, PromptTemplate: "Write a prompt."})
	w.summaries = nil
	out, err := w.do(t.Context(), llm.WithContext("What is it about?", paragraphs(200)))
	require.NoError(t, err)
	assert.ErrorContains(t, out.Err, "agents at this depth cannot have it summarised")
	assert.Positive(t, out.Usage.InputTokens)
}

// TestSummaries: the parts go up in bites that fit into a frame, in order, and none
// after one that failed.
func TestSummaries(t *testing.T) {
	var bites []int
	fails := -1
	run := summaries(func(_ context.Context, tasks []task.Task) (results []task.Result) {
		bites = append(bites, len(tasks))
		for _, tk := range tasks {
			assert.True(t, tk.Part)
			assert.Equal(t, "ollama:m", tk.Model)
			r := tk.Ended(task.Completed, "")
			r.Output = tk.ID
			if tk.ID == fmt.Sprint(fails) {
				r.End(task.Empty, "")
			}
			results = append(results, r)
		}
		return results
	}, "ollama:m")
	many := func(n, size int) (tasks []task.Task) {
		for i := range n {
			tasks = append(tasks, task.Task{ID: fmt.Sprint(i), Text: "x", Context: strings.Repeat("<", size)})
		}
		return tasks
	}
	results := run(t.Context(), many(1001, 1))
	require.Len(t, results, 1001)
	for i, r := range results {
		require.Equal(t, fmt.Sprint(i), r.Output)
	}
	assert.Equal(t, []int{200, 200, 200, 200, 200, 1}, bites)

	bites = nil
	assert.Len(t, run(t.Context(), many(5, 150_000)), 5) // each takes 900,000 bytes in a frame
	assert.Equal(t, []int{2, 2, 1}, bites)

	bites, fails = nil, 250
	results = run(t.Context(), many(1001, 1))
	assert.Len(t, results, 400)
	assert.Equal(t, []int{200, 200}, bites)
	assert.Equal(t, task.Empty, results[250].Status)
}

// TestBite: whatever the parts are, each has its turn, and what goes at once is no
// more than a frame takes.
func TestBite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tasks []task.Task
		for range rapid.IntRange(1, 500).Draw(t, "n") {
			tasks = append(tasks, task.Task{Context: strings.Repeat("<", rapid.IntRange(0, 20_000).Draw(t, "size"))})
		}
		n := bite(tasks)
		assert.True(t, n >= 1 && n <= biteTasks && n <= len(tasks))
		size := 0
		for _, tk := range tasks[:n] {
			size += 6*len(tk.Context) + 100
		}
		assert.Less(t, size, childproc.MaxUp)
	})
}

// counted is an admission that counts, and refuses when it is told to.
type counted struct {
	entered atomic.Int64
	refuse  int64 // the request that is refused
	reports chan llm.Report
}

func (c *counted) Enter(context.Context, string) (llm.Permit, error) {
	if c.entered.Add(1) == c.refuse {
		return nil, &llm.Error{Kind: llm.Open, Problem: "open", RetryAfter: time.Hour}
	}
	return c, nil
}
func (*counted) Active()              {}
func (c *counted) Leave(r llm.Report) { c.reports <- r }

// TestLastWordIsAdmitted: the last word of an agent passes the gate as every other
// request, is counted there, and is not waited for when it is refused.
func TestLastWordIsAdmitted(t *testing.T) {
	server := standin.Start(t, standin.Reply(func(p standin.Prompt) string {
		if p.Last("tool") == "" {
			return `<tool_call>{"name":"read_file","arguments":{"path":"a.md"}}</tool_call>`
		}
		return "so far"
	}))
	for refuse, want := range map[int64]string{0: "so far", 2: ""} {
		gate := &counted{refuse: refuse, reports: make(chan llm.Report, 9)}
		w := workOf(t, server, agents.Agent{Name: "reader", Tools: []string{"read_file"}})
		require.NoError(t, os.WriteFile(filepath.Join(w.dir, "a.md"), []byte("a fact\n"), 0o600))
		ctx, cancel := context.WithCancelCause(t.Context())
		w.admission, w.retries = gate, 5
		w.grace = func(error) time.Duration { return 10 * time.Second }
		w.event = func(e event.Event) {
			if e.Type == event.ToolEnd {
				cancel(&childproc.Cancelled{})
			}
		}
		begin := time.Now()
		out, err := w.do(ctx, "Read a.md")
		require.NoError(t, err)
		assert.Equal(t, want, out.Text)
		assert.EqualValues(t, 2, gate.entered.Load())
		assert.Less(t, time.Since(begin), 5*time.Second)
		require.Len(t, gate.reports, len(want)/len("so far")+1)
		close(gate.reports)
		for report := range gate.reports {
			assert.Positive(t, report.Usage.InputTokens)
			assert.Empty(t, report.Kind)
		}
	}
}

// TestPartRoom: a prompt that a model writes may be longer than the one that is
// known, and without a summarizer there is nothing to go by.
func TestPartRoom(t *testing.T) {
	w := workOf(t, narrow(t), agents.Agent{Name: "small", Tools: []string{}})
	a := agents.Agent{Name: "summarizer", Tools: []string{}, Prompt: "You summarise."}
	w.lookup = func(string) (agents.Agent, error) { return a, nil }
	known := w.partRoom(nil, 99)
	a.PromptTemplate = "Write it."
	assert.Equal(t, known-promptTokens, w.partRoom(nil, 99))
	w.history = []llm.Message{{Content: paragraphs(9)}}
	assert.Equal(t, known-promptTokens, w.partRoom(nil, 99), "it knows nothing of that")
	w.lookup = func(string) (agents.Agent, error) { return a, os.ErrNotExist }
	assert.Equal(t, 99, w.partRoom(nil, 99))
}
