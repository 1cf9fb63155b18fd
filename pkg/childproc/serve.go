package childproc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"qq/pkg/childproc/heartbeat"
	"qq/pkg/event"
	"qq/pkg/llm"
	"qq/pkg/proc"
	"qq/pkg/supervisor"
	"qq/pkg/task"
)

// ErrRootGone says that the root process has ended or cannot be reached. It is the cause with which
// the child is then cancelled.
var ErrRootGone = errors.New("the root process is gone")

// Cancelled is the cause with which a child is cancelled when its root asks it to end.
type Cancelled struct {
	Reason string
	// Grace is how long the child has for one more turn, in which it hands back what it has; 0
	// means no more turn.
	Grace time.Duration
}

func (e *Cancelled) Error() string { return "cancelled: " + e.Reason }

// cause returns the error with which the child is cancelled.
func (c *Cancel) cause() error {
	return &Cancelled{c.Reason, time.Duration(c.GraceMS) * time.Millisecond}
}

// HandBack returns how long the last request to a model may take. It is less than Grace, so that
// time is left to hand back the answer.
func (e *Cancelled) HandBack() time.Duration { return e.Grace * 4 / 5 }

// Conn is the connection of a child to its root. Several goroutines may call its methods at once.
type Conn struct {
	up   io.Writer
	down io.Reader

	writing   sync.Mutex
	granted   atomic.Bool
	heartbeat heartbeat.Heartbeat

	mu      sync.Mutex
	asked   int64
	asks    map[int64]*pending
	permits map[*permit]struct{} // permits that were not given back yet
	gone    bool

	inbox chan string
	lost  atomic.Int64 // number of messages dropped because the inbox was full
}

func newConn(down io.Reader, up io.Writer) *Conn {
	return &Conn{
		down: down, up: up, asks: map[int64]*pending{}, permits: map[*permit]struct{}{},
		inbox: make(chan string, maxInbox),
	}
}

// Connect returns the connection to the root if the environment says that this process is a child,
// and nil otherwise. The programs that the child starts do not inherit the control pipes.
func Connect(getenv func(string) string) (*Conn, error) {
	if getenv(ControlVar) == "" {
		return nil, nil
	}
	for _, fd := range []int{downFD, upFD} {
		var st syscall.Stat_t
		if err := syscall.Fstat(fd, &st); err != nil || st.Mode&syscall.S_IFMT != syscall.S_IFIFO {
			return nil, task.Hinted("qq sets it for its children; unset it to run qq by hand",
				"%s is set, but descriptor %d is no pipe", ControlVar, fd)
		}
		syscall.CloseOnExec(fd)
		if err := syscall.SetNonblock(fd, true); err != nil {
			return nil, fmt.Errorf("open control pipe: %w", err)
		}
	}
	proc.Name(filepath.Base(os.Args[0]))
	return newConn(os.NewFile(downFD, "control-down"), os.NewFile(upFD, "control-up")), nil
}

// Runner is what the application does in a child.
type Runner interface {
	// Run runs the agent of start on job and returns how that ended. Requests of the agent to the
	// root go through p.
	Run(ctx context.Context, start *Start, job task.Job, p supervisor.Parent) task.Result
	// Abandon ends at once all that Run has started, because the root is gone. The process exits when
	// it returns.
	Abandon()
}

// orphanGrace is how long a child may take to end by itself when its root is gone. Then it ends what it has
// started, which may take no longer than orphanLimit, and exits.
const orphanGrace = 20 * time.Millisecond

// orphanLimit is a variable for tests.
var orphanLimit = 5 * time.Second

// Serve does all the work of a child: it says hello, reads the task from in, runs it, writes the
// answer to out and sends the result frame. It returns how the task ended. An error says that the
// root was not told. The caller then ends the process with the exit code of the status.
func (c *Conn) Serve(version string, in io.Reader, out io.Writer, r Runner) (task.Status, error) {
	start, listen, err := c.Handshake(version)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	go listen(func(cause error) { // ends with the process, or ends it
		cancel(cause)
		if errors.Is(cause, ErrRootGone) {
			time.AfterFunc(orphanGrace, func() { r.Abandon(); os.Exit(1) })
			time.AfterFunc(orphanGrace+orphanLimit, func() { os.Exit(1) }) // Abandon may block
		}
	})
	res := c.run(ctx, start, in, r)
	if n := len(c.inbox) + int(c.lost.Load()); n > 0 {
		res.Warnings = append(res.Warnings, fmt.Sprintf("messages to it that were not read: %d", n))
	}
	frame := Result{
		Status: res.Status, Error: res.Err(), Usage: res.Usage, Structured: res.Structured,
		ChangedFiles: res.ChangedFiles, Warnings: res.Warnings, Repeats: max(res.Attempts-1, 0), Reads: res.Reads,
		Fallback: res.Fallback, Did: res.Did, Unsaid: res.Unsaid,
	}
	n, err := io.WriteString(out, res.Output)
	if frame.Bytes = int64(n); err != nil {
		frame.Status, frame.Error = task.Failed, unkept(err).Error()
		if task.MachineFault(err) {
			frame.Status = task.Unavailable
		}
	}
	return frame.Status, c.Finish(frame)
}

// unkept returns the error of writing the answer, which goes to a file until the root prints it.
func unkept(err error) error {
	return task.Hinted("see whether the disk of QQ_HOME has room, or let QQ_HOME name a folder on another one",
		"keep the answer in a file in QQ_HOME: %w", cmp.Or(errors.Unwrap(err), err)) // the name would be /dev/stdout
}

// run reads the task from in and runs it.
func (c *Conn) run(ctx context.Context, start *Start, in io.Reader, r Runner) task.Result {
	text, err := io.ReadAll(in)
	if err != nil {
		return task.Task{}.Fail(fmt.Errorf("read the task: %w", err))
	}
	job := task.Job{
		ExecutionID: start.ExecutionID, Parent: start.Parent, BatchID: start.BatchID, Depth: start.Depth, Attempt: 1,
	}
	job.Task = task.Task{
		Agent: start.Agent.Name, ReadOnly: start.ReadOnly, Schema: start.Schema, Targets: start.Targets,
		RequireFileReferences: start.References, Denied: start.Denied, Dir: start.Dir, Images: start.Images,
		Check: start.Check, CheckAsked: start.CheckAsked, RequireChange: start.RequireChange,
	}
	job.Text, job.Context = llm.SplitContext(string(text))
	return r.Run(ctx, start, job, c)
}

// Handshake sends the hello frame and returns the start frame of the root, with a function that
// reads all further frames. That function runs until the root is gone. It calls its argument with
// the cause when the child must end. [Conn.Serve] calls Handshake itself.
func (c *Conn) Handshake(version string) (*Start, func(context.CancelCauseFunc), error) {
	if err := c.send(Frame{Type: TypeHello, Hello: &Hello{Version, version}}); err != nil {
		return nil, nil, fmt.Errorf("say hello to the root: %w", err)
	}
	r := newReader(c.down, MaxDown)
	var early *Cancel
	for {
		f, err := r.next()
		switch {
		case err != nil:
			return nil, nil, fmt.Errorf("read the start frame: %w", err)
		case f.Type != TypeStart:
			early = cmp.Or(early, f.Cancel) // nil for a frame of a newer protocol
			continue
		case f.Start.Protocol != Version:
			const other = "the root speaks version %d of the protocol, this qq %d"
			return nil, nil, fmt.Errorf(other, f.Start.Protocol, Version)
		}
		c.granted.Store(f.Start.Permit)
		c.heartbeat.Begin(f.Start.IdleMS)
		return f.Start, func(cancel context.CancelCauseFunc) {
			if early != nil {
				cancel(early.cause())
			}
			c.listen(r, cancel)
		}, nil
	}
}

// listen reads frames of the root until the root is gone. It calls cancel when the root asks the
// child to end, and when the root is gone.
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
		case TypeMessage:
			c.deliver(f.Message.Text)
		case TypeCancel:
			cancel(f.Cancel.cause())
		}
	}
}

// Emit reports an event to the root. If the root is gone, the event is lost.
func (c *Conn) Emit(e event.Event) { _ = c.send(Frame{Type: TypeEvent, Event: &e}) }

// Changed reports changed files to the root. If the root is gone, the report is lost.
func (c *Conn) Changed(paths []string) {
	_ = c.send(Frame{Type: TypeChanged, Changed: &Changed{paths}})
}

// Effects reports that the child is about to have its first side effect. When it returns nil, the
// root has recorded that, and the record outlives both processes. On error the child must not act.
func (c *Conn) Effects() error {
	_, _, err := c.ask(context.Background(), Ask{Effects: true}) // it ends with the root
	return err
}

// Finish sends the result frame. Nothing may be sent after it. If the reads of r are too many or
// not valid, they are left out. If the frame is still too long, a failure is reported instead.
func (c *Conn) Finish(r Result) error {
	if !r.Reads.sound() {
		r.Reads = nil
	}
	err := c.send(Frame{Type: TypeResult, Result: &r})
	if errors.Is(err, ErrFrameTooLong) && len(r.Reads) > 0 {
		r.Reads = nil
		err = c.send(Frame{Type: TypeResult, Result: &r})
	}
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
