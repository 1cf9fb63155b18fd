// Package planning is the command qq plan: an agent looks at the project and splits a task, and the tasks that it
// hands out are printed instead of run.
//
// Flow: [Command] reads the flags and the task. Its [Process] runs the agent with a [Catcher] between the agent and
// its real parent: the catcher checks the tasks of the first answer that hands some out, and keeps them. The next
// request to the model then ends the run. The tasks are printed as JSON Lines, which qq batch takes as they are.
package planning

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/urfave/cli/v2"

	"qq/internal/app/command"
	"qq/internal/app/output"
	"qq/internal/app/prompt"
	"qq/internal/config"
	"qq/pkg/agents"
	"qq/pkg/task"
)

// planner is the agent that makes a plan, unless --agent names another one.
const planner = "planner"

// Process is the root process that the command runs in.
type Process interface {
	// Open changes to the working directory and reads the settings.
	Open(c *cli.Context) (*command.Checkout, error)
	// Trust returns the settings that count and the working directory. It may ask a person.
	Trust(c *cli.Context) (config.Config, string, error)
	// Split runs the agent on the task of the order, and nothing that it hands out.
	Split(ctx context.Context, o Order) (task.Result, error)
}

// Order is what the command tells its process to run.
type Order struct {
	Agent    agents.Agent
	Task     task.Task
	Settings config.Config
	Dir      string // the working directory
	NoLedger bool
	Verbose  bool
	MaxTurns int // 0 means the limit of the agent
	Catcher  *Catcher
}

const description = `The agent planner looks at the project and splits the task. Its plan is printed as JSON Lines, one task a line,
which qq batch takes as they are, and nothing is started or changed:
  qq plan "Rename Foo to Bar everywhere" -o plan.jsonl
  qq batch plan.jsonl`

// Command makes the command qq plan, to be run in the process p.
func Command(i *command.Invocation, p Process) *cli.Command {
	run := &planRun{Invocation: i, process: p}
	return &cli.Command{
		Name: "plan", Usage: "split a task into tasks for qq batch, and print them", ArgsUsage: "[PROMPT…]",
		Description: description,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "message", Aliases: []string{"m", "prompt", "p"},
				Usage: "the task; - reads it from stdin"},
			&cli.StringFlag{Name: "message-file", Aliases: []string{"f"}, Usage: "file with the task; - is stdin"},
			prompt.FlagImage(),
			&cli.BoolFlag{Name: "no-stdin", Usage: "do not read stdin, whatever it is"},
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "file for the plan instead of stdout"},
			&cli.StringFlag{Name: "agent", Aliases: []string{"a"}, Usage: "the agent that plans, instead of planner"},
			command.FlagModel, command.FlagFallback, command.FlagCwd, command.FlagTimeout, command.FlagIdle,
			command.FlagRetries, command.FlagTokens, command.FlagCost, command.FlagQuota, command.FlagNoLedger,
			&cli.IntFlag{Name: "max-turns", Usage: "model calls of the agent"},
			command.FlagQuiet, command.FlagVerbose, command.FlagNoColor,
		}, command.PermissionFlags()...),
		Action: run.run,
	}
}

// planRun is one run of the command.
type planRun struct {
	*command.Invocation
	process Process
	file    *os.File // of -o; nil means stdout
	made    bool     // file did not exist before
}

// run makes the plan and prints it.
func (p *planRun) run(c *cli.Context) error {
	checkout, err := p.process.Open(c)
	if err != nil {
		return err
	}
	if c.IsSet("max-turns") && c.Int("max-turns") < 1 {
		return command.Usagef("accepted is a whole number from 1 on", "--max-turns is %d", c.Int("max-turns"))
	}
	t, err := prompt.Task(p.Invocation, c, nil)
	if err != nil {
		return err
	}
	if err := t.Validate(); err != nil {
		return command.Usagef("qq plan --help shows how a task is given", "%v", err)
	}
	cfg, dir, err := p.process.Trust(c)
	if err != nil {
		return err
	}
	agent, err := command.FindAgent(checkout.Agents, cmp.Or(c.String("agent"), planner))
	if err != nil {
		return err
	}
	if !agent.Delegates() {
		return command.Usagef("name one that has the tool run_parallel_tasks, or leave --agent out",
			"the agent %s hands out no tasks", agent.Name)
	}
	t.Agent = agent.Name
	if err := p.open(c); err != nil {
		return err
	}
	catcher := &Catcher{}
	res, err := p.process.Split(c.Context, Order{Agent: agent, Task: t, Settings: cfg, Dir: dir,
		NoLedger: c.Bool("no-ledger"), Verbose: c.Bool("verbose"), MaxTurns: c.Int("max-turns"), Catcher: catcher})
	for _, w := range res.Warnings {
		p.Say("warning: %s", w)
	}
	if err == nil && !res.Success {
		command.Report(p.Err, errors.New(res.Err()))
		err = command.Said(res.ExitCode)
	}
	if err == nil {
		err = p.print(catcher.Tasks())
	}
	return errors.Join(err, p.close(err))
}

// open opens the file of -o, before the model is asked. It does not change the file yet.
func (p *planRun) open(c *cli.Context) error {
	name := c.String("output")
	if name == "" {
		return output.Writable(p.Out)
	}
	out, err := os.Stat(name)
	p.made = errors.Is(err, fs.ErrNotExist)
	if err == nil && out.Mode().IsRegular() {
		asked, _ := os.Stat(c.String("message-file")) // nil if there is none
		piped, _ := p.In.Stat()
		if os.SameFile(asked, out) || os.SameFile(piped, out) {
			return command.Usagef("give another file with -o", "-o would overwrite %s, which has the task", name)
		}
	}
	if p.file, err = output.OpenFile(c.Context, name); err != nil {
		if c.Context.Err() != nil {
			return context.Cause(c.Context)
		}
		return command.Usagef("-o takes a file that you may write", "%v", err)
	}
	return nil
}

// print writes the tasks, and says on stderr what to do with them.
func (p *planRun) print(tasks []task.Task) error {
	out, name := p.Out, "PLAN"
	if p.file != nil {
		out, name = p.Screen.Output(p.file), p.file.Name()
		if info, err := p.file.Stat(); err == nil && info.Mode().IsRegular() {
			if err := p.file.Truncate(0); err != nil {
				return command.Usagef("-o takes a file that you may write", "%v", err)
			}
		}
	}
	checks := 0
	for _, t := range tasks {
		if err := output.WriteJSON(out, t); err != nil {
			return err
		}
		if t.Check != "" {
			checks++
		}
	}
	p.Screen.Drain()
	if p.file != nil || p.Out.Terminal() {
		p.Note("%s: read them, then: qq batch %s", count(len(tasks), "task"), name)
	}
	const asks = "warning: a model wrote the check of %s, which is a command: qq batch asks about it until you "
	switch {
	case checks > 0 && p.file != nil:
		p.Say(asks+"have looked at it and run: qq trust %s", count(checks, "task"), name)
	case checks > 0:
		p.Say(asks+"keep the plan with -o FILE, look at it, and run: qq trust FILE", count(checks, "task"))
	}
	return nil
}

// count returns a number with its noun.
func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// close closes the file of -o. It removes the file if there was none before and err says that it has no plan.
func (p *planRun) close(err error) error {
	if p.file == nil {
		return nil
	}
	if err != nil && p.made {
		_ = os.Remove(p.file.Name())
	}
	return output.WriteError(p.file.Close())
}
