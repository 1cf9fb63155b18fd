// Package command is what all commands of qq share: streams and environment,
// settings and agents, messages on stderr, errors with exit codes, and the command
// line itself: flags that may come after arguments, and the task of a prompt. Package manual
// writes help, the man page and shell completions.
//
// Flow: app.Main makes an [Invocation] and the tree of commands, [Prepare] adds what
// all commands have in common, and [Permute] moves flags to the front as urfave/cli
// requires. A command calls [Invocation.Configure] first. It returns an error made
// by [Usagef], [Usage], [Advised] or [Said]; [Report] prints it.
//
// Everything that is printed goes through an [Output]: a [Screen] keeps it off the terminal while a question is open.
//
// stdout carries only the answer or the data. Every error that a user can cause is two
// lines on stderr: the problem and the hint.
package command

import (
	"fmt"
	"os"

	"qq/internal/config"
)

// Streams are stdin, stdout and stderr of a process.
type Streams struct {
	In       *os.File
	Out, Err *os.File
}

// Environment is a list of NAME=value. If a name occurs twice, the last one counts.
type Environment []string

// Get returns the value of a variable; "" if it is not set.
func (e Environment) Get(name string) string { return config.Getenv(e, name) }

// Invocation is one call of qq by a person or a script.
type Invocation struct {
	In       *os.File
	Out, Err *Output
	Screen   *Screen // the terminal that Out and Err may be
	Env      Environment
	Version  string // of this program
	Quiet    bool   // only errors and warnings on stderr
	Plain    bool   // no colour and no animation
	JSON     bool   // print a failure as JSON too
	Literal  bool   // the words of the prompt are after --: they are no mistyped command

	Checkout *Checkout // the working directory; nil until Open
	Ignored  []string  // warnings: what the checkout says and what does not count
}

// NewInvocation returns an invocation with the streams of this process.
func NewInvocation(s Streams, env Environment, version string) *Invocation {
	screen := NewScreen()
	return &Invocation{
		In: s.In, Out: screen.Output(s.Out), Err: screen.Output(s.Err), Screen: screen, Env: env, Version: version,
	}
}

// Note prints a note on stderr: what is good to know, or how far something is. --quiet hides it, as it hides the
// progress of a batch.
func (i *Invocation) Note(format string, args ...any) {
	if !i.Quiet {
		i.Say(format, args...)
	}
}

// Say prints an error or a warning on stderr: that something failed, was left out, or is not what the user may
// believe. Nothing hides it.
func (i *Invocation) Say(format string, args ...any) {
	fmt.Fprintln(i.Err, "qq:", Printable(fmt.Sprintf(format, args...)))
}

// Coloured reports whether colour and animation may be printed on o: it is a terminal, and
// neither the flags nor the environment forbid it.
func (i *Invocation) Coloured(o *Output) bool {
	return !i.Plain && i.Env.Get("NO_COLOR") == "" && i.Env.Get("TERM") != "dumb" && o.Terminal()
}
