package agents

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// MaxPrompt is the longest system prompt of a temporary agent, in bytes.
const MaxPrompt = 64 << 10

// generalPrompt is the system prompt of a temporary agent that was given none.
const generalPrompt = "Do the whole task with your tools. Nobody can answer questions: when something is unclear, " +
	"take the likeliest meaning and say which.\n\n" +
	"Look before you speak: what you did not read you do not know. When a tool answers with an error, change the " +
	"call; never repeat one that failed.\n\n" +
	"Your answer is read by the agent that asked you. Put the result first, in the form asked for; name places as " +
	"path:line. Never invent a result, a file or a number. Say last what you could not do, and why."

// Temporary returns an agent that the agent parent defines for one task. An empty name becomes
// "temporary", and an empty prompt becomes a general one. Each of tools must be a tool of parent;
// if tools is empty, the agent gets all tools of parent. With readOnly, or if parent is read-only,
// it is read-only. Model, limits and trust are those of parent. The errors are written for the model that
// defines the agent.
func Temporary(parent Agent, name, prompt string, tools []string, readOnly bool) (Agent, error) {
	a := Agent{
		Name:            cmp.Or(strings.TrimSpace(name), "temporary"),
		Description:     "Made up by " + parent.Name + " for one task.",
		Tools:           slices.Clone(parent.Tools),
		Within:          slices.Clone(parent.Within),
		DisallowedTools: slices.Clone(parent.DisallowedTools),
		Model:           parent.Model,
		MaxTurns:        parent.MaxTurns,
		Timeout:         parent.Timeout,
		IdleTimeout:     parent.IdleTimeout,
		MCPServers:      slices.Clone(parent.MCPServers),
		CanDelegate:     parent.CanDelegate,
		Agents:          slices.Clone(parent.Agents),
		Prompt:          cmp.Or(strings.TrimSpace(prompt), generalPrompt),
		Source:          "made up by " + parent.Name,
		Untrusted:       parent.Untrusted,
	}
	switch {
	case !Plain(a.Name):
		return Agent{}, fmt.Errorf("name %q: use letters, digits, - and _, at most %d, all of ASCII and no - first",
			name, maxName)
	case len(a.Prompt) > MaxPrompt:
		return Agent{}, fmt.Errorf("the system prompt has %d bytes, at most %d are taken: put long texts into the "+
			"context", len(a.Prompt), MaxPrompt)
	case !utf8.ValidString(a.Prompt) || strings.ContainsRune(a.Prompt, 0):
		return Agent{}, errors.New("the system prompt is no UTF-8 text")
	}
	readOnly = readOnly || parent.Gathers()
	if len(tools) > 0 && !slices.Contains(tools, everyTool) {
		own, err := chosen(parent, tools, readOnly)
		if err != nil {
			return Agent{}, err
		}
		// The list is complete: CanDelegate could only add to it.
		a.Tools, a.CanDelegate = own, nil
	}
	a.Role = a.role()
	if readOnly {
		a.Role = Gathering
	}
	return a, nil
}

// chosen returns the tools with these names, under their names in this program. A tool that parent
// may not use, or that a read-only agent may not use, is an error.
func chosen(parent Agent, names []string, readOnly bool) ([]string, error) {
	tools := []string{}
	for _, n := range names {
		t := canonical(strings.TrimSpace(n))
		switch k := kindOf(t); {
		case k == changes && readOnly:
			return nil, fmt.Errorf("tool %q changes something, and the agent may only read: leave it out", n)
		case k == unknown && !served(t), !parent.Allows(t):
			return nil, fmt.Errorf("tool %q is none that you have: choose from %s, or leave tools out for all of them",
				n, cmp.Or(strings.Join(parent.Toolset(), ", "), "none"))
		}
		tools = append(tools, t)
	}
	return unique(tools), nil
}
