package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"qq/internal/longdoc"
	"qq/internal/ollama"
	"qq/pkg/llm"
	"qq/pkg/runner"
	"qq/pkg/task"
)

// wholeRequest is what is asked about a text that comes without a request.
const wholeRequest = "Summarize this text."

// document is the long part of text, what is asked about it, and the room that
// the model has for it. ok is false when it fits as it is.
func document(m Model, r llm.Request, text string) (request, doc string, room int, ok bool) {
	if m.Kind != kindOllama || m.Ollama.Context == 0 {
		return "", "", 0, false
	}
	request, doc = llm.SplitContext(text)
	if doc == "" {
		request, doc = wholeRequest, text
	}
	room = m.Ollama.Room(r)
	long := longdoc.Job{Request: request, Text: doc, Room: room, Tokens: ollama.Tokens}
	return request, doc, room, !long.Fits()
}

// fitted returns text in place of which the model can take it: the document in it
// summarised, part by part, by others, when it is too long for the model. The
// warnings say so.
func (w work) fitted(ctx context.Context, cfg runner.Config, text string) (string, []string, error) {
	request, doc, room, long := document(w.setup.Model, llm.Request{System: cfg.System, Messages: w.history, Tools: cfg.Tools.Specs()}, text)
	if !long {
		return text, nil, nil
	}
	if w.summaries == nil {
		return "", nil, &llm.Error{Kind: llm.ContextOverflow,
			Problem: fmt.Sprintf("context overflow: the text has about %d tokens, the model has room for %d", ollama.Tokens(doc), room),
			Hint:    "agents at this depth cannot have it summarised: shorten the text, or raise QQ_MAX_DEPTH"}
	}
	plan, err := longdoc.NewPlan(longdoc.Job{Request: request, Text: doc, Room: room, Tokens: ollama.Tokens, Summarize: w.summaries})
	if err != nil {
		return "", nil, overflow(err)
	}
	for _, line := range plan.Overview() {
		w.note("%s", line)
	}
	joined, err := plan.Run(ctx)
	if err != nil {
		return "", nil, err
	}
	warning := fmt.Sprintf("the text was too long for the model: it was summarised in %d parts before it was answered about", joined.Parts)
	return llm.WithContext(request, joined.Text), append([]string{warning}, joined.Warnings...), nil
}

// overflow is the failure of a text that cannot be cut to fit.
func overflow(err error) error {
	problem, hint, _ := strings.Cut(err.Error(), "\nhint: ")
	return &llm.Error{Kind: llm.ContextOverflow, Problem: "context overflow: " + problem, Hint: hint, Err: err}
}

// unfitted is how an agent ends whose text could not be made to fit.
func unfitted(ctx context.Context, err error) Outcome {
	out := Outcome{Outcome: runner.Outcome{Status: task.Failed, Err: err}}
	if failed, ok := errors.AsType[*longdoc.FailedError](err); ok {
		out.Status = failed.Failed[0].Status
	}
	if e, ok := errors.AsType[*llm.Error](err); ok {
		out.Status = e.TaskStatus()
	}
	if ctx.Err() != nil {
		out.Status, out.Err = task.Interrupted, context.Cause(ctx)
	}
	return out
}

// summaries hands the parts of a document to children, as tasks that any agent may
// hand on.
func summaries(delegate func(context.Context, []task.Task) []task.Result, model string) func(context.Context, []task.Task) []task.Result {
	return func(ctx context.Context, tasks []task.Task) []task.Result {
		for i := range tasks {
			tasks[i].Part, tasks[i].Model = true, model
		}
		return delegate(ctx, tasks)
	}
}

// Plan says how a task would be worked on whose text is too long for the model;
// nothing for one that fits.
func (e *Engine) Plan(m Model, system string, t task.Task) ([]string, error) {
	request, doc, room, long := document(m, llm.Request{System: system}, llm.WithContext(t.Text, t.Context))
	if !long {
		return nil, nil
	}
	plan, err := longdoc.NewPlan(longdoc.Job{Request: request, Text: doc, Room: room, Agent: t.Normalized().Agent, Tokens: ollama.Tokens})
	if err != nil {
		return nil, overflow(err)
	}
	return plan.Lines(), nil
}
