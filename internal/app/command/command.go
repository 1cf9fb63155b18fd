// Package command is what all commands of qq share: streams and environment,
// settings and agents, what is said on stderr, errors with exit codes, and the frame
// of the command line: flags that may come after arguments, help, the man page and
// completions, all made from the one tree of commands.
//
// Flow: app.Main makes an [Invocation] and the tree of commands, [Prepare] gives each
// command what all of them have, and [Permute] sorts the arguments as urfave/cli
// wants them. A command calls [Invocation.Configure] first. It returns an error made
// by [Usagef], [Usage], [Advised] or [Said]; [Report] prints it.
//
// stdout carries the answer or the data and nothing else. Every error that a person
// can cause is two lines on stderr: the problem and the hint.
package command

import (
	"fmt"
	"os"
	"strings"
	"unicode"

	"golang.org/x/term"

	"qq/internal/config"
)

// Streams are the standard streams of a process.
type Streams struct {
	In       *os.File
	Out, Err *os.File
}

// Environment is NAME=value entries; the last of several counts.
type Environment []string

// Get returns the value of a variable, empty if it is not set.
func (e Environment) Get(name string) string { return config.Getenv(e, name) }

// Invocation is one call of qq by a person or a script.
type Invocation struct {
	Streams
	Env     Environment
	Version string // of this program
	Quiet   bool   // only errors on stderr
	Plain   bool   // no colour and no animation
	JSON    bool   // a failure is a JSON document too
}

// Note prints a line that --quiet leaves out.
func (i *Invocation) Note(format string, args ...any) {
	if !i.Quiet {
		i.Say(format, args...)
	}
}

// Say prints a line for a person.
func (i *Invocation) Say(format string, args ...any) {
	fmt.Fprintln(i.Err, "qq:", Printable(fmt.Sprintf(format, args...)))
}

// Coloured reports whether f may show colour and animation: it is a terminal, and
// neither flags nor environment object.
func (i *Invocation) Coloured(f *os.File) bool {
	return !i.Plain && i.Env.Get("NO_COLOR") == "" && i.Env.Get("TERM") != "dumb" && term.IsTerminal(int(f.Fd()))
}

// Printable removes what could control a terminal or show text in another order:
// text of a model may repeat whatever a file contained.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		control := unicode.IsControl(r) && r != '\n' && r != '\t'
		if control || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp) {
			return -1
		}
		return r
	}, s)
}
