package command

import (
	"strings"

	"github.com/urfave/cli/v2"
)

// Prepare adds to app and its commands what all of them need: error messages with hints,
// and the refusal of arguments where a command takes none.
func Prepare(app *cli.App) {
	app.OnUsageError = onUsageError
	app.Flags = named(app.Flags)
	for _, c := range app.Commands {
		prepare(c)
	}
}

func prepare(c *cli.Command) {
	c.OnUsageError = onUsageError
	c.HideHelpCommand = true
	c.Flags = named(c.Flags)
	if c.ArgsUsage == "" && len(c.Subcommands) == 0 {
		c.Before = refuseArguments
	}
	for _, sub := range c.Subcommands {
		prepare(sub)
	}
}

func refuseArguments(c *cli.Context) error {
	if c.Args().Present() {
		return Usagef("leave it out; qq --help says more",
			"%s takes no argument: %q", c.Command.HelpName, c.Args().First())
	}
	return nil
}

func onUsageError(_ *cli.Context, err error, _ bool) error {
	problem := err.Error()
	for _, says := range []string{"flag provided but not defined: -", "flag needs an argument: -"} {
		name, ok := strings.CutPrefix(problem, says)
		if ok && len(name) > 1 && name[0] != '-' {
			problem = says + "-" + name
		}
	}
	problem = strings.Replace(problem, "flag provided but not defined", "unknown flag", 1)
	if strings.HasPrefix(problem, "invalid ") {
		return Usagef("qq --help says what the flags take", "%s", problem)
	}
	return Usagef("qq --help lists the flags; a prompt that begins with - goes after --", "%s", problem)
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
	names []string
}

// Names implements cli.Flag.
func (f namedFlag) Names() []string { return f.names }

// named wraps flags so that their names are computed once.
func named(flags []cli.Flag) []cli.Flag {
	wrapped := make([]cli.Flag, len(flags))
	for i, f := range flags {
		wrapped[i] = f
		if p, ok := f.(plainFlag); ok {
			wrapped[i] = namedFlag{p, p.Names()}
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
