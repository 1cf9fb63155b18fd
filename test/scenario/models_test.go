package scenario

import (
	"fmt"

	"qq/test/ollamatest"
	"qq/test/tinymodel"
)

// Names of models.
const (
	scripted = "scripted" // says the scripts below
	noTools  = "notools"  // the same, but cannot call tools
	small    = "small"    // the same, with a context of smallContext tokens
	noise    = "noise"    // says 64 tokens of anything
)

const smallContext = 2048

// template leaves the list of tools out of the prompt: a scripted model does
// not read it, and a prompt has a token for each byte.
const template = `{{- if .System }}<|system|>{{ .System }}{{ end }}
{{- if .Tools }}<|system|>There are tools.{{ end }}
{{- range .Messages }}
{{- if eq .Role "user" }}<|user|>{{ .Content }}
{{- else if eq .Role "assistant" }}<|assistant|>{{ .Content }}{{ if .ToolCalls }}<tool_call>{{ range .ToolCalls }}{"name": "{{ .Function.Name }}", "arguments": {{ .Function.Arguments }}}{{ end }}</tool_call>{{ end }}<|end|>
{{- else if eq .Role "tool" }}<|tool|>{{ .Content }}
{{- end }}
{{- end }}<|assistant|>`

func models() []ollamatest.Model {
	spec := scripts()
	spec.Context = 32768
	tight := scripts()
	tight.Context = smallContext
	return []ollamatest.Model{
		{Name: scripted, Spec: spec, Template: template},
		{Name: noTools, Spec: spec, Template: ollamatest.TemplateWithoutTools},
		{Name: small, Spec: tight, Template: template},
		{
			Name: noise, Write: tinymodel.Random, Template: template,
			Spec:       tinymodel.Spec{Control: spec.Control, Seed: 1},
			Parameters: map[string]any{"num_predict": 64, "seed": 1},
		},
	}
}

// call is how a model asks for a delegation.
func call(agent, task string) string {
	return fmt.Sprintf(`<tool_call>{"name": "delegate_task", "arguments": {"agent": %q, "task": %q}}</tool_call>`,
		agent, task)
}

// Texts that the models say.
const (
	hello    = "Hello there. Größe 你好 🙂 done."
	poem     = "The sea is blue."
	bothDone = "Both are done."
	allDone  = "All three levels are done."
)

func scripts() tinymodel.Spec {
	list := []tinymodel.Script{
		{Start: "[[hello]]", Text: hello},
		// A lead with two children; it reads [[sum]] in what they say.
		{Start: "[[fan]]", Text: call("summarizer", "Write a line. [[line]]") +
			call("summarizer", "Judge it. [[judge]]")},
		{Start: "[[line]]", Text: "The sea is wide. [[sum]]"},
		{Start: "[[judge]]", Text: "It is good. [[sum]]"},
		{Start: "[[sum]]", Text: bothDone},
		// Root, child and grandchild.
		{Start: "[[top]]", Text: call("middle", "Pass it on. [[middle]]")},
		{Start: "[[middle]]", Text: call("summarizer", "Write a line. [[bottom]]")},
		{Start: "[[bottom]]", Text: "Said at the bottom. [[up]]"},
		{Start: "[[up]]", Text: "Passed on. [[end]]"},
		{Start: "[[end]]", Text: allDone},
		{Start: "[[poem]]", Text: poem},
		{Start: "[[loop]]", Text: "tick tock", Loop: true},
		{Start: "[[fanloop]]", Text: call("summarizer", "Go on. [[loop]]") +
			call("summarizer", "Go on, too. [[loop]]")},
		// The server ends a stream, without a word, when a token comes more than 30 times.
		{Start: "[[stuck]]", Text: "no", Loop: true},
	}
	for i := range batchSize {
		list = append(list, tinymodel.Script{Start: fmt.Sprintf("[[task%d]]", i), Text: batchAnswer(i)})
	}
	spec := ollamatest.Spec(list...)
	spec.Default = "[[hello]]"
	return spec
}
