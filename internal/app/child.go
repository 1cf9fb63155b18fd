package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"qq/internal/toolbox"
	"qq/pkg/childproc"
	"qq/pkg/event"
	"qq/pkg/llm"
	"qq/pkg/runner"
	"qq/pkg/task"
)

// orphanGrace is what a child gets to end by itself when its root is gone.
const orphanGrace = 20 * time.Millisecond

// serveChild is the whole life of a child: hello, the task, the answer on
// stdout, the result frame.
func serveChild(conn *childproc.Conn, s Streams, env environment) int {
	start, listen, err := conn.Handshake(Version())
	if err != nil {
		return report(s.Err, err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM, syscall.SIGINT)
	go func() { // ends with the process
		<-term
		cancel(errSignal)
	}()
	go listen(func(cause error) { // ends with the process, or ends it
		cancel(cause)
		if errors.Is(cause, childproc.ErrRootGone) {
			time.AfterFunc(orphanGrace, func() { os.Exit(1) })
		}
	})
	result := childWork(ctx, conn, *start, s, env)
	if err := conn.Finish(result); err != nil {
		return report(s.Err, err)
	}
	return result.Status.ExitCode()
}

// childWork does the task and says how it ended.
func childWork(ctx context.Context, conn *childproc.Conn, start childproc.Start, s Streams, env environment) childproc.Result {
	text, err := io.ReadAll(s.In)
	if err != nil {
		return childFailure(task.Failed, fmt.Errorf("read the task: %w", err))
	}
	dir, err := os.Getwd()
	if err != nil {
		return childFailure(task.Misused, fmt.Errorf("find the working directory: %w", err))
	}
	w := work{agent: start.Agent, dir: dir, readOnly: start.ReadOnly, schema: start.Schema}
	if err := json.Unmarshal(start.Backend, &w.model); err != nil {
		return childFailure(task.Failed, fmt.Errorf("read the start frame: %w", err))
	}
	if start.CanDelegate {
		w.delegator = conn
		w.roster = func() []toolbox.AgentInfo { return roster(loadAgents(dir, env)) }
	}
	if start.Events {
		w.event = conn.Emit
		tokens := tokenEvents{emit: conn.Emit}
		w.chunk, w.turnEnd = tokens.chunk, tokens.turnEnd
	}
	out, err := w.do(ctx, string(text))
	if err != nil {
		return childFailure(task.Failed, err)
	}
	return childResult(out, s.Out)
}

// childResult writes the answer and says how the task ended.
func childResult(out runner.Outcome, w io.Writer) childproc.Result {
	r := childproc.Result{Status: out.Status, Usage: out.Usage, Structured: out.Structured}
	if out.Err != nil {
		r.Error = out.Err.Error()
	}
	n, err := io.WriteString(w, out.Text)
	if r.Bytes = int64(n); err != nil {
		r.Status, r.Error = task.Failed, "write the answer: "+err.Error()
	}
	return r
}

func childFailure(status task.Status, err error) childproc.Result {
	return childproc.Result{Status: status, Error: err.Error()}
}

// tokenEvents gathers what a model writes into events of a useful size: one for
// each token would cost more than the token.
type tokenEvents struct {
	emit func(event.Event)
	mu   sync.Mutex
	text []byte
	last time.Time
}

const tokenInterval = 50 * time.Millisecond

func (t *tokenEvents) chunk(c llm.Chunk) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, c.Text...)
	if now := time.Now(); len(t.text) > 0 && now.Sub(t.last) >= tokenInterval {
		t.last = now
		t.flush()
	}
}

func (t *tokenEvents) turnEnd(bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.flush()
}

func (t *tokenEvents) flush() {
	if len(t.text) > 0 {
		t.emit(event.Event{Type: event.Token, Text: string(t.text)})
		t.text = t.text[:0]
	}
}
