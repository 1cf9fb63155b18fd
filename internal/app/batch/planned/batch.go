package planned

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"qq/internal/app/command"
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
	// Root returns the working directory as targets have it.
	Root() string
	// Events is the stream of all events.
	Events() *event.Stream
}

// Past is the record of earlier tasks.
type Past interface {
	// Usual returns how long tasks of these agents usually take. It leaves out agents of which that is not known.
	Usual(agents []string) map[string]time.Duration
}

// Batch is what is known of a batch before it runs. [Batch.See] is called with each of its tasks, then [Batch.Arrange].
type Batch struct {
	Rules
	Jobs   int // how many tasks may run at once
	Runner Runner
	Plan   *plan.Plan // nil if all tasks may run at once

	survey survey
	writes map[string]bool // can an agent change files
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

// Arrange makes the plan. If nothing asks for one, it does nothing.
func (b *Batch) Arrange(tasks iter.Seq2[task.Task, error], format string) (err error) {
	if !b.plans(b.survey) && format != Mermaid {
		return nil
	}
	if b.Plan, err = b.plan(tasks, b.survey, b.Runner); err != nil {
		return command.Usage(command.Advised(err, "nothing was started: mend the input"))
	}
	return nil
}

// Describe returns the plan as people and scripts see it.
func (b *Batch) Describe(past Past) plan.Description {
	return b.Plan.Describe(plan.Circumstances{
		Root: b.Runner.Root(), Jobs: b.Jobs, Usual: past.Usual(slices.Collect(maps.Keys(b.writes))),
	})
}

// maxAnnounced is how many tasks the event of a plan lists. Of a larger batch it has the numbers only.
const maxAnnounced = 1000

// Announce tells the plan to those who watch.
func (b *Batch) Announce(id string, past Past) {
	if b.Plan == nil || !b.Runner.Events().Wanted() {
		return
	}
	d := b.Describe(past)
	if len(d.Tasks) > maxAnnounced {
		d.Tasks, d.Stages = []plan.Described{}, [][]string{}
		d.Summary.Order, d.Summary.LongestChain = []string{}, []string{}
	}
	text, err := json.Marshal(d)
	if err != nil {
		return // strings and numbers never fail
	}
	b.Runner.Events().Emit(event.Event{Type: event.Plan, BatchID: id, Plan: text})
}
