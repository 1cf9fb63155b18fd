package event

import (
	"slices"
	"strings"
	"unicode/utf8"

	"qq/pkg/task"
	"qq/pkg/tool"
)

// Limits of what an agent reports about itself.
const (
	maxText  = 64 << 10 // bytes of the text of a token
	maxLine  = 2000     // bytes of any other text
	maxTasks = 20       // that an event lists
	maxCount = 1_000_000
)

// Reported returns e with nothing but what an agent may report about itself, within limits. false
// means that e is of a type that is not for agents to report. Who receives e from a child must not
// trust it: the agent may follow untrusted input.
func Reported(e Event) (Event, bool) {
	own := Event{Type: e.Type}
	switch e.Type {
	case ToolStart:
		own.Tool, own.Arguments, own.Text = line(e.Tool), line(e.Arguments), line(e.Text)
	case ToolEnd:
		own.Tool, own.Failed, own.Error, own.DurationMS = line(e.Tool), e.Failed, line(e.Error), max(e.DurationMS, 0)
	case Token:
		own.Text = beginning(e.Text, maxText)
		return own, true
	case SubAgentProgress:
		own.Text, own.Model = line(e.Text), line(e.Model)
		own.Attempt, own.DurationMS = count(e.Attempt), max(e.DurationMS, 0)
		if slices.Contains([]Phase{PhaseModel, PhaseTools, PhaseDelegating, PhaseWaiting, PhaseParts}, e.Phase) {
			own.Phase, own.Done, own.Total, own.Tasks = e.Phase, count(e.Done), count(e.Total), Listed(e.Tasks)
		}
		return own, true
	default:
		return own, false
	}
	if tool.ValidID(e.CallID) {
		own.CallID = e.CallID
	}
	return own, true
}

// Listed returns the first of tasks as an event lists them: each on one line, shortened.
func Listed(tasks []string) (listed []string) {
	for _, t := range tasks[:min(len(tasks), maxTasks)] {
		listed = append(listed, task.Shorten(line(t), 120))
	}
	return listed
}

// Summary returns the beginning of an output as the end of a task has it.
func Summary(output string) string { return task.Shorten(line(output), 500) }

// line returns the beginning of a text that should be short.
func line(text string) string { return beginning(text, maxLine) }

// beginning returns at most the first n bytes of text. Text that is cut stays valid UTF-8.
func beginning(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return strings.Clone(text[:n])
}

func count(n int) int { return min(max(n, 0), maxCount) }
