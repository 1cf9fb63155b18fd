// Package checks holds the flags that say how the work of tasks is verified, and says which checks a person gave.
//
// Flow: [Flags] are flags of qq and of qq batch, and [Read] reads them. [Options.Complete] adds them to a task. A task
// that may only read has no check. [Begin] and [Origin.End] say who vouches for the checks that stand in tasks.
package checks

import (
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"qq/internal/app/command"
	"qq/pkg/agents"
	"qq/pkg/task"
)

// repairs is how often work goes back to its agent unless --repair says otherwise, and maxRepairs the most that it
// accepts.
const repairs, maxRepairs = 1, 20

// Flags returns the flags.
func Flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "check",
			Usage: "command that must succeed when the agent says that it is done, such as 'go test ./...'"},
		&cli.StringFlag{Name: "repair",
			Usage: "how often an agent whose work fails its check may repair it (1)"},
		&cli.BoolFlag{Name: "require-change",
			Usage: "an agent that says that it is done and has changed nothing has failed"},
	}
}

// Options are the values of the flags.
type Options struct {
	Repairs int // how often work that fails its check goes back to the agent

	check         string
	requireChange bool
	repair        bool // --repair was given
	applied       bool // a task has a check, or must change something
}

// Read reads the flags.
func Read(c *cli.Context) (Options, error) {
	o := Options{
		Repairs: repairs, check: c.String("check"), requireChange: c.Bool("require-change"), repair: c.IsSet("repair"),
	}
	if err := (task.Task{Text: "any", Check: o.check}).Validate(); err != nil ||
		c.IsSet("check") && strings.TrimSpace(o.check) == "" {
		return o, command.Usagef("for example: --check 'go test ./...'", "--check is no command: %q",
			task.Shorten(o.check, 100))
	}
	if o.repair {
		n, err := strconv.Atoi(c.String("repair"))
		if err != nil || n < 0 || n > maxRepairs {
			return o, command.Usagef("accepted is a whole number from 0 to 20", "--repair is %q", c.String("repair"))
		}
		o.Repairs = n
	}
	return o, nil
}

// Agents finds the definitions of agents.
type Agents interface {
	Agent(name string) (agents.Agent, error)
}

// Complete returns t with what the flags say. readOnly says that no task of the run may change anything. A check of its
// own goes before that of the flag; it is asked about unless the person that vouches for the tasks gave it.
func (o *Options) Complete(t task.Task, known Agents, readOnly bool, v Vouch) task.Task {
	t.CheckAsked = t.Check != "" && (v == Nobody || v == Given && t.CheckAsked)
	o.applied = o.applied || t.Check != ""
	if o.check == "" && !o.requireChange || readOnly || t.ReadOnly {
		return t
	}
	if a, err := known.Agent(t.Normalized().Agent); err == nil && !a.Gathers() {
		if t.Check == "" {
			t.Check = o.check
		}
		t.RequireChange, o.applied = o.requireChange, true
	}
	return t
}

// Bars returns an error if t has a check of its own and may change nothing.
func Bars(t task.Task, known Agents, readOnly bool) error {
	if t.Check == "" {
		return nil
	}
	a, err := known.Agent(t.Normalized().Agent)
	if err == nil && (readOnly || t.ReadOnly || a.Gathers()) {
		err = task.Hinted("leave the check out, or name an agent that can change something, such as coder",
			"check is given, and %s may only read here", a.Name)
	}
	return err
}

// Unused returns an error if a flag was given that no completed task can have.
func (o *Options) Unused() error {
	switch {
	case o.applied:
		return nil
	case o.check != "" || o.requireChange:
		flag := "--check"
		if o.check == "" {
			flag = "--require-change"
		}
		return command.Usagef("leave it out, or use an agent that can change something, such as coder",
			"%s is given, and nothing here may change anything", flag)
	case o.repair:
		return command.Usagef("give --check or --require-change, or a check in a task",
			"--repair is given, and no task has a check")
	}
	return nil
}
