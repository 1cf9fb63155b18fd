package agents

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// What a template is filled with at most, in characters: it is sent to a model
// before the work begins, which gets task and context as they are.
const (
	maxTemplateTask    = 8000
	maxTemplateContext = 2000
)

// Template returns the request for a system prompt that fits a task: the
// prompt_template of a with task and context, shortened, in the place of {task}
// and {context}. It is false for an agent without a template, which has a fixed
// prompt; Prompt is also what counts when no model answers.
func (a Agent) Template(task, context string) (string, bool) {
	if a.PromptTemplate == "" {
		return "", false
	}
	if strings.TrimSpace(context) == "" {
		context = "(none)"
	}
	// One pass: a {context} in the task is a text of its author.
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
