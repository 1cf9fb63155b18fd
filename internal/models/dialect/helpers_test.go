package dialect

import (
	"encoding/json"
	"strings"

	"qq/pkg/llm"
	"qq/pkg/tool"
)

// takeAll gives a each line of the stream, up to the end of the answer or an error.
func takeAll(d Dialect, a *Answer, stream string) error {
	for line := range strings.SplitSeq(stream, "\n") {
		if line == "" {
			continue
		}
		if err := a.Take(d, []byte(line)); err != nil || a.Closed() {
			return err
		}
	}
	return nil
}

func question(text string) llm.Request {
	return llm.Request{Messages: []llm.Message{{Role: llm.User, Content: text}}}
}

// chunks collects what a backend yields.
type chunks []llm.Chunk

func (c *chunks) add(x llm.Chunk) { *c = append(*c, x) }

func (c chunks) text() (text, thinking string) {
	var a, b strings.Builder
	for _, x := range c {
		a.WriteString(x.Text)
		b.WriteString(x.Thinking)
	}
	return a.String(), b.String()
}

var delegate = tool.Spec{Name: "delegate_task", Description: "Gives a task to another agent.",
	Parameters: json.RawMessage(`{"type":"object","properties":{"task":{"type":"string","description":"what to do"},` +
		`"agent":{"type":"string"}},"required":["task"]}`)}
