package childproc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"qq/pkg/task"
	"qq/pkg/tool"
)

// answerTime is how long the root tries to write one frame of an answer to the child.
const answerTime = time.Minute

// take starts to answer one request of the child, in a goroutine. The error says that the child
// breaks the protocol, with too many requests at once for example.
func (c *child) take(ctx context.Context, ask Ask) error {
	if c.asking.Add(1) > maxAsking {
		return fmt.Errorf("%w: over %d questions at once", ErrFrameBroken, maxAsking)
	}
	c.effects = c.effects || ask.Effects
	if ask.waits() { // an honest child has given it back
		c.permits.reclaim()
	}
	do := func() { c.answer(ask.Call.in(ctx), ask) }
	if ask.Enter != nil {
		h, err := c.permits.claim(ctx, ask.ID)
		if err != nil {
			return err
		}
		do = func() { c.admit(h, ask) }
	}
	c.sending.Go(func() {
		defer c.asking.Add(-1)
		do()
	})
	return nil
}

// answer does what the child asks for and sends the result: one frame for each task result, then
// the last frame.
func (c *child) answer(ctx context.Context, ask Ask) {
	last := Answer{ID: ask.ID, Last: true}
	var results []task.Result
	var err error
	switch {
	case ask.Effects:
		err = c.parent.Effects()
	case ask.Approve != nil:
		d := c.parent.Approve(ctx, *ask.Approve)
		last.Decision = &d
	case len(ask.Delegate) > 0:
		results = c.parent.Delegate(ctx, ask.Delegate)
	case ask.Spawn != nil:
		var started task.Child
		started, err = c.parent.Spawn(ctx, *ask.Spawn)
		last.Children = []task.Child{started}
	case ask.Children:
		last.Children, err = c.parent.Children(ctx)
	case ask.Wait != nil:
		results, err = c.parent.Wait(ctx, ask.Wait.IDs, time.Duration(max(ask.Wait.AtMostMS, 0))*time.Millisecond)
	case ask.Terminate != "":
		err = c.parent.Terminate(ctx, ask.Terminate)
	case ask.Send != nil:
		err = c.parent.Send(ctx, ask.Send.To, ask.Send.Text)
	}
	if err != nil {
		last.Error = err.Error()
	}
	if refused, ok := errors.AsType[*tool.RefusedError](err); ok {
		last.Error, last.Refused = refused.Reason, refused.Tool
	}
	for _, r := range results {
		c.send(Frame{Type: TypeAnswer, Answer: &Answer{ID: ask.ID, Result: &r}}, answerTime)
	}
	c.send(Frame{Type: TypeAnswer, Answer: &last}, answerTime)
}

// relay sends messages from other agents to the child until ctx is done.
func (c *child) relay(ctx context.Context) {
	for {
		select {
		case text := <-c.parent.Inbox():
			c.send(Frame{Type: TypeMessage, Message: &Message{Text: text}}, answerTime)
		case <-ctx.Done():
			return
		}
	}
}

// maxChanged is how many changed files of one child are listed in its result. Further ones are only
// counted.
const maxChanged = 100_000

// note adds paths to the changed files of the child.
func (c *child) note(paths []string) {
	for _, p := range paths {
		if len(c.changed) < maxChanged {
			c.changed[p] = struct{}{}
		} else if _, known := c.changed[p]; !known {
			c.unlisted++
		}
	}
}
