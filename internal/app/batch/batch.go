// Package batch is the command qq batch: it runs many tasks, each in a child process.
//
// Flow: [Command] defines the flags. All tasks of the input are checked and written to a
// spool file before any of them starts. A [Runner] runs them and delivers the results in
// input order, and each result is printed as soon as those before it are. The record knows
// which tasks an earlier run of the same batch has finished.
package batch

import (
	"context"
	"io"

	"github.com/urfave/cli/v2"

	"qq/internal/app/batch/planned"
	"qq/internal/app/checks"
	"qq/internal/app/command"
	"qq/internal/app/output"
	"qq/internal/config"
	"qq/internal/record"
	"qq/internal/undo"
	"qq/pkg/supervisor"
	"qq/pkg/task"
)

// Process is the root process that the command runs in.
type Process interface {
	// Open changes to the working directory and reads the settings.
	Open(c *cli.Context) (*command.Checkout, error)
	// Trust returns the settings that count and the working directory. It may ask a person, so the flags
	// are checked before.
	Trust(c *cli.Context) (config.Config, string, error)
	// Wire makes the runner of the tasks, and starts to handle signals.
	Wire(n Needs) (Runner, error)
	// Show shows what the jobs do above the line of s, and reads keys that steer them.
	Show(s output.Shown)
	// Stop is closed by the first signal.
	Stop() <-chan struct{}
	// Signalled returns the exit code after a signal; 0 means that there was no signal.
	Signalled() int
}

// Needs is what the command tells its process about the runner to make.
type Needs struct {
	Settings config.Config
	Dir      string // the working directory
	ReadOnly bool
	Strict   bool // a task with targets may change nothing else
	NoLedger bool
	Repairs  int       // how often work that fails its check goes back to the agent
	Events   io.Writer // gets each event as a line of JSON; may be nil
	Verbose  bool
	Undo     *undo.Book // keeps what file tools change; nil means that nothing is kept
}

// Runner runs tasks in child processes.
type Runner interface {
	// Scratch is a private folder that is removed when the process ends.
	Scratch() (string, error)
	// Check returns an error if a task cannot be run as it is written.
	Check(t task.Task) error
	// Agent returns the definition of an agent.
	checks.Agents
	// Lookup returns an error if the agent or the model of one of the tasks is not available. While one server answers,
	// it is none that another does not.
	Lookup(ctx context.Context, tasks []task.Task) error
	// Isolable returns an error if the copies of the folder cannot be had that --isolate asks for and tasks need.
	Isolable(ctx context.Context, tasks []task.Task) error
	// Plan lists how the text of a task would be cut and summarized. It is empty if the
	// text fits the model.
	Plan(ctx context.Context, t task.Task) ([]string, error)
	// What the plan of a batch has to know.
	planned.Runner
	// Batch runs the tasks and returns when each has a result.
	Batch(ctx context.Context, b supervisor.Batch) error
	// History is the record of this run and of earlier runs.
	History() *record.Record
	// Batch says what is at work, how many tokens the batch has used so far, at any depth, and how many results were
	// known before.
	output.Batch
	// Spent reports whether the budget of tokens is used up.
	Spent() bool
	// UsedUp says which quotas of servers are used up, so that tasks were not started; "" means none.
	UsedUp() string
	// LimitReached says which limit on the whole tree of agents was reached; "" means none.
	LimitReached() string
}
