package foreign

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"qq/internal/box"
	"qq/pkg/llm"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// maxSaid is how much of what a program says about its failure is shown, in characters.
const maxSaid = 400

// verdict returns the answer of the program, or why it has none. What there is of an answer is returned with the error.
func (b *backend) verdict(ctx context.Context, e ending, t *teller) (llm.Response, error) {
	answer := e.said.Answer
	if len(e.said.Structured) > 0 {
		answer = string(e.said.Structured)
	}
	resp := llm.Response{Message: llm.Message{Role: llm.Assistant, Content: answer}, Usage: t.used(e.said.Usage),
		Stop: llm.StopEnd, First: t.first, Took: time.Since(t.start)}
	for _, note := range e.exit.Notes {
		b.warn("%s", note)
	}
	if e.skipped > 0 {
		b.warn("%s wrote %d lines that were too long: they were left out", b.Server, e.skipped)
	}
	if !e.said.Ended || e.said.Failed != "" {
		resp.Message.Content = cmp.Or(answer, t.written())
		return resp, b.failure(ctx, e)
	}
	switch code := e.exit.Code; {
	case e.lingered:
		b.warn("%s did not end after its result: it was ended", b.Server)
	case ctx.Err() != nil: // it was ended with the task, when its result was there
	case e.exit.Signal != 0:
		b.warn("%s was killed by a signal after its result", b.Server)
	case code != 0:
		b.warn("%s exited with code %d after its result", b.Server, code)
	}
	if e.exit.Left > 0 {
		b.warn("%s left %d processes behind, which were ended", b.Server, e.exit.Left)
	}
	return resp, t.refusal()
}

// failure returns why a turn is none.
func (b *backend) failure(ctx context.Context, e ending) error {
	name := b.Server
	switch {
	case e.stopped:
		return context.Cause(ctx)
	case e.said.Failed != "":
		return &task.Error{Status: cmp.Or(e.said.Status, task.Failed),
			Problem: name + ": " + clean(e.said.Failed, maxSaid)}
	case len(e.exit.Excess) > 0:
		status := task.Failed
		if strings.HasPrefix(e.exit.Excess[0], box.OutOfMemory) {
			status = task.OutOfMemory
		}
		return &task.Error{Status: status, Problem: name + ": " + strings.TrimPrefix(e.exit.Excess[0], box.OutOfMemory)}
	case e.read != nil && !errors.Is(e.read, context.Cause(ctx)):
		return &task.Error{Status: task.Broken, Problem: fmt.Sprintf("%s: its stream could not be read: %s", name,
			clean(e.read.Error(), maxSaid))}
	}
	how := fmt.Sprintf("exit code %d", e.exit.Code)
	if e.exit.Signal != 0 {
		how = "killed: " + e.exit.Signal.String()
	}
	problem := fmt.Sprintf("%s ended without a result (%s)", name, how)
	if e.half {
		problem += ", in the middle of a line"
	}
	if said := lastLine(e.stderr); said != "" {
		problem += "; it said: " + said
	}
	return &task.Error{Status: task.NoResult, Problem: problem}
}

// lastLine returns the last line of text with anything in it, as it can be shown.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return clean(lines[len(lines)-1], maxSaid)
}

// clean returns text on one line, with at most n characters and without any that a terminal obeys.
func clean(text string, n int) string { return task.Shorten(tool.Visible(text), n) }
