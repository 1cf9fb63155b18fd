// Package definitions is the command qq agents: it lists, shows, checks and begins the definitions of agents.
//
// Flow: [Command] returns it for the tree of commands. It reads the definitions that are available in the working
// directory and prints JSON with --json, else text for people. Definitions come from checkouts, so text for people
// goes through [command.Printable], which keeps it from controlling the terminal.
package definitions

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"qq/internal/app/command"
	"qq/internal/app/output"
	"qq/pkg/agents"
)

// commands has what the subcommands share. Each is a method.
type commands struct {
	*command.Invocation
}

// Command makes the command qq agents.
func Command(i *command.Invocation) *cli.Command {
	r, flags := commands{i}, command.LookFlags()
	newFlags := append([]cli.Flag{
		&cli.StringFlag{Name: "description", Usage: "what it does, and what to give it"},
		&cli.BoolFlag{Name: "user", Usage: "write it where all your projects find it"},
	}, flags...)
	return &cli.Command{
		Name: "agents", Usage: "the agent definitions, and where each came from", Flags: flags, Action: r.listAgents,
		Subcommands: []*cli.Command{
			{Name: "list", Usage: "list them", Flags: flags, Action: r.listAgents},
			{Name: "show", Usage: "print one as it takes effect", ArgsUsage: "NAME", Flags: flags, Action: r.showAgent},
			{
				Name: "new", Usage: "write a definition to begin with into .qq/agents", ArgsUsage: "NAME",
				Flags: newFlags, Action: r.newAgent,
			},
			{
				Name: "check", Usage: "say what is wrong with definitions", ArgsUsage: "[NAME | FILE…]",
				Flags: flags, Action: r.checkAgents,
			},
		},
	}
}

func (r commands) registry(c *cli.Context) (*agents.Registry, error) {
	if _, _, err := r.Configure(c); err != nil {
		return nil, err
	}
	return r.Checkout.Agents, nil
}

// AgentRow is one agent in the JSON output of qq agents list. Hides has the sources of the
// definitions that it hides, Ignored of those that would hide it if they were trusted.
type AgentRow struct {
	agents.Agent
	Hides   []string `json:"hides,omitempty"`
	Ignored []string `json:"ignored,omitempty"`
	Error   string   `json:"error,omitempty"`
}

func (r commands) listAgents(c *cli.Context) error {
	if c.Args().Present() {
		return command.NoCommand(c)
	}
	reg, err := r.registry(c)
	if err != nil {
		return err
	}
	rows := []AgentRow{}
	for _, e := range reg.List() {
		row := AgentRow{Agent: e.Agent, Hides: e.Hides, Ignored: e.Ignored}
		if e.Err != nil {
			row.Error = e.Err.Error()
		}
		rows = append(rows, row)
	}
	if c.Bool("json") {
		return output.WriteJSON(r.Out, rows)
	}
	t := output.Table{{"AGENT", "ROLE", "FROM", "DESCRIPTION"}}
	for _, row := range rows {
		if row.Error != "" {
			r.Say("%s", row.Error)
			continue
		}
		from := row.Source
		if len(row.Hides) > 0 {
			from += " (hides " + strings.Join(row.Hides, ", ") + ")"
		}
		if len(row.Ignored) > 0 {
			from += " (ignored, not trusted: " + strings.Join(row.Ignored, ", ") + ")"
		}
		t = append(t, []string{row.Name, row.Role, command.Printable(from), output.OneLine(row.Description)})
		for _, warning := range row.Warnings {
			r.Say("%s", agents.Located(row.Source, warning))
		}
	}
	_, err = r.Out.WriteString(strings.Join(t.Wrapped(r.Out.Width()), "\n") + "\n")
	return output.WriteError(err)
}

// ShownAgent is the JSON output of qq agents show: one agent with its definition, including
// defaults.
type ShownAgent struct {
	agents.Agent
	EffectiveTools []string `json:"effective_tools"`
	Hides          []string `json:"hides,omitempty"`
	Ignored        []string `json:"ignored,omitempty"` // they are not trusted
}

func (r commands) showAgent(c *cli.Context) error {
	if c.NArg() != 1 {
		return command.Usagef("for example: qq agents show default", "qq agents show takes one name")
	}
	reg, err := r.registry(c)
	if err != nil {
		return err
	}
	a, err := command.FindAgent(reg, c.Args().First())
	if err != nil {
		return err
	}
	e := entryOf(reg, a)
	shown := ShownAgent{Agent: a, EffectiveTools: a.Toolset(), Hides: e.Hides, Ignored: e.Ignored}
	if c.Bool("json") {
		return output.WriteJSON(r.Out, shown)
	}
	w := tabwriter.NewWriter(r.Out, 0, 4, 2, ' ', 0)
	for _, row := range shown.rows() {
		if row[1] != "" {
			fmt.Fprintf(w, "%s:\t%s\n", row[0], command.Printable(row[1]))
		}
	}
	if err := w.Flush(); err != nil {
		return output.WriteError(err)
	}
	for _, warning := range a.Warnings {
		r.Say("%s", agents.Located(a.Source, warning))
	}
	_, err = fmt.Fprintf(r.Out, "\n%s\n", command.Printable(strings.TrimSpace(a.Prompt)))
	return output.WriteError(err)
}

// entryOf returns the entry of the agent a in the list of all agents; empty if a is not in use.
func entryOf(reg *agents.Registry, a agents.Agent) agents.Entry {
	for _, e := range reg.List() {
		if e.Err == nil && e.Agent.Source == a.Source && e.Agent.Name == a.Name {
			return e
		}
	}
	return agents.Entry{}
}

// rows returns name and value of each line that is printed above the prompt. A line without
// a value is not printed.
func (s ShownAgent) rows() [][2]string {
	role := s.Role
	if s.Gathers() {
		role += " (it and those it asks only read)"
	}
	tools := strings.Join(s.EffectiveTools, ", ")
	switch {
	case len(s.EffectiveTools) == 0:
		tools = "none"
	case s.Tools == nil:
		tools = "every tool: " + tools
	}
	others := strings.Join(s.Agents, ", ")
	if s.Agents != nil && others == "" {
		others = "none"
	}
	template := ""
	if s.PromptTemplate != "" {
		template = "a model writes the prompt for each task; when it does not, it is the one below"
	}
	ofRun := func(set bool, value any) string {
		if !set {
			return "that of the run"
		}
		return fmt.Sprint(value)
	}
	return [][2]string{
		{"name", s.Name}, {"description", strings.Join(strings.Fields(s.Description), " ")}, {"from", s.Source},
		{"hides", strings.Join(s.Hides, ", ")}, {"not trusted", strings.Join(s.Ignored, ", ")}, {"role", role},
		{"tools", tools},
		{"only", strings.Join(s.Within, ", ")}, {"not", strings.Join(s.DisallowedTools, ", ")}, {"agents", others},
		{"model", ofRun(s.Model != "", s.Model)}, {"turns", ofRun(s.MaxTurns > 0, s.MaxTurns)},
		{"timeout", ofRun(s.Timeout > 0, s.Timeout)}, {"idle", ofRun(s.IdleTimeout > 0, s.IdleTimeout)},
		{"schema", string(s.Schema)}, {"servers", string(s.MCPServers)}, {"template", template},
	}
}

// AgentMade is the JSON output of qq agents new: the new definition.
type AgentMade struct {
	Name  string   `json:"name"`
	Path  string   `json:"path"`
	Hides []string `json:"hides,omitempty"`
}

func (r commands) newAgent(c *cli.Context) error {
	if c.NArg() != 1 {
		return command.Usagef("for example: qq agents new reviewer", "qq agents new takes one name")
	}
	name := c.Args().First()
	file, text, err := agents.Starter(name, c.String("description"))
	if err != nil {
		return command.Usage(command.Advised(err, "for example: qq agents new code-reviewer"))
	}
	_, work, err := r.Configure(c)
	if err != nil {
		return err
	}
	home := r.Env.ConfigHome()
	dirs := agents.Dirs(work, home, nil)
	to := dirs[0]
	if c.Bool("user") {
		if home == "" {
			return command.Usagef("set HOME or XDG_CONFIG_HOME to an absolute path",
				"there is no folder of your settings")
		}
		to = dirs[len(dirs)-1]
	}
	path, err := to.Create(file, text)
	if errors.Is(err, fs.ErrExist) {
		return command.Usage(command.Advised(err, "edit that one, remove it, or take another name"))
	}
	if err != nil {
		return command.Advised(err, "make the folder one that you can write to, or use --user for that of your "+
			"settings")
	}
	made := AgentMade{name, path, r.effect(agents.Load(agents.Dirs(work, home, r.Checkout.Trust)), name, path)}
	r.Note("write what it does into the file, then: qq agents check %s", name)
	if c.Bool("json") {
		return output.WriteJSON(r.Out, made)
	}
	_, err = fmt.Fprintln(r.Out, command.Printable(path))
	return output.WriteError(err)
}

// effect tells the user on stderr whether the definition at path is the one in use for
// name. If it is, effect returns the sources of the definitions that it hides, else nil.
func (r commands) effect(reg *agents.Registry, name, path string) []string {
	a, err := reg.Lookup(name)
	switch {
	case err != nil:
		r.Say("it does not take effect yet: %v", err)
		return nil
	case slices.Contains(entryOf(reg, a).Ignored, path):
		r.Say("it does not take effect before you trust it: it replaces %s; see qq trust", a.Source)
		return nil
	case a.Source != path:
		r.Say("it does not take effect: %s goes before it", a.Source)
		return nil
	}
	hides := entryOf(reg, a).Hides
	if len(hides) > 0 {
		r.Note("it hides %s", strings.Join(hides, ", "))
	}
	return hides
}
