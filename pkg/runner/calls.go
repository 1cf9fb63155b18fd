package runner

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"qq/pkg/event"
	"qq/pkg/llm"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// call runs the calls of one answer and returns a message for each, in order.
func (l *loop) call(ctx context.Context, calls []tool.Call) []llm.Message {
	results := make([]tool.Result, len(calls))
	for from := 0; from < len(calls); {
		to := from + 1
		for to < len(calls) && l.delegates(calls[from]) && l.delegates(calls[to]) {
			to++
		}
		var wg sync.WaitGroup
		for i := from + 1; i < to; i++ {
			wg.Go(func() { results[i] = l.one(ctx, calls[i]) })
		}
		results[from] = l.one(ctx, calls[from])
		wg.Wait()
		from = to
	}
	messages := make([]llm.Message, len(calls))
	for i, c := range calls {
		messages[i] = llm.Message{Role: llm.ToolRole, Content: results[i].Content, CallID: c.ID, Tool: c.Name}
	}
	return messages
}

func (l *loop) delegates(c tool.Call) bool {
	t, ok := l.cfg.Tools.Lookup(c.Name)
	return ok && t.Spec().Effect == tool.Delegates
}

// one runs one call. A panic of a tool is an answer to the model like any other
// failure.
func (l *loop) one(ctx context.Context, c tool.Call) (r tool.Result) {
	start := time.Now()
	l.emit(event.Event{Type: event.ToolStart, Tool: c.Name, Arguments: task.Shorten(string(c.Arguments), 200)})
	defer func() {
		if p := recover(); p != nil {
			r = tool.Failure(fmt.Sprintf("Error: %s broke down: %v", c.Name, p))
		}
		l.emit(event.Event{Type: event.ToolEnd, Tool: c.Name, Failed: r.Failed, DurationMS: time.Since(start).Milliseconds()})
	}()
	if ctx.Err() != nil {
		return tool.Failure("Error: not run: " + context.Cause(ctx).Error())
	}
	t, ok := l.cfg.Tools.Lookup(c.Name)
	if !ok {
		return tool.Failure(fmt.Sprintf("Error: no tool %q. The tools are: %s", c.Name, cmp.Or(strings.Join(l.cfg.Tools.Names(), ", "), "none")))
	}
	return t.Run(ctx, c.Arguments)
}

func (l *loop) emit(e event.Event) {
	if l.cfg.Event != nil {
		l.cfg.Event(e)
	}
}
