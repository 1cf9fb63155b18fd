// Package narrator tells a person what happens in a run, a line for each thing.
package narrator

import (
	"fmt"
	"io"
	"strings"

	"qq/internal/app/command"
	"qq/pkg/event"
	"qq/pkg/task"
)

// Narrator prints a line for each start and end of a child, each attempt of one that is repeated, each start of a tool
// call, and each tool call that fails. The start and the end of the root's own agent have no line.
type Narrator struct {
	w        io.Writer
	coloured bool
}

// New returns a Narrator that prints on w.
func New(w io.Writer, coloured bool) *Narrator { return &Narrator{w: w, coloured: coloured} }

// Event prints a line for e if e is of a type that has one. It is an event.Sink.
func (n *Narrator) Event(e event.Event) {
	line := ""
	switch e.Type {
	case event.SubAgentStart, event.SubAgentComplete, event.SubAgentError:
		if e.OfRoot() { // its end is the end of qq, which is told otherwise
			return
		}
	}
	switch e.Type {
	case event.ToolStart:
		line = e.Text
	case event.ToolEnd:
		if e.Failed {
			line = fmt.Sprintf("%s failed", e.Tool)
			if e.Error != "" {
				line += ": " + strings.TrimPrefix(e.Error, "Error: ")
			}
		}
	case event.SubAgentStart:
		line = "started: " + e.Task
	case event.SubAgentProgress:
		if e.Attempt > 0 && !e.OfRoot() {
			line = e.Text
		}
	case event.SubAgentComplete:
		line = fmt.Sprintf("done in %.1fs", float64(e.DurationMS)/1000)
	case event.SubAgentError:
		line = fmt.Sprintf("%s: %s", e.Status, e.Error)
	}
	if line != "" {
		n.Say(e.Depth, e.Agent, e.ExecutionID, line)
	}
}

// Say prints a line about an agent. id may be empty.
func (n *Narrator) Say(depth int, agent, id, line string) {
	if id != "" {
		agent += " " + task.ShortID(id)
	}
	line = strings.Repeat("  ", depth) + "[" + agent + "] " + command.Printable(line)
	if n.coloured {
		line = "\x1b[2m" + line + "\x1b[0m"
	}
	fmt.Fprintln(n.w, line)
}
