// Package batch is the command qq batch: many tasks, each in a process of its own.
//
// Flow: [Command] reads the flags. All tasks of the input are checked, and kept in a
// spool file, before anything starts. The process wires a [Runner], which runs them and
// hands back results in input order; each is printed when it is due. The record of the
// run knows which tasks an earlier run of the batch has done.
package batch

import (
	"context"
	"io"
	"time"

	"qq/internal/approval"
	"qq/internal/config"
	"qq/internal/record"
	"qq/pkg/supervisor"
	"qq/pkg/task"
)

// Process is the root process that the command runs in.
type Process interface {
	// Wire makes what runs the tasks. From here on the process takes signals.
	Wire(n Needs) (Runner, error)
	// Stop is closed by the first signal.
	Stop() <-chan struct{}
	// Signalled is the exit code after a signal, 0 when none came.
	Signalled() int
}

// Needs is what a batch needs of its process.
type Needs struct {
	Settings config.Config
	Dir      string // the working directory
	ReadOnly bool
	NoLedger bool
	Events   io.Writer // gets each event as a line of JSON; nil is nowhere
	Verbose  bool
	Screen   approval.Screen // writes to the terminal too
}

// Runner runs tasks in child processes.
type Runner interface {
	// Scratch is a private folder that goes with the process.
	Scratch() (string, error)
	// Check says what is wrong with a task before anything starts.
	Check(t task.Task) error
	// Lookup finds the agent and the model of a task, or says why there is none.
	Lookup(ctx context.Context, t task.Task) error
	// Plan says how a long text would be cut; nothing for one that fits.
	Plan(ctx context.Context, t task.Task) ([]string, error)
	// Batch runs the tasks and returns when each has a result.
	Batch(ctx context.Context, b supervisor.Batch) error
	// History is the record of this process and of those before it.
	History() *record.Record
	// Used is how many tokens the whole tree has used.
	Used() task.Usage
	// Spent reports whether the budget of tokens is used up.
	Spent() bool
	// LimitReached says which limit of the tree was reached; empty is none.
	LimitReached() string
	// Waits is how long the model server makes everybody wait, as far as it is known.
	Waits() time.Duration
}
