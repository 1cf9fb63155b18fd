// Package loop is the agent loop: a model is asked, the tools that it calls
// are run, their results are handed back, until it gives its answer.
//
// Vocabulary: a turn is one question to the model with the tool calls that
// follow from it. The status of the result comes from what happened, never from words
// in the text, and only an answer that the model itself ended, that is not empty, and
// for which no tool was refused that did not work later, is completed.
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
// the second a warning in the result: the loop checks that lines exist, not
// that they say what the answer says.
//
// The loop starts no process and reads no file: its [llm.Backend], its tools and the
// interfaces of its [Config] do. A message that comes after the last turn
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
	// Final is asked for a final answer when ctx ends before there is an answer and its
	// cause grants time for that ([Grace]); nil is not asked.
	Final  llm.Backend
	System string
	Tools  tool.Set // what the model is offered
	// Gate decides about every call; nil lets every tool in Tools run.
	Gate Gate
	// MaxTurns is how many turns there are, at least 1. One more call of the model asks
	// for a final answer, and an answer that is sent back for its schema or its
	// references counts as none.
	MaxTurns  int
	MaxTokens int // of one answer; 0 is no limit
	// Schema is the JSON Schema of the answer, or nil.
	Schema json.RawMessage
	// References, unless nil, asks for an answer with references (path:line) to lines
	// that exist.
	References Files
	Host       Host
	Transcript Transcript
	Screen     Screen
	Observer   Observer // nil is not told
}

// Host is who started the agent, and what the loop asks and tells beside the
// conversation.
type Host interface {
	// Messages brings messages for the agent, each of them once. It is asked before
	// each call of the model, and where an answer would end the run while there are
	// turns left.
	Messages() []string
	// Pending is asked when an answer would end the run while there are turns left. The
	// first text that it returns is sent to the agent instead, and then it is not asked
	// again.
	Pending() string
	// Changed is told of files that a call changed as soon as it returns.
	Changed(paths []string)
	// Effects is called before the first call of a tool that writes or executes, which
	// is not run when it returns an error.
	Effects() error
	// Emit takes tool events, several at once where several tools run.
	Emit(e event.Event)
}

// Transcript takes each message that joins the conversation.
type Transcript interface{ Append(m llm.Message) }

// Screen shows what a model writes while it writes.
type Screen interface {
	Chunk(c llm.Chunk)
	// TurnEnd says that the model has ended, or broken off, and whether its text is the
	// answer (and not a remark beside tool calls).
	TurnEnd(final bool)
}

// Files knows files. It is given whatever may be a path.
type Files interface {
	// Lines is how many lines a file has, and whether there is such a file.
	Lines(path string) (int, bool)
}

// Observer is told of each call that a tool was run for, one at a time and after it.
type Observer interface {
	Ran(s tool.Spec, c tool.Call, r tool.Result)
}

// Grace is a cause of cancellation that grants time for a final answer.
type Grace interface {
	error
	HandBack() time.Duration
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
	turns    int  // model calls
	out      task.Result
	mu       sync.Mutex // guards out.ChangedFiles while calls run
	acting   sync.Mutex // guards acted
	acted    bool       // Effects was told
}

// Run continues the conversation history with the user message text until the
// agent has answered.
func Run(ctx context.Context, cfg Config, history []llm.Message, text string) task.Result {
	schema, err := newSchemaCheck(cfg.Schema)
	l := &loop{cfg: cfg, messages: slices.Clone(history), schema: schema, refs: newFileRefs(cfg.References)}
	if err != nil {
		return l.end(task.Misused, err.Error())
	}
	l.say(text)
	for turns := max(1, cfg.MaxTurns); l.turns < turns; {
		l.say(l.cfg.Host.Messages()...)
		response, err := l.ask(ctx, l.request(), true)
		if err != nil {
			return l.broke(ctx, err)
		}
		if len(response.Message.Calls) == 0 {
			more, repair := l.more(ctx, response, l.turns < turns)
			if len(more) == 0 {
				return l.answered(response)
			}
			l.cfg.Screen.TurnEnd(false)
			l.say(more...)
			if repair {
				turns++
			}
			continue
		}
		l.cfg.Screen.TurnEnd(false)
		for _, m := range l.call(ctx, response.Message.Calls) {
			l.add(m)
		}
		if ctx.Err() != nil {
			return l.broke(ctx, context.Cause(ctx))
		}
		if name := l.guard.stuck; name != "" {
			return l.lastWord(ctx, fmt.Sprintf("You have repeated the same call %d times in a row.", endsAt),
				task.Failed, fmt.Sprintf("the agent repeated the same call %d times in a row (%s)", endsAt, name))
		}
	}
	return l.lastWord(ctx, "You have used all your turns.",
		task.TurnLimit, fmt.Sprintf("the agent used all its %d turns", l.turns))
}

// more is what to tell the agent when its answer does not end the run, and
// whether that is about the answer itself. What is new comes first: the next
// answer is checked in any case. What was cut will be cut again.
func (l *loop) more(ctx context.Context, r llm.Response, turnsLeft bool) (messages []string, repair bool) {
	if r.Stop == llm.StopLength {
		return nil, false
	}
	if turnsLeft && ctx.Err() == nil {
		if messages = l.cfg.Host.Messages(); len(messages) == 0 {
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

func (l *loop) pending() []string {
	if l.reminded {
		return nil
	}
	text := l.cfg.Host.Pending()
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
	l.turns++
	response, err := l.cfg.Backend.Chat(ctx, r, l.cfg.Screen.Chunk)
	response.Message.Role = llm.Assistant
	l.out.Usage = l.out.Usage.Add(response.Usage)
	text := strings.TrimSpace(response.Message.Content)
	if text != "" {
		l.out.Output = text
	}
	if err != nil || !carryOut {
		response.Message.Calls = nil
	}
	if err == nil || text != "" {
		l.add(response.Message)
	}
	if err != nil {
		l.cfg.Screen.TurnEnd(text != "")
	}
	return response, err
}

// answered ends the run with the answer of the model.
func (l *loop) answered(r llm.Response) task.Result {
	l.cfg.Screen.TurnEnd(true)
	l.out.Output = strings.TrimSpace(r.Message.Content)
	switch {
	case r.Stop == llm.StopLength:
		return l.end(task.Limit, "the answer was cut: it reached the limit of tokens")
	case l.out.Output == "":
		return l.end(task.Empty, "the agent gave an empty answer")
	}
	value, problem := l.schema.outcome()
	if problem != "" {
		return l.end(task.Failed, "the answer does not fit the schema: "+problem)
	}
	l.out.Structured = value
	l.warn()
	if len(l.refused) > 0 {
		return l.end(task.Refused, l.refused.String())
	}
	return l.end(task.Completed, "")
}

// lastWord asks, once and without tools, for what there is, and ends the run.
func (l *loop) lastWord(ctx context.Context, why string, s task.Status, because string) task.Result {
	l.say(l.cfg.Host.Messages()...)
	l.say(why + " Answer now, without tools, with what you have. Say what is missing.")
	r := llm.Request{System: l.cfg.System, Messages: l.messages, Schema: l.cfg.Schema, MaxTokens: l.cfg.MaxTokens}
	response, err := l.ask(ctx, r, false)
	if err != nil {
		return l.broke(ctx, err)
	}
	l.cfg.Screen.TurnEnd(true)
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
func (l *loop) broke(ctx context.Context, err error) task.Result {
	if ctx.Err() != nil {
		l.finalAnswer(ctx)
		l.out.Stop(context.Cause(ctx))
		return l.out
	}
	l.out.Fail(err)
	return l.out
}

// finalAnswer asks what the agent has found out so far, when it was stopped behind
// the result of a tool. What it is worth to wait for is short: an error is no answer,
// and changes nothing.
func (l *loop) finalAnswer(ctx context.Context) {
	if l.cfg.Final == nil || l.messages[len(l.messages)-1].Role != llm.ToolRole {
		return
	}
	grace, ok := errors.AsType[Grace](context.Cause(ctx))
	if !ok || grace.HandBack() <= 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace.HandBack())
	defer cancel()
	l.say("Your time is up. Answer now, without tools and in a few sentences, with what you have. Say what is missing.")
	l.cfg.Backend = l.cfg.Final
	r := llm.Request{System: l.cfg.System, Messages: l.messages, MaxTokens: l.cfg.MaxTokens}
	if _, err := l.ask(ctx, r, false); err == nil {
		l.cfg.Screen.TurnEnd(true)
	}
}

func (l *loop) end(s task.Status, why string) task.Result {
	l.out.End(s, why)
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
	l.cfg.Transcript.Append(m)
}
