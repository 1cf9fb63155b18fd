// Package runs holds the commands of qq runs: they list, show, cancel and clear what is in
// the ledger.
//
// Flow: [Command] returns them for the tree of commands. Each opens the ledger, asks it and
// prints the answer: JSON with --json, else text for people. Tasks, errors and answers come
// from models, so text for people goes through [command.Printable], which keeps it from
// controlling the terminal.
//
// A run is one execution, a batch is a list of runs that were started together, and a
// root is the qq process that they belong to. People may write a short id: the last
// eight characters of an id. " *" after a status marks a run at work.
package runs

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"qq/internal/app/command"
	"qq/internal/app/runs/filter"
	"qq/internal/app/values"
	"qq/internal/control"
	"qq/internal/record/history"
	"qq/internal/record/ledger"
	"qq/internal/record/plans"
	"qq/pkg/task"
)

// runs has what all commands of this package share. Each command is a method.
type runs struct{ *command.Invocation }

// Command returns the command qq runs with its subcommands, and with more of them.
func Command(i *command.Invocation, more ...*cli.Command) *cli.Command {
	r := runs{i}
	plain := command.LookFlags()
	choose := append([]cli.Flag{
		command.Choice(&cli.StringFlag{Name: "status", Usage: "those that ended so, or stand so: failed,timeout"},
			values.StatusNames()),
		&cli.StringFlag{Name: "agent", Aliases: []string{"a"}, Usage: "those of this agent"},
		&cli.StringFlag{Name: "batch", Usage: "those of the batch with this id"},
		&cli.StringFlag{Name: "since", Usage: "those from then on: 2h, 3d, 2026-11-20"},
		&cli.StringFlag{Name: "before", Usage: "those before then"},
	}, plain...)
	show := append([]cli.Flag{
		&cli.BoolFlag{Name: "log", Usage: "print the transcripts of it and of its jobs: messages, tool calls, results"},
	}, plain...)
	list := append([]cli.Flag{
		&cli.BoolFlag{Name: "live", Usage: "those that are at work"},
		&cli.IntFlag{Name: "limit", Value: DefaultLimit, Usage: "at most so many; 0 is all"},
	}, choose...)
	forget := append([]cli.Flag{
		&cli.BoolFlag{Name: "all", Usage: "all that have ended, also batches that could go on"},
	}, choose...)
	return &cli.Command{
		Name: "runs", Usage: "what was run and what is at work, from the ledger", Flags: list, Action: r.listRuns,
		Subcommands: append([]*cli.Command{
			{Name: "list", Usage: "list runs and batches, the newest first", Flags: list, Action: r.listRuns},
			{
				Name: "show", Usage: "print one with its attempts and its answer",
				ArgsUsage: "ID", Flags: show, Action: r.showRun,
			},
			{
				Name: "tree", Usage: "print a run, or a batch, and all that it started",
				ArgsUsage: "ID", Flags: plain, Action: r.runTree,
			},
			{
				Name: "diff", Usage: "compare two runs, or two batches: answers, time, tokens, calls",
				ArgsUsage: "ID ID", Flags: plain, Action: r.diffRuns,
			},
			{
				Name: "stats", Usage: "add up runs by agent and model: success, time, tokens, cost, failures",
				Flags: choose, Action: r.statsOfRuns,
			},
			{
				Name: "cancel", Usage: "end one task, or a whole run or batch, with all that it started",
				Description: "The ID of a task that an agent or a batch has started ends that task alone: the " +
					"others go on. The ID of a prompt or of a batch ends the whole run.",
				ArgsUsage: "ID", Flags: plain, Action: r.cancelRun,
			},
			{
				Name: "clear", Usage: "forget runs that have ended: those that are chosen, or --all",
				Flags: forget, Action: r.clearRuns,
			},
		}, more...),
	}
}

// inLedger opens the ledger and calls f with it.
func (r runs) inLedger(c *cli.Context, f func(*ledger.Ledger, layout) error) error {
	cfg, _, err := r.Configure(c)
	if err != nil {
		return err
	}
	led, err := ledger.Open(cfg.Home, ledger.Options{Keep: time.Duration(cfg.KeepRuns) * 24 * time.Hour})
	if err != nil {
		return err
	}
	o := layout{
		JSON: c.Bool("json"), Now: time.Now(), Limit: c.Int("limit"), Width: r.Out.Width(), Home: cfg.Home,
	}
	return errors.Join(f(led, o), led.Close())
}

func (r runs) listRuns(c *cli.Context) error {
	if c.Args().Present() {
		return command.NoCommand(c)
	}
	f, err := filter.Read(c, time.Now())
	if err != nil {
		return err
	}
	return r.inLedger(c, func(led *ledger.Ledger, o layout) error {
		if f.Limit > 0 {
			f.Limit++ // one more tells whether there are others
		}
		list, batches, err := query(led, f)
		if err != nil {
			return runsError(err)
		}
		waits := unstarted(o.Home, f)
		if o.Told = waits.counts(); f.Agent != "" || f.Batch != "" || len(f.Status) > 0 {
			if len(f.Status) == 0 || slices.Contains(f.Status, task.Queued) {
				list = append(waits.chosen(f), list...)
			}
		}
		if o.Limit > 0 && len(list)+len(batches) > o.Limit && !o.JSON {
			r.Note("there are more (--limit is %d): --limit 0 shows all", o.Limit)
		}
		if len(list)+len(batches) == 0 && !o.JSON {
			r.Say("no runs")
			return nil
		}
		o.Status, o.Batch = len(f.Status) > 0, f.Batch != ""
		return printRuns(r.Out, list, batches, o)
	})
}

// runsError makes err a usage error if the user can correct it, for example a wrong id.
func runsError(err error) error {
	if errors.Is(err, ledger.ErrNone) || errors.Is(err, ledger.ErrAmbiguous) || errors.Is(err, ledger.ErrEnded) {
		return command.Usage(command.Advised(err, "qq runs list shows them"))
	}
	return err
}

// oneRun opens the ledger and calls f with it and with the id from the command line.
func (r runs) oneRun(c *cli.Context, f func(led *ledger.Ledger, id string, o layout) error) error {
	if c.NArg() != 1 {
		return command.Usagef("qq runs list shows them", "%s takes one id", c.Command.HelpName)
	}
	return r.inLedger(c, func(led *ledger.Ledger, o layout) error { return runsError(f(led, c.Args().First(), o)) })
}

func (r runs) showRun(c *cli.Context) error {
	return r.oneRun(c, func(led *ledger.Ledger, id string, o layout) error {
		if c.Bool("log") {
			return r.showLog(history.New(led, o.Home), id, o)
		}
		run, attempts, result, err := led.Show(id)
		if b, findErr := led.Find(id); errors.Is(err, ledger.ErrNone) && findErr == nil {
			return r.showBatch(led, b, o)
		}
		if err != nil {
			return err
		}
		if o.Shares, err = led.Shares(run.ID); err != nil {
			return err
		}
		return printRun(r.Out, run, attempts, result, o)
	})
}

// MaxShown is the largest number of runs of a batch that qq runs show prints. With --json
// there is no limit.
const MaxShown = 100

// showBatch prints a batch and its runs.
func (r runs) showBatch(led *ledger.Ledger, b ledger.Batch, o layout) error {
	rows, err := led.Batches(ledger.Filter{Batch: b.ID, Limit: 1})
	if err != nil {
		return err
	}
	if len(rows) == 0 { // it was cleared meanwhile
		return fmt.Errorf("show %s: %w", b.ID, ledger.ErrNone)
	}
	most := MaxShown + 1 // one more tells whether there are others
	if o.JSON {
		most = 0
	}
	tasks, err := led.List(ledger.Filter{Batch: b.ID, Limit: most})
	if err != nil {
		return err
	}
	if len(tasks) > MaxShown && !o.JSON {
		tasks = tasks[:MaxShown]
		r.Note("only the newest %d are shown: qq runs list --batch %s --limit 0 shows all", MaxShown,
			task.ShortID(b.ID))
	}
	if o.Shares, err = led.Shares(b.ID); err != nil {
		return err
	}
	o.Limit = 0 // the limit of a list does not apply
	return printBatch(r.Out, rows[0], tasks, o)
}

func (r runs) runTree(c *cli.Context) error {
	return r.oneRun(c, func(led *ledger.Ledger, id string, o layout) error {
		list, err := led.Tree(id)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(list, atWork) {
			batch := ""
			if list[0].Parent == "" {
				batch = list[0].Batch
			}
			list = append(list, waiting(control.Look(o.Home)).below(list, batch)...)
		}
		return printTree(r.Out, list, o)
	})
}

func (r runs) clearRuns(c *cli.Context) error {
	f, err := filter.Read(c, time.Now())
	if err != nil {
		return err
	}
	f.Limit = 0 // the limit of a list does not apply
	chosen := f.Batch != "" || f.Agent != "" || len(f.Status) > 0 || !f.Since.IsZero() || !f.Until.IsZero()
	switch all := c.Bool("all"); {
	case all && chosen:
		return command.Usagef("leave it out: what is chosen is cleared",
			"--all is given together with what chooses some")
	case !all && !chosen:
		return command.Usagef("choose with --before 30d, --batch, --status …, or say --all",
			"%s would forget everything, also batches that could go on", c.Command.HelpName)
	}
	return r.inLedger(c, func(led *ledger.Ledger, o layout) error {
		if f.Batch != "" {
			b, err := led.Find(f.Batch)
			if err != nil {
				return runsError(err)
			}
			f.Batch = b.ID
		}
		n, err := led.Clear(f)
		if err != nil {
			return err
		}
		for _, id := range plans.IDs(o.Home) {
			if _, err := led.Find(id); errors.Is(err, ledger.ErrNone) {
				plans.Remove(o.Home, id)
			}
		}
		return printCleared(r.Out, n, o)
	})
}
