package delegation

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"qq/pkg/task"
	"qq/pkg/tool"
)

const (
	maxSummary = 100  // characters of a task on one line
	maxPreview = 8000 // bytes of a preview after which no further task begins
	maxPart    = 2000 // characters of one text of a task
)

func (g delegation) delegateIntent(_ context.Context, args json.RawMessage) (tool.Intent, error) {
	t, err := decodeTask(args)
	if err != nil {
		return tool.Intent{}, err
	}
	return g.intent(fmt.Sprintf("delegate to %s: %s", agentOf(t), task.Shorten(t.Text, maxSummary)), t), nil
}

func (g delegation) parallelIntent(_ context.Context, args json.RawMessage) (tool.Intent, error) {
	tasks, err := decodeParallel(args)
	if err != nil {
		return tool.Intent{}, err
	}
	names := make([]string, len(tasks))
	for i, t := range tasks {
		names[i] = agentOf(t)
	}
	summary := fmt.Sprintf("delegate %d tasks at once to %s", len(tasks), strings.Join(names, ", "))
	return g.intent(task.Shorten(summary, maxSummary), tasks...), nil
}

// intent is what handing out tasks comes to.
func (g delegation) intent(summary string, tasks ...task.Task) tool.Intent {
	in := tool.Intent{Summary: summary, Preview: preview(tasks)}
	if g.risk != nil {
		in.Risk = g.risk(tasks)
	}
	return in
}

// harmless is the intent of a call that starts no work.
func harmless(summary string) func(context.Context, json.RawMessage) (tool.Intent, error) {
	return func(context.Context, json.RawMessage) (tool.Intent, error) {
		return tool.Intent{Risk: tool.Low, Summary: summary}, nil
	}
}

// preview shows tasks to a person who decides about them.
func preview(tasks []task.Task) string {
	if len(tasks) == 1 {
		return describe(tasks[0])
	}
	var b strings.Builder
	shown := 0
	for ; shown < len(tasks) && b.Len() < maxPreview; shown++ {
		fmt.Fprintf(&b, "%d. %s\n\n", shown+1, describe(tasks[shown]))
	}
	text := strings.TrimSpace(b.String())
	if more := len(tasks) - shown; more > 0 {
		text += fmt.Sprintf("\n\n[%d more tasks]", more)
	}
	return text
}

// describe is one task with what a decision about it depends on.
func describe(t task.Task) string {
	var b strings.Builder
	b.WriteString(agentOf(t))
	if t.ReadOnly {
		b.WriteString(" (read only)")
	}
	if t.Temporary != nil && len(t.Temporary.Tools) > 0 {
		b.WriteString("\ntools: " + cut(strings.Join(t.Temporary.Tools, ", "), maxPart))
	}
	if t.WorkingDir != "" {
		b.WriteString("\nfolder: " + cut(t.WorkingDir, maxPart))
	}
	if len(t.Targets) > 0 {
		b.WriteString("\ntargets: " + cut(strings.Join(t.Targets, ", "), maxPart))
	}
	b.WriteString("\n" + cut(t.Text, maxPart))
	if t.Context != "" {
		b.WriteString("\ncontext: " + cut(t.Context, maxPart))
	}
	if t.Temporary != nil && t.Temporary.Prompt != "" {
		b.WriteString("\nsystem prompt: " + cut(t.Temporary.Prompt, maxPart))
	}
	return b.String()
}

// agentOf says who does t.
func agentOf(t task.Task) string {
	if t.Temporary != nil {
		return "a temporary agent"
	}
	return task.Shorten(t.Normalized().Agent, maxSummary)
}

// cut is the first n characters of text, with a mark when there are more.
func cut(text string, n int) string {
	for i := range text {
		if n--; n < 0 {
			return text[:i] + "…"
		}
	}
	return text
}
