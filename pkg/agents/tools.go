package agents

import (
	"fmt"
	"slices"
	"strings"
)

// everyTool stands for all tools in a list of tools.
const everyTool = "*"

// kind is what a tool does, as far as a definition can tell. The names are
// those of every tool that the program has or will have: a definition may name
// one that this version does not offer.
type kind int

const (
	unknown kind = iota
	looks
	changes
	delegates
)

func kindOf(tool string) kind {
	switch tool {
	case "read_file", "list_files", "list_directory", "grep_file", "ast_grep", "web_fetch", "web_search",
		"list_agents", "list_children":
		return looks
	case "write_file", "create_file", "edit_file", "delete_file", "ast_grep_replace", "run_pty_cmd":
		return changes
	case "delegate_task", "run_parallel_tasks", "spawn_agent", "wait_children", "terminate_child", "send_message":
		return delegates
	}
	return unknown
}

// canonical maps the tool names of other agent programs to ours.
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
	case "task":
		return "delegate_task"
	default:
		if kindOf(lower) != unknown {
			return lower
		}
	}
	return tool
}

// allowed maps the tools that a definition asks for. A tool that is restricted
// by arguments, "Bash(git:*)", is left out: granting all of it would widen what
// was meant.
func allowed(names []string) (tools, warnings []string) {
	tools = []string{}
	for _, n := range names {
		if n == everyTool {
			return nil, nil
		}
		if strings.Contains(n, "(") {
			warnings = append(warnings, fmt.Sprintf("tool %q is left out: restrictions by argument are not supported", n))
			continue
		}
		tools = append(tools, canonical(n))
	}
	return unique(tools), append(warnings, unknownTools(tools)...)
}

// disallowed maps the tools that a definition refuses. One that is refused in
// part is refused altogether.
func disallowed(names []string) (tools, warnings []string) {
	for _, n := range names {
		if whole, _, partly := strings.Cut(n, "("); partly {
			warnings = append(warnings, fmt.Sprintf("tool %q is refused altogether: restrictions by argument are not supported", n))
			n = strings.TrimSpace(whole)
		}
		tools = append(tools, canonical(n))
	}
	return unique(tools), append(warnings, unknownTools(tools)...)
}

func unknownTools(tools []string) (warnings []string) {
	for _, t := range unique(tools) {
		if kindOf(t) == unknown && t != everyTool && !strings.HasPrefix(t, "mcp__") {
			warnings = append(warnings, fmt.Sprintf("unknown tool %q", t))
		}
	}
	return warnings
}

// unique returns names without repetitions, in their order.
func unique(names []string) []string {
	out := make([]string, 0, len(names))
	for _, n := range names {
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}
