package loop

import (
	"cmp"
	"context"
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

// Gate decides about every call.
type Gate interface {
	// Admit returns the tool for c and the context to run it in, or an error whose
	// text answers the model. A [*tool.RefusedError] is remembered: unless the same
	// tool works later, the task ends as refused. Admit may wait, until ctx ends,
	// and is called by several goroutines at once.
	Admit(ctx context.Context, c tool.Call) (tool.Tool, context.Context, error)
}

// attempt is one call on its way.
type attempt struct {
	call    tool.Call
	pass    pass
	result  tool.Result
	refused *tool.RefusedError // by the gate or behind it, or nil
}

// call runs the calls of one answer and returns a message for each, in order.
func (l *loop) call(ctx context.Context, calls []tool.Call) []llm.Message {
	messages := make([]llm.Message, 0, len(calls))
	for len(calls) > 0 {
		n := 1
		for n < len(calls) && l.delegates(calls[0]) && l.delegates(calls[n]) {
			n++
		}
		for _, a := range l.atOnce(ctx, calls[:n]) {
			messages = append(messages, llm.Message{
				Role: llm.ToolRole, Content: a.result.Content, CallID: a.call.ID, Tool: a.call.Name,
			})
		}
		calls = calls[n:]
	}
	return messages
}

func (l *loop) delegates(c tool.Call) bool {
	t, ok := l.cfg.Tools.Lookup(c.Name)
	return ok && t.Spec().Effect == tool.Delegates
}

// atOnce runs calls side by side. What depends on their order is done in their
// order, before and after.
func (l *loop) atOnce(ctx context.Context, calls []tool.Call) []*attempt {
	attempts := make([]*attempt, len(calls))
	for i, c := range calls {
		attempts[i] = &attempt{call: c, pass: l.guard.enter(c)}
	}
	var wg sync.WaitGroup
	for _, a := range attempts[1:] {
		wg.Go(func() { l.one(ctx, a) })
	}
	l.one(ctx, attempts[0])
	wg.Wait()
	for _, a := range attempts {
		l.refused.note(a.call.Name, a.refused, a.result.Failed)
		a.result.Content += a.pass.leave(a.result.Content)
	}
	return attempts
}

// one runs one call. A panic of a tool, or of the gate, is an answer to the model
// like any other failure.
func (l *loop) one(ctx context.Context, a *attempt) {
	c, start := a.call, time.Now()
	l.cfg.Host.Emit(event.Event{Type: event.ToolStart, Tool: c.Name, Arguments: task.Shorten(string(c.Arguments), 200)})
	defer func() {
		if p := recover(); p != nil {
			a.result = tool.Failure(fmt.Sprintf("Error: %s broke down: %v", c.Name, p))
		}
		end := event.Event{Type: event.ToolEnd, Tool: c.Name, Failed: a.result.Failed}
		if end.DurationMS = time.Since(start).Milliseconds(); end.Failed {
			first, _, _ := strings.Cut(strings.TrimSpace(a.result.Content), "\n")
			end.Error = task.Shorten(first, 200)
		}
		l.cfg.Host.Emit(end)
	}()
	switch {
	case ctx.Err() != nil:
		a.result = tool.Failure("Error: not run: " + context.Cause(ctx).Error())
		return
	case a.pass.refusal != "":
		a.result = tool.Failure(a.pass.refusal)
		return
	}
	t, ctx, err := l.admit(ctx, c)
	if err != nil {
		a.refused, _ = errors.AsType[*tool.RefusedError](err)
		a.result = tool.Failure("Error: " + err.Error())
		return
	}
	spec := t.Spec()
	if err := l.acts(spec); err != nil {
		a.result = tool.Failure("Error: not run: " + err.Error())
		return
	}
	if ctx.Err() != nil { // that may have taken its time
		a.result = tool.Failure("Error: not run: " + context.Cause(ctx).Error())
		return
	}
	a.result = t.Run(ctx, c.Arguments)
	a.refused = a.result.Refused
	l.changed(a.result.Changed)
	l.ran(spec, a)
}

// acts tells, once, that something is about to be done that reading does not undo.
func (l *loop) acts(s tool.Spec) (err error) {
	if s.Effect != tool.Writes && s.Effect != tool.Executes {
		return nil
	}
	l.acting.Lock()
	defer l.acting.Unlock()
	if !l.acted {
		err = l.cfg.Host.Effects()
		l.acted = err == nil
	}
	return err
}

// ran tells of a call that was carried out.
func (l *loop) ran(s tool.Spec, a *attempt) {
	if l.cfg.Observer != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.cfg.Observer.Ran(s, a.call, a.result)
	}
}

// admit asks the gate; without one, every tool of the agent may run.
func (l *loop) admit(ctx context.Context, c tool.Call) (tool.Tool, context.Context, error) {
	if l.cfg.Gate != nil {
		return l.cfg.Gate.Admit(ctx, c)
	}
	t, ok := l.cfg.Tools.Lookup(c.Name)
	if !ok {
		known := strings.Join(l.cfg.Tools.Names(), ", ")
		return nil, nil, fmt.Errorf("no tool %q. The tools are: %s", c.Name, cmp.Or(known, "none"))
	}
	return t, ctx, nil
}

// changed notes files that a call changed, and passes them on at once.
func (l *loop) changed(paths []string) {
	if len(paths) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	files := append(l.out.ChangedFiles, paths...)
	slices.Sort(files)
	l.out.ChangedFiles = slices.Compact(files)
	l.cfg.Host.Changed(slices.Clone(paths))
}
