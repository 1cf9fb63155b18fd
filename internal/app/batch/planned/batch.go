package planned

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"qq/internal/app/command"
	"qq/pkg/agents"
	"qq/pkg/event"
	"qq/pkg/supervisor/plan"
	"qq/pkg/supervisor/targets"
	"qq/pkg/task"
)

// Mermaid is the format in which a dry run draws the plan.
const Mermaid = "mermaid"

// Runner runs the tasks of a batch.
type Runner interface {
	// Planned returns what t can do, and its targets as real paths.
	Planned(t task.Task) plan.Task
	// Agent returns the definition of an agent.
	Agent(name string) (agents.Agent, error)
	// Root returns the working directory as targets have it.
	Root() string
	// Events is the stream of all events.
	Events() *event.Stream
}

// Past is the record of earlier tasks.
type Past interface {
	// Usual returns how long tasks of these agents usually take. It leaves out agents of which that is not known.
	Usual(agents []string) map[string]time.Duration
	// KeepPlan keeps the plan of a batch, as JSON, for those who look at the batch later.
	KeepPlan(batch string, text []byte)
}

// Batch is what is known of a batch before it runs. [Batch.See] is called with each of its tasks, then [Batch.Arrange].
type Batch struct {
	Rules
	Jobs   int // how many tasks may run at once
	Runner Runner
	Plan   *plan.Plan // nil if all tasks may run at once

	survey  survey
	imports map[int]map[string]string // see made
	writes  map[string]bool           // can an agent change files
}

// See takes t into account.
func (b *Batch) See(t task.Task) {
	writes, known := b.writes[t.Agent]
	if !known {
		if b.writes == nil {
			b.writes = map[string]bool{}
		}
		writes = b.Runner.Planned(task.Task{Agent: t.Agent}).Effect == targets.Writes
		b.writes[t.Agent] = writes
	}
	b.survey.see(t, writes && !t.ReadOnly && t.Broken == "")
}

// Unplanned says that tasks run at once that can write, though nobody knows what they touch; "" means that there are
// none, or that a person has chosen that.
func (b *Batch) Unplanned() string { return b.unplanned(b.survey) }

// Unbound says that --strict-targets does nothing for tasks that can write and have no targets; "" means that there are
// none.
func (b *Batch) Unbound() string {
	switch s := b.survey; {
	case s.unbound == 0:
		return ""
	case s.targets:
		return fmt.Sprintf("--strict-targets does nothing for %d of %d tasks: they have no targets", s.unbound,
			s.tasks)
	}
	return "--strict-targets does nothing: no task has targets"
}

// Input is where the tasks come from.
type Input interface {
	// Where returns the place of the task at an index, such as "tasks.jsonl line 3".
	Where(index int) string
}

// Idle says that --deps is given and does nothing; "" means that it does, or is not given.
func (b *Batch) Idle() string {
	if b.Imports == nil || b.survey.targets {
		return ""
	}
	return "--deps imports does nothing here: no task has targets"
}

// Arrange makes the plan of tasks, which come from in. If nothing asks for one, it does nothing. When ctx ends, it
// returns the cause at once, also while it waits for the file system.
func (b *Batch) Arrange(
	ctx context.Context, tasks iter.Seq2[task.Task, error], in Input, format string,
) error {
	if !b.plans(b.survey) && format != Mermaid {
		return nil
	}
	var all made
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		all, err = b.plan(ctx, tasks, b.survey, b.Runner)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if wrong, ok := errors.AsType[*task.Mistake](err); ok {
		problem, hint := task.Explain(err)
		number := fmt.Sprintf("task %d ", wrong.Index+1)
		err = task.Hinted(hint, "%s(%s): %s", number, in.Where(wrong.Index), strings.TrimPrefix(problem, number))
	}
	if err != nil && ctx.Err() == nil {
		return command.Usage(command.Advised(err, "nothing was started: mend the input"))
	}
	b.Plan, b.imports = all.Plan, all.imports
	return err
}

// Describe returns the plan as people and scripts see it.
func (b *Batch) Describe(past Past) plan.Description {
	d := b.Plan.Describe(plan.Circumstances{
		Root: b.Runner.Root(), Jobs: b.Jobs, Usual: past.Usual(slices.Collect(maps.Keys(b.writes))),
	})
	explain(d, b.imports)
	return d
}

// maxAnnounced is how many tasks the event of a plan lists. Of a larger batch it has the numbers only.
const maxAnnounced = 1000

// Announce tells the plan to those who watch, and keeps it.
func (b *Batch) Announce(id string, past Past) {
	if b.Plan == nil || b.Plan.Len() > maxAnnounced && !b.Runner.Events().Wanted() {
		return
	}
	d := b.Describe(past)
	long := len(d.Tasks) > maxAnnounced
	if long {
		d.Tasks, d.Stages = []plan.Described{}, [][]string{}
		d.Summary.Order, d.Summary.LongestChain = []string{}, []string{}
	}
	text, err := json.Marshal(d)
	if err != nil {
		return // strings and numbers never fail
	}
	if !long {
		past.KeepPlan(id, text)
	}
	b.Runner.Events().Emit(event.Event{Type: event.Plan, BatchID: id, Plan: text})
}
