package agents

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"qq/pkg/spelling"
)

// MaxSize is the largest definition that is read, in bytes.
const MaxSize = 256 << 10

// maxLimit is the largest timeout and idle_timeout.
const maxLimit = 365 * 24 * time.Hour

// InvalidError says why a definition cannot be used.
type InvalidError struct {
	Mistakes []string // one or more, most of them with their line
	Agent    Agent    // what is valid of the definition, with its warnings
}

// Error returns the first mistake, and how many there are.
func (e *InvalidError) Error() string {
	if n := len(e.Mistakes); n > 1 {
		return fmt.Sprintf("%s (the first of %d mistakes)", e.Mistakes[0], n)
	}
	return e.Mistakes[0]
}

// Parse reads a definition. The agent gets the given name if the definition contains none. An error
// names the line if it can; it is an [*InvalidError] if all mistakes are known. Problems that do not
// prevent the use of the agent become its Warnings.
func Parse(name string, data []byte) (Agent, error) {
	if len(data) > MaxSize {
		return Agent{}, fmt.Errorf("is larger than %d KiB: move long texts into files that the agent reads",
			MaxSize>>10)
	}
	if !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		return Agent{}, errors.New("is not UTF-8 text: save it as UTF-8")
	}
	front, body, err := split(string(data))
	if err != nil {
		return Agent{}, err
	}
	p := parser{agent: Agent{Name: name, Prompt: strings.TrimSpace(body), Lines: map[string]int{}}}
	if err := p.front(front); err != nil {
		return Agent{}, err
	}
	return p.finish()
}

// split cuts a definition into its front matter and its body. The front matter includes
// the opening line, so that the line numbers of YAML are those of the file.
func split(s string) (front, body string, err error) {
	s = strings.TrimPrefix(s, "\ufeff")
	s = strings.ReplaceAll(s, "\r\n", "\n")
	first, rest, _ := strings.Cut(s, "\n")
	if strings.TrimRight(first, " \t") != "---" {
		return "", "", errors.New("line 1: no front matter: begin the file with a line ---, then name and " +
			"description, then another ---")
	}
	end := len(first) + 1
	for rest != "" {
		var line string
		line, rest, _ = strings.Cut(rest, "\n")
		if fence := strings.TrimRight(line, " \t"); fence == "---" || fence == "..." {
			return s[:end], rest, nil
		}
		end += len(line) + 1
	}
	return "", "", errors.New("line 1: the front matter does not end: close it with a line ---")
}

// parser builds one Agent from the keys of its front matter.
type parser struct {
	agent    Agent
	mistakes []string
}

func (p *parser) fail(format string, args ...any) {
	p.mistakes = append(p.mistakes, fmt.Sprintf(format, args...))
}

func (p *parser) warn(format string, args ...any) {
	p.agent.Warnings = append(p.agent.Warnings, fmt.Sprintf(format, args...))
}

// remark adds a harmless warning.
func (p *parser) remark(format string, args ...any) {
	p.warn(format, args...)
	p.agent.Harmless = append(p.agent.Harmless, p.agent.Warnings[len(p.agent.Warnings)-1])
}

// remarkAt adds a harmless warning that begins with the line of the key.
func (p *parser) remarkAt(key, format string, args ...any) {
	p.remark("line %d: %s", p.agent.Lines[key], fmt.Sprintf(format, args...))
}

func (p *parser) front(text string) error {
	doc, err := document(text)
	if err != nil {
		return err
	}
	if len(doc.Content) == 0 || doc.Content[0].ShortTag() == "!!null" {
		return nil
	}
	top := doc.Content[0]
	if top.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: the front matter must be lines of \"key: value\"", top.Line)
	}
	if err := refuseAliases(top); err != nil {
		return err
	}
	for i := 0; i+1 < len(top.Content); i += 2 {
		p.field(top.Content[i], top.Content[i+1])
	}
	return nil
}

// document parses the front matter. Definitions for other agent programs often contain an unquoted
// description with ": ", which is not valid YAML. If the text is not valid, document tries it again
// with quotes around such values.
func document(text string) (*yaml.Node, error) {
	var doc yaml.Node
	err := yaml.Unmarshal([]byte(text), &doc)
	if err == nil {
		return &doc, nil
	}
	var again yaml.Node
	if yaml.Unmarshal([]byte(quoteValues(text)), &again) == nil {
		return &again, nil
	}
	return nil, yamlProblem(err)
}

// yamlProblem returns the message of a YAML error with its line counted from 1. The YAML library
// counts from 0 in the errors of its parser and from 1 in those of its scanner.
func yamlProblem(err error) error {
	problem := strings.TrimPrefix(err.Error(), "yaml: ")
	line, rest, ok := strings.Cut(strings.TrimPrefix(problem, "line "), ": ")
	n, numErr := strconv.Atoi(line)
	if !ok || numErr != nil {
		return errors.New(problem)
	}
	for _, parser := range []string{"expected key", "expected ',' or", "expected '-' indicator",
		"expected node content"} {
		if strings.Contains(rest, parser) {
			n++
			break
		}
	}
	return fmt.Errorf("line %d: %s", n, rest)
}

// quoteValues adds quotes to the unquoted values of top-level keys.
func quoteValues(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		key, value, ok := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		if !ok || value == "" || strings.ContainsAny(key, " \t#'\"-") ||
			strings.ContainsRune(`'"[{|>`, rune(value[0])) {
			continue
		}
		lines[i] = key + ": '" + strings.ReplaceAll(value, "'", "''") + "'"
	}
	return strings.Join(lines, "\n")
}

// refuseAliases returns an error if n contains a YAML alias: a few lines of aliases can expand to
// gigabytes.
func refuseAliases(n *yaml.Node) error {
	if n.Kind == yaml.AliasNode {
		return fmt.Errorf("line %d: aliases (*%s) are not supported: repeat the value", n.Line, n.Value)
	}
	for _, c := range n.Content {
		if err := refuseAliases(c); err != nil {
			return err
		}
	}
	return nil
}

// squash returns key in lower case without _ and -, so that max_turns, maxTurns and max-turns are
// the same key.
func squash(key string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '-' {
			return -1
		}
		return unicode.ToLower(r)
	}, key)
}

func (p *parser) field(k, v *yaml.Node) {
	key := squash(k.Value)
	if key == "allowedtools" { // as other agent programs call it
		key = "tools"
	}
	if p.agent.Lines[key] > 0 {
		p.fail("line %d: %q is given twice", k.Line, k.Value)
		return
	}
	p.agent.Lines[key] = k.Line
	if v.ShortTag() == "!!null" {
		if key == "tools" {
			p.warn("line %d: \"tools\" is empty, which means every tool: write [] for none", k.Line)
		}
		return
	}
	set, ok := p.setter(key)
	if key == "hooks" {
		p.hooks(k, v)
		return
	}
	if !ok {
		if grants := strings.ToLower(k.Value); grants == "tool" || grants == "disallowed_tool" ||
			grants == "disallowedtool" || grants == "agent" {
			p.fail("line %d: unknown key %q: did you mean \"%ss\"? Without it more is allowed",
				k.Line, k.Value, k.Value)
			return
		}
		p.unknown(k)
		return
	}
	if want := set(v); want != "" {
		p.fail("line %d: %q must be %s", v.Line, k.Value, want)
	}
}

// keys are those that qq reads, as definitions have them.
var keys = []string{
	"name", "description", "tools", "disallowedTools", "model", "role", "max_turns", "max_repairs", "timeout",
	"idle_timeout", "prompt_template", "mcp_servers", "can_delegate", "agents", "schema", "runs",
}

// others are keys of other agent programs that are near to one of keys.
var others = []string{"hooks", "mode"}

// unknown adds a warning about a key that is not known. A misspelt key may leave the agent with more than it was meant
// to have, so that warning is not harmless.
func (p *parser) unknown(k *yaml.Node) {
	near := spelling.Nearest(k.Value, keys)
	if near == "" || slices.Contains(others, squash(k.Value)) {
		p.remark("line %d: unknown key %q", k.Line, k.Value)
		return
	}
	p.warn("line %d: unknown key %q: did you mean %q?", k.Line, k.Value, near)
}

// hooks says that the hooks of other agent programs are left out: commands that run at an event, such as after each
// call of a tool.
func (p *parser) hooks(k, v *yaml.Node) {
	events := ""
	for i := 0; v.Kind == yaml.MappingNode && i < len(v.Content) && i < 16; i += 2 {
		if name := v.Content[i].Value; len(name) <= 40 && !strings.ContainsFunc(name, notLetter) {
			events += ", " + name
		}
	}
	if events != "" {
		events = " (" + strings.TrimPrefix(events, ", ") + ")"
	}
	p.remark("line %d: %q are left out%s: qq runs no hooks; the check of a task (qq batch --check) runs a command "+
		"when the work is done", k.Line, k.Value, events)
}

func notLetter(r rune) bool { return !unicode.IsLetter(r) }

// setter returns the function that stores the value of a key, and false for an unknown key. That
// function returns "" if the value is valid, or else a description of a valid value.
func (p *parser) setter(key string) (func(*yaml.Node) string, bool) {
	a := &p.agent
	switch key {
	case "name":
		return name(&a.Name), true
	case "description":
		return text(&a.Description), true
	case "tools":
		return toolList(p.remark, func(names []string) (warnings []string) {
			a.Tools, a.Within, warnings = allowed(names)
			return warnings
		}), true
	case "disallowedtools":
		return toolList(p.warn, func(names []string) (warnings []string) {
			a.DisallowedTools, warnings = disallowed(names)
			return warnings
		}), true
	case "model":
		return text(&a.Model), true
	case "fallback":
		return list(&a.Fallback), true
	case "role":
		return text(&a.Role), true
	case "maxturns":
		return count(&a.MaxTurns), true
	case "maxrepairs":
		return count(&a.MaxRepairs), true
	case "timeout":
		return duration(&a.Timeout), true
	case "idletimeout":
		return duration(&a.IdleTimeout), true
	case "prompttemplate":
		return text(&a.PromptTemplate), true
	case "mcpservers":
		return servers(&a.MCPServers), true
	case "candelegate":
		return flag(&a.CanDelegate), true
	case "agents":
		return list(&a.Agents), true
	case "runs":
		return p.runsProgram, true
	case "schema":
		return raw(&a.Schema, yaml.MappingNode), true
	}
	return nil, false
}

// finish checks the rules that involve more than one key, fills in defaults and returns the agent.
func (p *parser) finish() (Agent, error) {
	a := &p.agent
	if !validName(a.Name) {
		p.fail("name %q: use letters, digits, - and _, at most %d", a.Name, maxName)
	}
	if m := a.Model; strings.EqualFold(m, "inherit") {
		a.Model = ""
	} else if elsewhere(m) && a.Runs.IsZero() {
		a.Model = ""
		p.remarkAt("model", "model %q is not known here: the model of the run is used", m)
	}
	if a.MCPServers != nil && a.Runs.IsZero() {
		p.remarkAt("mcpservers", `"mcp_servers" does nothing in this version`)
	}
	if a.PromptTemplate != "" && !strings.Contains(a.PromptTemplate, "{task}") {
		p.remarkAt("prompttemplate", "the prompt_template has no {task}: every task gets the same prompt")
	}
	if a.Description == "" {
		p.remark("no description: other agents will not know when to ask this one")
	}
	if a.Prompt == "" && a.PromptTemplate == "" {
		p.remark("no prompt below the front matter")
	}
	p.role()
	p.foreign()
	slices.SortStableFunc(a.Warnings, byLine)
	slices.SortStableFunc(p.mistakes, byLine)
	if len(p.mistakes) > 0 {
		return Agent{}, &InvalidError{p.mistakes, *a}
	}
	return *a, nil
}

// LineOf splits what is said about a definition into its line, if it begins with "line N: ", and the rest.
func LineOf(text string) (line int, rest string) {
	if after, ok := strings.CutPrefix(text, "line "); ok {
		if number, rest, ok := strings.Cut(after, ": "); ok {
			if n, err := strconv.Atoi(number); err == nil {
				return n, rest
			}
		}
	}
	return 0, text
}

func byLine(a, b string) int {
	m, _ := LineOf(a)
	n, _ := LineOf(b)
	return cmp.Compare(m, n)
}

// Located returns what is said about the definition in the file source, as compilers do: "FILE:LINE: TEXT".
func Located(source, text string) string {
	if line, rest := LineOf(text); line > 0 {
		return fmt.Sprintf("%s:%d: %s", source, line, rest)
	}
	return source + ": " + text
}

// role sets the role of the agent. If the definition contains none, it follows from the tools.
func (p *parser) role() {
	a := &p.agent
	given := a.Role
	switch role := strings.ToLower(given); role {
	case "":
		a.Role = a.role()
	case Gathering, Modifying:
		a.Role = role
	default:
		a.Role = Modifying
		p.warn("line %d: unknown role %q: taken as %s", a.Lines["role"], given, Modifying)
	}
	for _, t := range a.Tools {
		if a.Gathers() && kindOf(t) == changes {
			p.remarkAt("role", "tool %q changes something: an agent of the role %s does not get it", t, Gathering)
		}
	}
}

// elsewhere reports whether a model name is known only to other agent programs, such as "sonnet".
func elsewhere(model string) bool {
	m := strings.ToLower(model)
	m, _, _ = strings.Cut(m, "[") // sonnet[1m]
	switch m {
	case "sonnet", "opus", "haiku", "opusplan", "best", "default":
		return true
	}
	return strings.HasPrefix(m, "claude-")
}

// Remote reports whether the name of a model, with or without "ollama:", says that its server sends
// requests on to another machine. The cloud models of Ollama do, such as gpt-oss:120b-cloud.
func Remote(model string) bool {
	name := strings.TrimPrefix(strings.ToLower(strings.TrimSpace(model)), "ollama:")
	i := strings.LastIndex(name, ":") // the name may begin with the host of a registry, and its port
	tag := name[i+1:]
	return i >= 0 && (tag == "cloud" || strings.HasSuffix(tag, "-cloud"))
}

// Models are the names that can stand in the name of a model, besides ollama.
type Models struct {
	Servers []string // such as lab in lab:qwen3
	Aliases []string // each stands for a whole name
}

// Remote reports whether the name of a model says that it is not on the user's own Ollama server: [Remote] does, or
// the name of another server, or an alias, of which a stranger knows nothing.
func (m Models) Remote(model string) bool {
	model = strings.ToLower(strings.TrimSpace(model))
	server, _, ok := strings.Cut(model, ":")
	return Remote(model) || slices.Contains(m.Aliases, model) || ok && slices.Contains(m.Servers, server)
}

func text(dst *string) func(*yaml.Node) string {
	return func(n *yaml.Node) string {
		if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" {
			return "text (put quotes around a number or a date)"
		}
		*dst = strings.TrimSpace(n.Value)
		return ""
	}
}

func name(dst *string) func(*yaml.Node) string {
	return func(n *yaml.Node) string {
		var s string
		if want := text(&s)(n); want != "" {
			return want
		}
		if !validName(s) {
			return fmt.Sprintf("letters, digits, - and _, at most %d: %q", maxName, s)
		}
		*dst = s
		return ""
	}
}

func count(dst *int) func(*yaml.Node) string {
	return func(n *yaml.Node) string {
		if n.ShortTag() != "!!int" || n.Decode(dst) != nil || *dst < 1 {
			return "a whole number above 0"
		}
		return ""
	}
}

func flag(dst **bool) func(*yaml.Node) string {
	return func(n *yaml.Node) string {
		var b bool
		if n.Kind != yaml.ScalarNode || n.Decode(&b) != nil {
			return "true or false"
		}
		*dst = &b
		return ""
	}
}

// duration stores a time, given as a number of seconds or in the notation of Go, such as 5m.
func duration(dst *time.Duration) func(*yaml.Node) string {
	const want = "seconds above 0, or a text like 90s or 5m"
	return func(n *yaml.Node) string {
		if n.Kind != yaml.ScalarNode {
			return want
		}
		d, err := time.ParseDuration(n.Value)
		if seconds, numErr := strconv.ParseFloat(n.Value, 64); numErr == nil && !math.IsNaN(seconds) {
			d, err = time.Duration(min(max(seconds, 0), maxLimit.Seconds()+1)*float64(time.Second)), nil
		}
		switch {
		case err != nil || d <= 0:
			return want
		case d > maxLimit:
			return "at most a year"
		}
		*dst = d
		return ""
	}
}

// list stores a list of strings, given as a YAML list or as one string with commas.
func list(dst *[]string) func(*yaml.Node) string {
	return func(n *yaml.Node) string {
		items := []string{}
		switch {
		case n.Kind == yaml.SequenceNode:
			for _, c := range n.Content {
				var s string
				if text(&s)(c) != "" {
					return "a list of names"
				}
				items = append(items, s)
			}
		case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str":
			items = commas(n.Value)
		default:
			return "a list of names, or names with commas between"
		}
		*dst = slices.DeleteFunc(items, func(s string) bool { return s == "" })
		return ""
	}
}

// commas splits s at its commas, except those in parentheses: "Bash(a, b)" is one item.
func commas(s string) []string {
	depth := 0
	items := strings.FieldsFunc(s, func(r rune) bool {
		switch r {
		case '(':
			depth++
		case ')':
			depth--
		}
		return r == ',' && depth <= 0
	})
	for i := range items {
		items[i] = strings.TrimSpace(items[i])
	}
	return items
}

// toolList stores a list of tools. warn gets the warnings about it.
func toolList(warn func(string, ...any), store func(names []string) (warnings []string)) func(*yaml.Node) string {
	return func(n *yaml.Node) string {
		var names []string
		if want := list(&names)(n); want != "" {
			return want
		}
		for _, w := range store(names) {
			warn("line %d: %s", n.Line, w)
		}
		return ""
	}
}

// servers stores MCP servers as JSON, given as an object or a list, or as their names in one string with
// commas.
func servers(dst *json.RawMessage) func(*yaml.Node) string {
	return func(n *yaml.Node) string {
		if n.ShortTag() != "!!str" || strings.HasPrefix(strings.TrimSpace(n.Value), "{") {
			return raw(dst, yaml.MappingNode, yaml.SequenceNode)(n)
		}
		var names []string
		if want := list(&names)(n); want != "" {
			return want
		}
		data, err := json.Marshal(names)
		if err != nil {
			return err.Error()
		}
		*dst = data
		return ""
	}
}

// raw stores a YAML value of one of these kinds as JSON. A string that contains a JSON object is
// stored as that object.
func raw(dst *json.RawMessage, kinds ...yaml.Kind) func(*yaml.Node) string {
	const want = "an object that JSON can express"
	return func(n *yaml.Node) string {
		if n.ShortTag() == "!!str" && strings.HasPrefix(strings.TrimSpace(n.Value), "{") &&
			json.Valid([]byte(n.Value)) {
			*dst = json.RawMessage(strings.TrimSpace(n.Value))
			return ""
		}
		var v any
		if !slices.Contains(kinds, n.Kind) || n.Decode(&v) != nil {
			return want
		}
		data, err := json.Marshal(v)
		if err != nil {
			return want
		}
		*dst = data
		return ""
	}
}
