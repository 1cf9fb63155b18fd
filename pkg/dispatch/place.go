package dispatch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"qq/pkg/agents"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// maxUnread is how many messages may wait for an agent that does not read them.
const maxUnread = 64

// Place is one agent at work: what it may have done by others is decided here,
// and messages for it arrive here. The root's own agent has one as each child
// has.
type Place struct {
	d        *Dispatcher
	agent    agents.Agent
	own      task.Task // what it works on
	id       string    // execution id; empty for the root
	batch    string
	depth    int
	parent   *Place   // nil for the root and for the tasks of a batch
	chain    []string // the agents from the root to this one
	messages chan string

	// What the supervisor does for it.
	delegate func(context.Context, []task.Task) []task.Result
	family   task.Family
	pause    func(context.Context, func())

	mu      sync.Mutex
	changed map[string]struct{} // files, by those who worked for it
	parts   int                 // of documents, that were summarised for it
}

var _ task.Family = (*Place)(nil)

// places are the agents at work, by execution id.
type places struct {
	mu   sync.Mutex
	byID map[string]*Place
}

func (p *places) get(id string) *Place {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.byID[id]
}

func (p *places) put(id string, at *Place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at == nil {
		delete(p.byID, id)
		return
	}
	p.byID[id] = at
}

// Root is the place of the agent of this process, at work on t.
func (d *Dispatcher) Root(by agents.Agent, t task.Task) *Place {
	at := &Place{
		d: d, agent: by, own: t, id: d.cfg.ID, depth: d.cfg.Depth, chain: []string{by.Name}, messages: make(chan string, maxUnread),
		delegate: d.agent.Delegate, family: d.agent, pause: func(_ context.Context, f func()) { f() },
	}
	d.places.put(d.cfg.ID, at)
	return at
}

// place is the place of job, which by does. The functions of job then do only
// what by may have done.
func (d *Dispatcher) place(by agents.Agent, job *task.Job) *Place {
	at := &Place{
		d: d, agent: by, own: job.Task, id: job.ExecutionID, batch: job.BatchID, depth: job.Depth, chain: []string{by.Name},
		messages: make(chan string, maxUnread), delegate: job.Delegate, family: job.Family, pause: job.Pause,
	}
	if job.BatchID == "" {
		at.parent = d.places.get(job.Parent)
	}
	if at.parent != nil {
		at.chain = append(slices.Clone(at.parent.chain), by.Name)
	}
	job.Delegate, job.Family, job.Messages = at.Delegate, at, at.messages
	return at
}

// End ends the children in the background that the agent has not collected.
func (p *Place) End() {
	if f, ok := p.family.(interface{ End() }); ok {
		f.End()
	}
}

// report tells whoever asked for the work of the agent what was changed.
func (p *Place) report(files []string) {
	above := p.parent
	if above == nil && p.batch == "" && p.id != p.d.cfg.ID {
		above = p.d.places.get(p.d.cfg.ID)
	}
	if above == nil {
		return
	}
	above.mu.Lock()
	defer above.mu.Unlock()
	for _, f := range files {
		if above.changed == nil {
			above.changed = map[string]struct{}{}
		}
		above.changed[f] = struct{}{}
	}
}

// ChangedFiles are files, those of the agent itself, and what those have changed
// who worked for it.
func (p *Place) ChangedFiles(files []string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.changed) == 0 {
		return files
	}
	all := append(slices.Collect(maps.Keys(p.changed)), files...)
	slices.Sort(all)
	return slices.Compact(all)
}

// Delegate runs those of tasks that the agent may have done, and refuses the
// others, each in its place.
func (p *Place) Delegate(ctx context.Context, tasks []task.Task) []task.Result {
	results := make([]task.Result, len(tasks))
	var allowed []task.Task
	var at []int
	for i, t := range tasks {
		granted, refused := p.grant(t)
		if refused != nil {
			results[i] = *refused
			results[i].Index = i
			continue
		}
		allowed, at = append(allowed, granted), append(at, i)
	}
	if len(allowed) == 0 {
		return results // without lending and taking back a slot
	}
	if d := p.Approve(ctx, p.intent(allowed)); !d.Allowed {
		for k, t := range allowed {
			results[at[k]] = t.Ended(task.Refused, d.Reason)
			results[at[k]].Index = at[k]
		}
		return results
	}
	for k, r := range p.delegate(ctx, allowed) {
		r.Index = at[k]
		results[at[k]] = r
	}
	return results
}

// Spawn implements task.Family.
func (p *Place) Spawn(ctx context.Context, t task.Task) (task.Child, error) {
	granted, refused := p.grant(t)
	if refused != nil {
		return task.Child{}, notStarted(*refused)
	}
	in := p.intent([]task.Task{granted})
	in.Tool = "spawn_agent"
	if d := p.Approve(ctx, in); !d.Allowed {
		return task.Child{}, &tool.RefusedError{Tool: in.Tool, Reason: d.Reason}
	}
	return p.family.Spawn(ctx, granted)
}

// notStarted is the error of a task that was not granted.
func notStarted(r task.Result) error {
	if r.Status == task.Refused {
		return &tool.RefusedError{Tool: "spawn_agent", Reason: r.Err()}
	}
	return errors.New(r.Err())
}

// Children implements task.Family.
func (p *Place) Children(ctx context.Context) ([]task.Child, error) { return p.family.Children(ctx) }

// Wait implements task.Family.
func (p *Place) Wait(ctx context.Context, ids []string, atMost time.Duration) ([]task.Result, error) {
	return p.family.Wait(ctx, ids, atMost)
}

// Terminate implements task.Family.
func (p *Place) Terminate(ctx context.Context, id string) error { return p.family.Terminate(ctx, id) }

// Send implements task.Family.
func (p *Place) Send(_ context.Context, to, text string) error {
	if len(text) > task.MaxMessage {
		return fmt.Errorf("the message has %d bytes, at most %d: put it into a file", len(text), task.MaxMessage)
	}
	receiver, from := p.parent, fmt.Sprintf("child %s (%s)", p.id, p.agent.Name)
	if to == task.Parent && receiver == nil {
		return errors.New("this agent has no parent that could read a message")
	}
	if to != task.Parent {
		receiver, from = p.d.places.get(to), "parent"
		if to == "" || receiver == nil || receiver.parent != p {
			return fmt.Errorf("no child %s of this agent is running", to)
		}
	}
	select {
	case receiver.messages <- "[message from your " + from + "]\n" + text:
		return nil
	default:
		return errors.New("too many messages are unread: wait until some were read")
	}
}

// Messages returns what other agents sent since the last call. Those of a child
// are relayed to it instead.
func (p *Place) Messages() []string {
	var texts []string
	for {
		select {
		case text := <-p.messages:
			texts = append(texts, text)
		default:
			return texts
		}
	}
}

// Approve decides about a call that the child at work on job wants to make.
func (d *Dispatcher) Approve(ctx context.Context, job task.Job, in tool.Intent) tool.Decision {
	at := d.places.get(job.ExecutionID)
	switch {
	case at == nil:
		return tool.Decision{Reason: "the child is gone"}
	case !at.agent.Allows(in.Tool):
		return tool.Decision{Reason: "the definition of " + at.agent.Name + " does not give it this tool"}
	}
	return at.Approve(ctx, in)
}
