package command

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"qq/pkg/spelling"
)

// Prepare adds to app and its commands what all of them need: error messages with hints,
// and the refusal of arguments where a command takes none.
func Prepare(app *cli.App) {
	commands := app.Commands // of a prompt, the app has none
	app.OnUsageError = func(c *cli.Context, err error, _ bool) error {
		wrong := wrongFlag{command: c.Command.HelpName, flags: c.Command.Flags, commands: commands}
		return wrong.explain(err.Error())
	}
	app.Flags = named(app.Flags)
	for _, c := range app.Commands {
		prepare(c)
	}
}

func prepare(c *cli.Command) {
	if c.OnUsageError == nil {
		c.OnUsageError = UsageError(nil)
	}
	c.HideHelpCommand = true
	c.Flags = named(c.Flags)
	if c.Before == nil && c.ArgsUsage == "" && len(c.Subcommands) == 0 {
		c.Before = refuseArguments
	}
	for _, sub := range c.Subcommands {
		prepare(sub)
	}
}

func refuseArguments(c *cli.Context) error {
	if !c.Args().Present() {
		return nil
	}
	name := c.Command.HelpName
	return Usagef("leave it out; "+name+" --help says more"+AsPrompt(c), "%s takes no argument: %q", name,
		c.Args().First())
}

// AsPrompt returns the end of a hint about arguments of a command: how they are sent to a model. It returns "" for
// those of a subcommand.
func AsPrompt(c *cli.Context) string {
	words, one := strings.CutPrefix(c.Command.HelpName, "qq ")
	if !one || strings.Contains(words, " ") {
		return ""
	}
	return fmt.Sprintf("; as a prompt it is: qq -m %q", strings.Join(append([]string{words}, c.Args().Slice()...), " "))
}

// Foreign are flags that a command does not have, but that a person may know from another program: for each name,
// without dashes, a hint that says what to write here instead, or why there is no such flag.
type Foreign map[string]string

// UsageError returns what makes an error of the flag library one with a hint. The hint for an unknown flag is that in
// foreign, or the flag that was probably meant.
func UsageError(foreign Foreign) cli.OnUsageErrorFunc {
	return func(c *cli.Context, err error, _ bool) error {
		wrong := wrongFlag{command: c.Command.HelpName, flags: c.Command.Flags, foreign: foreign}
		return wrong.explain(err.Error())
	}
}

// wrongFlag is a mistake in the flags of a command.
type wrongFlag struct {
	command  string // such as "qq runs list"
	flags    []cli.Flag
	foreign  Foreign
	commands []*cli.Command // below it
}

// explain makes a usage error of the text of the flag library, which writes each flag with one dash.
func (w wrongFlag) explain(problem string) error {
	help := w.command + " --help"
	if name, ok := strings.CutPrefix(problem, "flag provided but not defined: -"); ok {
		name = strings.TrimLeft(name, "-")
		if w.isAttached(name) {
			name = name[:1]
		}
		return Usagef(w.instead(name), "unknown flag: %s", Dashed(name))
	}
	if name, ok := strings.CutPrefix(problem, "flag needs an argument: -"); ok {
		return Usagef(help+" says what it takes", "flag needs an argument: %s", Dashed(name))
	}
	rest := strings.TrimPrefix(strings.TrimPrefix(problem, "invalid "), "boolean ")
	if value, ok := strings.CutPrefix(rest, "value "); ok {
		quoted, err := strconv.QuotedPrefix(value)
		name := strings.TrimPrefix(strings.TrimPrefix(value[len(quoted):], " for "), "flag ")
		name, _, found := strings.Cut(strings.TrimPrefix(name, "-"), ":")
		if err == nil && found {
			return Usagef(w.accepted(name), "%s is %s", Dashed(name), quoted)
		}
	}
	return Usagef(help+" says what the flags take", "%s", problem)
}

// instead returns the hint for an unknown flag.
func (w wrongFlag) instead(name string) string {
	if len(name) > 1 {
		name = strings.ToLower(name)
	}
	if hint, ok := w.foreign[name]; ok {
		return hint
	}
	for _, c := range w.commands {
		if c.Name == "batch" && has(c.Flags, Dashed(name)) {
			return fmt.Sprintf("it belongs to qq batch: qq batch %s … -m 'Summarize {}' FILES", Dashed(name))
		}
	}
	near := w.nearest(name)
	if near != "" {
		near = Dashed(near)
	}
	hint := spelling.DidYouMean(near) + w.command + " --help lists the flags"
	if !strings.Contains(w.command, " ") { // qq itself takes a prompt
		hint += "; a prompt that begins with - goes after --"
	}
	return hint
}

// nearest returns the flag that was probably meant by name, or "".
func (w wrongFlag) nearest(name string) string {
	var known []string
	for _, f := range w.flags {
		known = append(known, f.Names()...)
	}
	return spelling.Nearest(name, known)
}

// isAttached reports whether name is a short flag of another program joined with its value, like P4 or I%. The library
// does not tell it from a long flag, which begins with a capital if it is nearly one that is known, like --Tag.
func (w wrongFlag) isAttached(name string) bool {
	if len(name) < 2 || w.foreign[strings.ToLower(name)] != "" || w.foreign[name[:1]] == "" ||
		len(name) > 2 && w.nearest(name) != "" {
		return false
	}
	isLetter := func(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }
	return !isLetter(name[1]) && name[1] != '-' || 'A' <= name[0] && name[0] <= 'Z'
}

// accepted returns the hint for a value that a flag does not take.
func (w wrongFlag) accepted(name string) string {
	for _, f := range w.flags {
		if !slices.Contains(f.Names(), name) {
			continue
		}
		if n, ok := f.(namedFlag); ok {
			f = n.plainFlag
		}
		switch f.(type) {
		case *cli.IntFlag:
			return "accepted is a whole number"
		case *cli.BoolFlag:
			return "accepted is true or false, or " + Dashed(name) + " alone"
		}
	}
	return w.command + " --help says what it takes"
}

// Dashed returns a flag as a person writes it.
func Dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + strings.TrimLeft(name, "-")
}

// plainFlag is the interface that all flags of urfave/cli share.
type plainFlag interface {
	cli.DocGenerationFlag
	cli.VisibleFlag
	cli.CategorizableFlag
	cli.ActionableFlag
}

// namedFlag is a flag whose names are computed only once. urfave/cli computes the names of
// each flag again for each other flag, with a regular expression. That took a twentieth of
// the start time of qq.
type namedFlag struct {
	plainFlag
	names   []string
	choices []string
}

// Names implements cli.Flag.
func (f namedFlag) Names() []string { return f.names }

// Choices returns the values that a shell offers for the flag: all that it takes, or examples.
func (f namedFlag) Choices() []string { return f.choices }

// Choice returns f with choices.
func Choice(f plainFlag, choices []string) cli.Flag { return namedFlag{f, f.Names(), choices} }

// named wraps flags so that their names are computed once.
func named(flags []cli.Flag) []cli.Flag {
	wrapped := make([]cli.Flag, len(flags))
	for i, f := range flags {
		wrapped[i] = f
		switch f := f.(type) {
		case namedFlag:
		case plainFlag:
			wrapped[i] = namedFlag{plainFlag: f, names: f.Names()}
		}
	}
	return wrapped
}

// Optional is the value of a flag that may be given alone (--resume) or with a value after
// an equals sign (--resume=ID).
type Optional struct {
	Given bool
	Value string // empty if it is given alone
}

// Set implements flag.Value.
func (o *Optional) Set(s string) error {
	o.Given, o.Value = true, s
	if s == "true" { // the library's value of a flag that is given alone
		o.Value = ""
	}
	if s == "false" {
		*o = Optional{}
	}
	return nil
}

func (o *Optional) String() string {
	if o == nil {
		return ""
	}
	return o.Value
}

// IsBoolFlag tells package flag that the flag may be given alone, so the next argument is
// not its value.
func (o *Optional) IsBoolFlag() bool { return true }

// optionalFlag is a flag with an [Optional] value.
type optionalFlag struct{ *cli.GenericFlag }

// TakesValue implements cli.DocGenerationFlag. It is false, because the value is never the
// next argument.
func (optionalFlag) TakesValue() bool { return false }

// OptionalFlag returns a flag whose value may be left out. It stores the value in to.
func OptionalFlag(name, usage string, to *Optional) cli.Flag {
	return optionalFlag{&cli.GenericFlag{Name: name, Usage: usage, Value: to}}
}
