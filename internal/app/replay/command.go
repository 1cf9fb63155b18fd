package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"qq/internal/app/command"
	"qq/internal/app/figures"
	"qq/internal/app/output"
	"qq/internal/record/history"
	"qq/internal/record/ledger"
	"qq/pkg/task"
)

// Process is what the command needs of the program.
type Process interface {
	// Open changes to the working directory and reads the settings.
	Open(c *cli.Context) (*command.Checkout, error)
	// Rehearse returns where agents are prepared. What they use counts against the limits of the settings.
	Rehearse(c *cli.Context) (Stage, error)
}

// replays is the command.
type replays struct {
	*command.Invocation
	process Process
}

// most is how many jobs are replayed without --limit.
const most = 20

// Command returns the command qq runs replay.
func Command(i *command.Invocation, p Process) *cli.Command {
	r := replays{i, p}
	return &cli.Command{
		Name:  "replay",
		Usage: "give a task again to another model or prompt, with the recorded results of its tools",
		Description: "The ID of a run replays its task, that of a batch all its jobs that failed. Nothing is " +
			"touched: no tool is run. A call that is not in the record ends a replay as not_recorded. The agent " +
			"is the one that is defined here and now, so a changed definition is tried too.",
		ArgsUsage: "ID",
		Flags: []cli.Flag{
			command.FlagModel,
			&cli.StringFlag{Name: "system", Usage: "system prompt instead of the agent's own"},
			&cli.StringFlag{Name: "prompt", Usage: "task instead of the recorded one"},
			&cli.BoolFlag{Name: "failed", Usage: "the jobs of the run that failed, at any depth"},
			&cli.IntFlag{Name: "limit", Value: most, Usage: "at most so many jobs; 0 is all"},
			command.FlagTokens, command.FlagCost, command.FlagCwd,
			command.FlagJSON, command.FlagQuiet, command.FlagNoColor,
		},
		Action: r.replay,
	}
}

func (r replays) replay(c *cli.Context) error {
	if c.NArg() != 1 {
		return command.Usagef("qq runs list shows them", "%s takes one id", c.Command.HelpName)
	}
	if c.Int("limit") < 0 {
		return command.Usagef("accepted is a whole number from 0 on; 0 is all", "--limit is %d", c.Int("limit"))
	}
	o, err := r.process.Open(c)
	if err != nil {
		return err
	}
	led, err := ledger.Open(o.Settings.Home, ledger.Options{})
	if err != nil {
		return err
	}
	return errors.Join(r.from(c, history.New(led, o.Settings.Home)), led.Close())
}

// from replays what the command line names.
func (r replays) from(c *cli.Context, h history.History) error {
	jobs, err := r.chosen(c, h)
	if err != nil {
		return err
	}
	if most := c.Int("limit"); most > 0 && len(jobs) > most {
		r.Note("only %d of %d jobs are replayed (--limit): --limit 0 replays all", most, len(jobs))
		jobs = jobs[:most]
	}
	stage, err := r.process.Rehearse(c)
	if err != nil {
		return err
	}
	p := player{h, stage, changes{c.String("model"), c.String("system"), c.String("prompt")}}
	all, code := []replayed{}, 0
	for n, j := range jobs {
		if c.Context.Err() != nil {
			break
		}
		if len(jobs) > 1 {
			r.Note("replaying %d of %d: %s", n+1, len(jobs), task.ShortID(j.ID))
		}
		one, err := p.play(c.Context, j)
		if reason := why(err); reason != "" && len(jobs) > 1 {
			r.Say("%s is left out: %s", task.ShortID(j.ID), reason)
			continue
		} else if reason != "" {
			return command.Usagef("qq runs show ID prints its result; --ephemeral and --no-ledger keep no transcript",
				"%s cannot be replayed: %s", j.ID, reason)
		}
		if err != nil && (len(jobs) == 1 || c.Context.Err() != nil) {
			return err
		}
		if err != nil { // the others may have another agent and another model
			r.Say("%s is left out: %v", task.ShortID(j.ID), err)
			code = cmp.Or(code, task.StatusOf(err).ExitCode())
			continue
		}
		if len(one.Left) > 0 {
			r.Say("%s: not replayed: %s", task.ShortID(j.ID), strings.Join(one.Left, ", "))
		}
		all = append(all, one)
		code = cmp.Or(code, one.B.ExitCode)
		if !c.Bool("json") {
			if err := r.print(j, one); err != nil {
				return err
			}
		}
	}
	return r.end(c.Context, c.Bool("json"), all, code)
}

// chosen returns the jobs that are to be replayed.
func (r replays) chosen(c *cli.Context, h history.History) ([]*history.Job, error) {
	id := c.Args().First()
	run, err := h.Run(id)
	if errors.Is(err, ledger.ErrNone) || errors.Is(err, ledger.ErrAmbiguous) {
		return nil, command.Usage(command.Advised(fmt.Errorf("replay %w", err), "qq runs list shows them"))
	}
	if err != nil {
		return nil, err
	}
	if run.Batch == nil && !c.Bool("failed") {
		if j := run.Jobs[0]; j.Live {
			return nil, command.Usagef("replay it when it has ended", "%s is at work", j.ID)
		}
		return run.Jobs[:1], nil
	}
	jobs := failed(run)
	if len(jobs) == 0 {
		return nil, command.Usagef("name one of its jobs: qq runs tree "+task.ShortID(run.ID)+" shows them",
			"no job of %s has failed", run.ID)
	}
	if c.String("prompt") != "" && len(jobs) > 1 {
		return nil, command.Usagef("name one of them: qq runs tree "+task.ShortID(run.ID)+" shows them",
			"--prompt replaces one task, and %d jobs failed", len(jobs))
	}
	return jobs, nil
}

// print shows the recorded job and the replay side by side.
func (r replays) print(j *history.Job, one replayed) error {
	text := "── " + output.OneLine(task.Shorten(j.Task, 100)) + "\n" +
		output.Beside(heading("recorded", one.A), heading("replayed", one.B), one.A.Answer, one.B.Answer, r.Out.Width())
	_, err := r.Out.WriteString(text + "\n")
	return output.WriteError(err)
}

// heading is what is known about a side, besides its answer.
func heading(name string, s *history.Side) string {
	text := fmt.Sprintf("%s: %s, %s\n%s, %s, %s tokens", name, s.Agent, cmp.Or(s.Model, "no model"), s.Status,
		figures.Roundly(s.Ended.Sub(s.Started)), figures.Tokens(s.Usage))
	if calls := output.Calls(s.Did); calls != "" {
		text += "\n" + calls
	}
	if s.Error != "" {
		text += "\n" + strings.TrimSpace(s.Error)
	}
	return text
}

// end prints all replays as JSON, or how they ended. The exit code is that of the first that was no success.
func (r replays) end(ctx context.Context, asJSON bool, all []replayed, code int) error {
	if asJSON {
		if err := output.WriteJSON(r.Out, struct {
			Replays []replayed `json:"replays"`
		}{all}); err != nil {
			return err
		}
	} else if len(all) > 1 {
		r.Say("%s", total(all))
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if code != 0 {
		return command.Said(code)
	}
	return nil
}
