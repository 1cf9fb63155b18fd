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

// Gate allows or refuses each tool call.
type Gate interface {
	// Admit returns the tool for c and the context to run it in, or an error whose text
	// becomes the result that the model gets. After a [*tool.RefusedError] the task ends as
	// refused, unless a later call of the same tool works. Admit may block until ctx ends,
	// and is called concurrently.
	Admit(ctx context.Context, c tool.Call) (tool.Tool, context.Context, error)
}

// attempt is one tool call and its outcome.
type attempt struct {
	call    tool.Call
	pass    *pass // the decision of the guard
	result  tool.Result
	refused *tool.RefusedError // by the gate or the tool, or nil
	started time.Time
	took    time.Duration
	entry   llm.Entry // the result as the model gets it; set when the call has ended
}

// maxReads is how many reads run at once: each holds what it reads, and a model may ask for any number.
const maxReads = 8

// call runs the tool calls of one response and adds the result of each to the conversation, in
// their order. Delegations and reads that follow each other run at once (see [loop.keepsPlace]).
// Any other call keeps its place: all before it have ended and are in the transcript, and all
// after it start afterwards.
func (l *loop) call(ctx context.Context, calls []tool.Call) {
	for len(calls) > 0 {
		n := 1
		for n < len(calls) && !l.keepsPlace(calls[0]) && !l.keepsPlace(calls[n]) {
			n++
		}
		l.parallel(ctx, calls[:n])
		calls = calls[n:]
	}
}

// made returns the result of the call as the model gets it, with its time.
func (a *attempt) made() llm.Entry {
	content := a.result.Content + a.pass.warning()
	if a.result.Footer != "" {
		content += "\n" + a.result.Footer
	}
	return llm.Entry{
		Message: llm.Message{
			Role: llm.ToolRole, Content: content, CallID: a.call.ID, Tool: a.call.Name, Images: a.result.Images,
		},
		Started: a.started.UTC(), DurationMS: a.took.Milliseconds(), Failed: a.result.Failed,
	}
}

// keepsPlace reports whether c must not run beside the calls next to it: its tool writes,
// executes, sends something over the network or manages background children, or is unknown. A
// read beside a delegation may see what that agent has changed, or not.
func (l *loop) keepsPlace(c tool.Call) bool {
	effect := l.effect(c)
	return effect != tool.Delegates && effect != tool.Reads
}

// effect returns the effect of the tool that c calls; "" if the agent has no such tool.
func (l *loop) effect(c tool.Call) tool.Effect {
	t, ok := l.cfg.Tools.Lookup(c.Name)
	if !ok {
		return ""
	}
	return t.Spec().Effect
}

// parallel runs calls in parallel and adds the result of each. A result is in the transcript as soon as its call has
// ended. The conversation, the guard and the refusals depend on the order of the calls and get the results in it.
func (l *loop) parallel(ctx context.Context, calls []tool.Call) {
	l.dispatch(ctx, calls)
	attempts := make([]*attempt, len(calls))
	for i, c := range calls {
		attempts[i] = &attempt{call: c, pass: l.guard.enter(c)}
	}
	reads := make(chan struct{}, maxReads)
	run := func(a *attempt) {
		if l.effect(a.call) == tool.Reads {
			reads <- struct{}{}
			defer func() { <-reads }()
		}
		l.one(ctx, a)
		a.entry = a.made()
		l.mu.Lock()
		defer l.mu.Unlock()
		l.cfg.Transcript.Append(a.entry)
	}
	var wg sync.WaitGroup
	for _, a := range attempts[1:] {
		wg.Go(func() { run(a) })
	}
	run(attempts[0])
	wg.Wait()
	for _, a := range attempts {
		l.refused.note(a.call.Name, a.refused, a.result.Failed)
		a.pass.leave(a.result.Content)
		l.messages = append(l.messages, a.entry.Message)
	}
}

// one runs one call and stores its result in a. A panic of the tool or the gate becomes a
// failed result, which the model gets like any other.
func (l *loop) one(ctx context.Context, a *attempt) {
	c := a.call
	a.started = time.Now()
	ctx = tool.WithCall(ctx, c)
	l.cfg.Host.Emit(event.Event{
		Type: event.ToolStart, CallID: c.ID, Tool: c.Name, Arguments: task.Shorten(string(c.Arguments), 200),
		Text: task.Shorten(c.Line(), 200),
	})
	defer func() {
		if p := recover(); p != nil {
			a.result = brokeDown(c, p)
		}
		end := event.Event{Type: event.ToolEnd, CallID: c.ID, Tool: c.Name, Failed: a.result.Failed}
		a.took = time.Since(a.started)
		if end.DurationMS = a.took.Milliseconds(); end.Failed {
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
	if ctx.Err() != nil { // it may have ended meanwhile
		a.result = tool.Failure("Error: not run: " + context.Cause(ctx).Error())
		return
	}
	a.result = l.show(Perform(ctx, t, c))
	a.refused = a.result.Refused
	l.changed(a.result)
	l.ran(spec, a)
}

// overtime is how long a tool may take to end after its context has ended. A command gets 2 s between SIGTERM and
// SIGKILL, and then what it must not have changed is put back: that takes up to commandOvertime together.
const (
	overtime        = 3 * time.Second
	commandOvertime = 15 * time.Second
)

// Perform runs one call. If the tool does not end when ctx does, because a file system does not answer for
// example, the call fails and the tool is left behind. Children hand their results back in time.
func Perform(ctx context.Context, t tool.Tool, c tool.Call) tool.Result {
	done := make(chan tool.Result, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- brokeDown(c, p)
			}
		}()
		done <- t.Run(ctx, c.Arguments)
	}()
	select {
	case r := <-done:
		return r
	case <-ctx.Done():
	}
	patience := overtime
	switch t.Spec().Effect {
	case tool.Delegates:
		return <-done
	case tool.Executes:
		patience = commandOvertime
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case r := <-done:
		return r
	case <-late.C:
		return tool.Failure(fmt.Sprintf("Error: %s did not end: %v", c.Name, context.Cause(ctx)))
	}
}

// brokeDown is the result of a call during which a tool or the gate panicked.
func brokeDown(c tool.Call, p any) tool.Result {
	return tool.Failure(fmt.Sprintf("Error: %s broke down: %v", c.Name, p))
}

// acts calls Host.Effects before the first call of the run whose tool writes or executes.
// On an error the call must not run.
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

// ran tells the observer about a call that has run.
func (l *loop) ran(s tool.Spec, a *attempt) {
	if l.cfg.Observer != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.cfg.Observer.Ran(s, a.call, a.result)
	}
}

// admit asks the gate about c. Without a gate, every tool that the agent is offered may
// run.
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

// maxWarnings bounds the warnings of the tool calls of one run.
const maxWarnings = 100

// changed records the files that a call changed and its warnings, and reports the files to the host at once.
func (l *loop) changed(r tool.Result) {
	if len(r.Changed)+len(r.Warnings) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if room := maxWarnings - len(l.out.Warnings); room > 0 {
		l.out.Warnings = append(l.out.Warnings, r.Warnings[:min(room, len(r.Warnings))]...)
	}
	if len(r.Changed) == 0 {
		return
	}
	files := append(l.out.ChangedFiles, r.Changed...)
	slices.Sort(files)
	l.out.ChangedFiles = slices.Compact(files)
	l.cfg.Host.Changed(slices.Clone(r.Changed))
}
