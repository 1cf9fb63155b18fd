// Package loop is the agent loop: a model is asked, the tools that it calls
// are run, their results are handed back, until it gives its answer.
//
// Vocabulary: a turn is one question to the model with the tool calls that
// follow from it. An [Outcome] is how the loop ended; its status comes from what
// happened, never from words in the text, and only an answer that the model
// itself ended, that is not empty, and for which no tool was refused that did
// not work later, is completed.
//
// Tools run in the order of their calls, except that neighbouring delegations
// run at once; results always go back in the order of the calls. A tool that the
// agent does not have is answered with a refusal, whatever the model was shown,
// and a [Gate] decides about the rest.
//
// The same call in a row is run with a warning from the third time on, refused
// from the sixth with the same result, and ends the run at the tenth. An answer
// is sent back, at most twice for each of them, when it does not fit its schema
// or does not refer to lines of files that exist. The first is then a failure,
// the second a warning in the Outcome: the runner checks that lines exist, not
// that they say what the answer says.
//
// The runner starts no process and reads no file: its [llm.Backend], its tools
// and the functions of its [Config] do. A message that comes after the last turn
// stays in the inbox.
package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"qq/pkg/event"
	"qq/pkg/llm"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// Config is an agent, ready to run.
type Config struct {
	Backend llm.Backend
	System  string
	Tools   tool.Set // what the model is offered
	// Gate decides about every call; nil lets every tool in Tools run.
	Gate Gate
	// MaxTurns is how many turns there are, at least 1. One more call of the
	// model asks for a last word, and an answer that is sent back for its schema
	// or its references counts as none.
	MaxTurns  int
	MaxTokens int // of one answer; 0 is no limit
	// Schema is the JSON Schema of the answer, or nil.
	Schema json.RawMessage
	// References tells how many lines a file has, and whether there is such a file.
	// Not nil, it asks for an answer with references (path:line) to lines that
	// exist. It is given whatever may be a path.
	References func(path string) (lines int, ok bool)
	// Inbox brings messages for the agent, each of them once. It is read before
	// each call of the model, and where an answer would end the run while there
	// are turns left. Nil brings none.
	Inbox func() []string
	// Pending is asked when an answer would end the run while there are turns
	// left. The first text that it returns is sent to the agent instead, and then
	// it is not asked again. Nil or "" lets the run end.
	Pending func() string
	// Record is told of each message that joins the conversation; nil drops them.
	Record func(llm.Message)
	// Changed is told of files that a call changed as soon as it returns, one call
	// at a time; nil is not told.
	Changed func(paths []string)
	// Effects is told right before the first call of a tool that writes or executes,
	// which is not run when it returns an error; nil is not told.
	Effects func() error
	// Ran is told of each call that a tool was run for, one at a time and after it;
	// nil is not told.
	Ran func(s tool.Spec, c tool.Call, r tool.Result)
	// Farewell is asked for a last word when ctx ends before there is an answer and
	// the agent has found something out; Grace says how long it may take, given why
	// ctx ended, and 0 is not at all. Nil is not asked.
	Farewell llm.Backend
	Grace    func(cause error) time.Duration
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
	Text         string // the answer, or the last that the model said
	Status       task.Status
	Err          error // nil exactly when Status is completed
	Usage        task.Usage
	Turns        int             // model calls
	Structured   json.RawMessage // the answer, when it fits the schema that was asked for
	ChangedFiles []string        // by calls, sorted, each once
	Warnings     []string        // what is wrong with an answer that counts all the same
}

// loop is one run under way.
type loop struct {
	cfg      Config
	messages []llm.Message
	schema   *schemaCheck
	refs     *fileRefs
	guard    guard
	refused  refusals
	reminded bool // of what is pending
	out      Outcome
	mu       sync.Mutex // guards out.ChangedFiles while calls run
	acting   sync.Mutex // guards acted
	acted    bool       // Effects was told
}

// Run continues the conversation history with the user message text until the
// agent has answered.
func Run(ctx context.Context, cfg Config, history []llm.Message, text string) Outcome {
	schema, err := newSchemaCheck(cfg.Schema)
	l := &loop{cfg: cfg, messages: slices.Clone(history), schema: schema, refs: newFileRefs(cfg.References)}
	if err != nil {
		return l.end(task.Misused, err)
	}
	l.say(text)
	for turns := max(1, cfg.MaxTurns); l.out.Turns < turns; {
		l.say(l.inbox()...)
		response, err := l.ask(ctx, l.request(), true)
		if err != nil {
			return l.broke(ctx, err)
		}
		if len(response.Message.Calls) == 0 {
			more, repair := l.more(ctx, response, l.out.Turns < turns)
			if len(more) == 0 {
				return l.answered(response)
			}
			l.turnEnd(false)
			l.say(more...)
			if repair {
				turns++
			}
			continue
		}
		l.turnEnd(false)
		for _, m := range l.call(ctx, response.Message.Calls) {
			l.add(m)
		}
		if ctx.Err() != nil {
			return l.broke(ctx, context.Cause(ctx))
		}
		if name := l.guard.stuck; name != "" {
			return l.lastWord(ctx, fmt.Sprintf("You have repeated the same call %d times in a row.", endsAt),
				task.Failed, fmt.Errorf("the agent repeated the same call %d times in a row (%s)", endsAt, name))
		}
	}
	return l.lastWord(ctx, "You have used all your turns.", task.TurnLimit, fmt.Errorf("the agent used all its %d turns", l.out.Turns))
}

// more is what to tell the agent when its answer does not end the run, and
// whether that is about the answer itself. What is new comes first: the next
// answer is checked in any case. What was cut will be cut again.
func (l *loop) more(ctx context.Context, r llm.Response, turnsLeft bool) (messages []string, repair bool) {
	if r.Stop == llm.StopLength {
		return nil, false
	}
	if turnsLeft && ctx.Err() == nil {
		if messages = l.inbox(); len(messages) == 0 {
			messages = l.pending()
		}
		if len(messages) > 0 {
			l.schema.release()
			return messages, false
		}
	}
	text := r.Message.Content
	again := l.schema.repair(text)
	value, problem := l.schema.outcome()
	if problem == "" {
		again = l.refs.repair(wording(text, value))
	}
	if again == "" {
		return nil, false
	}
	return []string{again}, true
}

func (l *loop) inbox() []string {
	if l.cfg.Inbox == nil {
		return nil
	}
	return l.cfg.Inbox()
}

func (l *loop) pending() []string {
	if l.cfg.Pending == nil || l.reminded {
		return nil
	}
	text := l.cfg.Pending()
	if text == "" {
		return nil
	}
	l.reminded = true
	return []string{text}
}

func (l *loop) request() llm.Request {
	r := llm.Request{System: l.cfg.System, Messages: l.messages, Tools: l.cfg.Tools.Specs(), MaxTokens: l.cfg.MaxTokens}
	if l.schema.binding(len(r.Tools) > 0) {
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
func (l *loop) answered(r llm.Response) Outcome {
	l.turnEnd(true)
	l.out.Text = strings.TrimSpace(r.Message.Content)
	switch {
	case r.Stop == llm.StopLength:
		return l.end(task.Limit, errors.New("the answer was cut: it reached the limit of tokens"))
	case l.out.Text == "":
		return l.end(task.Empty, errors.New("the agent gave an empty answer"))
	}
	value, problem := l.schema.outcome()
	if problem != "" {
		return l.end(task.Failed, errors.New("the answer does not fit the schema: "+problem))
	}
	l.out.Structured = value
	l.warn()
	if len(l.refused) > 0 {
		return l.end(task.Refused, errors.New(l.refused.String()))
	}
	return l.end(task.Completed, nil)
}

// lastWord asks, once and without tools, for what there is, and ends the run.
func (l *loop) lastWord(ctx context.Context, why string, s task.Status, because error) Outcome {
	l.say(l.inbox()...)
	l.say(why + " Answer now, without tools, with what you have. Say what is missing.")
	r := llm.Request{System: l.cfg.System, Messages: l.messages, Schema: l.cfg.Schema, MaxTokens: l.cfg.MaxTokens}
	response, err := l.ask(ctx, r, false)
	if err != nil {
		return l.broke(ctx, err)
	}
	l.turnEnd(true)
	l.schema.accept(response.Message.Content)
	l.out.Structured, _ = l.schema.outcome()
	l.refs.accept(wording(response.Message.Content, l.out.Structured))
	l.warn()
	return l.end(s, because)
}

// warn keeps what is wrong with the references of an answer that ends the run.
func (l *loop) warn() {
	if l.refs != nil && l.refs.problem != "" {
		l.out.Warnings = append(l.out.Warnings, "references to lines of files: "+l.refs.problem)
	}
}

// broke ends the run with an error of the model, or because of ctx.
func (l *loop) broke(ctx context.Context, err error) Outcome {
	if ctx.Err() != nil {
		l.farewell(ctx)
		return l.end(task.Interrupted, context.Cause(ctx))
	}
	if e, ok := errors.AsType[*llm.Error](err); ok {
		return l.end(e.TaskStatus(), err)
	}
	if e, ok := errors.AsType[*task.ClockError](err); ok {
		return l.end(e.Status, err)
	}
	return l.end(task.Failed, err)
}

// farewell asks what the agent has found out so far, when it was stopped behind
// the result of a tool. What it is worth to wait for is short: an error is no
// answer, and changes nothing.
func (l *loop) farewell(ctx context.Context) {
	if l.cfg.Farewell == nil || l.messages[len(l.messages)-1].Role != llm.ToolRole {
		return
	}
	d := l.cfg.Grace(context.Cause(ctx))
	if d <= 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d)
	defer cancel()
	l.say("Your time is up. Answer now, without tools and in a few sentences, with what you have. Say what is missing.")
	l.cfg.Backend = l.cfg.Farewell
	if _, err := l.ask(ctx, llm.Request{System: l.cfg.System, Messages: l.messages, MaxTokens: l.cfg.MaxTokens}, false); err == nil {
		l.turnEnd(true)
	}
}

func (l *loop) end(s task.Status, err error) Outcome {
	l.out.Status, l.out.Err = s, err
	return l.out
}

// say adds texts to the conversation, each as a message of the user.
func (l *loop) say(texts ...string) {
	for _, text := range texts {
		l.add(llm.Message{Role: llm.User, Content: text})
	}
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
