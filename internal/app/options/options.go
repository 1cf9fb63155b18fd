// Package options reads the flags of the command that runs a prompt.
package options

import (
	"encoding/json"

	"github.com/urfave/cli/v2"

	"qq/internal/app/admin"
	"qq/internal/app/batch"
	"qq/internal/app/checks"
	"qq/internal/app/command"
	"qq/internal/app/output"
	"qq/internal/app/prompt"
	"qq/pkg/session"
)

// Options are the flags of one run that are no settings.
type Options struct {
	System   string // replaces the agent's prompt when set
	MaxTurns int    // 0 means the limit of the agent
	Format   string
	Schema   json.RawMessage // of the answer
	Checks   checks.Options
	Session  session.Choice
	DryRun   bool
}

// Flags are the flags of the command that runs a prompt.
func Flags() []cli.Flag {
	return append([]cli.Flag{
		command.FlagAgent,
		&cli.StringFlag{
			Name: "message", Aliases: []string{"m", "prompt", "p"}, Usage: "the task; - reads it from stdin",
		},
		&cli.StringFlag{Name: "message-file", Aliases: []string{"f"}, Usage: "file with the task; - is stdin"},
		prompt.FlagImage(),
		&cli.BoolFlag{Name: "no-stdin", Usage: "do not read stdin, whatever it is"},
		command.FlagModel,
		command.FlagFallback,
		&cli.StringFlag{Name: "system", Usage: "system prompt instead of the agent's own"},
		&cli.StringFlag{
			Name: "session", Aliases: []string{"s"}, Usage: "continue the session of this id, or its beginning",
		},
		&cli.BoolFlag{
			Name: "continue", Aliases: []string{"c"}, Usage: "continue the newest session of this directory",
		},
		&cli.BoolFlag{Name: "new-session", Usage: "begin a session (the default)"},
		&cli.BoolFlag{Name: "ephemeral", Usage: "keep neither a transcript nor a ledger entry"},
		command.FlagCwd,
		command.FlagFormat(formats()), command.FlagResultJSON, command.FlagSchema, command.FlagTimeout,
		command.FlagIdle, command.FlagRetries, command.FlagTokens, command.FlagCost, command.FlagQuota,
		command.FlagNoLedger,
		&cli.BoolFlag{
			Name: "dry-run", Usage: "say what would be run, and how a long text would be cut, and start nothing",
		},
		&cli.IntFlag{Name: "max-turns", Usage: "model calls of the agent"},
		command.FlagQuiet, command.FlagVerbose, command.FlagNoColor,
	}, append(checks.Flags(), command.PermissionFlags()...)...)
}

// formats are the formats of the answer.
func formats() []string { return []string{output.Text, output.JSON, output.StreamJSON} }

// Read reads the flags of one run.
func Read(c *cli.Context) (o Options, err error) {
	o = Options{DryRun: c.Bool("dry-run"), System: c.String("system"), MaxTurns: c.Int("max-turns")}
	if o.Format, err = command.Format(c, formats()); err != nil {
		return o, err
	}
	if c.IsSet("max-turns") && o.MaxTurns < 1 {
		return o, command.Usagef("accepted is a whole number from 1 on", "--max-turns is %d", o.MaxTurns)
	}
	if o.Schema, err = batch.Schema(c.String("schema")); err != nil {
		return o, err
	}
	if o.Checks, err = checks.Read(c); err != nil {
		return o, err
	}
	o.Session, err = admin.SessionChoice(c)
	return o, err
}
