package agent

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"qq/pkg/llm"
	"qq/pkg/task"
)

// Limits of the model call that writes a system prompt.
const (
	promptTokens      = 512
	promptTemperature = 0.2
	promptTime        = 30 * time.Second
)

// generatePrompt calls the model to write the system prompt, if the definition has a
// template for it. Without a template, or if the call fails, prompt is empty and the
// agent uses the prompt of its definition.
func (r *run) generatePrompt(ctx context.Context) (prompt string, used task.Usage) {
	text, ok := r.Definition.Template(r.job.Text, r.job.Context)
	if _, served := r.Model.Served(); !ok || !served || r.System != "" {
		return "", task.Usage{}
	}
	temperature := promptTemperature
	resp, err := r.through(limited{r.Model, promptTime}, r.Setup.Retries).Chat(ctx, llm.Request{
		Messages:  []llm.Message{{Role: llm.User, Content: text}},
		MaxTokens: promptTokens, Temperature: &temperature,
	}, func(llm.Chunk) {})
	if err == nil && resp.Stop == llm.StopEnd { // half a prompt may say the opposite of the whole
		prompt = strings.TrimSpace(resp.Message.Content)
	}
	return prompt, resp.Usage
}

// limited is a backend with a time limit for each request. The limit does not count the
// time that the request waits for a slot.
type limited struct {
	Model
	limit time.Duration
}

// Chat implements [llm.Backend].
func (l limited) Chat(ctx context.Context, r llm.Request, yield func(llm.Chunk)) (llm.Response, error) {
	own, cancel := context.WithTimeout(ctx, l.limit)
	defer cancel()
	resp, err := l.Model.Chat(own, r, yield)
	if err != nil && ctx.Err() == nil && own.Err() != nil {
		err = fmt.Errorf("no answer within %v: %w", l.limit, own.Err()) // this limit, not the server, ended it
	}
	return resp, err
}

// request returns the model request without the text of the task. It measures how many
// tokens of the context are left for that text.
func (r *run) request(generated string) llm.Request {
	closing := llm.Message{Role: llm.User, Content: r.closing(), Images: r.job.Images}
	return llm.Request{
		System: r.prompt(generated), Messages: append(slices.Clone(r.History), closing), Tools: r.tools.offered.Specs(),
	}
}

// prompt returns the system prompt. It is the same for all tasks of an agent, unless a
// model generated it, so that the model server can use its prompt cache. What differs by
// task is in closing.
func (r *run) prompt(generated string) string {
	var b strings.Builder
	b.WriteString(strings.TrimSpace(cmp.Or(r.System, generated, r.Definition.Prompt)))
	fmt.Fprintf(&b, "\n\nWorking directory: %s", r.Process.Dir)
	if r.Setup.ReadOnly && !r.Definition.Gathers() {
		b.WriteString("\nYou may only read: nothing may be changed.")
	}
	if _, shell := r.tools.offered.Lookup("run_pty_cmd"); shell && r.Process.Confined {
		fmt.Fprintf(&b, "\nCommands can write only in: %s", r.writable())
	}
	_, delegates := r.tools.offered.Lookup("delegate_task")
	if !delegates && len(r.tools.offered) > 0 && r.Definition.Allows("delegate_task") {
		b.WriteString("\nYou cannot hand work to other agents.")
	}
	b.WriteString(r.Setup.Guide)
	return b.String()
}

// closing returns the text that follows the text of the task: its targets, its check, and that the
// answer needs references if it does.
func (r *run) closing() string {
	text := ""
	if r.Model.BuiltIn() {
		return text
	}
	if len(r.job.Targets) > 0 {
		text += fmt.Sprintf("\n\nTargets of the task: %s. Change nothing else.", strings.Join(r.job.Targets, ", "))
	}
	if r.job.Check != "" {
		text += "\n\nWhen you say that you are done, this command must succeed: " + r.job.Check
	}
	if r.job.RequireFileReferences {
		text += "\n\nSupport each claim with a reference path:line to a line that you have read."
	}
	return text
}
