package childproc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"qq/pkg/event"
	"qq/pkg/llm"
	"qq/pkg/proc"
	"qq/pkg/supervisor"
	"qq/pkg/task"
)

// Config is what a Launcher needs. Program and MaxOutput have no default.
type Config struct {
	// Host starts the children; closing the Launcher closes it. A process has one, so
	// what else it starts goes through the same. Nil makes one.
	Host *proc.Host
	// Path is the program of a child; empty means this program.
	Path string
	// Env is the whole environment of a child, but for the variables of this package.
	Env     []string
	Version string // of this program, for messages
	Program Program
	// Keep is the folder where the full text of a truncated output stays.
	Keep string
	// MaxOutput is how many characters of an output are handed on.
	MaxOutput int
	// Grace is what a child gets at each step of the stop ladder; 0 means a second.
	Grace time.Duration
	// HandBack is what a child gets in place of the first Grace when a clock has run
	// out ([task.ClockError]): one more turn, to hand back what it has.
	HandBack time.Duration
}

// Program is what a Launcher asks of the program that it belongs to.
type Program interface {
	// Args is the command line of a child that runs the agent of that name. The task is
	// never in it.
	Args(agent string) []string
	// Scratch returns a private folder for the output of running children.
	Scratch() (string, error)
	// Prepare returns what the child for job has to know about its agent. What job says
	// itself is added to it: its ids, its depth, and the restrictions of its task.
	Prepare(ctx context.Context, job task.Job) (Start, error)
	// Tidy removes what Prepare made for a job that has ended.
	Tidy(job task.Job)
}

// Launcher runs each task in a child process of its own.
type Launcher struct{ cfg Config }

// NewLauncher returns a Launcher. A process has one.
func NewLauncher(cfg Config) *Launcher {
	if cfg.Host == nil {
		cfg.Host = proc.NewHost()
	}
	if cfg.Path == "" {
		cfg.Path, _ = os.Executable() // without a path, no child can be started
	}
	cfg.Grace = cmp.Or(cfg.Grace, time.Second)
	return &Launcher{cfg}
}

// Close kills every child at once. No more can be started.
func (l *Launcher) Close() { l.cfg.Host.Close() }

// Launch runs job in a child process and returns when the child and everything
// that it started is gone.
func (l *Launcher) Launch(ctx context.Context, job task.Job, p supervisor.Parent) task.Result {
	c, err := l.spawn(job)
	if err != nil {
		return job.Fail(err)
	}
	return c.lead(ctx, job, p)
}

// Stage starts the process for job before that may run. It returns nil when that
// fails: Launch will say why.
func (l *Launcher) Stage(job task.Job) supervisor.Staged {
	c, err := l.spawn(job)
	if err != nil {
		return nil
	}
	return c
}

// Launch implements supervisor.Staged.
func (c *child) Launch(ctx context.Context, job task.Job, p supervisor.Parent) task.Result {
	select {
	case <-c.proc.Done(): // it died while it waited, and has done nothing yet
		c.close()
		return c.launcher.Launch(ctx, job, p)
	default:
		return c.lead(ctx, job, p)
	}
}

// Discard implements supervisor.Staged.
func (c *child) Discard() {
	c.proc.Kill()
	c.proc.Wait()
	c.close()
}

// lead sends the child the start frame of job and follows it to its end.
func (c *child) lead(ctx context.Context, job task.Job, p supervisor.Parent) task.Result {
	defer c.close()
	defer c.launcher.cfg.Program.Tidy(job)
	c.job, c.parent = job, p
	start, err := c.launcher.cfg.Program.Prepare(ctx, job)
	if err != nil {
		c.proc.Kill()
		c.proc.Wait()
		r := job.Fail(err)
		if r.Status == task.Failed { // a mistake in the configuration
			r.End(task.Misused, err.Error())
		}
		return r
	}
	c.model = start.Model
	start.add(job)
	if f, ok := p.(firstPermit); ok {
		if first := f.First(); first != nil {
			start.Permit, c.permits.held[0] = true, &held{permit: first, cancel: func() {}}
		}
	}
	c.attend(ctx, &start)
	return c.result()
}

// firstPermit is a parent that may have a permit for the first request of its child,
// so that the child need not ask.
type firstPermit interface{ First() llm.Permit }

// child is one running child, seen from its parent.
type child struct {
	launcher *Launcher
	job      task.Job
	parent   supervisor.Parent
	model    string // that answers
	proc     *proc.Process
	files
	heard

	permits permits
	asking  atomic.Int64   // questions that are not answered yet
	writing sync.Mutex     // of frames into down
	sending sync.WaitGroup // goroutines that send start or cancel, or answer an Ask
}

// files are the root's ends of what a child reads and writes.
type files struct {
	down, up *os.File // control pipe
	outPath  string   // of the file that gets the answer
	out, err *os.File
}

// heard is what a child has reported. It is written by listen, and read after listen has
// returned.
type heard struct {
	hello    *Hello
	last     *Result
	changed  map[string]struct{} // files
	unlisted int                 // files that were too many to list
	late     bool                // it had to be ended by signals
	effects  bool                // it had side effects
	wrong    error               // what was wrong with its frames
}

// spawn starts the process with its files. It waits for its start frame.
func (l *Launcher) spawn(job task.Job) (_ *child, err error) {
	dir, err := l.cfg.Program.Scratch()
	if err != nil {
		return nil, err
	}
	c := &child{launcher: l, job: job, permits: permits{held: map[int64]*held{}}}
	c.changed, c.outPath = map[string]struct{}{}, filepath.Join(dir, job.ExecutionID+".out")
	var passed []*os.File // what the child gets; our copies are closed
	defer func() {
		for _, f := range passed {
			f.Close()
		}
		if err != nil {
			c.close()
		}
	}()
	in, err := taskFile(dir, llm.WithContext(job.Text, job.Context))
	if err != nil {
		return nil, fmt.Errorf("hand the task over: %w", err)
	}
	passed = append(passed, in)
	c.out, err = os.OpenFile(c.outPath, os.O_RDWR|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create the output file of a child: %w", err)
	}
	if c.err, err = unnamedFile(dir); err != nil {
		return nil, fmt.Errorf("create the diagnostics file of a child: %w", err)
	}
	downR, downW, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a control pipe: %w", err)
	}
	passed, c.down = append(passed, downR), downW
	upR, upW, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a control pipe: %w", err)
	}
	passed, c.up = append(passed, upW), upR

	c.proc, err = l.cfg.Host.Start(proc.Command{
		Path: l.cfg.Path, Args: l.cfg.Program.Args(job.Agent), Dir: job.WorkingDir,
		Env:   append(l.cfg.Env[:len(l.cfg.Env):len(l.cfg.Env)], ControlVar+"=1", DepthVar+"="+strconv.Itoa(job.Depth)),
		Stdin: in, Stdout: c.out, Stderr: c.err, Extra: []*os.File{downR, upW},
		Grace: l.cfg.Grace, Namespace: true, Marker: markerVar(job.Depth) + "=" + job.ExecutionID,
	})
	if err != nil {
		return nil, fmt.Errorf("start child: %w", err)
	}
	return c, nil
}

// markerVar is the environment variable with the execution id of a child. Each depth
// has its own: a child of a qq that was started by hand inside a child carries both.
func markerVar(depth int) string { return "QQ_EXECUTION_ID_" + strconv.Itoa(depth) }

// attend sends start, listens to the child until it is gone, and ends it when ctx is
// done.
func (c *child) attend(ctx context.Context, start *Start) {
	asking, stopAsking := context.WithCancelCause(ctx)
	var listening sync.WaitGroup
	listening.Go(func() { c.listen(asking) })
	c.sending.Go(func() {
		// The frame may be larger than the pipe, and the child slow to start.
		c.send(Frame{Type: TypeStart, Start: start}, time.Minute)
		c.relay(asking) // a child drops messages that come before its start
	})
	select {
	case <-c.proc.Done():
	case <-ctx.Done():
		c.stop(ctx)
	}
	// No process is left that could write into the pipe, so listening ends. The deadline
	// is for one that got away.
	_ = c.up.SetReadDeadline(time.Now().Add(c.launcher.cfg.Grace))
	listening.Wait()
	c.permits.shut()
	c.permits.reclaim()
	stopAsking(task.ErrAbandoned)
	c.sending.Wait()
}

// stop is the ladder: a cancel frame, then signals. It does not wait until the frame is
// written: the child may not read the answer before it.
func (c *child) stop(ctx context.Context) {
	cause, patience := context.Cause(ctx), c.launcher.cfg.Grace
	order := Cancel{Reason: cause.Error()}
	if _, clock := errors.AsType[*task.ClockError](cause); clock && c.launcher.cfg.HandBack > 0 {
		patience, order.GraceMS = c.launcher.cfg.HandBack, c.launcher.cfg.HandBack.Milliseconds()
	} else {
		c.permits.shut()
	}
	c.sending.Go(func() { c.send(Frame{Type: TypeCancel, Cancel: &order}, c.launcher.cfg.Grace) })
	select {
	case <-c.proc.Done():
		return
	case <-time.After(patience):
	}
	c.permits.shut()
	c.late = true
	c.proc.Stop()
	<-c.proc.Done()
}

// listen handles the frames of the child until its pipe ends.
func (c *child) listen(ctx context.Context) {
	r := newReader(c.up, MaxUp)
	var err error
	for err == nil {
		var f Frame
		if f, err = r.next(); err == nil {
			err = c.handle(ctx, f)
		}
	}
	if errors.Is(err, ErrFrameBroken) || errors.Is(err, ErrFrameTooLong) {
		c.wrong = err
		c.proc.Stop()
	}
}

// handle acts on one frame. An error says that the child broke the contract.
func (c *child) handle(ctx context.Context, f Frame) error {
	if c.hello == nil && f.Type != TypeHello {
		return fmt.Errorf("%w: %q before hello", ErrFrameBroken, f.Type)
	}
	c.parent.Active()
	switch f.Type {
	case TypeHello:
		if f.Hello.Protocol != Version {
			return fmt.Errorf("%w: it speaks version %d of the protocol (qq %s), this is %d (qq %s)",
				ErrFrameBroken, f.Hello.Protocol, f.Hello.Version, Version, c.launcher.cfg.Version)
		}
		c.hello = f.Hello
	case TypeEvent: // the start and the end of a child are announced here
		its := []event.Type{event.ToolStart, event.ToolEnd, event.Token, event.SubAgentProgress}
		if slices.Contains(its, f.Event.Type) {
			f.Event.Result = nil
			c.parent.Emit(*f.Event)
		}
	case TypeAsk:
		return c.take(ctx, *f.Ask)
	case TypeChanged:
		c.note(f.Changed.Paths)
	case TypeActive:
		c.permits.active(f.Active.Permits)
	case TypeLeave:
		c.permits.leave(f.Leave.ID, plausible(f.Leave.Report))
	case TypeResult:
		c.last = f.Result
	}
	return nil
}

// send writes one frame down. A child that does not take it within the time has
// broken the contract or is gone; how it ends says which.
func (c *child) send(f Frame, within time.Duration) {
	line, err := encode(f)
	if err != nil {
		return
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	_ = c.down.SetWriteDeadline(time.Now().Add(within))
	_, _ = c.down.Write(line)
}

// close gives back what the child used.
func (c *child) close() {
	for _, f := range []*os.File{c.down, c.up, c.out, c.err} {
		f.Close() // nil is no harm
	}
	if c.out != nil {
		_ = os.Remove(c.outPath) // gone already when it was kept
	}
}
