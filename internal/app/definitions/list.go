// Package definitions is what qq agents shows of the definitions of agents: all
// of them, one as it takes effect, and what is wrong with them.
//
// Flow: a command hands in a [agents.Registry] and gets rows, which it prints as
// JSON or hands to one of the functions that write for people. Those make
// harmless what stood in a file. A mistake in a definition is a finding, never
// an error of this package.
package definitions

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"qq/internal/app/output"
	"qq/pkg/agents"
)

// Say prints a line for a person, beside the data.
type Say func(format string, args ...any)

// Row is one agent of a list.
type Row struct {
	agents.Agent
	Hides []string `json:"hides,omitempty"`
	Error string   `json:"error,omitempty"`
}

// List returns a row for each agent, the broken ones too.
func List(reg *agents.Registry) []Row {
	rows := []Row{}
	for _, e := range reg.List() {
		row := Row{Agent: e.Agent, Hides: e.Hides}
		if e.Err != nil {
			row.Error = e.Err.Error()
		}
		rows = append(rows, row)
	}
	return rows
}

// WriteList prints rows as a table, and says what is wrong with some.
func WriteList(to io.Writer, rows []Row, say Say) error {
	w := tabwriter.NewWriter(to, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "AGENT\tROLE\tFROM\tDESCRIPTION")
	for _, row := range rows {
		if row.Error != "" {
			say("%s", row.Error)
			continue
		}
		from := row.Source
		if len(row.Hides) > 0 {
			from += " (hides " + strings.Join(row.Hides, ", ") + ")"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", row.Name, row.Role, output.Printable(from), output.Printable(row.Description))
		for _, warning := range row.Warnings {
			say("%s: %s", row.Source, warning)
		}
	}
	return output.WriteError(w.Flush())
}

// Shown is one agent as it takes effect.
type Shown struct {
	agents.Agent
	EffectiveTools []string `json:"effective_tools"`
	Hides          []string `json:"hides,omitempty"`
}

// Show returns a as it takes effect.
func Show(reg *agents.Registry, a agents.Agent) Shown {
	return Shown{Agent: a, EffectiveTools: a.Toolset(), Hides: HiddenBy(reg, a)}
}

// Write prints the agent, and says what is odd about it.
func (s Shown) Write(to io.Writer, say Say) error {
	w := tabwriter.NewWriter(to, 0, 4, 2, ' ', 0)
	for _, row := range s.rows() {
		if row[1] != "" {
			fmt.Fprintf(w, "%s:\t%s\n", row[0], output.Printable(row[1]))
		}
	}
	if err := w.Flush(); err != nil {
		return output.WriteError(err)
	}
	for _, warning := range s.Warnings {
		say("%s", warning)
	}
	_, err := fmt.Fprintf(to, "\n%s\n", output.Printable(strings.TrimSpace(s.Prompt)))
	return output.WriteError(err)
}

// HiddenBy returns the sources of the definitions that a hides.
func HiddenBy(reg *agents.Registry, a agents.Agent) []string {
	for _, e := range reg.List() {
		if e.Err == nil && e.Agent.Source == a.Source && e.Agent.Name == a.Name {
			return e.Hides
		}
	}
	return nil
}

// rows are the lines above the prompt; one without a value is not printed.
func (s Shown) rows() [][2]string {
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
	ofRun := func(set bool, value any) string {
		if !set {
			return "that of the run"
		}
		return fmt.Sprint(value)
	}
	return [][2]string{
		{"name", s.Name}, {"description", strings.Join(strings.Fields(s.Description), " ")}, {"from", s.Source},
		{"hides", strings.Join(s.Hides, ", ")}, {"role", role}, {"tools", tools}, {"not", strings.Join(s.DisallowedTools, ", ")},
		{"agents", agentsText(s.Agent)}, {"model", ofRun(s.Model != "", s.Model)}, {"turns", ofRun(s.MaxTurns > 0, s.MaxTurns)},
		{"timeout", ofRun(s.Timeout > 0, s.Timeout)}, {"idle", ofRun(s.IdleTimeout > 0, s.IdleTimeout)},
		{"schema", string(s.Schema)}, {"servers", string(s.MCPServers)}, {"template", templateText(s.Agent)},
	}
}

// agentsText says whom a may ask, nothing when that is anybody or nobody can be
// asked.
func agentsText(a agents.Agent) string {
	switch {
	case a.Agents == nil:
		return ""
	case len(a.Agents) == 0:
		return "none"
	}
	return strings.Join(a.Agents, ", ")
}

func templateText(a agents.Agent) string {
	if a.PromptTemplate == "" {
		return ""
	}
	return "a model writes the prompt for each task; when it does not, it is the one below"
}
