package delegate

import (
	"fmt"
	"strings"

	"qq/pkg/agents"
)

// AgentInfo describes an agent to which a model can delegate.
type AgentInfo struct {
	Name        string
	Role        string
	Description string // may be empty
}

// Describe returns what models are told about the agent a; false if nothing. Of an agent in a checkout that is not
// trusted, that is a plain name: a model may obey any other text of a stranger.
func Describe(a agents.Agent) (info AgentInfo, ok bool) {
	info = AgentInfo{Name: a.Name, Role: a.Role, Description: a.Description}
	if a.Untrusted {
		info.Description = ""
	}
	return info, !a.Untrusted || agents.Plain(a.Name)
}

// Every token of a roster is sent with each request of its agent.
const (
	maxLines = 20 // agents that a roster names
	maxWords = 6  // of a description
	maxBrief = 60 // characters of a description: words may be long, or have no spaces between them
)

// Roster names the agents that a model may ask, for the text of delegate_task. It is the same for all
// tasks of an agent in a run, so that a model server can use its prompt cache.
type Roster struct {
	Lines []string `json:"lines,omitempty"`
	More  int      `json:"more,omitempty"` // agents that it does not name
}

// Add adds an agent, with the beginning of its description, if a model is told about it.
func (r *Roster) Add(a agents.Agent) {
	info, ok := Describe(a)
	if !ok {
		return
	}
	if len(r.Lines) == maxLines {
		r.More++
		return
	}
	line := info.Name
	if brief := shorten(info.Description); brief != "" {
		line += ": " + brief
	}
	r.Lines = append(r.Lines, line)
}

// shorten returns the beginning of a description: at most six words, and no more than its first clause.
// A clause of one or two words ends only at a full stop or a colon.
func shorten(description string) string {
	words := strings.Fields(description)
	for i, w := range words {
		end := strings.ContainsAny(w[len(w)-1:], ".:;") || i >= 2 && strings.HasSuffix(w, ",")
		if end || i+1 == maxWords {
			words = words[:i+1]
			break
		}
	}
	brief := []rune(strings.TrimRight(strings.Join(words, " "), ".,:;"))
	return string(brief[:min(len(brief), maxBrief)])
}

// String returns the lines below the text of delegate_task; "" for an empty roster.
func (r Roster) String() string {
	if len(r.Lines) == 0 {
		return ""
	}
	text := "\nAgents:\n" + strings.Join(r.Lines, "\n")
	if r.More > 0 {
		text += fmt.Sprintf("\n%d more: list_agents", r.More)
	}
	return text
}
