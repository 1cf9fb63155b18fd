// Package runner is the agent loop: a model is asked, the tools that it calls
// are run, their results are handed back, until it gives its answer.
//
// Vocabulary: a turn is one question to the model with the tool calls that
// follow from it. An [Outcome] is how the loop ended; its status comes from what
// happened, never from words in the text, and only an answer that the model
// itself ended, and that is not empty, is completed.
//
// Tools run in the order of their calls, except that neighbouring delegations
// run at once; results always go back in the order of the calls. A tool that the
// agent does not have is answered with a refusal, whatever the model was shown.
//
// The runner starts no process and reads no file: its [llm.Backend] and its
// tools do.
package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"qq/pkg/event"
	"qq/pkg/llm"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// Config is an agent, ready to run.
type Config struct {
	Backend llm.Backend
	System  string
	Tools   tool.Set
	// MaxTurns is how many turns there are, at least 1. One more call of the
	// model asks for a last word, and an answer that is sent back for its schema
	// counts as none.
	MaxTurns  int
	MaxTokens int // of one answer; 0 is no limit
	// Schema is the JSON Schema of the answer, or nil.
	Schema json.RawMessage
	// Record is told of each message that joins the conversation; nil drops them.
	Record func(llm.Message)
	// Event takes tool events, several at once where several tools run; nil drops
	// them.
	Event func(event.Event)
	// Chunk takes the text of answers while it is written; nil drops it.
	Chunk func(llm.Chunk)
	// TurnEnd is told when the model has ended, or broken off, whether its text
	// is the answer (and not a remark beside tool calls); nil is not told.
	TurnEnd func(final bool)
}

// Outcome is how a run ended.
type Outcome struct {
	Text       string // the answer, or the last that the model said
	Status     task.Status
	Err        error // nil exactly when Status is completed
	Usage      task.Usage
	Turns      int             // model calls
	Structured json.RawMessage // the answer, when it fits the schema that was asked for
}

// loop is one run under way.
type loop struct {
	cfg      Config
	messages []llm.Message
	out      Outcome
}

// Run continues the conversation history with the user message text until the
// agent has answered.
func Run(ctx context.Context, cfg Config, history []llm.Message, text string) Outcome {
	l := &loop{cfg: cfg, messages: slices.Clone(history)}
	check, err := newSchemaCheck(cfg.Schema)
	if err != nil {
		return l.end(task.Misused, err)
	}
	l.add(llm.Message{Role: llm.User, Content: text})
	for turns := max(1, cfg.MaxTurns); l.out.Turns < turns; {
		response, err := l.ask(ctx, l.request(check), true)
		if err != nil {
			return l.broke(ctx, err)
		}
		if len(response.Message.Calls) == 0 {
			again := ""
			if response.Stop != llm.StopLength { // what was cut will be cut again
				again = check.repair(response.Message.Content)
			}
			if again == "" {
				return l.answered(response, check)
			}
			l.turnEnd(false)
			l.add(llm.Message{Role: llm.User, Content: again})
			turns++
			continue
		}
		l.turnEnd(false)
		for _, m := range l.call(ctx, response.Message.Calls) {
			l.add(m)
		}
		if ctx.Err() != nil {
			return l.broke(ctx, context.Cause(ctx))
		}
	}
	return l.lastWord(ctx, check)
}

func (l *loop) request(check *schemaCheck) llm.Request {
	r := llm.Request{System: l.cfg.System, Messages: l.messages, Tools: l.cfg.Tools.Specs(), MaxTokens: l.cfg.MaxTokens}
	if check.binding(len(r.Tools) > 0) {
		// A grammar leaves a model no way to call a tool, so it comes without.
		r.Schema, r.Tools = l.cfg.Schema, nil
	}
	return r
}

// ask sends one request, keeps what came back, and counts it. Calls that are not
// carried out are not kept: a conversation with a call that nobody answered
// cannot be continued.
func (l *loop) ask(ctx context.Context, r llm.Request, carryOut bool) (llm.Response, error) {
	l.out.Turns++
	chunk := l.cfg.Chunk
	if chunk == nil {
		chunk = func(llm.Chunk) {}
	}
	response, err := l.cfg.Backend.Chat(ctx, r, chunk)
	response.Message.Role = llm.Assistant
	l.out.Usage = l.out.Usage.Add(response.Usage)
	text := strings.TrimSpace(response.Message.Content)
	if text != "" {
		l.out.Text = text
	}
	if err != nil || !carryOut {
		response.Message.Calls = nil
	}
	if err == nil || text != "" {
		l.add(response.Message)
	}
	if err != nil {
		l.turnEnd(text != "")
	}
	return response, err
}

// answered ends the run with the answer of the model.
func (l *loop) answered(r llm.Response, check *schemaCheck) Outcome {
	l.turnEnd(true)
	l.out.Text = strings.TrimSpace(r.Message.Content)
	switch {
	case r.Stop == llm.StopLength:
		return l.end(task.Limit, errors.New("the answer was cut: it reached the limit of tokens"))
	case l.out.Text == "":
		return l.end(task.Empty, errors.New("the agent gave an empty answer"))
	}
	if check != nil {
		if check.problem != "" {
			return l.end(task.Failed, errors.New("the answer does not fit the schema: "+check.problem))
		}
		l.out.Structured = check.value
	}
	return l.end(task.Completed, nil)
}

// lastWord asks, once and without tools, for what there is.
func (l *loop) lastWord(ctx context.Context, check *schemaCheck) Outcome {
	l.add(llm.Message{Role: llm.User, Content: "You have used all your turns. Answer now, without tools, with what you have. Say what is missing."})
	turns := l.out.Turns
	r := llm.Request{System: l.cfg.System, Messages: l.messages, Schema: l.cfg.Schema, MaxTokens: l.cfg.MaxTokens}
	response, err := l.ask(ctx, r, false)
	if err != nil {
		return l.broke(ctx, err)
	}
	l.turnEnd(true)
	if check != nil && check.accept(response.Message.Content) {
		l.out.Structured = check.value
	}
	return l.end(task.TurnLimit, fmt.Errorf("the agent used all its %d turns", turns))
}

// broke ends the run with an error of the model, or because of ctx.
func (l *loop) broke(ctx context.Context, err error) Outcome {
	if ctx.Err() != nil {
		return l.end(task.Interrupted, context.Cause(ctx))
	}
	if e, ok := errors.AsType[*llm.Error](err); ok {
		return l.end(e.TaskStatus(), err)
	}
	return l.end(task.Failed, err)
}

func (l *loop) end(s task.Status, err error) Outcome {
	l.out.Status, l.out.Err = s, err
	return l.out
}

func (l *loop) add(m llm.Message) {
	l.messages = append(l.messages, m)
	if l.cfg.Record != nil {
		l.cfg.Record(m)
	}
}

func (l *loop) turnEnd(final bool) {
	if l.cfg.TurnEnd != nil {
		l.cfg.TurnEnd(final)
	}
}
