package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"qq/internal/agent/loop"
	"qq/internal/config"
	"qq/internal/models/gate"
	"qq/internal/record"
	"qq/internal/tools/files"
	"qq/pkg/agents"
	"qq/pkg/event"
	"qq/pkg/llm"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// defaultTurns is the turn limit of an agent that states none.
const defaultTurns = 25

// work is one agent with all that it needs: the same for the root's own agent
// and for a child.
type work struct {
	toolmaker
	system     string // replaces the agent's prompt when set
	schema     json.RawMessage
	maxTurns   int // 0 is what the agent says
	targets    []string
	started    bool // this process was started in its working directory
	references bool // the answer must refer to lines of files
	history    []llm.Message
	record     func(llm.Message)
	event      func(event.Event)
	live       Live // nil where nobody looks on

	admission llm.Admission // lets requests to the model server pass
	watch     *watch        // over requests; nil where somebody else watches
	retries   int           // of one request
	repeated  func(n int, wait time.Duration, err error)
	grace     func(cause error) time.Duration // for a last word; nil is none
	effects   func() error
	reads     *record.Reads // nil where nobody asks for them
	// summaries has the parts of a long document summarised; nil where nobody can.
	summaries func(context.Context, []task.Task) []task.Result
	maxParts  int // that it may have summarised; 0 is any number
	lookup    func(name string) (agents.Agent, error)
	note      func(format string, args ...any) // says something to a person

	ask     func(context.Context, tool.Intent) tool.Decision // a person, about a call
	inbox   func() []string
	pending func() string // what is to be done before the agent may end
	changed func([]string)
}

// Outcome is how an agent ended.
type Outcome struct {
	loop.Outcome
	Repeats int         // requests to the model that were sent again
	Reads   []task.Read // what the answer rests on; nil when that is not known
}

// do runs the agent on text.
func (w work) do(ctx context.Context, text string) (Outcome, error) {
	plain, done, err := w.setup.Model.backend()
	if err != nil {
		return Outcome{}, err
	}
	defer done()
	backend := w.enduring(plain, w.retries)
	if w.root, err = openDir(w.at()); err != nil {
		return Outcome{}, err
	}
	defer w.root.Close()
	schema := w.schema
	if len(schema) == 0 {
		schema = w.agent.Schema
	}
	space := files.Open(w.root, files.Options{})
	k := w.equipped(space)
	cfg := loop.Config{
		Backend: backend, Tools: k.offered, Schema: schema, Record: w.record, Event: w.event,
		MaxTurns: cmp.Or(w.maxTurns, w.agent.MaxTurns, defaultTurns),
		Gate:     k.gate(w.limits, w.setup.Policy, w.ask), Inbox: w.inbox, Changed: w.changed, Pending: w.pending,
	}
	if w.references {
		cfg.References = space.Lines
	}
	cfg.Effects = w.effects // also of one that may only read: its commands have the network
	if w.reads != nil {
		cfg.Ran = w.reads.Ran
	}
	if w.grace != nil {
		cfg.Farewell, cfg.Grace = w.enduring(plain, 0), w.grace
	}
	if w.live != nil {
		cfg.Chunk, cfg.TurnEnd = w.live.Chunk, w.live.TurnEnd
	}
	written, used, repeated := w.written(ctx, plain, text)
	own := w.request(written, k.offered)
	cfg.System = own.System
	var out Outcome
	fit, err := w.fitted(ctx, own, space, text)
	if err != nil {
		out = unfitted(ctx, err)
	} else {
		out = Outcome{Outcome: loop.Run(ctx, cfg, w.history, fit.text), Reads: w.reads.All()}
	}
	if fit.cut {
		out.Reads = nil // what the summaries rest on is not known
	}
	out.Usage = out.Usage.Add(used)
	out.Warnings = append(fit.warnings, out.Warnings...)
	out.Repeats = repeats(backend) + repeated
	return out, nil
}

// repeats is how many requests b has sent again.
func repeats(b llm.Backend) int {
	if r, ok := b.(*gate.Backend); ok {
		return r.Repeats()
	}
	return 0
}

// limited is a backend each of whose requests may take so long, counted from when
// it is sent: not while it waits for its turn.
type limited struct {
	llm.Backend
	limit time.Duration
}

// Chat implements [llm.Backend].
func (l limited) Chat(ctx context.Context, r llm.Request, yield func(llm.Chunk)) (llm.Response, error) {
	own, cancel := context.WithTimeout(ctx, l.limit)
	defer cancel()
	resp, err := l.Backend.Chat(own, r, yield)
	if err != nil && ctx.Err() == nil && own.Err() != nil {
		err = fmt.Errorf("no answer within %v: %w", l.limit, own.Err()) // no fault of the server
	}
	return resp, err
}

// openDir opens the working directory of an agent.
func openDir(dir string) (*os.Root, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, &config.Error{
			Problem: fmt.Sprintf("open the working directory: %v", err),
			Hint:    "run qq in a directory that exists, or name one with -C",
		}
	}
	return root, nil
}

// equipped are the tools; none for a model that cannot call any.
func (w work) equipped(space *files.Workspace) kit {
	if !w.setup.Model.tools() {
		return kit{}
	}
	return w.kit(space)
}

// enduring is a backend that waits its turn at the server of the model, and
// survives what may pass so many times. A model that is built in needs none of
// that.
func (w work) enduring(plain llm.Backend, retries int) llm.Backend {
	if w.setup.Model.Kind != kindOllama {
		return plain
	}
	if w.watch != nil {
		plain = watched{plain, w.watch}
	}
	return gate.Retrying(plain, w.setup.Model.Ollama.Name, w.admission, gate.Policy{Retries: retries, Repeated: w.repeated})
}

// at is the path by which the working directory is opened: a child holds on to
// the one that it was started in.
func (w work) at() string {
	if w.started {
		return "."
	}
	return w.dir
}

// Bounds of the call of a model that writes a system prompt.
const (
	promptTokens      = 512
	promptTemperature = 0.2
	promptTime        = 30 * time.Second
)

// written is the system prompt that a model writes for the task, for agents that
// have a template for that. Without one, and when that fails, it is empty: then
// the agent has the prompt of its definition. What it used is told in any case, and
// how many requests were sent again.
func (w work) written(ctx context.Context, plain llm.Backend, text string) (prompt string, used task.Usage, repeated int) {
	instructions, about := llm.SplitContext(text)
	request, ok := w.agent.Template(instructions, about)
	if !ok || w.system != "" || w.setup.Model.Kind == Extract {
		return "", task.Usage{}, 0
	}
	backend := w.enduring(limited{plain, promptTime}, w.retries)
	temperature := promptTemperature
	r, err := backend.Chat(ctx, llm.Request{
		Messages:  []llm.Message{{Role: llm.User, Content: request}},
		MaxTokens: promptTokens, Temperature: &temperature,
	}, func(llm.Chunk) {})
	if err == nil && r.Stop == llm.StopEnd { // half a prompt may say the opposite of the whole
		prompt = strings.TrimSpace(r.Message.Content)
	}
	return prompt, r.Usage, repeats(backend)
}

// writable says where commands may write.
func (w work) writable() string {
	folders := w.limits.rules(w.agent, "the working directory", w.setup).Write
	if len(folders) == 0 {
		return "none"
	}
	return strings.Join(folders, ", ")
}

// prompt is the system prompt.
func (w work) prompt(written string, tools tool.Set) string {
	var b strings.Builder
	b.WriteString(strings.TrimSpace(cmp.Or(w.system, written, w.agent.Prompt)))
	fmt.Fprintf(&b, "\n\nWorking directory: %s", w.dir)
	if len(w.targets) > 0 {
		fmt.Fprintf(&b, "\nTargets of the task: %s. Change nothing else.", strings.Join(w.targets, ", "))
	}
	if w.limits.readOnly {
		b.WriteString("\nYou may only read: nothing may be changed.")
	}
	if _, shell := tools.Lookup("run_pty_cmd"); shell && w.limits.confined {
		b.WriteString("\nThe system lets commands write in these places alone: " + w.writable() + ". A \"Permission denied\" elsewhere is meant so.")
	}
	if w.references {
		b.WriteString("\nSupport each claim with a reference path:line to a line that you have read.")
	}
	if _, able := tools.Lookup("delegate_task"); len(tools) > 0 && !able {
		b.WriteString("\nYou cannot hand work to other agents.")
	}
	return b.String()
}
