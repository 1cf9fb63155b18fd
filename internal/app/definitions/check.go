package definitions

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"qq/internal/agent/loop"
	"qq/internal/app/output"
	"qq/pkg/agents"
)

// Finding is what is wrong with a definition.
type Finding struct {
	Severity string `json:"severity"`       // error or warning
	Line     int    `json:"line,omitempty"` // 0 is the whole file
	Text     string `json:"text"`
}

const (
	isError   = "error"
	isWarning = "warning"
)

// newFinding takes the line out of a text that begins with one.
func newFinding(severity, text string) Finding {
	if number, rest, ok := strings.Cut(strings.TrimPrefix(text, "line "), ": "); ok && strings.HasPrefix(text, "line ") {
		if n, err := strconv.Atoi(number); err == nil {
			return Finding{severity, n, rest}
		}
	}
	return Finding{severity, 0, text}
}

// Checked is what was found in one definition.
type Checked struct {
	Name     string    `json:"name,omitempty"` // empty for a folder that cannot be read
	Source   string    `json:"source"`
	Findings []Finding `json:"findings"`
}

// Check says what is wrong with the definitions that args name, each a name or a
// file; with all that count when there are none. An error is that of an argument.
func Check(reg *agents.Registry, args []string) (checks []Checked, errorCount, warningCount int, err error) {
	entries, err := toCheck(reg, args)
	if err != nil {
		return nil, 0, 0, err
	}
	checks = []Checked{}
	count := map[string]int{}
	for _, e := range entries {
		check := checkDefinition(reg, e)
		for _, f := range check.Findings {
			count[f.Severity]++
		}
		checks = append(checks, check)
	}
	return checks, count[isError], count[isWarning], nil
}

// WriteChecks prints a line for each finding.
func WriteChecks(to io.Writer, checks []Checked) error {
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
			if _, err := fmt.Fprintln(to, output.Printable(line)); err != nil {
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
			return nil, fmt.Errorf("%w\nhint: give the name of an agent, or a file with its folder, such as ./%s", err, arg)
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
func checkDefinition(reg *agents.Registry, e agents.Entry) Checked {
	a := e.Agent
	check := Checked{Name: a.Name, Source: a.Source, Findings: []Finding{}}
	if e.Err != nil {
		cause := e.Err
		if inner := errors.Unwrap(e.Err); inner != nil {
			cause = inner // without the path, which stands before it
		}
		check.Findings = append(check.Findings, newFinding(isError, cause.Error()))
		return check
	}
	for _, w := range a.Warnings {
		check.Findings = append(check.Findings, newFinding(isWarning, w))
	}
	if len(a.Schema) > 0 {
		if _, err := loop.ParseSchema(a.Schema); err != nil {
			check.Findings = append(check.Findings, newFinding(isError, "schema: "+err.Error()))
		}
	}
	for _, name := range a.Agents {
		if _, err := reg.Lookup(name); err != nil {
			check.Findings = append(check.Findings, newFinding(isWarning, fmt.Sprintf("agents names %q, which cannot be asked: qq agents list shows who can", name)))
		}
	}
	slices.SortStableFunc(check.Findings, func(x, y Finding) int { return cmp.Compare(x.Line, y.Line) })
	return check
}
