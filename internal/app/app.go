// Package app starts qq: it has Main, the command that runs a prompt, the wiring of a run,
// and exit codes. Signals are in qq/internal/app/signals.
//
// Flow: [Main] gets arguments, streams and environment. A process with control pipes is a
// child (qq/internal/app/worker). Every other process is a root: it parses its command line (cli.go) and
// runs a command. The commands that run agents are in run.go and qq/internal/app/batch;
// both use the same wiring (start.go, wiring.go). The commands that run no agent are in
// qq/internal/app/admin, qq/internal/app/definitions, qq/internal/app/modelcmd and
// qq/internal/app/runs. Parts that all commands share are in qq/internal/app/command, and
// printing is in qq/internal/app/output.
package app

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"syscall"

	"github.com/urfave/cli/v2"

	"qq/internal/app/command"
	"qq/internal/app/manual"
	"qq/internal/app/output"
	"qq/internal/app/signals"
	"qq/internal/app/worker"
	"qq/internal/record/ledger"
	"qq/internal/sandbox"
	"qq/internal/trace"
	"qq/pkg/childproc"
	"qq/pkg/proc"
	"qq/pkg/task"
)

// version is the version of qq. The build sets it; "dev" means that it did not.
var version = "dev"

// Version returns the version of this program, from the build or else from its module;
// "dev" if neither is known.
func Version() string {
	if version != "dev" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return version
}

// Streams are the standard streams of a process.
type Streams = command.Streams

// keeping are the signals of the keeper of a command, which none of them ends.
var keeping = []os.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT}

// Main runs qq and returns its exit code.
func Main(args []string, s Streams, environ []string) int {
	if proc.IsKeeper(environ) { // first: the command that it keeps may be a confined one
		return proc.Keep(args[1:], environ, signals.Caught(keeping...))
	}
	sandbox.Exec(environ) // does not return if this process becomes a confined command
	env := command.Environment(environ)
	conn, err := childproc.Connect(env.Get)
	if err != nil {
		return report(s.Err, command.Usage(err))
	}
	if conn != nil {
		status, err := worker.Serve(conn, Version(), s, env)
		if err != nil {
			return report(s.Err, err)
		}
		return status.ExitCode()
	}
	debug.SetTraceback("crash") // SIGABRT ends a root that breaks down: exit code 2 means something else
	root := newRoot(s, env)
	defer root.close()
	root.JSON, root.Literal = command.WantsJSON(args), slices.Contains(args, "--")
	app := root.cli()
	if args, err = command.Helped(app, args); err != nil {
		return root.exitCode(err)
	}
	if slices.ContainsFunc(args, asksForHelp) {
		manual.SetHelp(app, root.Out.Width())
	}
	err = app.RunContext(root.ctx, command.Permute(app, args))
	return root.exitCode(err)
}

// asksForHelp reports whether arg is --help as package flag understands it.
func asksForHelp(arg string) bool {
	return slices.Contains([]string{"--help", "-help", "-h", "--h"}, arg)
}

// codeOf returns the exit code of a process that ends with err; 0 if err is nil.
func codeOf(err error) int {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[*command.ExitError](err); ok {
		return e.Code
	}
	return task.StatusOf(err).ExitCode()
}

// report prints err to w for a person and returns its exit code.
func report(w io.Writer, err error) int {
	command.Report(w, err)
	return codeOf(err)
}

// root is the process that a person or a script started, with the parts of its run.
type root struct {
	*command.Invocation
	ctx      context.Context // of the whole run
	signals  *signals.Signals
	terminal io.Closer        // of the prompter; nil when nobody can be asked
	wiring   *wiring          // nil until a command needs it
	exporter *trace.Exporter  // nil when no traces are wanted
	ledger   *ledger.Recorder // nil when no record is kept
	code     int              // exit code
	failing  task.Task        // the task that is named in the JSON of an error
	commands []*cli.Command   // to recognize a mistyped command in a prompt
}

func newRoot(s Streams, env command.Environment) *root {
	i := command.NewInvocation(s, env, Version())
	ctx, handled := signals.New(env, i.Screen.Continued, i.Screen.Resized)
	i.Screen.Ends = handled.Ends()
	return &root{Invocation: i, ctx: ctx, signals: handled}
}

// close closes all parts of the process.
func (r *root) close() {
	r.release()
	r.Screen.Drain()
	r.signals.Stop()
}

// release closes all parts of the run and reports what could not be closed.
func (r *root) release() {
	if r.wiring != nil {
		if err := r.wiring.Close(); err != nil {
			r.Say("%v", err)
		}
	}
	if r.ledger != nil {
		if err := r.ledger.Close(); err != nil {
			r.Say("%v", err)
		}
	}
	if err := r.exporter.End(r.code); err != nil {
		r.Say("%v", err)
	}
	if r.terminal != nil {
		r.terminal.Close()
	}
	r.wiring, r.ledger, r.exporter, r.terminal = nil, nil, nil, nil
}

// exitCode prints err, also as JSON if the user asked for JSON, and returns the exit code.
func (r *root) exitCode(err error) int {
	if r.Screen.Drain(); err == nil { // what prints help does not look at errors
		err = output.WriteError(r.Out.Err())
	}
	if errors.Is(err, output.ErrClosed) {
		r.code = cmp.Or(r.signals.Code(), 141) // as a program that SIGPIPE killed, but all is cleaned up
		return r.code
	}
	code := codeOf(err)
	if sig := r.signals.Code(); sig != 0 && code != 0 {
		code = sig
	}
	if r.JSON && !command.Silent(err) {
		res := r.failing.Normalized().Ended(task.StatusOf(err), err.Error())
		res.CutHint()
		res.ExitCode = code
		_ = output.WriteJSON(r.Out, res)
	}
	report(r.Err, err)
	r.code = code
	return code
}
