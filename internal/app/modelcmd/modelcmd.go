// Package modelcmd has the commands about model servers and models, qq models and qq setup, and what qq doctor finds
// of them.
//
// Flow: [Commands] returns them for the tree of commands. Each makes a [models.Resolver] with the servers and keys that
// count in the working directory, asks the servers, and prints the result: JSON with --json, else text for people.
// None of them runs an agent or writes to the ledger. Names come from servers, so text for people goes through
// [output.Spelled].
package modelcmd

import (
	"os"

	"github.com/urfave/cli/v2"

	"qq/internal/app/columns"
	"qq/internal/app/command"
	"qq/internal/app/keyring"
	"qq/internal/app/signals"
	"qq/internal/config"
	"qq/internal/models"
	"qq/pkg/proc"
)

// commands has what all commands of this package share. Each command is a method.
type commands struct {
	*command.Invocation
	signals *signals.Signals
}

// Commands returns the commands about models.
func Commands(i *command.Invocation, s *signals.Signals) []*cli.Command {
	r := commands{i, s}
	plain := append(command.LookFlags(), command.FlagNoColor)
	list := append([]cli.Flag{
		&cli.StringFlag{Name: "server", Usage: "those of the server of this name alone"},
	}, plain...)
	pull := append([]cli.Flag{
		&cli.BoolFlag{Name: "insecure", Usage: "allow a registry without a certificate"},
	}, plain...)
	timed := append([]cli.Flag{
		&cli.IntFlag{Name: "timeout", Value: 60, Usage: "seconds that each request may take"},
	}, plain...)
	return []*cli.Command{
		{
			Name: "models", Usage: "the models of your model servers", Flags: list, Action: r.list,
			Subcommands: []*cli.Command{
				{Name: "list", Usage: "list the models of all servers that answer", Flags: list, Action: r.list},
				{
					Name: "show", Usage: "print what is known about a model; without MODEL about that of a run",
					ArgsUsage: "[MODEL]", Flags: plain, Action: r.show,
				},
				{
					Name: "pull", Usage: "let an Ollama server download a model", ArgsUsage: "MODEL",
					Description: "For example: qq models pull qwen3:4b, or lab:qwen3:4b for the Ollama server that " +
						"QQ_SERVER_lab names. What was downloaded before it was stopped is not downloaded again.",
					Flags: pull, Action: r.pull,
				},
				{
					Name: "test", Usage: "send a model a few short requests: what works, and how fast",
					ArgsUsage: "[MODEL]", Flags: timed, Action: r.test,
				},
			},
		},
		r.setup(),
	}
}

// reach is what a command needs to reach the model servers of the user.
type reach struct {
	*models.Resolver
	settings config.Config
	host     *proc.Host
}

// reach returns how servers are reached with these settings. The caller closes it.
func (r commands) reach(set config.Config) *reach { return reachOf(r.Invocation, set) }

func reachOf(i *command.Invocation, set config.Config) *reach {
	host := proc.NewHost()
	return &reach{
		Resolver: &models.Resolver{
			Servers: set.AllServers(), Aliases: set.Aliases, Run: set.Model, Notes: i, Warnings: warnings{i},
			Keys: &keyring.Ring{Environ: i.Env, Settings: set, Host: host, Screen: i.Screen},
		},
		settings: set, host: host,
	}
}

// close ends the key commands that still run.
func (r *reach) close() { r.host.Close() }

// warnings prints notes that nothing hides.
type warnings struct{ *command.Invocation }

// Note implements gate.Notes.
func (w warnings) Note(format string, args ...any) { w.Say(format, args...) }

// one returns the argument of a command that takes at most one.
func one(c *cli.Context) (string, error) {
	if c.NArg() > 1 {
		return "", command.Usagef("for example: "+c.Command.HelpName+" ollama:qwen3:4b", "%s takes one model",
			c.Command.HelpName)
	}
	return c.Args().First(), nil
}

// whole returns name as it is typed with --model, or an error if it is that of no model.
func (r *reach) whole(name string) (string, error) {
	if name == "" {
		name = r.settings.Model
	}
	whole := r.Whole(name)
	if whole == "" || whole[len(whole)-1] == ':' {
		return "", command.Usagef("qq models list shows the models", "%q names no model", name)
	}
	return whole, nil
}

// doing shows on a terminal what is at work; "" ends that.
func (r commands) doing(what string) {
	if r.Coloured(r.Err) && !r.Quiet {
		r.Err.Status(columns.Cut(what, max(r.Err.Width()-3, 1)))
	}
}

// listen makes signals end the command in order, instead of killing it.
func (r commands) listen() {
	r.signals.KillWith(nil, func() { os.Exit(r.signals.Code()) })
	r.signals.Listen()
}
