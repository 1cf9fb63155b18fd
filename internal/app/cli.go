package app

import (
	"cmp"
	"strings"

	"github.com/urfave/cli/v2"

	"qq/internal/app/flags"
)

// cli builds the tree of commands.
func (r *root) cli() *cli.App {
	if r.app != nil {
		return r.app
	}
	r.app = &cli.App{
		Name:                   "qq",
		Usage:                  "run an agent in a process, and every task that it hands on in a process of its own",
		UsageText:              "qq [flags] [PROMPT…]\nCOMMAND | qq [flags] [PROMPT…]\nqq batch [flags] …",
		Version:                Version(),
		HideVersion:            true,
		HideHelpCommand:        true,
		UseShortOptionHandling: false,
		Reader:                 r.In,
		Writer:                 r.Out,
		ErrWriter:              r.Err,
		Flags:                  append(runFlags(), &cli.BoolFlag{Name: "version", Usage: "print the version"}),
		Action:                 r.run,
		Before:                 r.before,
		Commands: []*cli.Command{
			r.batchCommand(), r.agentsCommand(), r.sessionsCommand(), r.runsCommand(), r.doctorCommand(), r.configCommand(),
			r.completionCommand(), r.manCommand(), r.versionCommand(),
		},
		// Main maps errors to exit codes; the library would exit by itself.
		ExitErrHandler: func(*cli.Context, error) {},
		OnUsageError:   onUsageError,
	}
	r.commands = r.app.Commands
	r.app.Flags = flags.Named(r.app.Flags)
	for _, c := range r.app.Commands {
		prepare(c)
	}
	return r.app
}

// prepare gives a command and its subcommands what all of them have.
func prepare(c *cli.Command) {
	c.OnUsageError = onUsageError
	c.HideHelpCommand = true
	c.Flags = flags.Named(c.Flags)
	if c.ArgsUsage == "" && len(c.Subcommands) == 0 {
		c.Before = refuseArguments
	}
	for _, sub := range c.Subcommands {
		prepare(sub)
	}
}

func refuseArguments(c *cli.Context) error {
	if c.Args().Present() {
		return usagef("leave it out; qq --help says more", "%s takes no argument: %q", c.Command.HelpName, c.Args().First())
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
		return usagef("qq --help says what the flags take", "%s", problem)
	}
	return usagef("qq --help lists the flags; a prompt that begins with - goes after --", "%s", problem)
}

func (r *root) before(c *cli.Context) error {
	if c.Bool("version") {
		return cmp.Or(r.printVersion(c), said(0))
	}
	return nil
}
