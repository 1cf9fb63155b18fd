package app

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"qq/internal/output"
	"qq/pkg/agents"
	"qq/pkg/runner"
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
		return usagef("accepted is list, show NAME, new NAME or check", "qq agents has no command %q", c.Args().First())
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

// agentShown is one agent as it takes effect, for scripts.
type agentShown struct {
	agents.Agent
	EffectiveTools []string `json:"effective_tools"`
	Hides          []string `json:"hides,omitempty"`
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
	shown := agentShown{Agent: a, EffectiveTools: a.Toolset(), Hides: hiddenBy(reg, a)}
	if c.Bool("json") {
		return output.WriteJSON(r.Out, shown)
	}
	w := tabwriter.NewWriter(r.Out, 0, 4, 2, ' ', 0)
	for _, row := range shown.rows() {
		if row[1] != "" {
			fmt.Fprintf(w, "%s:\t%s\n", row[0], output.Printable(row[1]))
		}
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

// hiddenBy returns the sources of the definitions that a hides.
func hiddenBy(reg *agents.Registry, a agents.Agent) []string {
	for _, e := range reg.List() {
		if e.Err == nil && e.Agent.Source == a.Source && e.Agent.Name == a.Name {
			return e.Hides
		}
	}
	return nil
}

// rows are the lines above the prompt; one without a value is not printed.
func (a agentShown) rows() [][2]string {
	role := a.Role
	if a.Gathers() {
		role += " (it and those it asks only read)"
	}
	tools := strings.Join(a.EffectiveTools, ", ")
	switch {
	case len(a.EffectiveTools) == 0:
		tools = "none"
	case a.Tools == nil:
		tools = "every tool: " + tools
	}
	ofRun := func(set bool, value any) string {
		if !set {
			return "that of the run"
		}
		return fmt.Sprint(value)
	}
	return [][2]string{
		{"name", a.Name}, {"description", strings.Join(strings.Fields(a.Description), " ")}, {"from", a.Source},
		{"hides", strings.Join(a.Hides, ", ")}, {"role", role}, {"tools", tools}, {"not", strings.Join(a.DisallowedTools, ", ")},
		{"agents", agentsText(a.Agent)}, {"model", ofRun(a.Model != "", a.Model)}, {"turns", ofRun(a.MaxTurns > 0, a.MaxTurns)},
		{"timeout", ofRun(a.Timeout > 0, a.Timeout)}, {"idle", ofRun(a.IdleTimeout > 0, a.IdleTimeout)},
		{"schema", string(a.Schema)}, {"servers", string(a.MCPServers)}, {"template", templateText(a.Agent)},
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
	home := configHome(r.env)
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
	hides := hiddenBy(reg, a)
	if len(hides) > 0 {
		r.note("it hides %s", strings.Join(hides, ", "))
	}
	return hides
}

// flaw is what is wrong with a definition.
type flaw struct {
	Severity string `json:"severity"`       // error or warning
	Line     int    `json:"line,omitempty"` // 0 is the whole file
	Text     string `json:"text"`
}

const (
	isError   = "error"
	isWarning = "warning"
)

// newFlaw takes the line out of a text that begins with one.
func newFlaw(severity, text string) flaw {
	if number, rest, ok := strings.Cut(strings.TrimPrefix(text, "line "), ": "); ok && strings.HasPrefix(text, "line ") {
		if n, err := strconv.Atoi(number); err == nil {
			return flaw{severity, n, rest}
		}
	}
	return flaw{severity, 0, text}
}

// definitionCheck is what was found in one definition, for scripts.
type definitionCheck struct {
	Name     string `json:"name,omitempty"` // empty for a folder that cannot be read
	Source   string `json:"source"`
	Findings []flaw `json:"findings"`
}

func (r *root) checkDefinitions(c *cli.Context) error {
	reg, err := r.registry(c)
	if err != nil {
		return err
	}
	entries, err := toCheck(reg, c.Args().Slice())
	if err != nil {
		return err
	}
	checks := []definitionCheck{}
	count := map[string]int{}
	for _, e := range entries {
		check := checkDefinition(reg, e)
		for _, f := range check.Findings {
			count[f.Severity]++
		}
		checks = append(checks, check)
	}
	if c.Bool("json") {
		err = output.WriteJSON(r.Out, checks)
	} else {
		err = r.printChecks(checks)
	}
	if err != nil {
		return err
	}
	r.note("checked: %d, errors: %d, warnings: %d", len(checks), count[isError], count[isWarning])
	if count[isError] > 0 {
		return said(task.Misused.ExitCode())
	}
	return nil
}

func (r *root) printChecks(checks []definitionCheck) error {
	for _, check := range checks {
		for _, f := range check.Findings {
			place := check.Source
			switch {
			case place == agents.BuiltIn:
				place += " " + check.Name
			case f.Line > 0:
				place += ":" + strconv.Itoa(f.Line)
			}
			line := fmt.Sprintf("%s: %s: %s", place, f.Severity, strings.Join(strings.Fields(f.Text), " "))
			if _, err := fmt.Fprintln(r.Out, output.Printable(line)); err != nil {
				return output.WriteError(err)
			}
		}
	}
	return nil
}

// toCheck returns the definitions that args name, each a name or a file; all
// that count when there are none.
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
			return nil, usage(advised(err, "give the name of an agent, or a file with its folder, such as ./"+arg))
		}
		if err != nil {
			a = brokenAgent(reg, err)
		}
		entries = append(entries, agents.Entry{Agent: a, Err: err})
	}
	return entries, nil
}

// brokenAgent is the name and the source of the definition of which err speaks.
func brokenAgent(reg *agents.Registry, err error) agents.Agent {
	for _, e := range reg.List() {
		if errors.Is(err, e.Err) {
			return e.Agent
		}
	}
	return agents.Agent{}
}

// checkDefinition says what is wrong with one definition, by line.
func checkDefinition(reg *agents.Registry, e agents.Entry) definitionCheck {
	a := e.Agent
	check := definitionCheck{Name: a.Name, Source: a.Source, Findings: []flaw{}}
	if e.Err != nil {
		cause := e.Err
		if inner := errors.Unwrap(e.Err); inner != nil {
			cause = inner // without the path, which stands before it
		}
		check.Findings = append(check.Findings, newFlaw(isError, cause.Error()))
		return check
	}
	for _, w := range a.Warnings {
		check.Findings = append(check.Findings, newFlaw(isWarning, w))
	}
	if len(a.Schema) > 0 {
		if _, err := runner.ParseSchema(a.Schema); err != nil {
			check.Findings = append(check.Findings, newFlaw(isError, "schema: "+err.Error()))
		}
	}
	for _, name := range a.Agents {
		if _, err := reg.Lookup(name); err != nil {
			check.Findings = append(check.Findings, newFlaw(isWarning, fmt.Sprintf("agents names %q, which cannot be asked: qq agents list shows who can", name)))
		}
	}
	slices.SortStableFunc(check.Findings, func(x, y flaw) int { return cmp.Compare(x.Line, y.Line) })
	return check
}
