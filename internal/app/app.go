// Package app is the command line of qq: commands, wiring, signals and exit
// codes, and nothing that another room could do.
//
// Flow: [Main] gets arguments, streams and environment. A process that has
// control pipes is a child and goes to child.go; every other one is a root: its
// flags become a config, the config becomes an engine (wiring.go), and a command
// uses it. One file holds one command. What runs agents is qq/internal/engine,
// what prints is qq/internal/app/output.
//
// stdout carries the answer or the data and nothing else. Every error that a
// person can cause is two lines on stderr: what is wrong, what to do.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"qq/internal/app/flags"
	"qq/internal/app/output"
	"qq/internal/config"
	"qq/internal/engine"
	"qq/internal/record/ledger"
	"qq/internal/sandbox"
	"qq/internal/trace"
	"qq/pkg/childproc"
	"qq/pkg/task"
)

// version is set by the build.
var version = "dev"

// Version is the version of this program.
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
type Streams struct {
	In       *os.File
	Out, Err *os.File
}

// Main runs qq and returns its exit code.
func Main(args []string, s Streams, environ []string) int {
	sandbox.Exec(environ) // returns unless this process is to become a confined command
	env := environment(environ)
	conn, err := childproc.Connect(env.get)
	if err != nil {
		return report(s.Err, usage(err))
	}
	if conn != nil {
		return serveChild(conn, s, env)
	}
	args = flags.Asked(args)
	root := newRoot(s, env)
	defer root.close()
	root.json = flags.WantsJSON(args)
	app := root.cli()
	if slices.Contains(args, "--help") || slices.Contains(args, "-h") {
		app.CustomAppHelpTemplate = flags.Help(app)
	}
	err = app.RunContext(root.ctx, flags.Permute(app, args))
	return root.exitCode(err)
}

// environment is NAME=value entries; the last of several counts.
type environment []string

func (e environment) get(name string) string { return config.Getenv(e, name) }

// exitError carries an exit code to Main. It deliberately lacks the method by
// which urfave/cli would exit on its own.
type exitError struct {
	code int
	err  error // nil when everything has been said
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// usage marks err as a mistake in the command line or the configuration.
func usage(err error) error {
	if err == nil {
		return nil
	}
	return &exitError{task.Misused.ExitCode(), err}
}

// usagef is usage with a problem and a hint.
func usagef(hint, format string, args ...any) error {
	return usage(fmt.Errorf("%s\nhint: %s", fmt.Sprintf(format, args...), hint))
}

// advised adds a hint to an error that has none.
func advised(err error, hint string) error {
	if strings.Contains(err.Error(), "\nhint: ") {
		return err
	}
	return fmt.Errorf("%w\nhint: %s", err, hint)
}

// said ends the program with code when everything has been said.
func said(code int) error { return &exitError{code, nil} }

// codeOf is the exit code for err.
func codeOf(err error) int {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[*exitError](err); ok {
		return e.code
	}
	return statusOf(err).ExitCode()
}

// report prints err for a person and returns its exit code.
func report(w io.Writer, err error) int {
	if e, ok := errors.AsType[*exitError](err); err == nil || ok && e.err == nil {
		return codeOf(err)
	}
	problem, rest, _ := strings.Cut(strings.TrimSpace(err.Error()), "\n")
	fmt.Fprintln(w, "qq:", output.Printable(problem))
	for line := range strings.Lines(rest) {
		fmt.Fprintln(w, "  "+output.Printable(strings.TrimSpace(line)))
	}
	return codeOf(err)
}

// root is the process that a person started.
type root struct {
	Streams
	env                  environment
	ctx                  context.Context // of the whole run
	signals              *signals
	terminal             io.Closer // nil where nobody can be asked
	narrator             *output.Narrator
	engine               *engine.Engine   // nil until a command needs it
	exporter             *trace.Exporter  // nil where no traces are wanted
	ledger               *ledger.Recorder // nil where none is kept
	id                   string           // execution id of this process
	code                 int              // that it ends with
	resume, resumeFailed flags.Optional
	plain                bool // no colour and no animation
	quiet                bool // say nothing but errors
	json                 bool // a failure is a JSON document too
	failing              task.Task
	app                  *cli.App
	commands             []*cli.Command // all of them; a prompt is parsed without
}

func newRoot(s Streams, env environment) *root {
	ctx, signals := newSignals()
	return &root{Streams: s, env: env, ctx: ctx, signals: signals}
}

func (r *root) close() {
	if r.engine != nil {
		if err := r.engine.Close(); err != nil {
			r.say("%v", err)
		}
	}
	if r.ledger != nil {
		if err := r.ledger.Close(); err != nil {
			r.say("%v", err)
		}
	}
	r.flush()
	if r.terminal != nil {
		r.terminal.Close()
	}
	r.signals.stop()
}

// exitCode reports err, as JSON too where that was asked for.
func (r *root) exitCode(err error) int {
	if errors.Is(err, output.ErrClosed) {
		r.code = 141 // as a program that died of SIGPIPE, but with everything tidied up
		return r.code
	}
	code := codeOf(err)
	if sig := r.signals.code(); sig != 0 && code != 0 {
		code = sig
	}
	e, ok := errors.AsType[*exitError](err)
	if unsaid := err != nil && (!ok || e.err != nil); unsaid && r.json {
		problem, _, _ := strings.Cut(err.Error(), "\n")
		res := r.failing.Normalized().Ended(statusOf(err), problem)
		res.ExitCode = code
		_ = output.WriteJSON(r.Out, res)
	}
	report(r.Err, err)
	r.code = code
	return code
}

// statusOf is the status of a task that err kept from running.
func statusOf(err error) task.Status {
	if e, ok := errors.AsType[*exitError](err); ok && e.code == task.Misused.ExitCode() {
		return task.Misused
	}
	if _, ok := errors.AsType[*config.Error](err); ok {
		return task.Misused
	}
	return task.StatusOf(err)
}

// note prints a line that --quiet leaves out.
func (r *root) note(format string, args ...any) {
	if !r.quiet {
		r.say(format, args...)
	}
}

// say prints a line for a person.
func (r *root) say(format string, args ...any) {
	fmt.Fprintln(r.Err, "qq:", output.Printable(fmt.Sprintf(format, args...)))
}
