// Package agent is one agent at work: its prompt, the tools that it is offered, the
// loop of model and tools, texts that are too long for its model.
//
// [Agent.Run] is the only way in which an agent runs, in the root's process and in a
// child's. What differs between the two is the [supervisor.Parent] that is handed in.
//
// Flow: an agent whose definition has a template gets its system prompt from a short
// call of the model. Its tools are made and sorted: those that it is offered, and why
// not the others. A text that is too long for the model is summarized in parts by
// children first. Then the loop (qq/internal/agent/loop) asks the model and runs the
// tools, through the gate of qq/internal/approval.
//
// Not promised: that a process keeps an agent in. That is for the sandbox, which is
// put on before an agent runs.
package agent

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"qq/internal/agent/loop"
	"qq/internal/models/gate"
	"qq/internal/tools/files"
	"qq/pkg/agents"
	"qq/pkg/event"
	"qq/pkg/llm"
	"qq/pkg/supervisor"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// defaultTurns is the turn limit of an agent that states none.
const defaultTurns = 25

// Agent is an agent, ready to run.
type Agent struct {
	Definition  agents.Agent
	Model       Model
	Setup       Setup
	Process     Process
	Registry    Registry // of those that it may ask
	System      string   // replaces the prompt of the definition when set
	MaxTurns    int      // 0 is what the definition says
	Retries     int      // of one request to the model
	ReadOnly    bool     // nothing may be changed
	Denied      []string // tools that it may not use
	CanDelegate bool
	KeepReads   bool // the result tells what it read
	History     []llm.Message
	Transcript  loop.Transcript
	Screen      loop.Screen
}

// Model is a model as an agent sees it.
type Model interface {
	llm.Backend
	// String is the name of the model.
	String() string
	// Served is its name at the server that everybody shares; false for one that is
	// built in.
	Served() (name string, ok bool)
	// CallsTools reports whether it can call tools.
	CallsTools() bool
	// Tokens is about how many tokens text has, and Room for how many there is place
	// beside r and an answer; 0 is not known.
	Tokens(text string) int
	Room(r llm.Request) int
}

// Registry knows the agents that can be asked.
type Registry interface {
	Lookup(name string) (agents.Agent, error)
	List() []agents.Entry
}

// Nobody looks on: it is the Transcript and the Screen of an agent without.
type Nobody struct{}

// Append implements loop.Transcript.
func (Nobody) Append(llm.Message) {}

// Chunk implements loop.Screen.
func (Nobody) Chunk(llm.Chunk) {}

// TurnEnd implements loop.Screen.
func (Nobody) TurnEnd(bool) {}

// run is one agent at work on one job.
type run struct {
	Agent
	parent  supervisor.Parent
	helpers *helpers
	job     task.Job
	root    *os.Root // the working directory
	space   *files.Workspace
	tools   toolset
	repeats int // requests to the model that were sent again
}

// Run runs the agent on job. The result has the answer, or what there is of it.
func (a Agent) Run(ctx context.Context, parent supervisor.Parent, job task.Job) task.Result {
	root, err := os.OpenRoot(".") // the process was started there, whatever has that name by now
	if err != nil {
		return job.Fail(&task.Error{Status: task.Misused, Problem: fmt.Sprintf("open the working directory: %v", err),
			Hint: "run qq in a directory that exists, or name one with -C"})
	}
	defer root.Close()
	r := &run{Agent: a, parent: parent, helpers: &helpers{Parent: parent}, job: job}
	r.open(root)
	res := r.answer(ctx)
	res.Task, res.Agent, res.ID = task.Shorten(job.Text, 100), job.Agent, job.ID
	res.Attempts = 1 + r.repeats
	res.Warnings = append(res.Warnings, r.helpers.warnings()...)
	return res
}

// started reports whether the job is not that of the agent that a person talks to:
// another agent asked for it, or a batch.
func (r *run) started() bool { return r.job.Parent != "" || r.job.BatchID != "" }

// open makes the tools for the working directory.
func (r *run) open(root *os.Root) {
	r.root, r.space = root, files.Open(root)
	if r.Model.CallsTools() {
		r.tools = r.makeTools()
	}
}

// answer runs the loop.
func (r *run) answer(ctx context.Context) task.Result {
	text := llm.WithContext(r.job.Text, r.job.Context)
	prompt, used := r.generatePrompt(ctx)
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
	reads := &reads{}
	cfg := loop.Config{
		Backend: r.backend(r.Model, r.Retries), Final: r.backend(r.Model, 0),
		System: request.System, Tools: r.tools.offered, Gate: r.gate(), Schema: r.job.Schema,
		MaxTurns: cmp.Or(r.MaxTurns, r.Definition.MaxTurns, defaultTurns),
		Host:     r, Transcript: r.Transcript, Screen: r.Screen,
	}
	if len(cfg.Schema) == 0 {
		cfg.Schema = r.Definition.Schema
	}
	if r.job.RequireFileReferences {
		cfg.References = r.space
	}
	if r.KeepReads {
		cfg.Observer = reads
	}
	res := loop.Run(ctx, cfg, r.History, fit.text+r.closing())
	if r.KeepReads && !fit.cut { // else it is not known what the summaries rest on
		res.Reads = reads.all()
	}
	res.Usage = res.Usage.Add(used)
	res.Warnings = append(fit.warnings, res.Warnings...)
	return res
}

// backend is a model whose requests wait for their turn at its server, and are sent
// again after temporary failures. A model that is built in needs none of that.
func (r *run) backend(plain llm.Backend, retries int) llm.Backend {
	name, ok := r.Model.Served()
	if !ok {
		return plain
	}
	return gate.Retrying(plain, name, r.parent, gate.Policy{Retries: retries, Repeats: r})
}

// Repeated implements gate.Repeats: it reports that a request is sent again. What stood there of an answer that
// broke off is none.
func (r *run) Repeated(n int, wait time.Duration, err error) {
	r.repeats++
	r.Screen.TurnEnd(false)
	problem, _, _ := strings.Cut(err.Error(), "\n")
	r.note("request to the model repeated (%d) in %v: %s", n, wait.Round(time.Millisecond), problem)
}

// note reports progress.
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

// Pending implements loop.Host.
func (r *run) Pending() string { return r.helpers.uncollected() }

// Changed implements loop.Host.
func (r *run) Changed(paths []string) { r.parent.Changed(paths) }

// Effects implements loop.Host.
func (r *run) Effects() error { return r.parent.Effects() }

// Emit implements loop.Host.
func (r *run) Emit(e event.Event) {
	r.parent.Active()
	r.Process.Widen(e)
	r.parent.Emit(e)
}

// Bounds of the call of a model that writes a system prompt.
const (
	promptTokens      = 512
	promptTemperature = 0.2
	promptTime        = 30 * time.Second
)

// generatePrompt asks the model for a system prompt, for agents that have a template
// for that. Without one, and when that fails, it is empty: then the agent has the
// prompt of its definition.
func (r *run) generatePrompt(ctx context.Context) (prompt string, used task.Usage) {
	text, ok := r.Definition.Template(r.job.Text, r.job.Context)
	if _, served := r.Model.Served(); !ok || !served || r.System != "" {
		return "", task.Usage{}
	}
	temperature := promptTemperature
	resp, err := r.backend(limited{r.Model, promptTime}, r.Retries).Chat(ctx, llm.Request{
		Messages:  []llm.Message{{Role: llm.User, Content: text}},
		MaxTokens: promptTokens, Temperature: &temperature,
	}, func(llm.Chunk) {})
	if err == nil && resp.Stop == llm.StopEnd { // half a prompt may say the opposite of the whole
		prompt = strings.TrimSpace(resp.Message.Content)
	}
	return prompt, resp.Usage
}

// limited is a backend each of whose requests may take so long, counted from when it
// is sent: not while it waits for its turn.
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

// request is what the model is asked with, besides the text of the task.
func (r *run) request(generated string) llm.Request {
	closing := llm.Message{Role: llm.User, Content: r.closing()}
	return llm.Request{
		System: r.prompt(generated), Messages: append(slices.Clone(r.History), closing), Tools: r.tools.offered.Specs(),
	}
}

// prompt is the system prompt. It is the same for all tasks of an agent, so that the
// model server reads it once: what differs is in closing.
func (r *run) prompt(generated string) string {
	var b strings.Builder
	b.WriteString(strings.TrimSpace(cmp.Or(r.System, generated, r.Definition.Prompt)))
	fmt.Fprintf(&b, "\n\nWorking directory: %s", r.Process.Dir)
	if r.ReadOnly && !r.Definition.Gathers() {
		b.WriteString("\nYou may only read: nothing may be changed.")
	}
	if _, shell := r.tools.offered.Lookup("run_pty_cmd"); shell && r.Process.Box.Confined {
		fmt.Fprintf(&b, "\nCommands can write only in: %s. \"Permission denied\" elsewhere is intended.", r.writable())
	}
	_, delegates := r.tools.offered.Lookup("delegate_task")
	if !delegates && len(r.tools.offered) > 0 && r.Definition.Allows("delegate_task") {
		b.WriteString("\nYou cannot hand work to other agents.")
	}
	return b.String()
}

// closing is what the agent is told after its task.
func (r *run) closing() string {
	text := ""
	if _, served := r.Model.Served(); !served {
		return text // the built-in model would take it for a part of the request
	}
	if len(r.job.Targets) > 0 {
		text += fmt.Sprintf("\n\nTargets of the task: %s. Change nothing else.", strings.Join(r.job.Targets, ", "))
	}
	if r.job.RequireFileReferences {
		text += "\n\nSupport each claim with a reference path:line to a line that you have read."
	}
	return text
}

// reads collects the calls of an agent as long as it does nothing but read.
type reads struct {
	calls []task.Read
	other bool // it did something else
}

// Ran implements loop.Observer.
func (r *reads) Ran(s tool.Spec, c tool.Call, res tool.Result) {
	if s.Effect != tool.Reads {
		r.other = true
		return
	}
	r.calls = append(r.calls, task.Read{Tool: c.Name, Arguments: c.Arguments, Digest: Digest(res)})
}

// all is nil when an answer rests on more than what was read.
func (r *reads) all() []task.Read {
	switch {
	case r.other:
		return nil
	case r.calls == nil:
		return []task.Read{}
	}
	return r.calls
}
