package definitions

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"qq/internal/agent/loop"
	"qq/internal/app/command"
	"qq/internal/app/output"
	"qq/internal/approval/rules"
	"qq/pkg/agents"
	"qq/pkg/task"
)

// defect is one mistake in a definition.
type defect struct {
	Severity string `json:"severity"`       // error or warning
	Line     int    `json:"line,omitempty"` // 0 means the whole file
	Text     string `json:"text"`
}

const (
	isError   = "error"
	isWarning = "warning"
)

// newDefect returns a defect. If text begins with "line N: ", N becomes the line of the
// defect and the rest its text.
func newDefect(severity, text string) defect {
	line, rest := agents.LineOf(text)
	return defect{severity, line, rest}
}

// checkedAgent is one definition with its defects, in the JSON output of qq agents check.
type checkedAgent struct {
	Name     string   `json:"name,omitempty"` // empty for a folder that cannot be read
	Source   string   `json:"source"`
	Findings []defect `json:"findings"`
}

func (r commands) checkAgents(c *cli.Context) error {
	reg, err := r.registry(c)
	if err != nil {
		return err
	}
	entries, err := toCheck(reg, c.Args().Slice())
	if err != nil {
		return command.Usage(err)
	}
	checks, count := []checkedAgent{}, map[string]int{}
	for _, e := range entries {
		check := checkAgent(reg, e)
		if c.Args().Present() { // it may be a file that does not count
			check.Findings = append(check.Findings, whyUnused(reg, e.Agent.Source)...)
		}
		checks = append(append(checks, check), unused(e)...)
	}
	for _, check := range checks {
		for _, d := range check.Findings {
			count[d.Severity]++
		}
	}
	if c.Bool("json") {
		err = output.WriteJSON(r.Out, checks)
	} else {
		err = r.printChecks(checks)
	}
	if err != nil {
		return err
	}
	r.Note("checked: %d, errors: %d, warnings: %d", len(checks), count[isError], count[isWarning])
	if count[isError] > 0 {
		return command.Said(task.Misused.ExitCode())
	}
	return nil
}

// printChecks prints one line for each defect.
func (r commands) printChecks(checks []checkedAgent) error {
	for _, check := range checks {
		for _, d := range check.Findings {
			place := check.Source
			switch {
			case place == agents.BuiltIn:
				place += " " + check.Name
			case d.Line > 0:
				place += ":" + strconv.Itoa(d.Line)
			}
			line := fmt.Sprintf("%s: %s: %s", place, d.Severity, strings.Join(strings.Fields(d.Text), " "))
			if _, err := fmt.Fprintln(r.Out, command.Printable(line)); err != nil {
				return output.WriteError(err)
			}
		}
	}
	return nil
}

// toCheck returns the definitions that args name, each by the name of an agent or by a
// file. Without args it returns all definitions in use. A definition that cannot be read is
// an entry with an error.
func toCheck(reg *agents.Registry, args []string) ([]agents.Entry, error) {
	if len(args) == 0 {
		return reg.List(), nil
	}
	var entries []agents.Entry
	for _, arg := range args {
		if strings.HasSuffix(arg, ".md") || strings.ContainsRune(arg, filepath.Separator) {
			a, err := agents.Read(arg)
			a.Source = arg
			entries = append(entries, agents.Entry{Agent: a, Err: err})
			continue
		}
		a, err := reg.Lookup(arg)
		if _, ok := errors.AsType[*agents.NotFoundError](err); ok {
			return nil, command.Advised(err, "give the name of an agent, or a file with its folder, such as ./"+arg)
		}
		if err != nil {
			a = brokenAgent(reg, err)
		}
		e := entryOf(reg, a)
		entries = append(entries, agents.Entry{Agent: a, Err: err, Hides: e.Hides, Ignored: e.Ignored})
	}
	return entries, nil
}

// brokenAgent returns an agent with only the name and the source of the definition that has
// the error err. It returns the zero Agent if no definition has it.
func brokenAgent(reg *agents.Registry, err error) agents.Agent {
	for _, e := range reg.List() {
		if errors.Is(err, e.Err) {
			return e.Agent
		}
	}
	return agents.Agent{}
}

// checkAgent checks one definition and returns its defects, sorted by line.
func checkAgent(reg *agents.Registry, e agents.Entry) checkedAgent {
	a := e.Agent
	check := checkedAgent{Name: a.Name, Source: a.Source, Findings: []defect{}}
	if invalid, ok := errors.AsType[*agents.InvalidError](e.Err); ok {
		for _, m := range invalid.Mistakes {
			check.Findings = append(check.Findings, newDefect(isError, m))
		}
		a = invalid.Agent
	} else if e.Err != nil {
		cause := e.Err
		if inner := errors.Unwrap(e.Err); inner != nil {
			cause = inner // without the path, which is printed before it
		}
		check.Findings = append(check.Findings, newDefect(isError, cause.Error()))
		return check
	}
	for _, w := range a.Warnings {
		check.Findings = append(check.Findings, newDefect(isWarning, w))
	}
	if len(a.Schema) > 0 {
		if _, err := loop.ParseSchema(a.Schema); err != nil {
			check.Findings = append(check.Findings, newDefect(isError, "schema: "+err.Error()))
		}
	}
	for _, rule := range append(slices.Clone(a.Within), a.DisallowedTools...) {
		if _, err := rules.Parse(rule); err != nil && strings.Contains(rule, "(") {
			problem, _ := task.Explain(err)
			check.Findings = append(check.Findings, newDefect(isWarning, "it "+problem))
		}
	}
	for _, name := range a.Agents {
		if _, err := reg.Lookup(name); err != nil {
			text := fmt.Sprintf("agents names %q, which cannot be asked: qq agents list shows who can", name)
			check.Findings = append(check.Findings, defect{isWarning, a.Lines["agents"], text})
		}
	}
	check.Findings = append(append(check.Findings, idle(a)...), round(reg, a)...)
	slices.SortStableFunc(check.Findings, func(x, y defect) int { return cmp.Compare(x.Line, y.Line) })
	return check
}

// idle returns what of a definition does nothing because of another part of it, or in this version.
func idle(a agents.Agent) (found []defect) {
	add := func(key, format string, args ...any) {
		found = append(found, defect{isWarning, a.Lines[key], fmt.Sprintf(format, args...)})
	}
	if a.Lines["agents"] > 0 && !a.Delegates() {
		add("agents", "agents does nothing: the agent has no tool that delegates, such as delegate_task")
	}
	if a.CanDelegate != nil && *a.CanDelegate && a.Agents != nil && len(a.Agents) == 0 {
		add("candelegate", "can_delegate does nothing: agents is empty, so nobody can be asked")
	}
	if a.Timeout > 0 && a.IdleTimeout >= a.Timeout {
		add("idletimeout", "idle_timeout does nothing: timeout ends the agent before")
	}
	for _, tool := range a.Tools {
		switch taken := slices.Contains(a.DisallowedTools, tool); {
		case strings.HasPrefix(tool, "mcp__"):
			add("tools", "tool %q does nothing in this version, which has no MCP servers", tool)
		case taken:
			add("tools", "tool %q does nothing: disallowedTools takes it away", tool)
		}
	}
	return found
}

// whyUnused returns why the file of a definition does nothing as a whole.
func whyUnused(reg *agents.Registry, file string) (found []defect) {
	path, err := filepath.Abs(file)
	if err != nil {
		return nil
	}
	for _, e := range reg.List() {
		for _, check := range unused(e) {
			if check.Source == path {
				found = append(found, check.Findings...)
			}
		}
	}
	return found
}

// unused returns the definitions that e replaces, and those that would replace it if they were trusted.
// A built-in one that is replaced is none of them: that is meant.
func unused(e agents.Entry) (checks []checkedAgent) {
	add := func(source, text string) {
		if source != agents.BuiltIn {
			checks = append(checks, checkedAgent{e.Agent.Name, source, []defect{{isWarning, 0, text}}})
		}
	}
	for _, source := range e.Hides {
		add(source, "does nothing: "+e.Agent.Source+" goes before it")
	}
	for _, source := range e.Ignored {
		add(source, "does nothing until you trust it: it replaces "+e.Agent.Source+"; see qq trust")
	}
	return checks
}
