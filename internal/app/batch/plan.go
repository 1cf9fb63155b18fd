package batch

import (
	"encoding/json"

	"qq/internal/app/batch/planned"
	"qq/internal/app/command"
	"qq/internal/app/output"
	"qq/pkg/event"
	"qq/pkg/supervisor/plan"
	"qq/pkg/supervisor/targets"
	"qq/pkg/task"
)

// mermaid is the format in which a dry run draws the plan.
const mermaid = "mermaid"

// formats are the formats of a batch.
func formats() []string { return append(output.Formats(), mermaid) }

// see takes t into account for the plan. t is complete.
func (b *batchRun) see(t task.Task) {
	writes, known := b.writes[t.Agent]
	if !known {
		writes = b.runner.Planned(task.Task{Agent: t.Agent}).Effect == targets.Writes
		b.writes[t.Agent] = writes
	}
	b.survey.See(t, writes && !t.ReadOnly && t.Broken == "")
}

// arrange makes the plan, if the batch is planned.
func (b *batchRun) arrange() error {
	if line := b.o.rules.Unplanned(b.survey); line != "" {
		b.Note("%s", line)
	}
	if !b.o.rules.Plans(b.survey) && b.o.format != mermaid {
		return nil
	}
	var err error
	if b.plan, err = b.o.rules.New(b.tasks(), b.survey, b.runner); err != nil {
		return command.Usage(command.Advised(err, "nothing was started: mend the input"))
	}
	return nil
}

// describe returns the plan as people and scripts see it.
func (b *batchRun) describe() plan.Description {
	var agents []string
	for _, s := range b.staffing {
		agents = append(agents, s.agent)
	}
	return b.plan.Describe(plan.Circumstances{
		Root: b.runner.Root(), Jobs: b.atOnce, Usual: b.runner.History().Usual(agents),
	})
}

// showPlan prints the plan.
func (b *batchRun) showPlan() error {
	if b.o.format != mermaid {
		return output.WriteJSON(b.Out, b.describe())
	}
	_, err := b.Out.WriteString(planned.Mermaid(b.describe()))
	return output.WriteError(err)
}

// maxAnnounced is how many tasks the event of a plan lists. Of a larger batch it has the summary only.
const maxAnnounced = 1000

// announce tells the plan to those who watch.
func (b *batchRun) announce() {
	if b.plan == nil || !b.runner.Events().Wanted() {
		return
	}
	d := b.describe()
	if len(d.Tasks) > maxAnnounced {
		d.Tasks, d.Stages = []plan.Described{}, [][]string{}
		d.Summary.Order, d.Summary.LongestChain = []string{}, []string{}
	}
	text, err := json.Marshal(d)
	if err != nil {
		return // strings and numbers never fail
	}
	b.runner.Events().Emit(event.Event{Type: event.Plan, BatchID: b.id, Plan: text})
}
