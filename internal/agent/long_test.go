package agent

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"qq/internal/standin"
	"qq/pkg/agents"
	"qq/pkg/childproc"
	"qq/pkg/event"
	"qq/pkg/llm"
	"qq/pkg/supervisor"
	"qq/pkg/task"
)

// paragraphs is a text of n paragraphs of about 100 characters each.
func paragraphs(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(
			&b,
			"Paragraph %d tells of matter %d, of which nothing else in this text tells, and that at some length.\n\n",
			i,
			i,
		)
	}
	return b.String()
}

// narrow is a server whose model has a small context and refuses a longer request.
func narrow(t *testing.T) *standin.Server {
	return standin.Start(t, standin.Models(standin.Model{Name: standin.DefaultModel, Context: 4096}))
}

// TestFittedForWhoeverSummarizes: the parts of a text fit the summarizer, whether its own
// prompt is shorter or longer than that of the agent that answers.
func TestFittedForWhoeverSummarizes(t *testing.T) {
	for _, definition := range []agents.Agent{
		{Name: "small", Tools: []string{}, Prompt: "You answer."},
		{Name: "large", Tools: []string{}, Prompt: strings.Repeat("You answer. ", 400)},
		{Name: "handy", Tools: []string{"read_file", "list_files", "find_files", "grep_file"}, Prompt: "You answer."},
	} {
		t.Run(definition.Name, func(t *testing.T) {
			a := agentOf(t, modelOf(t, narrow(t)), definition)
			r := zeroOf(t.Context(), t, a, task.Task{Text: "What is it about?", Context: paragraphs(300)}, nil)
			require.Equal(t, task.Completed, r.Status, r.Err())
			assert.Equal(t, "What is it about?", r.Output)
			assert.Contains(t, r.Warnings[0], "the text was too long for the model")
			assert.Nil(t, r.Reads, "what the summaries rest on is not known")

			r = zeroOf(t.Context(), t, a, task.Task{Text: "It is short."}, nil)
			require.Equal(t, task.Completed, r.Status, r.Err())
			assert.NotNil(t, r.Reads, "nothing was read")
			assert.Empty(t, r.Warnings)

			a.Setup.KeepReads = false
			r = zeroOf(t.Context(), t, a, task.Task{Text: "It is short."}, nil)
			assert.Nil(t, r.Reads, "nobody asks")
		})
	}
}

// TestFittedRequest: the request at the start of a long task is kept word for word.
func TestFittedRequest(t *testing.T) {
	a := agentOf(t, modelOf(t, narrow(t)), agents.Agent{Name: "small", Tools: []string{}})
	text := "Translate the following text into French.\n\n" + paragraphs(200)
	r := zeroOf(t.Context(), t, a, task.Task{Text: text}, nil)
	require.Equal(t, task.Completed, r.Status, r.Err())
	assert.Equal(t, "Translate the following text into French.", r.Output, "the echo of what was asked last")
	assert.Contains(t, strings.Join(r.Warnings, "\n"),
		`its beginning was kept as the request ("Translate the following text into French.")`)
}

func TestUnderstood(t *testing.T) {
	line := paragraphs(1)[:90] + strings.Repeat("long ", 99)
	for text, want := range map[string][2]string{
		"Translate this.\n\nOne.\n\nTwo.":     {"Translate this.", "One.\n\nTwo."},
		"\n\nTranslate\nthis.\n\nOne.":        {"Translate\nthis.", "One."},
		"Translate this.\r\n\r\nOne.\r\nTwo.": {"Translate this.", "One.\r\nTwo."},
		"Translate:\n" + line + "\n\nTwo.":    {"Translate:", line + "\n\nTwo."},
		"# Owls\n\nThey hunt.":                {wholeRequest, "# Owls\n\nThey hunt."},
		"---\ntitle: owls\n---\n\nThey.":      {wholeRequest, "---\ntitle: owls\n---\n\nThey."},
		strings.Repeat("one line ", 99):       {wholeRequest, strings.Repeat("one line ", 99)},
	} {
		request, doc, note := (&run{Agent: Agent{Model: served{}}}).splitRequest(text, 50)
		assert.Equal(t, want, [2]string{request, doc})
		assert.Equal(t, request == wholeRequest, strings.Contains(note, "does not begin with a short request"), text)
	}
}

// counting is a parent that notes how many tasks it gets at once.
type counting struct {
	supervisor.Parent
	at *[]int
}

func (c counting) Delegate(ctx context.Context, tasks []task.Task) []task.Result {
	*c.at = append(*c.at, len(tasks))
	return c.Parent.Delegate(ctx, tasks)
}

// TestPlanIsWhatIsDone: a run summarizes as many parts as the plan says.
func TestPlanIsWhatIsDone(t *testing.T) {
	a := agentOf(t, modelOf(t, narrow(t)), agents.Agent{Name: "small", Tools: []string{}})
	tk := task.Task{Text: "What is it about?", Context: paragraphs(200), Agent: "small"}
	lines, err := a.Plan(task.Job{Task: tk})
	require.NoError(t, err)
	var at []int
	do := launch(func(ctx context.Context, job task.Job, p supervisor.Parent) task.Result {
		return a.Run(ctx, counting{p, &at}, job)
	})
	r, err := supervisorOf(a, nil).Run(t.Context(), tk, "", do)
	require.NoError(t, err)
	require.Equal(t, task.Completed, r.Status, r.Err())
	assert.Contains(t, lines[1], fmt.Sprintf("map: %d parts", at[0]))
}

// bare is a model with room for so many tokens, of which each word is one.
type bare struct {
	Model
	room int
}

func (m bare) String() string         { return "bare" }
func (m bare) CallsTools() bool       { return false }
func (m bare) BuiltIn() bool          { return true }
func (m bare) Sees() bool             { return false }
func (m bare) Blind() bool            { return true }
func (m bare) Tokens(s string) int    { return len(s) / 4 }
func (m bare) Room(llm.Request) int   { return m.room }
func (m bare) Served() (string, bool) { return "", false }

// TestTooManyParts: too many parts are refused before the first is summarized. The root's
// own agent, which a person controls, has no such limit.
func TestTooManyParts(t *testing.T) {
	a := agentOf(t, bare{room: 1000}, agents.Agent{Name: "small", Tools: []string{}})
	job := task.Job{Task: task.Task{Text: "What is it about?", Context: paragraphs(200_000), Agent: "small"}}
	_, err := a.Plan(job)
	require.NoError(t, err)
	for _, job.Parent = range []string{"", "parent"} {
		if job.BatchID = ""; job.Parent == "" {
			job.BatchID = "batch"
		}
		r := a.Run(t.Context(), nil, job)
		assert.Equal(t, task.Failed, r.Status)
		want := fmt.Sprintf("steps, and an agent may have %d\nhint: split the text", supervisor.MaxParts)
		assert.Contains(t, r.Err(), want)
	}
}

// TestUnfitted: the errors for a text that cannot be made to fit.
func TestUnfitted(t *testing.T) {
	a := agentOf(t, modelOf(t, narrow(t)), agents.Agent{Name: "small", Tools: []string{}})
	tk := task.Task{Text: "What is it about?", Context: paragraphs(300), Agent: "small"}
	var own task.Result
	do := func(ctx context.Context, child launch) task.Result {
		s := supervisorOf(a, func(c *supervisor.Config) { c.Launcher = child })
		_, err := s.Run(ctx, tk, "", launch(func(ctx context.Context, job task.Job, p supervisor.Parent) task.Result {
			own = a.Run(ctx, p, job)
			return own
		}))
		require.NoError(t, err)
		return own
	}
	for _, c := range []struct {
		ends []task.Status // of the parts, the last one of all others
		want task.Status
		text string
	}{
		{[]task.Status{task.Empty}, task.Empty, "summarise the document: "},
		{[]task.Status{task.Empty, task.Limit, task.Empty}, task.Limit, "summarise the document: "},
		{[]task.Status{task.Timeout, task.Empty}, task.Failed, "as told"},
	} {
		n := 0
		r := do(t.Context(), func(_ context.Context, job task.Job, _ supervisor.Parent) task.Result {
			n++
			return job.Ended(c.ends[min(n, len(c.ends))-1], "as told")
		})
		assert.Equal(t, c.want, r.Status)
		assert.Contains(t, r.Err(), c.text)
		assert.Contains(t, r.Warnings[0], "sub-agent summarizer: ", "who failed is told")
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	r := do(ctx, func(_ context.Context, job task.Job, _ supervisor.Parent) task.Result {
		cancel(os.ErrClosed)
		return job.Ended(task.Empty, "")
	})
	assert.Equal(t, task.Interrupted, r.Status)
	assert.Equal(t, os.ErrClosed.Error(), r.Err())
}

// TestUnfittedUsage: tokens that were spent on a generated prompt are reported even if
// the text then does not fit.
func TestUnfittedUsage(t *testing.T) {
	written := agents.Agent{Name: "written", Tools: []string{}, PromptTemplate: "Write a prompt."}
	a := agentOf(t, modelOf(t, narrow(t)), written)
	a.Setup.CanDelegate = false
	r := zeroOf(t.Context(), t, a, task.Task{Text: "What is it about?", Context: paragraphs(200)}, nil)
	assert.Equal(t, task.Failed, r.Status)
	assert.Contains(t, r.Err(), "agents at this depth cannot have it summarised")
	assert.Positive(t, r.Usage.InputTokens)
}

// echo is a parent whose children answer with the id of their task. One of them fails.
type echo struct {
	supervisor.Parent
	t     *testing.T
	at    []int
	fails string
	told  []event.Event
}

func (e *echo) Emit(ev event.Event) { e.told = append(e.told, ev) }

func (e *echo) Delegate(_ context.Context, tasks []task.Task) (results []task.Result) {
	e.at = append(e.at, len(tasks))
	for _, tk := range tasks {
		assert.True(e.t, tk.Part)
		assert.Equal(e.t, "ollama:m", tk.Model)
		r := tk.Ended(task.Completed, "")
		r.Output = tk.ID
		if tk.ID == e.fails {
			r.End(task.Empty, "")
		}
		results = append(results, r)
	}
	return results
}

// TestPartHelpers: tasks are delegated in order, in chunks that fit into a frame, and
// none is delegated after a failure.
func TestPartHelpers(t *testing.T) {
	many := func(n, size int) (tasks []task.Task) {
		for i := range n {
			tasks = append(tasks, task.Task{ID: fmt.Sprint(i), Text: "x", Context: strings.Repeat("<", size)})
		}
		return tasks
	}
	up := &echo{t: t, fails: "none"}
	h := partHelpers{&helpers{Parent: up}, "ollama:m"}
	results := h.Summarize(t.Context(), many(1001, 1))
	require.Len(t, results, 1001)
	for i, r := range results {
		require.Equal(t, fmt.Sprint(i), r.Output)
	}
	assert.Equal(t, []int{200, 200, 200, 200, 200, 1}, up.at)
	assert.Equal(t, []event.Event{{Type: event.SubAgentProgress, Phase: event.PhaseParts, Total: 1001}}, up.told)

	up.at = nil
	assert.Len(t, h.Summarize(t.Context(), many(5, 150_000)), 5) // each takes 900,000 bytes in a frame
	assert.Equal(t, []int{2, 2, 1}, up.at)
	assert.Empty(t, h.warnings())

	up.at, up.fails = nil, "250"
	results = h.Summarize(t.Context(), many(1001, 1))
	assert.Len(t, results, 400)
	assert.Equal(t, []int{200, 200}, up.at)
	assert.Equal(t, task.Empty, results[250].Status)
	assert.Len(t, h.warnings(), 1)
}

// TestChunk: every task is in exactly one chunk, and no chunk is larger than a frame.
func TestChunk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tasks []task.Task
		for range rapid.IntRange(1, 500).Draw(t, "n") {
			tasks = append(tasks, task.Task{Context: strings.Repeat("<", rapid.IntRange(0, 20_000).Draw(t, "size"))})
		}
		n := chunk(tasks)
		assert.True(t, n >= 1 && n <= chunkTasks && n <= len(tasks))
		size := 0
		for _, tk := range tasks[:n] {
			size += 6*len(tk.Context) + 100
		}
		assert.Less(t, size, childproc.MaxUp)
	})
}

// TestPartRoom: the room leaves space for a generated prompt, which may be longer than
// the known one; without a summarizer it is that of the agent itself.
func TestPartRoom(t *testing.T) {
	summarizer := agents.Agent{Name: "summarizer", Tools: []string{}, Prompt: "You summarize."}
	r := &run{Agent: agentOf(t, modelOf(t, narrow(t)), agents.Agent{Name: "small", Tools: []string{}})}
	root, err := os.OpenRoot(".")
	require.NoError(t, err)
	defer root.Close()
	r.open(root)
	r.Registry = team{agents.Load(nil), summarizer}
	known := r.partRoom(99)
	summarizer.PromptTemplate = "Write it."
	r.Registry = team{agents.Load(nil), summarizer}
	assert.Equal(t, known-promptTokens, r.partRoom(99))
	r.History = []llm.Message{{Content: paragraphs(9)}}
	r.job.Targets, r.job.RequireFileReferences = []string{"a.go"}, true
	assert.Equal(t, known-promptTokens, r.partRoom(99), "it knows nothing of that")
	r.Registry = nobodyKnown{}
	assert.Equal(t, 99, r.partRoom(99))
}

// nobodyKnown is a registry without agents.
type nobodyKnown struct{ Registry }

func (nobodyKnown) Lookup(string) (agents.Agent, error) { return agents.Agent{}, os.ErrNotExist }
