// Package admin holds the commands of qq that start no agent: agents, sessions, runs,
// doctor, config, completion, man and version.
//
// Flow: [Commands] returns them for the tree of commands. Each reads the settings,
// looks at files, the ledger or the machine, and prints its result: JSON with --json,
// else text for people. Tasks, errors and answers come from models, so text for people
// goes through [command.Printable], which keeps it from controlling the terminal.
//
// A run is one execution, a batch is a list of runs that were started together, and a
// root is the qq process that they belong to. People may write a short id: the last
// eight characters of an id. " *" after a status marks a run at work.
//
// Not promised: aligned columns on a terminal whose character widths differ from
// Unicode's.
package admin

import (
	"context"

	"github.com/urfave/cli/v2"

	"qq/internal/app/command"
	"qq/internal/config"
)

// commands has what all commands of this package share. Each command is a method.
type commands struct {
	*command.Invocation
	models Models
}

// Models checks the model server and the model that a run would use.
type Models interface {
	Examine(ctx context.Context, cfg config.Config) []Finding
}

// Commands returns the commands that start no agent.
func Commands(i *command.Invocation, m Models) []*cli.Command {
	c := commands{i, m}
	return []*cli.Command{
		c.agents(), c.sessions(), c.runs(), c.doctor(), c.config(), c.completion(), c.man(), c.version(),
	}
}

// lookFlags returns the flags of commands that only print something.
func lookFlags() []cli.Flag {
	return []cli.Flag{command.FlagCwd, command.FlagJSON, command.FlagQuiet}
}
