package agents

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Limits on the texts that are filled into a template, in characters. Only the request for
// the prompt is shortened: the agent gets the task and the context in full.
const (
	maxTemplateTask    = 8000
	maxTemplateContext = 2000
)

// Template returns the request to a model to write a system prompt for a task: the
// prompt_template of a with {task} and {context} replaced, both shortened. It returns
// false if a has no template. If no model answers, Prompt is used.
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
