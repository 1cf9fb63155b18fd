package app

import (
	"cmp"

	"github.com/urfave/cli/v2"

	"qq/internal/app/admin"
	"qq/internal/app/apart"
	"qq/internal/app/batch"
	"qq/internal/app/checkout"
	"qq/internal/app/command"
	"qq/internal/app/definitions"
	"qq/internal/app/modelcmd"
	"qq/internal/app/options"
	"qq/internal/app/permissions"
	"qq/internal/app/planning"
	"qq/internal/app/replay"
	"qq/internal/app/runs"
	"qq/internal/app/serve"
	"qq/internal/app/top"
	"qq/internal/config"
	"qq/internal/models"
)

// cli builds the command line with all commands.
func (r *root) cli() *cli.App {
	app := &cli.App{
		Name:            "qq",
		Usage:           "run an agent in a process, and every task that it hands on in a process of its own",
		UsageText:       "qq [flags] [PROMPT…]\nCOMMAND | qq [flags] [PROMPT…]\nqq batch [flags] …",
		Version:         r.Version,
		HideVersion:     true,
		HideHelpCommand: true,
		Reader:          r.In,
		Writer:          r.Out,
		ErrWriter:       r.Err,
		Flags:           append(options.Flags(), &cli.BoolFlag{Name: "version", Usage: "print the version"}),
		Action:          r.run,
		Before:          r.before,
		Commands: append([]*cli.Command{batch.Command(r.Invocation, r), planning.Command(r.Invocation, r),
			definitions.Command(r.Invocation), checkout.Command(r.Invocation), permissions.Command(r.Invocation),
			top.Runs(runs.Command(r.Invocation, replay.Command(r.Invocation, r)), r.Invocation),
			top.Command(r.Invocation), serve.Command(r.Invocation)},
			append(modelcmd.Commands(r.Invocation, r.signals),
				admin.Commands(r.Invocation, modelcmd.Examiner{Invocation: r.Invocation},
					apart.Examiner{Env: r.Env})...)...),
		// Main maps errors to exit codes; the library would exit by itself.
		ExitErrHandler: func(*cli.Context, error) {},
	}
	r.commands = app.Commands
	command.Prepare(app)
	return app
}

// Trust implements batch.Process. It asks whether the files of a checkout may configure qq, and prints warnings
// about what does not count.
func (r *root) Trust(c *cli.Context) (config.Config, string, error) {
	o := r.Checkout
	if err := permissions.Check(o.Settings); err != nil {
		return config.Config{}, "", err
	}
	if err := checkout.Ask(c.Context, r.Invocation, c.Bool("dry-run")); err != nil {
		return config.Config{}, "", err
	}
	r.Warn(o.Claims())
	if o.Settings.MaxTokens > 0 && o.Settings.Model == models.Extract {
		r.Note("the limit of tokens (%s) does not hold for extract, the built-in model",
			o.Settings.Source("QQ_MAX_TOKENS"))
	}
	return o.Settings, o.Dir, nil
}

// before prints the version, which needs no command.
func (r *root) before(c *cli.Context) error {
	if c.Bool("version") {
		return cmp.Or(admin.PrintVersion(r.Invocation), command.Said(0))
	}
	return nil
}
