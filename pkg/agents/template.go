package agents

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Limits on the texts that are inserted into a template, in characters. They apply only to the
// request that asks for a prompt: the agent itself gets the task and the context in full.
const (
	maxTemplateTask    = 8000
	maxTemplateContext = 2000
)

// Template returns the request that asks a model to write the system prompt for a task: the
// PromptTemplate of a, with shortened texts in place of {task} and {context}. It returns false if a
// has no template. The caller uses Prompt if no model answers.
func (a Agent) Template(task, context string) (string, bool) {
	if a.PromptTemplate == "" {
		return "", false
	}
	if strings.TrimSpace(context) == "" {
		context = "(none)"
	}
	// In one pass, so that a {context} in the text of the task stays as it is.
	fill := strings.NewReplacer("{task}", head(task, maxTemplateTask), "{context}", head(context, maxTemplateContext))
	return fill.Replace(a.PromptTemplate), true
}

// head returns the first n characters of s, with a note when there are more.
func head(s string, n int) string {
	at, seen := 0, 0
	for at < len(s) && seen < n {
		_, size := utf8.DecodeRuneInString(s[at:])
		at += size
		seen++
	}
	if at == len(s) {
		return s
	}
	return fmt.Sprintf("%s\n[%d more characters]", s[:at], utf8.RuneCountInString(s[at:]))
}
