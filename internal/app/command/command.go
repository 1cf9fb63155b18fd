// Package command is what all commands of qq share: streams and environment,
// settings and agents, messages on stderr, errors with exit codes, and the command
// line itself: flags that may come after arguments, help, the man page and shell
// completions, all generated from the one tree of commands.
//
// Flow: app.Main makes an [Invocation] and the tree of commands, [Prepare] adds what
// all commands have in common, and [Permute] moves flags to the front as urfave/cli
// requires. A command calls [Invocation.Configure] first. It returns an error made
// by [Usagef], [Usage], [Advised] or [Said]; [Report] prints it.
//
// stdout carries only the answer or the data. Every error that a user can cause is two
// lines on stderr: the problem and the hint.
package command

import (
	"fmt"
	"os"
	"strings"
	"unicode"

	"golang.org/x/term"

	"qq/internal/config"
)

// Streams are stdin, stdout and stderr.
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
	Streams
	Env     Environment
	Version string // of this program
	Quiet   bool   // only errors on stderr
	Plain   bool   // no colour and no animation
	JSON    bool   // print a failure as JSON too
}

// Note prints a line on stderr, unless --quiet is given.
func (i *Invocation) Note(format string, args ...any) {
	if !i.Quiet {
		i.Say(format, args...)
	}
}

// Say prints a line on stderr, even with --quiet.
func (i *Invocation) Say(format string, args ...any) {
	fmt.Fprintln(i.Err, "qq:", Printable(fmt.Sprintf(format, args...)))
}

// Coloured reports whether colour and animation may be printed on f: it is a terminal, and
// neither the flags nor the environment forbid it.
func (i *Invocation) Coloured(f *os.File) bool {
	return !i.Plain && i.Env.Get("NO_COLOR") == "" && i.Env.Get("TERM") != "dumb" && term.IsTerminal(int(f.Fd()))
}

// Printable returns s without the characters that could control a terminal or change the
// order of text. The answer of a model may contain such characters from any file that it
// has read.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		control := unicode.IsControl(r) && r != '\n' && r != '\t'
		if control || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp) {
			return -1
		}
		return r
	}, s)
}
