package childproc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"qq/pkg/supervisor"
	"qq/pkg/task"
	"qq/pkg/tool"
)

var _ supervisor.Parent = (*Conn)(nil)

// pending is an Ask that waits for its answer. It collects the parts of the answer; done is closed
// after the last part.
type pending struct {
	results []task.Result
	last    Answer
	done    chan struct{}
}

// file adds a part of an answer to the Ask with its id, and wakes the caller of ask after the last
// part. If nobody waits for the answer any more, the part is dropped.
func (c *Conn) file(a Answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.asks[a.ID]
	if p == nil {
		return
	}
	if a.Result != nil {
		p.results = append(p.results, *a.Result)
	}
	if a.Last {
		p.last = a
		delete(c.asks, a.ID)
		close(p.done)
	}
}

// lose ends every wait for an answer with ErrRootGone. It is called when the root is gone.
func (c *Conn) lose() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
	for id, p := range c.asks {
		delete(c.asks, id)
		p.last = Answer{Error: ErrRootGone.Error()}
		close(p.done)
	}
}

// ask sends a request and waits for its answer. On error it still returns the results that have
// arrived. If the error is the cause of ctx, the Answer has the id of the request, which the root
// may still answer.
func (c *Conn) ask(ctx context.Context, a Ask) ([]task.Result, Answer, error) {
	p := &pending{done: make(chan struct{})}
	if call := tool.CallOf(ctx); call.ID != "" {
		a.Call = &Call{call.ID, call.Name}
	}
	c.mu.Lock()
	c.asked++
	a.ID = c.asked
	c.asks[a.ID] = p
	gone := c.gone
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.asks, a.ID)
	}()
	if gone {
		return nil, Answer{}, ErrRootGone
	}
	if a.waits() {
		c.giveBack()
	}
	switch err := c.send(Frame{Type: TypeAsk, Ask: &a}); {
	case errors.Is(err, ErrFrameTooLong):
		return nil, Answer{}, err
	case err != nil: // nobody is at the other end of the pipe
		return nil, Answer{}, ErrRootGone
	}
	select {
	case <-p.done:
		if p.last.Refused != "" {
			return p.results, p.last, &tool.RefusedError{Tool: p.last.Refused, Reason: p.last.Error}
		}
		if p.last.Error != "" {
			return p.results, p.last, errors.New(p.last.Error)
		}
		return p.results, p.last, nil
	case <-ctx.Done():
		c.mu.Lock()
		defer c.mu.Unlock()
		return p.results[:len(p.results):len(p.results)], Answer{ID: a.ID}, context.Cause(ctx)
	}
}

// Delegate implements task.Delegator: the root runs the tasks as children of this child. If the
// root does not answer in full, the tasks without a result get one that says why.
func (c *Conn) Delegate(ctx context.Context, tasks []task.Task) []task.Result {
	if len(tasks) > MaxAsk {
		why := fmt.Sprintf("not started: %d tasks at once, at most %d", len(tasks), MaxAsk)
		return complete(nil, tasks, task.Misused, why)
	}
	results, _, err := c.ask(ctx, Ask{Delegate: tasks})
	status, why := task.Interrupted, "interrupted: "
	switch {
	case errors.Is(err, ErrFrameTooLong):
		status, why = task.Misused, "not started: "+err.Error()+": hand over files, or fewer tasks at once"
	case err != nil:
		why += err.Error()
	default:
		why += ErrRootGone.Error()
	}
	return complete(results, tasks, status, why)
}

// complete appends a result with status and the text why for each task that has no result yet.
func complete(results []task.Result, tasks []task.Task, status task.Status, why string) []task.Result {
	results = results[:min(len(results), len(tasks)):min(len(results), len(tasks))]
	for i := len(results); i < len(tasks); i++ {
		r := tasks[i].Normalized().Ended(status, why)
		r.Index = i
		results = append(results, r)
	}
	return results
}

// Spawn implements task.Family: the root starts the child.
func (c *Conn) Spawn(ctx context.Context, t task.Task) (task.Child, error) {
	_, a, err := c.ask(ctx, Ask{Spawn: &t})
	if err == nil && len(a.Children) != 1 {
		err = errors.New("the root did not say what it started")
	}
	if err != nil {
		return task.Child{}, err
	}
	return a.Children[0], nil
}

// Children implements task.Family: the root lists the children.
func (c *Conn) Children(ctx context.Context) ([]task.Child, error) {
	_, a, err := c.ask(ctx, Ask{Children: true})
	return a.Children, err
}

// Wait implements task.Family: the root waits and sends the results.
func (c *Conn) Wait(ctx context.Context, ids []string, atMost time.Duration) ([]task.Result, error) {
	results, _, err := c.ask(ctx, Ask{Wait: &Wait{IDs: ids, AtMostMS: milliseconds(atMost)}})
	return results, err
}

// Terminate implements task.Family: the root ends the child.
func (c *Conn) Terminate(ctx context.Context, id string) error {
	_, _, err := c.ask(ctx, Ask{Terminate: id})
	return err
}

// Send implements task.Family: the root passes the message on.
func (c *Conn) Send(ctx context.Context, to, text string) error {
	_, _, err := c.ask(ctx, Ask{Send: &Send{To: to, Text: text}})
	return err
}

// Approve implements supervisor.Report: the root decides. Without an answer of the root the call is
// not allowed.
func (c *Conn) Approve(ctx context.Context, in tool.Intent) tool.Decision {
	_, a, err := c.ask(ctx, Ask{Approve: &in})
	switch {
	case err != nil:
		return tool.Decision{Reason: "no decision: " + err.Error()}
	case a.Decision == nil:
		return tool.Decision{Reason: "no decision: the root gave none"}
	}
	return *a.Decision
}

// maxInbox is how many unread messages a child keeps. Further ones are dropped and counted.
const maxInbox = 1000

func (c *Conn) deliver(text string) {
	select {
	case c.inbox <- text:
	default:
		c.lost.Add(1)
	}
}

// Inbox implements supervisor.Report.
func (c *Conn) Inbox() <-chan string { return c.inbox }
