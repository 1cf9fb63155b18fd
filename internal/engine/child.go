package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"qq/internal/agent/loop"
	"qq/internal/models/gate"
	"qq/internal/record"
	"qq/internal/sandbox"
	"qq/internal/tools/delegate"
	"qq/pkg/agents"
	"qq/pkg/childproc"
	"qq/pkg/dispatch"
	"qq/pkg/event"
	"qq/pkg/proc"
	"qq/pkg/task"
)

// orphanGrace is what a child gets to end by itself when its root is gone.
const orphanGrace = 20 * time.Millisecond

var _ gate.Patient = (*childproc.Conn)(nil)

// Child is what a child process needs of its program.
type Child struct {
	Version string
	In      io.Reader // the task
	Out     io.Writer // gets the answer and nothing else
	Environ []string
	Agents  func(dir string) *agents.Registry
	Signals func(stop context.CancelCauseFunc) // begins to take signals, once there is work to stop
}

// Serve is the whole life of a child: hello, the task, the answer, the result
// frame. It returns how the task ended, or that the root could not be told.
func Serve(conn *childproc.Conn, c Child) (task.Status, error) {
	start, listen, err := conn.Handshake(c.Version)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	c.Signals(cancel)
	go listen(func(cause error) { // ends with the process, or ends it
		cancel(cause)
		if errors.Is(cause, childproc.ErrRootGone) {
			time.AfterFunc(orphanGrace, func() { os.Exit(1) })
		}
	})
	result := c.work(ctx, conn, *start)
	return result.Status, conn.Finish(result)
}

// work does the task and says how it ended.
func (c Child) work(ctx context.Context, conn *childproc.Conn, start childproc.Start) childproc.Result {
	text, err := io.ReadAll(c.In)
	if err != nil {
		return failure(task.Failed, fmt.Errorf("read the task: %w", err))
	}
	dir, err := syscall.Getwd() // the kernel's word, not that of $PWD
	if err != nil {
		return failure(task.Misused, fmt.Errorf("find the working directory: %w", err))
	}
	if start.Dir != "" && start.Dir != dir {
		return failure(task.Refused, fmt.Errorf("the working directory was %s when the task was allowed, and is %s now", start.Dir, dir))
	}
	w := work{
		toolmaker: toolmaker{version: c.Version, agent: start.Agent, dir: dir, env: c.Environ, depth: start.Depth, host: proc.NewHost()},
		started:   true, schema: start.Schema, targets: start.Targets, references: start.References,
		ask: conn.Approve, inbox: conn.Messages, changed: conn.Changed,
		admission: conn, retries: start.Retries, repeated: repeatedEvents(conn, start), effects: conn.Effects, grace: lastWord,
	}
	w.note = func(format string, args ...any) {
		if start.Events {
			conn.Emit(event.Event{Type: event.SubAgentProgress, Text: fmt.Sprintf(format, args...)})
		}
	}
	if start.Traceparent != "" {
		w.env = append(slices.Clip(c.Environ), "TRACEPARENT="+start.Traceparent)
	}
	if start.Reads {
		w.reads = &record.Reads{}
	}
	defer w.host.Close()
	if err := json.Unmarshal(start.Setup, &w.setup); err != nil {
		return failure(task.Failed, fmt.Errorf("read the start frame: %w", err))
	}
	w.limits = ceiling{readOnly: start.ReadOnly, denied: start.Denied}
	if w.limits.confined, err = w.confine(); err != nil {
		return failure(task.Failed, err)
	}
	tree := &tally{family: conn}
	w.family, w.pending = tree, tree.unfinished
	if start.CanDelegate {
		w.delegator = tree
		w.roster = func() []delegate.AgentInfo { return roster(c.Agents(dir)) }
		w.summaries, w.maxParts = summaries(tree.Delegate, w.setup.Model.String()), dispatch.MaxParts
		w.lookup = func(name string) (agents.Agent, error) { return c.Agents(dir).Lookup(name) }
	}
	if start.Events {
		w.event, w.live = conn.Emit, &tokenEvents{emit: conn.Emit}
	}
	w.event = active(conn, w.event)
	if start.OneProcessor {
		w.event = widening(w.event)
		// It was meant for this process, not for the tests that an agent runs.
		w.env = slices.DeleteFunc(slices.Clone(w.env), func(v string) bool { return v == oneProcessor })
	}
	out, err := w.do(ctx, string(text))
	if err != nil {
		return failure(task.Failed, err)
	}
	out.Warnings = append(out.Warnings, tree.warnings()...)
	if n := conn.Unread(); n > 0 {
		out.Warnings = append(out.Warnings, fmt.Sprintf("%d messages to it were not read", n))
	}
	r := answer(out.Outcome, c.Out)
	r.Repeats, r.Reads = out.Repeats, out.Reads
	return r
}

// confine lets the kernel keep this process, and all that it starts, from
// writing where its agent may not; where it can only be done to commands, to
// those. It reports whether the kernel does.
func (w *work) confine() (bool, error) {
	if !sandbox.Probe().Enforced() {
		return false, nil
	}
	if w.agent.Allows("run_pty_cmd") && w.setup.ShellLog != "" {
		log, err := openShellLog(w.setup.ShellLog) // before it cannot be opened any more
		if err != nil {
			return false, err
		}
		w.log = log
	}
	// Commands are confined once more: in a narrower domain than ours they cannot
	// look into this process, whose control pipe would obey them.
	exe, err := executable()
	if err != nil {
		return false, err
	}
	w.wrap = w.confined(exe)
	// A build that cannot confine itself confines its commands at least.
	if err := sandbox.Apply(w.limits.rules(w.agent, here, w.setup)); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return false, fmt.Errorf("confine the agent: %w", err)
	}
	return true, nil
}

// lastWord is what a child has for a last request to its model when it is told to
// end and gets a grace: not all of it, for the answer has to be handed back.
func lastWord(cause error) time.Duration {
	if c, ok := errors.AsType[*childproc.Cancelled](cause); ok {
		return c.Grace * 4 / 5
	}
	return 0
}

// active tells the root of each tool that begins or ends, before the event is
// passed on to emit, which may be nil.
func active(conn *childproc.Conn, emit func(event.Event)) func(event.Event) {
	return func(e event.Event) {
		conn.Active()
		if emit != nil {
			emit(e)
		}
	}
}

// repeatedEvents tells those who want events of each request that is sent again.
func repeatedEvents(conn *childproc.Conn, start childproc.Start) func(int, time.Duration, error) {
	if !start.Events {
		return nil
	}
	return func(n int, wait time.Duration, err error) { conn.Emit(repeatedEvent(n, wait, err)) }
}

// here is the working directory whatever stands at its path by now.
const here = "/proc/self/cwd"

// widening takes all processors with the first call of a tool, before it passes
// events on to emit, which may be nil.
func widening(emit func(event.Event)) func(event.Event) {
	widen := sync.OnceFunc(runtime.SetDefaultGOMAXPROCS)
	return func(e event.Event) {
		if e.Type == event.ToolStart {
			widen()
		}
		if emit != nil {
			emit(e)
		}
	}
}

// answer writes the answer and says how the task ended.
func answer(out loop.Outcome, w io.Writer) childproc.Result {
	r := childproc.Result{
		Status: out.Status, Usage: out.Usage, Structured: out.Structured, ChangedFiles: out.ChangedFiles, Warnings: out.Warnings,
	}
	if out.Err != nil {
		r.Error = out.Err.Error()
	}
	n, err := io.WriteString(w, out.Text)
	if r.Bytes = int64(n); err != nil {
		r.Status, r.Error = task.Failed, "write the answer: "+err.Error()
	}
	return r
}

func failure(status task.Status, err error) childproc.Result {
	return childproc.Result{Status: status, Error: err.Error()}
}
