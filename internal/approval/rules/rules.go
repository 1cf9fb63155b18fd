// Package rules holds the rules by which a person decides about calls of tools beforehand.
//
// A [Rule] names a tool, or a tool and a pattern: run_pty_cmd(git log*), edit_file(src/**),
// web_fetch(docs.python.org). The pattern is about the command, the paths or the host of a
// call ([tool.Intent]). An allowing rule must match with certainty ([Rule.Covers]), a
// denying one matches whatever may do what it names ([Rule.Touches]). Calls that it
// can neither match nor exclude ([Rule.Suspects]) are for a person to decide.
//
// A command matches by its words, not by its text. [Words] returns them if the command is
// one call of one program with literal words. What a rule allows is then not given to a
// shell: [Prepare] returns the program, the words and the environment to start it with, so
// that neither the environment nor the configuration of a checkout makes it run something
// else. A * at the end of a pattern stands for further words. For programs that qq knows,
// it stands only for options that run, write and reveal nothing else (options.go).
//
// Not promised: that a program does what its name says, or that it starts nothing. A rule
// for "make test" allows what the Makefile says at that time. A denying rule is no sandbox:
// a script that a command starts may do what the rule denies.
package rules

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/bmatcuk/doublestar/v4"

	"qq/pkg/agents"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// Rule is a tool, with a pattern that its calls must match. Without a pattern it is about all
// calls of the tool.
type Rule struct{ Tool, Pattern string }

// String returns the rule as [Parse] reads it.
func (r Rule) String() string {
	if r.Pattern == "" {
		return r.Tool
	}
	return r.Tool + "(" + r.Pattern + ")"
}

// MarshalText implements encoding.TextMarshaler.
func (r Rule) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler, for a rule that [Parse] has read before.
func (r *Rule) UnmarshalText(text []byte) error {
	tool, pattern, _ := strings.Cut(string(text), "(")
	r.Tool, r.Pattern = tool, strings.TrimSuffix(pattern, ")")
	return nil
}

// subject is what the pattern of a rule is about.
type subject int

const (
	nothing subject = iota // the tool takes no pattern
	command
	paths
	host
)

// subjectOf returns what a pattern for that tool is about.
func subjectOf(tool string) subject {
	switch tool {
	case "run_pty_cmd":
		return command
	case "read_file", "edit_file", "write_file", "create_file", "delete_file", "ast_grep_replace":
		return paths
	case "web_fetch":
		return host
	}
	return nothing
}

const (
	maxPattern = 1000 // bytes
	maxBraces  = 4    // alternatives of a glob multiply
)

// accepted says how rules are written.
const accepted = "accepted is TOOL or TOOL(PATTERN), such as run_pty_cmd(git log*), edit_file(src/**) or " +
	"web_fetch(docs.python.org)"

// Parse reads a rule. The error has a hint.
func Parse(text string) (Rule, error) {
	name, pattern, partly := strings.Cut(strings.TrimSpace(text), "(")
	r := Rule{Tool: strings.TrimSpace(name)}
	if !slices.Contains(agents.KnownTools(), r.Tool) {
		hint := "the tools are: " + strings.Join(agents.KnownTools(), ", ")
		if near := agents.NearestTool(r.Tool); near != "" {
			hint = "did you mean " + near + "?"
		}
		return Rule{}, task.Hinted(hint, "names %q, which is no tool", r.Tool)
	}
	if !partly {
		return r, nil
	}
	pattern, closed := strings.CutSuffix(pattern, ")")
	r.Pattern = strings.TrimSpace(pattern)
	err := errors.New("its parenthesis is not closed")
	if closed {
		r.Pattern, err = clean(r)
	}
	if err != nil {
		return Rule{}, task.Hinted(accepted, "has the rule %q: %w", text, err)
	}
	return r, nil
}

// Of returns the rule that a definition of an agent has. One that [Parse] cannot read covers no call,
// and touches each call of its tool.
func Of(text string) Rule {
	r, err := Parse(text)
	if err != nil {
		_ = r.UnmarshalText([]byte(text)) // never fails
	}
	return r
}

// Taken returns the rules for what the definition of an agent takes from it, as [Of] reads each. A path that it may
// not edit is one for all tools that change files, and one that it may not write is one for those that make files.
func Taken(texts []string) (list []Rule) {
	for _, text := range texts {
		r := Of(text)
		list = append(list, r)
		var others []string
		switch {
		case r.Pattern == "":
		case r.Tool == "edit_file":
			others = []string{"write_file", "create_file", "delete_file", "ast_grep_replace"}
		case r.Tool == "write_file":
			others = []string{"create_file"}
		}
		for _, tool := range others {
			list = append(list, Rule{tool, r.Pattern})
		}
	}
	return list
}

// Unreadable returns globs of the absolute paths that no reading tool may read after these denying rules. Their paths
// begin in root.
func Unreadable(denying []Rule, root string) (globs []string) {
	for _, r := range denying {
		if glob, err := cleanGlob(r.Pattern); r.Tool == "read_file" && r.Pattern != "" {
			if err != nil { // in doubt all
				glob = "**"
			}
			globs = append(globs, path.Join(escapeGlob(root), glob))
		}
	}
	return globs
}

// clean returns the pattern of r in the form in which it is compared.
func clean(r Rule) (string, error) {
	switch {
	case r.Pattern == "":
		return "", fmt.Errorf("its pattern is empty, and %s alone means every call", r.Tool)
	case len(r.Pattern) > maxPattern:
		return "", fmt.Errorf("its pattern has more than %d bytes", maxPattern)
	case strings.ContainsFunc(r.Pattern, unicode.IsControl):
		return "", errors.New("its pattern has a control character")
	}
	switch subjectOf(r.Tool) {
	case command:
		_, err := parseCalls(r.Pattern)
		return r.Pattern, err
	case paths:
		return cleanGlob(r.Pattern)
	case host:
		return cleanHost(r.Pattern)
	}
	return "", fmt.Errorf("%s takes no pattern", r.Tool)
}

// Covers reports whether r allows the call: it certainly does no more than r says. folder is the
// folder of the agent relative to that of the run, with slashes. A program that is named by a relative
// path, such as ./x, is another one in another folder.
func (r Rule) Covers(in tool.Intent, folder string) bool {
	if r.Tool != in.Tool {
		return false
	}
	if r.Pattern == "" {
		return true
	}
	if _, err := clean(r); err != nil {
		return false
	}
	switch subjectOf(r.Tool) {
	case command:
		words, err := Words(in.Command)
		c, bad := parseCalls(r.Pattern)
		return err == nil && bad == nil && in.Doubt == "" && c.admits(words) &&
			(!local(words) || path.Join(folder, in.Dir) == "")
	case paths:
		for _, p := range in.Paths {
			if ok, err := doublestar.Match(r.Pattern, path.Join(folder, p)); !ok || err != nil {
				return false
			}
		}
		return len(in.Paths) > 0
	case host:
		return matchHost(r.Pattern, in.Host)
	}
	return false
}

// Touches reports whether the call may do what r denies. In doubt it does.
func (r Rule) Touches(in tool.Intent, folder string) bool {
	if r.Tool != in.Tool {
		return false
	}
	if _, err := clean(r); err != nil {
		return true // also without a pattern
	}
	switch subjectOf(r.Tool) {
	case command:
		c, err := parseCalls(r.Pattern)
		return err != nil || c.mayRun(in.Command, maxNested) == meant
	case paths:
		for _, p := range in.Paths {
			if below(r.Pattern, path.Join(folder, p)) {
				return true
			}
		}
		return len(in.Paths) == 0
	case host:
		name, _, _ := strings.Cut(strings.TrimPrefix(r.Pattern, "*."), ":")
		asked, _, _ := strings.Cut(in.Host, ":")
		return asked == name || strings.HasSuffix(asked, "."+name) || in.Host == "" || !ascii(in.Host)
	}
	return true
}

// Suspects reports whether the call may do what r denies, though its words do not say so: a command
// with an alias of git, or with code of another language.
func (r Rule) Suspects(in tool.Intent) bool {
	c, err := parseCalls(r.Pattern)
	return r.Tool == in.Tool && subjectOf(r.Tool) == command && err == nil &&
		c.mayRun(in.Command, maxNested) == possible
}

// below reports whether glob matches file or a folder above it, with or without regard to case.
func below(glob, file string) bool {
	glob, file = strings.ToLower(glob), strings.ToLower(file)
	for ; file != "." && file != "/"; file = path.Dir(file) {
		if ok, err := doublestar.Match(glob, file); ok || err != nil {
			return true
		}
	}
	return false
}

// Exactly returns the rule that allows the same call again and nothing else. ok is false if no
// rule does: the call is special, is not certain, or touches several files.
func Exactly(in tool.Intent) (r Rule, ok bool) {
	r.Tool = in.Tool
	switch subjectOf(in.Tool) {
	case command:
		words, err := Words(in.Command)
		if err != nil {
			return r, false
		}
		r.Pattern, ok = quoted(words)
	case paths:
		if len(in.Paths) == 1 {
			r.Pattern, ok = escapeGlob(in.Paths[0]), true
		}
	case host:
		r.Pattern, ok = in.Host, true
	}
	parsed, err := Parse(r.String())
	in.Dir = "" // the rule is for that folder
	return r, ok && err == nil && parsed == r && !in.Special && r.Covers(in, "")
}

// cleanGlob returns a pattern of paths in the form in which paths are compared.
func cleanGlob(glob string) (string, error) {
	if strings.HasSuffix(glob, "/") {
		glob += "**"
	}
	clean := path.Clean(glob)
	switch {
	case path.IsAbs(clean), strings.HasPrefix(clean, "~"), clean == "..", strings.HasPrefix(clean, "../"):
		return "", errors.New("its path is not relative to the working directory and inside of it")
	case !doublestar.ValidatePattern(clean), strings.Count(clean, "{") > maxBraces:
		return "", fmt.Errorf("its path is no glob with at most %d braces", maxBraces)
	}
	return clean, nil
}

func escapeGlob(p string) string {
	var b strings.Builder
	for _, r := range p {
		if strings.ContainsRune(`*?[]{}\`, r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// cleanHost returns a pattern of hosts in the form in which hosts are compared.
func cleanHost(pattern string) (string, error) {
	pattern = strings.TrimSuffix(strings.ToLower(pattern), ".")
	name := strings.TrimPrefix(pattern, "*.")
	if name == "" || !ascii(name) || strings.ContainsAny(name, "*/@?#\\ ") || strings.HasPrefix(name, ".") {
		return "", errors.New("its pattern is no host, such as x.org, *.x.org for those below it, or x.org:8080")
	}
	return pattern, nil
}

// matchHost reports whether host, which may have a port, is the one of pattern. *.x means the
// hosts below x.
func matchHost(pattern, host string) bool {
	if domain, ok := strings.CutPrefix(pattern, "*"); ok {
		return ascii(host) && len(host) > len(domain) && strings.HasSuffix(host, domain)
	}
	return host == pattern && host != ""
}

func ascii(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r > unicode.MaxASCII })
}
