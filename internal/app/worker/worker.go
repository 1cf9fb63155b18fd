// Package worker is the child process: it runs the one task that a root gives it, with the agent, the model and the
// rights of the start frame ([Setup]). Package childproc has the wire between the two.
package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"

	"qq/internal/agent"
	"qq/internal/app/command"
	"qq/internal/app/signals"
	"qq/internal/app/staffing"
	"qq/internal/box/remote"
	"qq/internal/config/trust"
	"qq/internal/foreign"
	"qq/internal/sandbox"
	"qq/internal/tools/shell"
	"qq/pkg/childproc"
	"qq/pkg/proc"
	"qq/pkg/session"
	"qq/pkg/supervisor"
	"qq/pkg/task"
)

// Setup is the part of a start frame that package childproc passes on without reading
// it.
type Setup struct {
	Seats  []staffing.Seat `json:"seats"` // the model, and those that are asked if it cannot be had
	Agent  agent.Setup     `json:"agent"`
	Events bool            `json:"events,omitempty"` // the child is to send events
	// Checkout is the working directory of the root, whose agents the child may ask; Trusted are the files in it
	// that may replace agents of the user.
	Checkout string     `json:"checkout"`
	Trusted  trust.Sums `json:"trusted,omitempty"`
	// OneProcessor says that the child was started with GOMAXPROCS=1, and may raise it when it
	// has much to compute.
	OneProcessor bool `json:"one_processor,omitempty"`
	// Remote says that the child may run commands. The root starts them.
	Remote bool `json:"remote,omitempty"`
	// Transcripts is the folder for the transcript of the child; empty means that it keeps none.
	Transcripts string `json:"transcripts,omitempty"`
	Attempt     int    `json:"attempt,omitempty"` // of the task, from 1
	// Program is where the program is that runs the agent; nil if qq does.
	Program *foreign.Place `json:"program,omitempty"`
	// Traceparent is the W3C trace context that the child passes to the programs that it starts.
	Traceparent string `json:"traceparent,omitempty"`
}

// OneProcessor is the environment variable that starts a child with one processor.
const OneProcessor = "GOMAXPROCS=1"

// Serve runs the one task of a child process and returns its status. conn leads to the root, whose version of the
// program must be the same.
func Serve(conn *childproc.Conn, version string, s command.Streams, env command.Environment) (task.Status, error) {
	return conn.Serve(version, s.In, s.Out, child{version, env, proc.NewHost()})
}

// child implements childproc.Runner: it runs the one task of this child process.
type child struct {
	version string
	env     command.Environment
	host    *proc.Host // starts its commands
}

var _ childproc.Runner = child{}

// Abandon implements childproc.Runner.
func (c child) Abandon() { c.host.Close() }

// Run implements childproc.Runner.
func (c child) Run(ctx context.Context, start *childproc.Start, job task.Job, p supervisor.Parent) task.Result {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	dir, err := syscall.Getwd() // os.Getwd would trust $PWD
	if err != nil {
		return job.Fail(task.Machine("", "find the working directory: %w", err))
	}
	if start.Dir != "" && start.Dir != dir {
		return job.Ended(task.Refused,
			fmt.Sprintf("the working directory was %s when the task was allowed, and is %s now", start.Dir, dir))
	}
	var setup Setup
	if err := json.Unmarshal(start.Setup, &setup); err != nil {
		return job.Fail(fmt.Errorf("read the start frame: %w", err))
	}
	if len(setup.Seats) == 0 {
		return job.Fail(errors.New("the start frame names no model"))
	}
	a := agent.Agent{
		Definition: start.Agent, Setup: setup.Agent, Registry: staffing.Registry{
			Dir: setup.Checkout, Config: c.env.ConfigHome(), Trusted: setup.Trusted},
		Transcript: agent.Nobody{}, Screen: agent.Nobody{},
		Process: agent.Process{Version: c.version, Dir: dir, Env: c.environ(setup), Host: c.host},
	}
	defer c.host.Close()
	transcript := &session.Keeping{}
	if setup.Transcripts != "" { // the sandbox forbids that later
		transcript = session.Open(setup.Transcripts).Keep(session.Header{
			ID: start.ExecutionID, Agent: start.Agent.Name, Model: setup.Seats[0].Model.String(), Dir: dir,
			Parent: start.Parent, Batch: start.BatchID, Depth: start.Depth,
		}, setup.Attempt)
		defer transcript.Close()
		a.Transcript = transcript
	}
	if setup.OneProcessor {
		a.Process.OneProcessor = &sync.Once{}
	}
	if err := confine(&a, setup); err != nil {
		return job.Fail(err)
	}
	// Only now: to wait for signals starts threads, and the sandbox is put on each thread that exists.
	term := signals.Caught(syscall.SIGTERM, syscall.SIGINT)
	go func() { // ends with the process
		cancel(signals.Cause(<-term))
	}()
	if setup.Events {
		a.Screen = &agent.TokenEvents{To: p}
	} else {
		p = agent.NewUnwatched(p)
		a.Screen = &agent.TokenEvents{To: p, Unwatched: true}
	}
	var res task.Result
	if setup.Program != nil {
		res = foreign.Run(ctx, a, *setup.Program, p, job)
	} else {
		res = staffing.Run(ctx, setup.Seats, a, p, job)
	}
	res.Warnings = append(res.Warnings, transcript.Warnings...)
	return res
}

// environ returns the environment for commands that the child runs.
func (c child) environ(s Setup) []string {
	env := slices.Clone([]string(c.env))
	if s.Traceparent != "" {
		env = append(env, "TRACEPARENT="+s.Traceparent)
	}
	if s.OneProcessor { // meant for this process, not for its commands
		env = slices.DeleteFunc(env, func(v string) bool { return v == OneProcessor })
	}
	return env
}

// workingDir is a path of the working directory that stays right if the directory is
// renamed and another one gets its name.
const workingDir = "/proc/self/cwd"

// confine applies the sandbox to this process: it cannot write where the agent may not. If a process cannot confine
// itself, only its commands are confined, which the root starts. If the kernel offers no sandbox, confine does nothing.
func confine(a *agent.Agent, s Setup) error {
	a.OpenJournal()
	if s.Remote {
		commands, err := remote.New(os.NewFile(childproc.CommandsFD, "commands"))
		if err != nil {
			return err
		}
		a.Process.Commands = commands
	}
	if a.Process.Confined = sandbox.Probe().Enforced(); !a.Process.Confined {
		return nil
	}
	if a.Setup.ShellLog != "" {
		log, err := shell.OpenLog(a.Setup.ShellLog) // the sandbox forbids that later
		if err != nil {
			return err
		}
		a.Process.Log = log
	}
	if err := sandbox.Apply(a.Rules(workingDir)); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("confine the agent: %w", err)
	}
	return nil
}
