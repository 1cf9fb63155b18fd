package agents

import (
	"fmt"
	"slices"
	"strings"

	"qq/pkg/spelling"
)

// everyTool is the entry of a list of tools that means all tools.
const everyTool = "*"

// kind is what a tool can do, as far as a definition needs to know.
type kind int

const (
	unknown   kind = iota
	looks          // reads only
	changes        // changes files
	runs           // runs a command, which may change anything
	delegates      // starts other agents
	attends        // lists, awaits and ends agents that it started
	talks          // sends messages to parent and children
)

// toolKind is a tool of this program.
type toolKind struct {
	name string
	kind kind
}

// known are all tools of this program. A definition may name any of them, even if this machine
// does not offer it.
var known = []toolKind{
	{"read_file", looks}, {"list_files", looks}, {"list_directory", looks}, {"grep_file", looks},
	{"ast_grep", looks}, {"web_search", looks}, {"web_fetch", looks},
	{"edit_file", changes}, {"write_file", changes}, {"create_file", changes}, {"delete_file", changes},
	{"ast_grep_replace", changes},
	{"run_pty_cmd", runs},
	{"delegate_task", delegates}, {"run_parallel_tasks", delegates}, {"spawn_agent", delegates},
	{"list_agents", attends}, {"list_children", attends}, {"wait_children", attends}, {"terminate_child", attends},
	{"send_message", talks},
}

// KnownTools returns the names of all tools of this program.
func KnownTools() []string {
	var names []string
	for _, t := range known {
		names = append(names, t.name)
	}
	return names
}

func kindOf(tool string) kind {
	for _, t := range known {
		if t.name == tool {
			return t.kind
		}
	}
	return unknown
}

// served reports whether tool belongs to an MCP server, judged by its name. What such a tool does
// is not known here.
func served(tool string) bool { return strings.HasPrefix(tool, "mcp__") }

// canonical returns the name in this program of a tool that another agent program calls tool. It
// returns an unknown name as it is.
func canonical(tool string) string {
	switch lower := strings.ToLower(tool); lower {
	case "read":
		return "read_file"
	case "write":
		return "write_file"
	case "edit", "multiedit":
		return "edit_file"
	case "glob":
		return "list_files"
	case "grep":
		return "grep_file"
	case "ls":
		return "list_directory"
	case "bash":
		return "run_pty_cmd"
	case "webfetch":
		return "web_fetch"
	case "websearch":
		return "web_search"
	case "task", "agent":
		return "delegate_task"
	default:
		if kindOf(lower) != unknown {
			return lower
		}
	}
	return tool
}

// NearestTool returns the tool of this program that an unknown name may mean: the one that another
// agent program calls by this name, or one whose name differs in a few letters. It returns
// "" if there is none.
func NearestTool(name string) string {
	if ours := canonical(name); kindOf(ours) != unknown {
		return ours
	}
	return spelling.Nearest(name, KnownTools())
}

// part returns what "Bash(git log:*)" means here: the tool, and the rule run_pty_cmd(git log *). The
// rule is empty if the pattern means all calls. ok is false if it cannot be told what is meant.
func part(entry string) (tool, rule string, ok bool) {
	name, pattern, _ := strings.Cut(entry, "(")
	pattern, closed := strings.CutSuffix(strings.TrimSpace(pattern), ")")
	tool, pattern = canonical(strings.TrimSpace(name)), strings.TrimSpace(pattern)
	switch tool {
	case "run_pty_cmd":
		if start, more := strings.CutSuffix(pattern, ":*"); more {
			pattern = strings.TrimSpace(start + " *")
		}
		ok = !strings.Contains(pattern, ":*")
	case "read_file", "edit_file", "write_file", "create_file", "delete_file", "ast_grep_replace":
		ok = !strings.HasPrefix(pattern, "//") && !strings.HasPrefix(pattern, "~")
		pattern = strings.TrimPrefix(strings.TrimPrefix(pattern, "./"), "/") // of the working directory
	case "web_fetch":
		pattern, ok = strings.TrimPrefix(pattern, "domain:"), true
	}
	switch {
	case pattern == "*" || pattern == "**":
		return tool, "", ok && closed
	case pattern == "":
		ok = false
	}
	return tool, tool + "(" + pattern + ")", ok && closed
}

// allowed returns the tools that a definition asks for, with the rules that restrict them and with
// warnings. nil means every tool. An unknown tool is left out. So is one with a pattern that cannot
// be understood, because the whole tool would be more than the definition grants.
func allowed(names []string) (tools, within, warnings []string) {
	tools = []string{}
	whole := map[string]bool{}
	for _, n := range names {
		mapped, rule, ok := canonical(n), "", true
		if strings.Contains(n, "(") {
			mapped, rule, ok = part(n)
		}
		switch {
		case n == everyTool:
			return nil, nil, nil
		case !ok:
			warnings = append(warnings, fmt.Sprintf("tool %q is left out: its pattern is not understood", n))
			continue
		case kindOf(mapped) == unknown && !served(mapped):
			warnings = append(warnings, fmt.Sprintf("unknown tool %q is left out", n))
			continue
		case rule != "":
			within = append(within, rule)
		default:
			whole[mapped] = true
		}
		tools = append(tools, mapped)
	}
	within = slices.DeleteFunc(within, func(rule string) bool {
		tool, _, _ := strings.Cut(rule, "(")
		return whole[tool]
	})
	return unique(tools), within, unique(warnings)
}

// disallowed returns the tools and the calls that a definition forbids, with warnings. A tool whose
// pattern cannot be understood is forbidden entirely.
func disallowed(names []string) (tools, warnings []string) {
	for _, n := range names {
		mapped := canonical(n)
		if strings.Contains(n, "(") {
			tool, rule, ok := part(n)
			if !ok {
				rule = ""
				warnings = append(warnings,
					fmt.Sprintf("tool %q is refused altogether: its pattern is not understood", n))
			}
			if mapped = tool; rule != "" {
				tools = append(tools, rule)
				continue
			}
		}
		if kindOf(mapped) == unknown && !served(mapped) && n != everyTool {
			warnings = append(warnings, fmt.Sprintf("unknown tool %q", n))
		}
		tools = append(tools, mapped)
	}
	return unique(tools), unique(warnings)
}

// unique returns names without repetitions, in the same order.
func unique(names []string) []string {
	out := make([]string, 0, len(names))
	for _, n := range names {
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}
