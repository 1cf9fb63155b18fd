package ceiling

import (
	"fmt"
	"strings"

	"qq/pkg/task"
	"qq/pkg/tool"
)

// Lines returns a line for each task: its agent and the beginning of its text.
func Lines(tasks []task.Task) []string {
	lines := make([]string, len(tasks))
	for i, t := range tasks {
		lines[i] = t.Agent + ": " + t.Brief()
	}
	return lines
}

// preview returns the whole text about tasks for the person who has to approve them: nobody can
// approve what was cut. The frame in which an agent asked for them bounds it.
func (a *Agents) preview(tasks []task.Task) string {
	if len(tasks) == 1 {
		return a.describe(tasks[0])
	}
	var b strings.Builder
	for i, t := range tasks {
		fmt.Fprintf(&b, "%d. %s\n\n", i+1, a.describe(t))
	}
	return strings.TrimSpace(b.String())
}

// describe returns what a person needs to know to approve one task: its agent, model, folder, targets,
// text and context, and the tools and the prompt of a temporary agent.
func (a *Agents) describe(t task.Task) string {
	var b strings.Builder
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, "\n%s: %s", name, text)
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
	line("model", t.Model)
	line("folder", t.WorkingDir)
	line("targets", strings.Join(t.Targets, ", "))
	line("check", t.Check)
	b.WriteString("\n" + t.Text)
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
	in.Tasks = Lines(tasks)
	in.Summary = "delegate to " + in.Tasks[0]
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
