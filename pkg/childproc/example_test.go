package childproc_test

import (
	"context"
	"fmt"
	"os"
	"strings"

	"qq/pkg/agents"
	"qq/pkg/childproc"
	"qq/pkg/supervisor"
	"qq/pkg/task"
)

// program starts children that the test binary plays: "echo" repeats its task.
type program struct{ scratch string }

var _ childproc.Program = program{}

// Args implements childproc.Program.
func (program) Args(agent string) []string { return []string{os.Args[0], "--agent", agent} }

// Scratch implements childproc.Program.
func (p program) Scratch() (string, error) { return p.scratch, nil }

// Prepare implements childproc.Program.
func (program) Prepare(_ context.Context, job task.Job) (childproc.Start, error) {
	return childproc.Start{Agent: agents.Agent{Name: job.Agent}}, nil
}

// Tidy implements childproc.Program.
func (program) Tidy(task.Job) {}

// registry knows the one agent of this example.
type registry struct{}

// Lookup implements ceiling.Registry.
func (registry) Lookup(string) (agents.Agent, error) { return agents.Agent{Name: "echo"}, nil }

// results prints what became of each task.
type results struct{}

// Deliver implements supervisor.Results.
func (results) Deliver(r task.Result) error {
	fmt.Println(r.Index, r.Status, r.Output)
	return nil
}

// Done implements supervisor.Results.
func (results) Done(task.Result) {}

// A Launcher runs each job of a supervisor in a process of its own.
func ExampleLauncher() {
	scratch, err := os.MkdirTemp("", "example-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(scratch)
	launcher := childproc.NewLauncher(childproc.Config{Program: program{scratch}, Env: os.Environ(), MaxOutput: 1000})
	defer launcher.Close()
	s := supervisor.New(supervisor.Config{
		Launcher: launcher, Agents: registry{},
		Limits: supervisor.Limits{Limits: task.Limits{MaxParallel: 2, MaxDepth: 2}},
	})
	err = s.Batch(context.Background(), supervisor.Batch{
		Tasks:   supervisor.Tasks(task.Task{Agent: "echo", Text: "one"}, task.Task{Agent: "echo", Text: "two"}),
		Results: results{},
	})
	fmt.Println(err)
	// Output:
	// 0 completed got: one
	// 1 completed got: two
	// <nil>
}

// shouter is what a child does with its task.
type shouter struct{}

// Abandon implements childproc.Runner: it has started nothing.
func (shouter) Abandon() {}

// Run implements childproc.Runner.
func (shouter) Run(_ context.Context, _ *childproc.Start, job task.Job, _ supervisor.Parent) task.Result {
	r := job.Ended(task.Completed, "")
	r.Output = strings.ToUpper(job.Text)
	return r
}

// The beginning of a program whose children are itself.
func ExampleConn_Serve() {
	conn, err := childproc.Connect(os.Getenv)
	if err != nil {
		panic(err)
	}
	if conn == nil {
		return // a person has started it
	}
	status, err := conn.Serve("1.0", os.Stdin, os.Stdout, shouter{})
	if err != nil {
		panic(err)
	}
	os.Exit(status.ExitCode())
}
