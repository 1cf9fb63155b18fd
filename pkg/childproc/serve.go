package childproc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"qq/pkg/event"
	"qq/pkg/task"
)

// ErrRootGone ends a child whose root has died.
var ErrRootGone = errors.New("the root process is gone")

// ErrCancelFrame ends a child that its root told to end.
var ErrCancelFrame = errors.New("cancelled")

// Conn is the child's end of the wire. Its methods may be called by several
// goroutines at once.
type Conn struct {
	up   *os.File
	down *os.File

	writing sync.Mutex

	mu    sync.Mutex
	asked int64
	asks  map[int64]*pending
	gone  bool
}

// pending collects the results of one Ask.
type pending struct {
	results []task.Result
	done    chan struct{}
}

// Connect opens the control pipes when the environment says that this process
// is a child, and returns nil when it is not. The descriptors are not inherited
// by what the child starts.
func Connect(getenv func(string) string) (*Conn, error) {
	if getenv(ControlVar) == "" {
		return nil, nil
	}
	for _, fd := range []int{downFD, upFD} {
		var st syscall.Stat_t
		if err := syscall.Fstat(fd, &st); err != nil || st.Mode&syscall.S_IFMT != syscall.S_IFIFO {
			return nil, fmt.Errorf("%s is set, but descriptor %d is no pipe\nhint: qq sets it for its children; unset it to run qq by hand", ControlVar, fd)
		}
		syscall.CloseOnExec(fd)
		if err := syscall.SetNonblock(fd, true); err != nil {
			return nil, fmt.Errorf("open control pipe: %w", err)
		}
	}
	nameProcess("qq")
	return &Conn{
		down: os.NewFile(downFD, "control-down"), up: os.NewFile(upFD, "control-up"),
		asks: map[int64]*pending{},
	}, nil
}

// Handshake says hello and returns what the root wants.
func (c *Conn) Handshake(version string) (*Start, func(context.CancelCauseFunc), error) {
	if err := c.send(Frame{Type: TypeHello, Hello: &Hello{Version, version}}); err != nil {
		return nil, nil, fmt.Errorf("say hello to the root: %w", err)
	}
	r := newReader(c.down, MaxDown)
	for {
		f, err := r.next()
		switch {
		case err != nil:
			return nil, nil, fmt.Errorf("read the start frame: %w", err)
		case f.Type != TypeStart:
			continue // of a newer protocol, or a cancel that came first: then the pipe ends
		case f.Start.Protocol != Version:
			return nil, nil, fmt.Errorf("the root speaks version %d of the protocol, this qq %d", f.Start.Protocol, Version)
		}
		return f.Start, func(cancel context.CancelCauseFunc) { c.listen(r, cancel) }, nil
	}
}

// listen reads what the root says until it is gone. It calls cancel when the
// root wants the child to end, and when there is no root any more.
func (c *Conn) listen(r *reader, cancel context.CancelCauseFunc) {
	for {
		f, err := r.next()
		if err != nil {
			c.lose()
			cancel(ErrRootGone)
			return
		}
		switch f.Type {
		case TypeAnswer:
			c.file(*f.Answer)
		case TypeCancel:
			cancel(fmt.Errorf("%w: %s", ErrCancelFrame, f.Cancel.Reason))
		}
	}
}

// file gives an answer to who waits for it.
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
		delete(c.asks, a.ID)
		close(p.done)
	}
}

// lose ends all waiting.
func (c *Conn) lose() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
	for id, p := range c.asks {
		delete(c.asks, id)
		close(p.done)
	}
}

// Delegate asks the root to run tasks as children of this child and returns
// their results in input order.
func (c *Conn) Delegate(ctx context.Context, tasks []task.Task) []task.Result {
	if len(tasks) > MaxAsk {
		return complete(nil, tasks, task.Misused, fmt.Sprintf("not started: %d tasks at once, at most %d", len(tasks), MaxAsk))
	}
	p := &pending{done: make(chan struct{})}
	c.mu.Lock()
	c.asked++
	id := c.asked
	gone := c.gone
	c.asks[id] = p
	c.mu.Unlock()
	status, why := task.Interrupted, "interrupted: "+ErrRootGone.Error()
	if !gone {
		switch err := c.send(Frame{Type: TypeAsk, Ask: &Ask{ID: id, Delegate: tasks}}); {
		case errors.Is(err, ErrFrameTooLong):
			status, why = task.Misused, "not started: "+err.Error()+": hand over files, or fewer tasks at once"
		case err == nil:
			select {
			case <-p.done:
			case <-ctx.Done():
				why = "interrupted: " + context.Cause(ctx).Error()
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.asks, id)
	return complete(p.results, tasks, status, why)
}

// complete makes sure that each task has a result: its own, or one that says why
// there is none.
func complete(results []task.Result, tasks []task.Task, status task.Status, why string) []task.Result {
	results = results[:min(len(results), len(tasks)):min(len(results), len(tasks))]
	for i := len(results); i < len(tasks); i++ {
		r := tasks[i].Normalized().Ended(status, why)
		r.Index = i
		results = append(results, r)
	}
	return results
}

// Emit reports an event. It is lost when the root is gone.
func (c *Conn) Emit(e event.Event) { _ = c.send(Frame{Type: TypeEvent, Event: &e}) }

// Finish reports how the task ended. Nothing may be sent after it. A result that
// is too long for its frame is reported as a failure.
func (c *Conn) Finish(r Result) error {
	err := c.send(Frame{Type: TypeResult, Result: &r})
	if errors.Is(err, ErrFrameTooLong) {
		r = Result{Status: task.Failed, Error: "report the result: " + err.Error(), Usage: r.Usage, Bytes: r.Bytes}
		err = c.send(Frame{Type: TypeResult, Result: &r})
	}
	return err
}

func (c *Conn) send(f Frame) error {
	line, err := encode(f)
	if err != nil {
		return err
	}
	if len(line) > MaxUp {
		return fmt.Errorf("%w: %s frame of %d bytes, at most %d", ErrFrameTooLong, f.Type, len(line), MaxUp)
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	_, err = c.up.Write(line)
	return err
}
