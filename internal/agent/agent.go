// Package agent runs one agent: it makes its prompt and its tools, shortens a text that
// is too long for its model, and runs the loop of model calls and tool calls.
//
// [Agent.Run] runs every agent, in the root process and in a child process. The two
// differ only in the [supervisor.Parent] that is handed in.
//
// Flow: if the definition of the agent has a prompt template, a short model call writes
// the system prompt. The tools are made and split into those that the agent is offered
// and those that it is denied, each with a reason. If the text of the task is too long
// for the model, children summarize its parts first. Then the loop
// (qq/internal/agent/loop) asks the model and runs the tools, through the gate of
// qq/internal/approval.
//
// Not promised: isolation. The sandbox does that; it is applied before an agent runs.
package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"qq/internal/agent/loop"
	"qq/internal/tools/files"
	"qq/internal/tools/store"
	"qq/pkg/agents"
	"qq/pkg/event"
	"qq/pkg/llm"
	"qq/pkg/supervisor"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// defaultTurns is the turn limit of an agent that states none.
const defaultTurns = 25

// Agent is an agent with all that it needs to run a job: definition, model, rights and
// tools.
type Agent struct {
	Definition agents.Agent
	Model      Model
	Fallback   []Model // asked instead if a model cannot be had, in this order
	Setup      Setup
	Process    Process
	Registry   Registry // the agents that it may delegate to
	System     string   // replaces the prompt of the definition when set
	MaxTurns   int      // 0 means the limit of the definition
	History    []llm.Message
	Transcript loop.Transcript
	Screen     loop.Screen
}

// Model is the language model of an agent, with the properties that the agent must know.
type Model interface {
	llm.Backend
	// String is the name of the model.
	String() string
	// Served is the whole name of the model, such as lab:qwen3; false for a model that has no server.
	Served() (name string, ok bool)
	// BuiltIn reports whether the model is none of language: it takes all that it reads for a part of the task.
	BuiltIn() bool
	// CallsTools reports whether the model can call tools.
	CallsTools() bool
	// Sees reports whether the model is known to see images, Blind whether it is known to see none.
	Sees() bool
	Blind() bool
	// Tokens estimates how many tokens text has.
	Tokens(text string) int
	// Room returns how many more tokens fit into the model's context, besides r and the
	// answer; 0 means that the size of the context is unknown.
	Room(r llm.Request) int
}

// Registry finds the agents that an agent may delegate to.
type Registry interface {
	Lookup(name string) (agents.Agent, error)
	List() []agents.Entry
}

// Nobody is a Transcript and a Screen that do nothing: the messages of the agent are
// neither kept nor shown.
type Nobody struct{}

// Append implements loop.Transcript.
func (Nobody) Append(llm.Entry) {}

// Chunk implements loop.Screen.
func (Nobody) Chunk(llm.Chunk) {}

// TurnEnd implements loop.Screen.
func (Nobody) TurnEnd(bool) {}

// run is one run of an agent on one job. It implements loop.Host for the agent's loop.
type run struct {
	Agent
	parent  supervisor.Parent
	helpers *helpers
	job     task.Job
	root    *os.Root // the working directory
	space   *files.Workspace
	tools   toolset
	// commands has the tool that runs commands, also if the agent is not offered it.
	commands tool.Set
	deeds    *deeds
	strict   *strict
	looked   []task.Read // the images of the job that were read
	unsure   []string    // a warning that the model may see no images; empty if it does
	repeats  int         // model requests that were sent again
	// fallback is how many models could not be had: the run asks the one after them. acted says that a tool call may
	// have had a side effect.
	fallback int
	acted    bool
}

// Run runs the agent on job and returns the result with the answer. After a failure the
// result has the text that the model wrote before it.
func (a Agent) Run(ctx context.Context, parent supervisor.Parent, job task.Job) task.Result {
	root, err := os.OpenRoot(".") // not by its path: another folder may have that name by now
	if errors.Is(err, fs.ErrNotExist) {
		return job.Fail(task.Machine("", "the working directory is gone: %w", err))
	}
	if err != nil {
		return job.Fail(&task.Error{Status: task.Misused, Problem: fmt.Sprintf("open the working directory: %v", err),
			Hint: "run qq in a directory that exists, or name one with -C"})
	}
	defer root.Close()
	if k := a.Process.Journal; k != nil {
		defer k.Close()
		ctx = store.WithKeeper(ctx, k)
	}
	r := &run{Agent: a, parent: parent, helpers: &helpers{Parent: parent, only: a.Setup.ReadOnly}, job: job,
		deeds: &deeds{}}
	r.open(root)
	res := r.answer(ctx)
	res.Attempts = 1 + r.repeats
	res.Fallback = r.fallback
	res.Warnings = append(append(res.Warnings, r.unsure...), r.helpers.warnings()...)
	return res
}

// isDelegated reports whether another agent or a batch made the job. It is false for a job
// that a person gave to the root's own agent.
func (r *run) isDelegated() bool { return r.job.Parent != "" || r.job.BatchID != "" }

// open gives the run the working directory root and makes the tools of the agent. An agent
// whose model cannot call tools gets none.
func (r *run) open(root *os.Root) {
	r.root, r.space = root, files.Open(root, r.Setup.Private...)
	r.space.Take(r.taken())
	if r.Model.Sees() {
		r.space.Show()
	}
	r.strict = r.newStrict()
	r.commands = r.shell()
	if r.Model.CallsTools() {
		r.tools = r.makeTools()
	}
	_, r.strict.writes = r.tools.offered.Lookup("write_file")
}

// answer makes the prompt, shortens the text if needed, and runs the loop.
func (r *run) answer(ctx context.Context) task.Result {
	if err := r.look(ctx); err != nil {
		return r.job.Fail(err)
	}
	work, err := r.verifier(ctx)
	if err != nil {
		res := r.job.Fail(err)
		if ctx.Err() != nil {
			res.Stop(context.Cause(ctx))
		}
		return res
	}
	text := llm.WithContext(r.job.Text, r.job.Context)
	prompt, used := r.generatePrompt(ctx)
	if prompt != "" {
		r.Transcript.Append(llm.Entry{Message: llm.Message{Role: llm.System, Content: prompt}, Usage: used})
	}
	request := r.request(prompt)
	fit, err := r.fit(ctx, request, text)
	if err != nil {
		res := task.Result{}
		if res.Fail(err); ctx.Err() != nil {
			res.Stop(context.Cause(ctx))
		}
		res.Usage, res.Warnings = used, fit.warnings
		return res
	}
	r.deeds.calls = r.looked
	before := r.watched(ctx)
	cfg := loop.Config{
		Backend: inTurn{r, r.Setup.Retries}, Final: inTurn{r, 0},
		System: request.System, Tools: r.tools.offered, Gate: noting{r.gate(), r.strict}, Schema: r.job.Schema,
		MaxTurns: cmp.Or(r.MaxTurns, r.Definition.MaxTurns, defaultTurns),
		Host:     r, Transcript: r.Transcript, Screen: r.Screen, Images: r.job.Images,
		Observer: r.deeds, Repairs: r.Setup.Repairs,
	}
	if work != nil {
		cfg.Verifier = work
	}
	if r.Model.BuiltIn() {
		cfg.Repairs = 0 // it repairs nothing
	}
	if len(cfg.Schema) == 0 {
		cfg.Schema = r.Definition.Schema
	}
	if r.job.RequireFileReferences {
		cfg.References = r.space
	}
	res := loop.Run(ctx, cfg, r.History, fit.text+r.closing())
	if r.Setup.KeepReads && !fit.cut { // what the children read for their summaries is unknown
		res.Reads = r.deeds.all()
	}
	res.Did = r.deeds.did.OrNil()
	res.Unsaid = r.unsaid(ctx, before)
	res.Usage = res.Usage.Add(used)
	res.Warnings = append(append(fit.warnings, res.Warnings...), r.strict.warnings(r)...)
	return res
}

// Repeated implements gate.Repeats: it reports the nth retry of a model request. It ends
// the turn on the screen, because text that the failed request has streamed is not the
// answer.
func (r *run) Repeated(n int, wait time.Duration, err error) {
	r.repeats++
	r.Screen.TurnEnd(false)
	problem, _, _ := strings.Cut(err.Error(), "\n")
	r.note("request to the model repeated (%d) in %v: %s", n, wait.Round(time.Millisecond), problem)
}

// note sends a progress event to the parent.
func (r *run) note(format string, args ...any) {
	r.parent.Emit(event.Event{Type: event.SubAgentProgress, Text: fmt.Sprintf(format, args...)})
}

// Messages implements loop.Host.
func (r *run) Messages() (texts []string) {
	for {
		select {
		case text := <-r.parent.Inbox():
			texts = append(texts, text)
		default:
			return texts
		}
	}
}

// Reminder is a parent that expects of an agent more than an answer.
type Reminder interface {
	// Reminder returns what an agent is told, at most once, that wants to answer; "" if nothing is missing.
	Reminder() string
}

// Pending implements loop.Host.
func (r *run) Pending() string {
	if p, ok := r.parent.(Reminder); ok {
		if text := p.Reminder(); text != "" {
			return text
		}
	}
	return r.helpers.uncollected()
}

// Changed implements loop.Host.
func (r *run) Changed(paths []string) { r.parent.Changed(paths) }

// Effects implements loop.Host.
func (r *run) Effects() error {
	r.acted = true
	return r.parent.Effects()
}

// Emit implements loop.Host.
func (r *run) Emit(e event.Event) {
	r.parent.Active()
	r.Process.Widen(e)
	r.parent.Emit(e)
}

// reads collects the tool calls of a run that only read. If they still have the same
// results later, a cached answer still holds.
type reads struct {
	calls []task.Read
	other bool // a tool did more than read
}

// Ran implements loop.Observer.
func (r *reads) Ran(s tool.Spec, c tool.Call, res tool.Result) {
	if s.Effect != tool.Reads {
		r.other = true
		return
	}
	r.calls = append(r.calls, task.Read{Tool: c.Name, Arguments: c.Arguments, Digest: Digest(res)})
}

// all returns the collected calls. It returns nil if a call did more than read, because the
// answer then depends on more than the collected calls. Without any call the result is
// empty but not nil.
func (r *reads) all() []task.Read {
	switch {
	case r.other:
		return nil
	case r.calls == nil:
		return []task.Read{}
	}
	return r.calls
}
