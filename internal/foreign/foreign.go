// Package foreign has another agent program, such as Claude Code, do the work of an agent.
//
// To package agent the program is a model: it gets the text of the task and gives the final answer. So a program has
// what every agent has: prompt, check of the work, repairs, schema, transcript and result. What the program does in
// between comes from its stream, by its dialect (package wire): calls of tools, questions, usage.
//
// Flow: [Run] has agent.Run ask the backend. That starts the program where commands of agents are started, in the
// sandbox, and hands stdin and stdout to the dialect. When the dialect has seen the end mark, the program gets a short
// time to end; then it is ended, with all that it started. The verdict is made of what the stream said and of how the
// processes ended: an answer counts if the end mark came, the program did not say that its turn failed, and no process
// is left. The exit code alone decides nothing.
//
// Not promised: that a program does not do more than it says it does. The sandbox limits what it can do.
package foreign

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"qq/internal/agent"
	"qq/internal/agent/contents"
	"qq/internal/foreign/wire"
	"qq/internal/models"
	"qq/internal/models/tokens"
	"qq/pkg/agents"
	"qq/pkg/llm"
	"qq/pkg/money"
	"qq/pkg/supervisor"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// Place is where a program is, and the environment that it is started with. The root makes it, because a child has
// neither the logins of the person nor the right to read them.
type Place struct {
	Path string   `json:"path"` // of the program
	Env  []string `json:"env"`  // the whole environment
	// Logins are the sums of the copies of logins, by their paths.
	Logins map[string]string `json:"logins,omitempty"`
	// MaxCost is the limit of cost of the run; 0 means none. Price is what the user has set for the program; nil means
	// that the program says what it costs.
	MaxCost money.Amount `json:"max_cost,omitempty"`
	Price   *money.Price `json:"price,omitempty"`
}

// Model returns what stands for the model of an agent that a program runs.
func Model(def agents.Agent) models.Model {
	name := def.Model
	if name == "" {
		name = "default"
	}
	return models.Model{Kind: models.Program, Server: def.Runs.Name, Name: name, Tools: true}
}

// maxTurns is how often a program is asked in one run: the task, and what has to be repaired.
const maxTurns = 25

// Run has the program of the agent a do job, and returns the result. p is the parent of the agent.
func Run(ctx context.Context, a agent.Agent, at Place, p supervisor.Parent, job task.Job) task.Result {
	d, err := DialectOf(a.Definition.Runs)
	if err != nil {
		return job.Fail(err)
	}
	if err := allowed(a, job); err != nil {
		return job.Fail(err)
	}
	b := &backend{Model: Model(a.Definition), agent: a, at: at, parent: p, job: job, dialect: d,
		turns: a.MaxTurns}
	if b.turns == 0 {
		b.turns = a.Definition.MaxTurns
	}
	a.Model, a.Fallback, a.MaxTurns = b, nil, maxTurns
	before := b.files(ctx)
	res := a.Run(ctx, p, job)
	if !a.Setup.ReadOnly {
		res.ChangedFiles = append(res.ChangedFiles, b.changed(ctx, before)...)
	}
	res.Did = res.Did.Add(b.did.OrNil())
	res.Model, res.Reads = b.String(), nil
	b.renewed()
	res.Warnings = append(res.Warnings, b.warnings...)
	return res
}

// renewed warns if the program has renewed a login in its own folder: that of the person may be void then.
func (b *backend) renewed() {
	for path, sum := range b.at.Logins {
		if data, err := os.ReadFile(path); err == nil && SumOf(data) != sum {
			b.warn("%s has renewed its login, in a folder of its own: if yours does not work any more, log in again",
				b.Server)
		}
	}
}

// SumOf returns the sum of a login, see [Place].
func SumOf(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }

// allowed returns an error if the program could not be kept to what the agent may do.
func allowed(a agent.Agent, job task.Job) error {
	name := a.Definition.Runs.Name
	switch {
	case len(job.Images) > 0:
		return &task.Error{Status: task.Misused, Problem: name + " is given no images",
			Hint: "leave the images out, or name an agent that qq runs itself"}
	case len(job.Denied) > 0:
		return &task.Error{Status: task.Refused, Problem: fmt.Sprintf(
			"%s cannot be kept from what the agent above it may not do: %s", name, job.Denied[0]),
			Hint: "ask an agent that qq runs itself"}
	case a.Setup.ReadOnly && !a.Process.Confined:
		return &task.Error{Status: task.Refused,
			Problem: "the agent may only read, and this system has no sandbox that keeps " + name + " from writing",
			Hint:    "qq doctor says what is missing"}
	}
	return nil
}

// backend is a program as the model of an agent.
type backend struct {
	models.Model
	agent   agent.Agent
	at      Place
	parent  supervisor.Parent
	job     task.Job
	dialect wire.Dialect
	turns   int // limit of the turns of the program; 0 means none
	session string
	begun   bool // the program was started before

	mu       sync.Mutex // guards the fields below
	warnings []string
	did      task.Did
}

var _ agent.Model = (*backend)(nil)

// CallsTools implements agent.Model: the tools are those of the program.
func (b *backend) CallsTools() bool { return false }

// Tokens implements agent.Model.
func (b *backend) Tokens(text string) int { return tokens.Estimate(text) }

// Room implements agent.Model. How much fits is the program's own business.
func (b *backend) Room(llm.Request) int { return 0 }

// warn adds a warning to the result, each once.
func (b *backend) warn(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if text := fmt.Sprintf(format, args...); !slices.Contains(b.warnings, text) && len(b.warnings) < maxWarnings {
		b.warnings = append(b.warnings, text)
	}
}

// maxWarnings bounds what a program can have said in the result.
const maxWarnings = 20

// Chat implements [llm.Backend]: it starts the program and has it do the last message of q.
func (b *backend) Chat(ctx context.Context, q llm.Request, yield func(llm.Chunk)) (llm.Response, error) {
	if !b.agent.Setup.ReadOnly {
		if err := b.parent.Effects(); err != nil {
			return llm.Response{}, err
		}
	}
	job := b.order(q)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t := &teller{backend: b, yield: yield, cancel: cancel, ctx: ctx, began: map[string]call{},
		denied: map[string]tool.Decision{}}
	defer t.close()
	t.start = time.Now()
	end, err := b.perform(ctx, job, t)
	if err != nil {
		return llm.Response{}, err
	}
	b.begun = true
	b.session = end.said.Session
	return b.verdict(ctx, end, t)
}

// order returns the work of the program that follows from a request.
func (b *backend) order(q llm.Request) wire.Job {
	a := b.agent
	job := wire.Job{
		Program: a.Definition.Runs, System: q.System, Model: a.Definition.Model, MaxTurns: b.turns,
		ReadOnly: a.Setup.ReadOnly, Auto: b.auto(), Schema: q.Schema, Dir: a.Process.Dir, Session: b.session,
		MaxCost: b.at.MaxCost,
	}
	last := 0 // the first message that the program has not answered
	for i, m := range q.Messages {
		if m.Role == llm.Assistant {
			last = i + 1
		}
	}
	job.Text = joined(q.Messages[last:])
	if earlier := joined(q.Messages[:last]); job.Session == "" && earlier != "" {
		job.Text = "This was said before:\n\n" + earlier + "\n\nGo on from there. What is said now:\n\n" + job.Text
	}
	if len(q.Schema) > 0 {
		job.Text += "\n\nYour final answer must be JSON, and nothing else, that fits this JSON Schema:\n" +
			string(q.Schema)
	}
	return job
}

// joined returns the texts of messages; with more than one role, it says whose they are.
func joined(messages []llm.Message) (text string) {
	several := slices.ContainsFunc(messages, func(m llm.Message) bool { return m.Role == llm.Assistant })
	for _, m := range messages {
		if m.Content == "" || m.Role != llm.User && m.Role != llm.Assistant {
			continue
		}
		if text != "" {
			text += "\n\n"
		}
		if several {
			text += string(m.Role) + ": "
		}
		text += m.Content
	}
	return text
}

// Limits of the look at the working directory that tells which files have changed.
const (
	maxFiles = 50_000
	lookTime = 3 * time.Second
	maxShown = 1000 // files that are reported
)

// files returns the stamps of the files in the working directory; nil if these are too many, or if nothing can change.
func (b *backend) files(ctx context.Context) map[string]contents.Stamp {
	if b.agent.Setup.ReadOnly {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookTime) // also if the time of the task is up
	defer cancel()
	root, err := os.OpenRoot(".")
	if err != nil {
		return nil
	}
	defer root.Close()
	files, err := contents.Stamps(ctx, root, b.agent.Process.Dir, b.agent.Setup.Private, maxFiles)
	if err != nil {
		return nil
	}
	return files
}

// changed returns the files that differ from before.
func (b *backend) changed(ctx context.Context, before map[string]contents.Stamp) []string {
	if !b.begun {
		return nil
	}
	now := b.files(ctx)
	if before == nil || now == nil {
		b.warn("which files %s has changed is not known: the folder has too many", b.Server)
		return nil
	}
	files := contents.Differing(before, now)
	slices.Sort(files)
	if len(files) > maxShown {
		b.warn("%d files have changed, of which the first %d are listed", len(files), maxShown)
		files = files[:maxShown]
	}
	return files
}

// errNoCommands says that the agent was not given the right to start programs.
var errNoCommands = errors.New("the agent has nothing to start programs with")
