package engine

import (
	"context"
	"time"

	"qq/pkg/llm"
	"qq/pkg/task"
)

// watched ends a request that nothing comes back from for a time. The supervisor
// watches over children; nobody does over the root's own agent.
type watched struct {
	next llm.Backend
	idle time.Duration
}

// Chat implements llm.Backend.
func (w watched) Chat(ctx context.Context, r llm.Request, yield func(llm.Chunk)) (llm.Response, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(w.idle, func() { cancel(&task.ClockError{Status: task.Idle, After: w.idle}) })
	defer timer.Stop()
	return w.next.Chat(ctx, r, func(c llm.Chunk) {
		timer.Reset(w.idle)
		yield(c)
	})
}
