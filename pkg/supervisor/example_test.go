package supervisor_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"qq/pkg/agents"
	"qq/pkg/supervisor"
	"qq/pkg/task"
)

// here is a Launcher that runs jobs in this process. The agent "lead" has each word of
// its task done by an agent "hand", which waits for its clock if the word is "wait".
type here struct{}

var _ supervisor.Launcher = here{}

// Launch implements supervisor.Launcher.
func (here) Launch(ctx context.Context, job task.Job, p supervisor.Parent) task.Result {
	r := job.Ended(task.Completed, "")
	switch {
	case job.Agent == "lead":
		var parts []task.Task
		for word := range strings.FieldsSeq(job.Text) {
			parts = append(parts, task.Task{Agent: "hand", Text: word})
		}
		for _, part := range p.Delegate(ctx, parts) {
			r.Output += part.Output
		}
	case job.Text == "wait":
		<-ctx.Done()
		r.Stop(context.Cause(ctx))
	default:
		r.Output = strings.ToUpper(job.Text) + "!"
	}
	return r
}

// anyName is a registry that knows an agent of every name.
type anyName struct{}

// Lookup implements ceiling.Registry.
func (anyName) Lookup(name string) (agents.Agent, error) { return agents.Agent{Name: name}, nil }

// printer prints each result in its turn.
type printer struct{}

// Deliver implements supervisor.Results.
func (printer) Deliver(r task.Result) error {
	fmt.Println(r.Index, r.Status, r.Output+r.Err())
	return nil
}

// Done implements supervisor.Results.
func (printer) Done(task.Result) {}

func newSupervisor() *supervisor.Supervisor {
	return supervisor.New(supervisor.Config{
		Launcher: here{}, Agents: anyName{}, ID: "zero",
		Limits: supervisor.Limits{Limits: task.Limits{MaxParallel: 1, MaxDepth: 3, MaxChildren: 10}},
	})
}

// One slot is enough for a tree of tasks: whoever waits for its children lends its own.
// The results come in the order of the tasks, whatever became of them.
func ExampleSupervisor_Batch() {
	s := newSupervisor()
	err := s.Batch(context.Background(), supervisor.Batch{
		Tasks: supervisor.Tasks(
			task.Task{Agent: "hand", Text: "wait", Timeout: 0.05},
			task.Task{Agent: "lead", Text: "one two"},
			task.Task{Agent: "hand", Text: "three"},
		),
		Results: printer{},
	})
	fmt.Println(err)
	// Output:
	// 0 timeout Child process timed out after 0.05s
	// 1 completed ONE!TWO!
	// 2 completed THREE!
	// <nil>
}

// The agent of this process is a job like any other, but takes no slot.
func ExampleSupervisor_Run() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := newSupervisor().Run(ctx, task.Task{Agent: "lead", Text: "a b c"}, "", here{})
	fmt.Println(r.Status, r.Output, r.ExecutionID, err)
	// Output: completed A!B!C! zero <nil>
}
