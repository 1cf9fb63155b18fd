package app

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/urfave/cli/v2"

	"qq/internal/app/definitions"
	"qq/internal/app/output"
	"qq/internal/config"
	"qq/pkg/agents"
	"qq/pkg/task"
)

func (r *root) agentsCommand() *cli.Command {
	flags := []cli.Flag{flagCwd, flagPlain, flagQuiet}
	return &cli.Command{
		Name: "agents", Usage: "the agent definitions, and where each came from", Flags: flags, Action: r.listAgents,
		Subcommands: []*cli.Command{
			{Name: "list", Usage: "list them", Flags: flags, Action: r.listAgents},
			{Name: "show", Usage: "print one as it takes effect", ArgsUsage: "NAME", Flags: flags, Action: r.showAgent},
			{Name: "new", Usage: "write a definition to begin with into .qq/agents", ArgsUsage: "NAME", Flags: append([]cli.Flag{
				&cli.StringFlag{Name: "description", Usage: "what it does, and what to give it"},
				&cli.BoolFlag{Name: "user", Usage: "write it where all your projects find it"}}, flags...), Action: r.newAgent},
			{Name: "check", Usage: "say what is wrong with definitions", ArgsUsage: "[NAME | FILE…]", Flags: flags, Action: r.checkDefinitions},
		},
	}
}

func (r *root) registry(c *cli.Context) (*agents.Registry, error) {
	_, dir, err := r.configure(c)
	if err != nil {
		return nil, err
	}
	return loadAgents(dir, r.env), nil
}

// lookup finds an agent; that there is none, or a broken one, is a mistake of a
// person.
func lookup(reg *agents.Registry, name string) (agents.Agent, error) {
	a, err := reg.Lookup(name)
	if _, ok := errors.AsType[*agents.NotFoundError](err); ok {
		return a, usage(advised(err, "qq agents list shows them, and where each came from"))
	}
	if err != nil {
		return a, usage(advised(err, "mend or remove the file"))
	}
	return a, nil
}

func (r *root) listAgents(c *cli.Context) error {
	if c.Args().Present() {
		return usagef("accepted is list, show NAME, new NAME or check", "qq agents has no command %q", c.Args().First())
	}
	reg, err := r.registry(c)
	if err != nil {
		return err
	}
	rows := definitions.List(reg)
	if c.Bool("json") {
		return output.WriteJSON(r.Out, rows)
	}
	return definitions.WriteList(r.Out, rows, r.say)
}

func (r *root) showAgent(c *cli.Context) error {
	if c.NArg() != 1 {
		return usagef("for example: qq agents show default", "qq agents show takes one name")
	}
	reg, err := r.registry(c)
	if err != nil {
		return err
	}
	a, err := lookup(reg, c.Args().First())
	if err != nil {
		return err
	}
	shown := definitions.Show(reg, a)
	if c.Bool("json") {
		return output.WriteJSON(r.Out, shown)
	}
	return shown.Write(r.Out, r.say)
}

// agentMade is a new definition for scripts.
type agentMade struct {
	Name  string   `json:"name"`
	Path  string   `json:"path"`
	Hides []string `json:"hides,omitempty"`
}

func (r *root) newAgent(c *cli.Context) error {
	if c.NArg() != 1 {
		return usagef("for example: qq agents new reviewer", "qq agents new takes one name")
	}
	name := c.Args().First()
	file, text, err := agents.Starter(name, c.String("description"))
	if err != nil {
		return usage(advised(err, "for example: qq agents new code-reviewer"))
	}
	_, work, err := r.configure(c)
	if err != nil {
		return err
	}
	home := config.XDG(r.env, "XDG_CONFIG_HOME")
	dirs := agents.Dirs(work, home)
	to := dirs[0]
	if c.Bool("user") {
		if home == "" {
			return usagef("set HOME or XDG_CONFIG_HOME to an absolute path", "there is no folder of your settings")
		}
		to = dirs[len(dirs)-1]
	}
	path, err := to.Create(file, text)
	if errors.Is(err, fs.ErrExist) {
		return usage(advised(err, "edit that one, remove it, or take another name"))
	}
	if err != nil {
		return advised(err, "make the folder one that you can write to, or use --user for that of your settings")
	}
	made := agentMade{name, path, r.effect(loadAgents(work, r.env), name, path)}
	r.note("write what it does into the file, then: qq agents check %s", name)
	if c.Bool("json") {
		return output.WriteJSON(r.Out, made)
	}
	_, err = fmt.Fprintln(r.Out, output.Printable(path))
	return output.WriteError(err)
}

// effect says whether the definition at path is the one that counts for name,
// and returns what it hides.
func (r *root) effect(reg *agents.Registry, name, path string) []string {
	a, err := reg.Lookup(name)
	switch {
	case err != nil:
		r.say("it does not take effect yet: %v", err)
		return nil
	case a.Source != path:
		r.say("it does not take effect: %s goes before it", a.Source)
		return nil
	}
	hides := definitions.HiddenBy(reg, a)
	if len(hides) > 0 {
		r.note("it hides %s", strings.Join(hides, ", "))
	}
	return hides
}

func (r *root) checkDefinitions(c *cli.Context) error {
	reg, err := r.registry(c)
	if err != nil {
		return err
	}
	checks, wrong, odd, err := definitions.Check(reg, c.Args().Slice())
	if err != nil {
		return usage(err)
	}
	if c.Bool("json") {
		err = output.WriteJSON(r.Out, checks)
	} else {
		err = definitions.WriteChecks(r.Out, checks)
	}
	if err != nil {
		return err
	}
	r.note("checked: %d, errors: %d, warnings: %d", len(checks), wrong, odd)
	if wrong > 0 {
		return said(task.Misused.ExitCode())
	}
	return nil
}
