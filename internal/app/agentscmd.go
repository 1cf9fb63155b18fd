package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"qq/internal/output"
	"qq/pkg/agents"
)

func (r *root) agentsCommand() *cli.Command {
	flags := []cli.Flag{flagCwd, flagJSON, flagQuiet}
	return &cli.Command{
		Name: "agents", Usage: "the agent definitions, and where each came from", Flags: flags, Action: r.listAgents,
		Subcommands: []*cli.Command{
			{Name: "list", Usage: "list them", Flags: flags, Action: r.listAgents},
			{Name: "show", Usage: "print one", ArgsUsage: "NAME", Flags: flags, Action: r.showAgent},
		},
	}
}

// agentRow is one agent for scripts.
type agentRow struct {
	agents.Agent
	Hides []string `json:"hides,omitempty"`
	Error string   `json:"error,omitempty"`
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
		return usagef("accepted is list or show NAME", "qq agents has no command %q", c.Args().First())
	}
	reg, err := r.registry(c)
	if err != nil {
		return err
	}
	rows := []agentRow{}
	for _, e := range reg.List() {
		row := agentRow{Agent: e.Agent, Hides: e.Hides}
		if e.Err != nil {
			row.Error = e.Err.Error()
		}
		rows = append(rows, row)
	}
	if c.Bool("json") {
		return output.WriteJSON(r.Out, rows)
	}
	w := tabwriter.NewWriter(r.Out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "AGENT\tROLE\tFROM\tDESCRIPTION")
	for _, row := range rows {
		if row.Error != "" {
			r.say("%s", row.Error)
			continue
		}
		from := row.Source
		if len(row.Hides) > 0 {
			from += " (hides " + strings.Join(row.Hides, ", ") + ")"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", row.Name, row.Role, output.Printable(from), output.Printable(row.Description))
		for _, warning := range row.Warnings {
			r.say("%s: %s", row.Source, warning)
		}
	}
	return output.WriteError(w.Flush())
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
	if c.Bool("json") {
		return output.WriteJSON(r.Out, a)
	}
	w := tabwriter.NewWriter(r.Out, 0, 4, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%s:\t%s\n", name, output.Printable(value))
		}
	}
	row("name", a.Name)
	row("description", a.Description)
	row("from", a.Source)
	row("role", a.Role)
	row("tools", toolsText(a))
	row("agents", agentsText(a))
	row("model", a.Model)
	if a.MaxTurns > 0 {
		row("turns", fmt.Sprint(a.MaxTurns))
	}
	if a.Timeout > 0 {
		row("timeout", a.Timeout.String())
	}
	if len(a.Schema) > 0 {
		row("schema", string(a.Schema))
	}
	if err := w.Flush(); err != nil {
		return output.WriteError(err)
	}
	for _, warning := range a.Warnings {
		r.say("%s", warning)
	}
	_, err = fmt.Fprintf(r.Out, "\n%s\n", output.Printable(strings.TrimSpace(a.Prompt)))
	return output.WriteError(err)
}

func toolsText(a agents.Agent) string {
	text := "all"
	if a.Tools != nil {
		text = strings.Join(a.Tools, ", ")
	}
	if len(a.DisallowedTools) > 0 {
		text += "; not " + strings.Join(a.DisallowedTools, ", ")
	}
	return text
}

func agentsText(a agents.Agent) string {
	if a.Agents == nil {
		return ""
	}
	b, _ := json.Marshal(a.Agents) // strings always marshal
	return string(b)
}
