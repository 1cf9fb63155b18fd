// Command embed shows what another program can do with the packages in pkg/ of qq.
// It has agents of its own kind, without a model, and runs each task in a process of
// its own: this program again.
//
// The asker has its task done by the shouter, which is a third process. The writer
// reports what it does. The straggler leaves a process behind, hears nothing, and is
// ended by its clock.
//
// Started by a person it prints the result of each task, in the order of the tasks,
// and on stderr what happens meanwhile.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"qq/pkg/agents"
	"qq/pkg/childproc"
	"qq/pkg/event"
	"qq/pkg/supervisor"
	"qq/pkg/task"
)

const version = "1"

func main() { os.Exit(run()) }

func run() int {
	conn, err := childproc.Connect(os.Getenv)
	switch {
	case err != nil:
	case conn != nil: // this process is a child
		var status task.Status
		status, err = conn.Serve(version, os.Stdin, os.Stdout, child{})
		if err == nil {
			return status.ExitCode()
		}
	default:
		err = supervise()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// supervise runs three tasks, two at a time.
func supervise() error {
	scratch, err := os.MkdirTemp("", "embed-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	launcher := childproc.NewLauncher(childproc.Config{
		Version: version, Program: program{scratch}, Env: os.Environ(), MaxOutput: 1000, Keep: scratch,
		Grace: 100 * time.Millisecond,
	})
	defer launcher.Close()
	s := supervisor.New(supervisor.Config{
		Limits:   supervisor.Limits{Limits: task.Limits{MaxParallel: 2, MaxDepth: 3, MaxChildren: 10}},
		Launcher: launcher,
		Agents:   known,
		Events:   event.NewStream("", event.SinkFunc(show)),
	})
	return s.Batch(context.Background(), supervisor.Batch{
		Tasks: supervisor.Tasks(
			task.Task{Agent: "straggler", Text: "take your time", Timeout: 1},
			task.Task{Agent: "asker", Text: "good morning"},
			task.Task{Agent: "writer", Text: "notes.md"},
		),
		Results: printer{},
	})
}

// registry knows the agents by name.
type registry []string

var known = registry{"asker", "shouter", "writer", "straggler"}

// Lookup returns the definition of an agent: it may use every tool, also those that
// hand on tasks.
func (r registry) Lookup(name string) (agents.Agent, error) {
	if !slices.Contains(r, name) {
		return agents.Agent{}, fmt.Errorf("there is no agent %q", name)
	}
	return agents.Agent{Name: name, Role: agents.Modifying}, nil
}

// program tells the launcher how this program starts its children.
type program struct{ scratch string }

var _ childproc.Program = program{}

// Args implements [childproc.Program].
func (program) Args(agent string) []string { return []string{os.Args[0], agent} }

// Scratch implements [childproc.Program].
func (p program) Scratch() (string, error) { return p.scratch, nil }

// Prepare implements [childproc.Program].
func (program) Prepare(_ context.Context, job task.Job) (childproc.Start, error) {
	a, err := known.Lookup(job.Agent)
	return childproc.Start{Agent: a}, err
}

// Tidy implements [childproc.Program].
func (program) Tidy(task.Job) {}

// printer prints results.
type printer struct{}

var _ supervisor.Results = printer{}

// Deliver implements [supervisor.Results].
func (printer) Deliver(r task.Result) error {
	_, err := fmt.Println(r.Index, r.Agent, r.Status, strings.TrimSpace(r.Output+" "+r.Err()), r.ChangedFiles)
	return err
}

// Done implements [supervisor.Results].
func (printer) Done(task.Result) {}

// show prints an event.
func show(e event.Event) { fmt.Fprintln(os.Stderr, e.Depth, e.Agent, e.Type, e.Tool) }

// child is this program as a child.
type child struct{}

var _ childproc.Runner = child{}

// Abandon implements childproc.Runner: it has started nothing.
func (child) Abandon() {}

// Run implements [childproc.Runner].
func (child) Run(ctx context.Context, _ *childproc.Start, job task.Job, p supervisor.Parent) task.Result {
	r := job.Ended(task.Completed, "")
	switch job.Agent {
	case "asker":
		answers := p.Delegate(ctx, []task.Task{{Agent: "shouter", Text: job.Text}})
		if !answers[0].Success {
			return answers[0]
		}
		r.Output = "the shouter says " + answers[0].Output
	case "shouter":
		r.Output = strings.ToUpper(job.Text)
	case "writer":
		p.Emit(event.Event{Type: event.ToolStart, Tool: "write"})
		p.Changed([]string{job.Text})
		r.Output = "written"
	case "straggler":
		daemon := exec.Command("sleep", "1000")
		daemon.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := daemon.Start(); err != nil {
			return job.Fail(err)
		}
		p.Emit(event.Event{Type: event.ToolStart, Tool: "sleep"})
		<-time.After(time.Hour)
	}
	return r
}
