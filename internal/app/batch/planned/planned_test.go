package planned

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/agents"
	"qq/pkg/event"
	"qq/pkg/supervisor"
	"qq/pkg/supervisor/access"
	"qq/pkg/supervisor/plan"
	"qq/pkg/supervisor/targets"
	"qq/pkg/task"
)

// runner knows agents that write, writer and coder. Any other one only reads.
type runner struct {
	events *event.Stream
	kept   map[string]string // plans
}

func (r runner) Root() string          { return "/root" }
func (r runner) Events() *event.Stream { return r.events }

func (r runner) Agent(name string) (agents.Agent, error) { return agents.Agent{Name: name}, nil }

// lines is an input of one task a line.
type lines struct{}

func (lines) Where(index int) string { return fmt.Sprintf("tasks line %d", index+1) }

func (r runner) Planned(t task.Task) plan.Task {
	p := plan.Task{ID: t.ID, Agent: t.Agent, Effect: targets.Reads, Role: plan.Gathers}
	p.Needs, p.Priority = t.Needs, t.Priority
	if t.Agent == "writer" || t.Agent == "coder" {
		p.Effect, p.Role = targets.Writes, ""
	}
	for _, text := range t.Targets {
		p.Targets = append(p.Targets, targets.Parse("/root/"+text, false))
	}
	return p
}

// KeepPlan implements Past.
func (r runner) KeepPlan(batch string, text []byte) {
	if r.kept != nil {
		r.kept[batch] = string(text)
	}
}

// Usual implements Past.
func (r runner) Usual([]string) map[string]time.Duration {
	return map[string]time.Duration{"writer": 90 * time.Second, "coder": 95 * time.Second}
}

// arranged returns the batch of tasks, and its plan if it has one.
func arranged(t *testing.T, r Rules, tasks ...task.Task) *Batch {
	b := &Batch{Rules: r, Jobs: 4, Runner: runner{}}
	for _, one := range tasks {
		b.See(one)
	}
	require.NoError(t, b.Arrange(t.Context(), supervisor.Tasks(tasks...), lines{}, "text"))
	return b
}

func TestWhenABatchIsPlanned(t *testing.T) {
	writer := task.Task{Text: "x", Agent: "writer"}
	reader := task.Task{Text: "x", Agent: "reader"}
	with := func(change func(*task.Task)) []task.Task {
		last := writer
		change(&last)
		return []task.Task{writer, last}
	}
	plain := with(func(*task.Task) {})
	target := with(func(t *task.Task) { t.Targets = []string{"a"} })
	urgent := with(func(t *task.Task) { t.Priority = 1 })
	needs := with(func(t *task.Task) { t.ID, t.Needs = "b", []string{"a"} })
	needs[0].ID = "a"
	for name, c := range map[string]struct {
		rules    Rules
		tasks    []task.Task
		planned  bool
		together bool // tasks that may touch the same paths
		line     bool // says that writers run unplanned
	}{
		"auto":                        {Rules{}, plain, false, false, true},
		"auto, one writer":            {Rules{}, []task.Task{writer, reader}, false, false, false},
		"auto, readers":               {Rules{}, []task.Task{reader, reader}, false, false, false},
		"auto, targets":               {Rules{}, target, true, false, false},
		"auto, priority":              {Rules{}, urgent, true, true, true},
		"auto, needs":                 {Rules{}, needs, true, true, true},
		"strict":                      {Rules{Mode: access.Strict}, plain, true, false, false},
		"strict, needs":               {Rules{Mode: access.Strict}, needs, true, false, false},
		"off":                         {Rules{Mode: access.Off}, plain, false, false, false},
		"off, targets":                {Rules{Mode: access.Off}, target, false, false, false},
		"off, needs":                  {Rules{Mode: access.Off}, needs, true, true, false},
		"phases":                      {Rules{Phases: true}, plain, true, true, true},
		"phases, targets":             {Rules{Phases: true}, target, true, false, false},
		"text like a reference":       {Rules{}, []task.Task{{Text: "{{x.output}}", ID: "y"}}, true, true, false},
		"text, and no task has an id": {Rules{}, []task.Task{{Text: "{{x.output}}"}}, false, false, false},
	} {
		b := arranged(t, c.rules, c.tasks...)
		assert.Equal(t, c.planned, b.Plan != nil, name)
		assert.Equal(t, c.together, b.Plan != nil && b.Plan.Together(), name)
		assert.Equal(t, c.line, b.Unplanned() != "", name)
	}
	assert.Equal(t, "writers run unplanned: 2 of 3 tasks can change files, and none has targets (--plan strict runs "+
		"writers one at a time)", arranged(t, Rules{}, writer, writer, reader).Unplanned())
	readOnly := writer
	readOnly.ReadOnly = true
	assert.Empty(t, arranged(t, Rules{}, writer, readOnly).Unplanned())
}

// TestUnbound: --strict-targets does nothing for a task that can write and has no targets.
func TestUnbound(t *testing.T) {
	bound := task.Task{Agent: "coder", Text: "x", Targets: []string{"a"}}
	free := task.Task{Agent: "coder", Text: "x"}
	reader := task.Task{Agent: "explorer", Text: "x"}
	unbound := func(tasks ...task.Task) string { return arranged(t, Rules{}, tasks...).Unbound() }
	assert.Empty(t, unbound(bound, reader))
	assert.Equal(t, "--strict-targets does nothing: no task has targets", unbound(free, reader))
	assert.Equal(t, "--strict-targets does nothing for 1 of 3 tasks: they have no targets",
		unbound(free, bound, reader))
}

func TestMistakes(t *testing.T) {
	a := task.Task{Text: "x", ID: "a"}
	for want, tasks := range map[string][]task.Task{
		`task 2 (tasks line 2): uses the result of "a", which is not in its needs`: {a, {Text: "{{a.output}}"}},
		`task 3 (tasks line 3): uses the result of "a", which is not in its needs`: {
			a, {Text: "x", ID: "b"}, {Text: "{{a.structured.n}}", Needs: []string{"b"}}},
		`task 2 (tasks line 2): uses the result of "c", which is not in its needs`: {
			a, {Text: "{{c.output}}", Needs: []string{"a"}}},
		`add "a" to its needs`:         {a, {Text: "{{a.output}}"}},
		`"b", and no task has that id`: {a, {Text: "x", Needs: []string{"b"}}},
		"needs: a -> a":                {{Text: "x", ID: "a", Needs: []string{"a"}}},
		`id "a" is given twice`:        {a, a, {Text: "x", Priority: 1}},
		"hint: ":                       {a, {Text: "{{a.output}}"}},
	} {
		b := &Batch{Runner: runner{}}
		for _, one := range tasks {
			b.See(one)
		}
		assert.ErrorContains(t, b.Arrange(t.Context(), supervisor.Tasks(tasks...), lines{}, "text"), want)
	}
	arranged(t, Rules{}, a, task.Task{Text: "{{user.output}}"})
	arranged(t, Rules{}, a, task.Task{Text: "{{a.output}} {{b.structured.x}}", Needs: []string{"a", "b"}},
		task.Task{Text: "x", ID: "b", Schema: json.RawMessage(`{"type":"object"}`)})
}

func TestShow(t *testing.T) {
	w := func(id string, paths ...string) task.Task {
		return task.Task{Text: "x", ID: id, Agent: "writer", Targets: paths}
	}
	r := func(id string, paths ...string) task.Task {
		return task.Task{Text: "x", ID: id, Agent: "reader", Targets: paths}
	}
	tasks := []task.Task{w("", "a", "b", "c", "d", "e", "f"), r("r", "a"), w("any"), r("all"), w("w", "x")}
	for range 9 {
		tasks = append(tasks, r("", "x/y"))
	}
	tasks = append(tasks, w("last", "x"))
	lines := arranged(t, Rules{}, tasks...).Lines(runner{})
	assert.Empty(t, lines.Waits(0))
	assert.Equal(t, []string{"after 1: this reads a, which 1 writes"}, lines.Waits(1))
	assert.Equal(t, []string{"after r: this has no targets, so it may write anything"}, lines.Waits(2))
	assert.Equal(t, []string{"after any: any has no targets, so it may write anything"}, lines.Waits(3))
	assert.Equal(t, []string{"after all: all has no targets, so it may read anything"}, lines.Waits(4))
	assert.Equal(t, "after 6: this writes x/y, which 6 reads", lines.Waits(14)[0])
	assert.Equal(t, "and after 4 more", lines.Waits(14)[5])
	for _, want := range []string{
		"order: 1, r, any, all, w, 6, 7, 8, 9, 10, 11, 12, 13, 14, last\n", "stage 6: 6, 7, 8, 9, 10, 11, 12, 13, 14\n",
		"at once: 4 at most (-j 4)\n", "longest chain: 7 of 15 tasks: 1, r, any, all, w, 6, last\n",
		"time: about 13m30s, from earlier tasks (11 tasks have an agent without any)\n",
		"without targets: 2 of 15 tasks: with targets, fewer tasks wait\n",
	} {
		assert.Contains(t, lines.Summary, want)
	}
	assert.Empty(t, Lines{}.Waits(0))
	both := arranged(t, Rules{}, w("", "a", "b", "c", "d", "e", "f"), w("", "f", "e", "d", "c", "b", "a"))
	assert.Equal(t, []string{"after 1: both write f, e, d and 3 more"}, both.Lines(runner{}).Waits(1))
	many := make([]task.Task, 50)
	for i := range many {
		many[i] = w("", "a")
	}
	chain := arranged(t, Rules{}, many...).Lines(runner{}).Summary
	assert.Contains(t, chain, "at once: 1: each task waits for the one before it\n")
	assert.NotContains(t, chain, "stage")
	many[0].Targets = []string{"b"}
	assert.Contains(t, arranged(t, Rules{}, many...).Lines(runner{}).Summary, "and 29 more stages\n")
}

// On a terminal a plan is broken between words, and waits stay indented.
func TestFit(t *testing.T) {
	const text = "1 api\tcoder\tAdd a timeout to the client of the server\n" +
		"\tafter x: both write src/client.go, src/client_test.go\n"
	assert.Equal(t, text, Fit(text, 0))
	for line := range strings.Lines(Fit(text, 40)) {
		assert.LessOrEqual(t, len(line), 41)
		assert.NotContains(t, line, "\t")
	}
	assert.Contains(t, Fit(text, 40), "\n    after x: both write src/client.go,\n    src/client_test.go\n")
}

func TestChart(t *testing.T) {
	b := arranged(t, Rules{Phases: true}, task.Task{Text: "x", ID: `"a" <b>`, Agent: "writer", Targets: []string{"x"}},
		task.Task{Text: "x", Agent: "reader"})
	assert.Equal(t, `flowchart LR
  t0["#quot;a#quot; #lt;b#gt;<br/>writer"]
  t1["2<br/>reader"]
  t1 -. "x" .-> t0
  phase --> t0
  phase(["all that gather information"])
  t1 --> phase
`, Chart(b.Describe(runner{})))
}

// sink keeps events.
type sink struct{ events []event.Event }

func (s *sink) Handle(e event.Event) { s.events = append(s.events, e) }

func TestAnnounce(t *testing.T) {
	var s sink
	with := runner{event.NewStream("", &s), map[string]string{}}
	b := arranged(t, Rules{}, task.Task{Text: "x", Priority: 1})
	b.Runner = with
	b.Announce("batch", with)
	require.Len(t, s.events, 1)
	assert.Equal(t, event.Plan, s.events[0].Type)
	assert.Equal(t, "batch", s.events[0].BatchID)
	assert.True(t, strings.HasPrefix(string(s.events[0].Plan), `{"tasks":[{"id":"1",`), string(s.events[0].Plan))

	assert.Equal(t, string(s.events[0].Plan), with.kept["batch"])
	delete(with.kept, "batch")
	many := make([]task.Task, maxAnnounced+1)
	for i := range many {
		many[i] = task.Task{Text: "x", Priority: 1}
	}
	b = arranged(t, Rules{}, many...)
	b.Runner = with
	b.Announce("batch", with)
	assert.Contains(t, string(s.events[1].Plan), `{"tasks":[],"stages":[],"summary":{"tasks":1001,`)
	assert.Less(t, len(s.events[1].Plan), 500)
	assert.Empty(t, with.kept, "a plan without its tasks is not kept")
	b.Plan = nil
	b.Announce("batch", with)
	assert.Len(t, s.events, 2)
}

// TestPage: the plan that docs/plan.md shows is that of its tasks.
func TestPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "plan.md"))
	require.NoError(t, err)
	block := func(kind string) string {
		_, rest, _ := strings.Cut(string(page), "```"+kind+"\n")
		text, _, _ := strings.Cut(rest, "```\n")
		return text
	}
	var tasks []task.Task
	for line := range strings.Lines(block("json")) {
		var one task.Task
		require.NoError(t, json.Unmarshal([]byte(line), &one))
		tasks = append(tasks, one)
	}
	b := arranged(t, Rules{}, tasks...)
	b.Jobs = 5
	lines := b.Lines(runner{})
	text := ""
	for i, one := range tasks {
		text += fmt.Sprintf("%s\t%s\t%s\n", lines.Name(i), one.Agent, one.Text)
		for _, wait := range lines.Waits(i) {
			text += "\t" + wait + "\n"
		}
	}
	assert.Equal(t, block("text"), text+lines.Summary)
}
