// Package loop is the agent loop: it asks the model, runs the tools that the model calls,
// and returns their results to the model, until the model answers.
//
// Vocabulary: a turn is one model call together with its tool calls.
//
// The status of the result follows from events, never from the text of the answer. It
// is completed if the model ended the answer itself, the answer is not empty, and each
// tool that was refused worked in a later call.
//
// Tools run in the order of their calls, but adjacent delegations run in parallel. Results
// are returned in the order of the calls. A call of a tool that the agent does not have is
// refused; a [Gate] decides about all other calls. Each call has an id that no other call
// of the conversation has.
//
// A call that repeats the one before it runs with a warning from the third time on. From
// the sixth time with the same result it is refused, and at the tenth the run ends.
//
// The work of an agent that says that it is done is verified, if the Config says how. What is wrong goes back to the
// agent as often as the Config says; then the status is check_failed.
//
// An answer that does not fit its schema is sent back at most twice, and then the run
// fails. An answer without valid references to lines of files is sent back at most twice
// too, and then the result has a warning: the loop checks that the lines exist, not that
// they support the answer.
//
// The loop starts no process and reads no file: its [llm.Backend], its tools and the
// interfaces of its [Config] do. A message that arrives after the last turn stays in the
// inbox.
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
	"qq/pkg/picture"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// Config is what a run of the loop needs.
type Config struct {
	Backend llm.Backend
	// Final writes the final answer if ctx ends before the model has answered and the
	// cause grants time for that ([Grace]). With nil there is no final answer.
	Final  llm.Backend
	System string
	Tools  tool.Set // offered to the model
	// Gate decides about every call; nil lets every tool in Tools run.
	Gate Gate
	// MaxTurns is the limit of turns, at least 1. An answer that is sent back for its
	// schema or its references does not count. After the last turn one more model call
	// asks for the final answer.
	MaxTurns  int
	MaxTokens int             // of one answer; 0 means no limit
	Images    []picture.Image // shown with the text of the run
	// Schema is the JSON Schema of the answer, or nil.
	Schema json.RawMessage
	// References checks that the answer has references (path:line) to lines that exist;
	// nil checks nothing.
	References Files
	// Verifier verifies the work when the agent says that it is done; nil verifies nothing. Repairs is how often what
	// is wrong goes back to the agent.
	Verifier   Verifier
	Repairs    int
	Host       Host
	Transcript Transcript
	Screen     Screen
	Observer   Observer // may be nil
}

// Host connects the loop with the owner of the agent. It delivers messages to the agent,
// and is told of events and side effects.
type Host interface {
	// Messages returns new messages for the agent, each once. It is called before each
	// model call, and before an answer ends the run while there are turns left.
	Messages() []string
	// Pending returns a reminder for an agent that wants to end, or "". It is called before
	// an answer ends the run while there are turns left. The first reminder is sent to the
	// agent, which then continues, and Pending is not called again.
	Pending() string
	// Changed reports the files that a tool call has changed, right after the call.
	Changed(paths []string)
	// Effects is called before the first side effect: a call of a tool that writes or
	// executes. On error that call is not run.
	Effects() error
	// Emit takes the events of tool calls. It may be called concurrently.
	Emit(e event.Event)
}

// Transcript keeps each message of the conversation, in order, with what is known about it.
type Transcript interface{ Append(e llm.Entry) }

// Screen shows the text of the model while it is streamed.
type Screen interface {
	Chunk(c llm.Chunk)
	// TurnEnd is called when a model call has ended or failed. final tells that the text of
	// that call is the answer, and not a remark that accompanies tool calls.
	TurnEnd(final bool)
}

// Files looks up files to check references. The loop passes it any text that may be a path.
type Files interface {
	// Lines is the number of lines of a file; false if there is no such file.
	Lines(path string) (int, bool)
}

// Verifier verifies the work of an agent.
type Verifier interface {
	// Verify returns what is wrong with the work, or nil. Nobody looks at what it returns after the end of ctx.
	Verify(ctx context.Context) *Fault
}

// Fault is what is wrong with the work of an agent.
type Fault struct {
	Problem string // the error of the result
	Message string // tells the agent what to repair; "" if it cannot repair that
}

// Observer gets each tool call that was run, with its result. Calls of Ran never overlap.
type Observer interface {
	Ran(s tool.Spec, c tool.Call, r tool.Result)
}

// Grace is a cause of cancellation that gives the agent time for a final answer. HandBack
// returns how much; 0 means none.
type Grace interface {
	error
	HandBack() time.Duration
}

// loop is the state of one run.
type loop struct {
	cfg      Config
	messages []llm.Message
	schema   *schemaCheck
	refs     *fileRefs
	guard    guard
	refused  refusals
	ids      callIDs
	reminded bool // Host.Pending has returned a text
	repaired int  // how often a fault of the work went back
	fault    *Fault
	turns    int // model calls
	shown    shown
	out      task.Result
	mu       sync.Mutex // guards out.ChangedFiles, out.Warnings, shown and the Observer while calls run
	acting   sync.Mutex // guards acted
	acted    bool       // Host.Effects was called
}

// Run appends the user message text to the conversation history, and runs the loop until
// the agent has answered or the run ends otherwise.
func Run(ctx context.Context, cfg Config, history []llm.Message, text string) task.Result {
	schema, err := newSchemaCheck(cfg.Schema)
	l := &loop{cfg: cfg, messages: slices.Clone(history), schema: schema, refs: newFileRefs(cfg.References)}
	l.ids.note(history)
	if err != nil {
		return l.end(task.Misused, err.Error())
	}
	l.add(llm.Entry{Message: llm.Message{Role: llm.User, Content: text, Images: cfg.Images}})
	for _, m := range l.messages {
		l.shown.add(m.Images)
	}
	for turns := max(1, cfg.MaxTurns); l.turns < turns; {
		l.say(l.cfg.Host.Messages()...)
		response, err := l.ask(ctx, l.request(), true)
		if err != nil {
			return l.broke(ctx, err)
		}
		if len(response.Message.Calls) == 0 {
			more, repair := l.more(ctx, response, l.turns < turns)
			if len(more) == 0 {
				more = l.verify(ctx, response, l.turns < turns)
			}
			if ctx.Err() != nil && l.cfg.Verifier != nil {
				l.cfg.Screen.TurnEnd(true)
				return l.broke(ctx, context.Cause(ctx))
			}
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
		l.phase(event.PhaseTools, 0, len(response.Message.Calls))
		l.call(ctx, response.Message.Calls)
		if ctx.Err() != nil {
			return l.broke(ctx, context.Cause(ctx))
		}
		if name := l.guard.stuck; name != "" {
			return l.askLast(ctx, fmt.Sprintf("You have repeated the same call %d times in a row.", endsAt),
				task.Failed, fmt.Sprintf("the agent repeated the same call %d times in a row (%s)", endsAt, name))
		}
	}
	return l.askLast(ctx, "You have used all your turns.",
		task.TurnLimit, fmt.Sprintf("the agent used all its %d turns", l.turns))
}

// more returns what to tell the agent if its answer does not end the run, and nothing if it
// does. repair tells that the answer itself is faulty. New messages from the host come
// first, because the next answer is checked anyway. An answer that hit the token limit ends
// the run, because the next one would hit it again.
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

// verify verifies the work of an agent whose answer r would be a success. It returns what to tell the agent if it is
// to repair the work, and nothing if the answer ends the run. A repair takes turns of the agent like any other work.
func (l *loop) verify(ctx context.Context, r llm.Response, turnsLeft bool) []string {
	_, problem := l.schema.outcome()
	if l.cfg.Verifier == nil || ctx.Err() != nil || r.Stop == llm.StopLength || problem != "" || len(l.refused) > 0 ||
		strings.TrimSpace(r.Message.Content) == "" {
		return nil
	}
	l.fault = l.cfg.Verifier.Verify(ctx)
	if l.fault == nil || l.fault.Message == "" || l.repaired == l.cfg.Repairs || !turnsLeft {
		return nil
	}
	l.repaired++
	l.schema.release()
	return []string{l.fault.Message}
}

// pending returns the reminder of the host, at most once in a run.
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

// request returns the next model request.
func (l *loop) request() llm.Request {
	r := llm.Request{System: l.cfg.System, Messages: l.messages, Tools: l.cfg.Tools.Specs(), MaxTokens: l.cfg.MaxTokens}
	if l.schema.binding(len(r.Tools) > 0) {
		// With a schema the model cannot call tools, so it gets none.
		r.Schema, r.Tools = l.cfg.Schema, nil
	}
	return r
}

// ask sends one request and appends the response to the conversation. It keeps the tool
// calls of the response only if runCalls is set, that is, if the caller will run them: a
// conversation with an unanswered call cannot be continued.
func (l *loop) ask(ctx context.Context, r llm.Request, runCalls bool) (llm.Response, error) {
	l.phase(event.PhaseModel, l.turns, max(1, l.cfg.MaxTurns))
	l.turns++
	response, err := l.cfg.Backend.Chat(ctx, r, l.cfg.Screen.Chunk)
	response.Message.Role = llm.Assistant
	l.out.Usage = l.out.Usage.Add(response.Usage)
	text := strings.TrimSpace(response.Message.Content)
	if text != "" {
		l.out.Output = text
	}
	if err != nil || !runCalls {
		response.Message.Calls = nil
	}
	l.ids.identify(response.Message.Calls)
	if err == nil || text != "" {
		l.add(llm.Entry{Message: response.Message, Usage: response.Usage, DurationMS: response.Took.Milliseconds(),
			FirstMS: response.First.Milliseconds()})
	}
	if err != nil {
		l.cfg.Screen.TurnEnd(text != "")
	}
	return response, err
}

// answered ends the run with the answer r. The status is completed, or says what is wrong
// with the answer.
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
	switch {
	case len(l.refused) > 0:
		return l.end(task.Refused, l.refused.String())
	case l.fault != nil:
		return l.end(task.CheckFailed, l.fault.Problem)
	}
	return l.end(task.Completed, "")
}

// askLast asks the model once more, without tools, for an answer from what it knows. It
// ends the run with the status s. The model is told why, the result says because.
func (l *loop) askLast(ctx context.Context, why string, s task.Status, because string) task.Result {
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

// warn adds a warning to the result if the references of the answer are faulty.
func (l *loop) warn() {
	if l.refs != nil && l.refs.problem != "" {
		l.out.Warnings = append(l.out.Warnings, "references to lines of files: "+l.refs.problem)
	}
}

// broke ends the run after the error err of a model call, or because ctx has ended.
func (l *loop) broke(ctx context.Context, err error) task.Result {
	if ctx.Err() != nil {
		l.finalAnswer(ctx)
		l.out.Stop(context.Cause(ctx))
		return l.out
	}
	l.out.Fail(err)
	return l.out
}

// finalAnswer asks the model for what the agent has found out so far, if the run was
// stopped after a tool result and the cause of ctx grants time for it ([Grace]). If that
// request fails, the run ends without a final answer.
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

// end sets the status of the result and returns it.
func (l *loop) end(s task.Status, why string) task.Result {
	l.out.End(s, why)
	return l.out
}

// say appends each text to the conversation as a user message.
func (l *loop) say(texts ...string) {
	for _, text := range texts {
		l.add(llm.Entry{Message: llm.Message{Role: llm.User, Content: text}})
	}
}

// add appends a message to the conversation, and what is known about it to the transcript.
func (l *loop) add(e llm.Entry) {
	l.messages = append(l.messages, e.Message)
	l.cfg.Transcript.Append(e)
}
