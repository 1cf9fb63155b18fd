// Package admin holds the commands of qq that start no agent: sessions, doctor, config,
// completion, man and version. Package definitions has qq agents, package runs qq runs.
//
// Flow: [Commands] returns them for the tree of commands. Each reads the settings,
// looks at files or the machine, and prints its result: JSON with --json,
// else text for people. Tasks, errors and answers come from models, so text for people
// goes through [command.Printable] or [output.Spelled], which keep it from controlling
// the terminal.
//
// Not promised: aligned columns on a terminal whose character widths differ from
// Unicode's.
package admin

import (
	"context"

	"github.com/urfave/cli/v2"

	"qq/internal/app/command"
	"qq/internal/config"
	"qq/pkg/proc"
)

// commands has what all commands of this package share. Each command is a method.
type commands struct {
	*command.Invocation
	models Models
	copies Copies
}

// Models checks what a run would use: the model server, the model and the rules for tools.
type Models interface {
	Examine(ctx context.Context, cfg config.Config) []Finding
	// Rules returns an error if a rule in the settings cannot be read.
	Rules(cfg config.Config) error
}

// Copies finds out which copies of the folder tasks can get.
type Copies interface {
	Examine(ctx context.Context, host *proc.Host, cfg config.Config) Finding
}

// Commands returns the commands that start no agent.
func Commands(i *command.Invocation, m Models, copies Copies) []*cli.Command {
	c := commands{i, m, copies}
	return []*cli.Command{
		c.sessions(), c.doctor(), c.config(), c.completion(), c.man(), c.version(), c.complete(),
	}
}
