package ceiling

import (
	"fmt"
	"strings"

	"qq/pkg/task"
	"qq/pkg/tool"
)

const (
	maxSummary = 100 // characters of a task on one line
	// A person can ask to see all of a preview, so it is cut late.
	maxPreview = 256 << 10 // bytes after which no further task begins
	maxPart    = 64 << 10  // characters of one text of a task
)

// preview returns a text about tasks for the person who has to approve them. When the text is
// longer than maxPreview, it ends with the number of tasks that are left out.
func (a *Agents) preview(tasks []task.Task) string {
	if len(tasks) == 1 {
		return a.describe(tasks[0])
	}
	var b strings.Builder
	shown := 0
	for ; shown < len(tasks) && b.Len() < maxPreview; shown++ {
		fmt.Fprintf(&b, "%d. %s\n\n", shown+1, a.describe(tasks[shown]))
	}
	text := strings.TrimSpace(b.String())
	if more := len(tasks) - shown; more > 0 {
		text += fmt.Sprintf("\n\n[%d more tasks]", more)
	}
	return text
}

// describe returns what a person needs to know to approve one task: its agent, folder, targets,
// text and context, and the tools and the prompt of a temporary agent.
func (a *Agents) describe(t task.Task) string {
	var b strings.Builder
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, "\n%s: %s", name, tool.First(text, maxPart, "…"))
		}
	}
	b.WriteString(t.Agent)
	if t.ReadOnly {
		b.WriteString(" (read only)")
	}
	made, temporary := a.Made(t.Agent)
	if temporary {
		line("tools", strings.Join(made.Toolset(), ", "))
	}
	line("folder", t.WorkingDir)
	line("targets", strings.Join(t.Targets, ", "))
	b.WriteString("\n" + tool.First(t.Text, maxPart, "…"))
	line("context", t.Context)
	if temporary {
		line("system prompt", made.Prompt)
	}
	return b.String()
}

// Intent describes what delegating tasks would do, for the person or the policy that has to approve
// it. There must be at least one task. The root describes it and not the child that asks, because a
// child that follows untrusted input could call tasks that change files harmless.
func (a *Agents) Intent(tasks []task.Task) tool.Intent {
	in := tool.Intent{Tool: "delegate_task", Effect: tool.Delegates, Risk: tool.Low}
	writers := 0
	for _, t := range tasks {
		def, err := a.Agent(t.Agent)
		if err != nil || !t.ReadOnly && def.Changes() {
			writers++
		}
		if _, temporary := a.Made(t.Agent); temporary {
			in.Tool = "spawn_agent"
		}
	}
	switch {
	case writers > 1:
		in.Risk = tool.High
	case writers == 1:
		in.Risk = tool.Medium
	}
	in.Summary = "delegate to " + tasks[0].Agent + ": " + task.Shorten(tasks[0].Text, maxSummary)
	if len(tasks) > 1 {
		in.Tool = "run_parallel_tasks"
		in.Summary = fmt.Sprintf("delegate %d tasks at once, %d of them to agents that can change things",
			len(tasks), writers)
	}
	if writers > 0 { // nobody looks at the others
		in.Preview = a.preview(tasks)
	}
	return in
}
