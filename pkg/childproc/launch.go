package childproc

import (
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
	"qq/pkg/task"
	"qq/pkg/tool"
)

// Config is what a Launcher needs.
type Config struct {
	// Host starts the children; closing the Launcher closes it.
	Host *proc.Host
	// Path and Args are the command line of a child; Args gets the name of the
	// agent. The task is never in it.
	Path string
	Args func(agent string) []string
	Env  []string
	// Version is the version of this program, for messages.
	Version string
	// Scratch returns a private folder for the output of running children.
	Scratch func() (string, error)
	// Keep is the folder where the full text of a truncated output stays.
	Keep string
	// MaxOutput is how many characters of an output are handed on.
	MaxOutput int
	// Grace is what a child gets at each step of the stop ladder.
	Grace time.Duration
	// HandBack is what a child gets in place of the first Grace when a clock has
	// run out ([task.ClockError]): one more turn, to hand back what it has.
	HandBack time.Duration
	// Prepare fills the start frame of a job, as long as its ctx allows.
	Prepare func(context.Context, task.Job) (Start, error)
	// Approve decides about a call that job wants to make; nil refuses all.
	Approve func(ctx context.Context, job task.Job, in tool.Intent) tool.Decision
	// Effects is told before job begins to do what reading does not undo: it does not
	// when that returns an error. nil is not
	// told.
	Effects func(job task.Job) error
	// Event takes the events of children; nil drops them.
	Event func(event.Event)
	// Admit waits until job may send the request that it asks for, as [llm.Admission];
	// nil lets all pass.
	Admit func(ctx context.Context, job task.Job, ask Enter) (llm.Permit, error)
	// First returns a permit for the first request of job, if there is one without
	// waiting: it spares the child a question. It may be nil.
	First func(job task.Job, start Start) llm.Permit
}

// Launcher runs each task in a child process of its own.
type Launcher struct{ cfg Config }

// NewLauncher returns a Launcher. A process has one.
func NewLauncher(cfg Config) *Launcher { return &Launcher{cfg} }

// Close kills every child at once. No more can be started.
func (l *Launcher) Close() { l.cfg.Host.Close() }

// Launch runs job in a child process and returns when the child and everything
// that it started is gone.
func (l *Launcher) Launch(ctx context.Context, job task.Job) task.Result {
	c, err := l.spawn(job)
	if err != nil {
		return job.Ended(task.Failed, err.Error())
	}
	return l.lead(ctx, c, job)
}

// Staged is a child that was started ahead of time and waits for its start
// frame.
type Staged struct {
	launcher *Launcher
	child    *child
}

// Stage starts the process for job, which may not work yet. It returns nil when
// that fails: Launch will say why.
func (l *Launcher) Stage(job task.Job) *Staged {
	c, err := l.spawn(job)
	if err != nil {
		return nil
	}
	return &Staged{l, c}
}

// Launch is as that of Launcher.
func (s *Staged) Launch(ctx context.Context, job task.Job) task.Result {
	select {
	case <-s.child.proc.Done(): // it died while it waited, and has done nothing yet
		s.child.close()
		return s.launcher.Launch(ctx, job)
	default:
		return s.launcher.lead(ctx, s.child, job)
	}
}

// Discard ends a child that is not needed.
func (s *Staged) Discard() {
	s.child.proc.Kill()
	s.child.proc.Wait()
	s.child.close()
}

// lead tells a child to work on job and follows it to its end.
func (l *Launcher) lead(ctx context.Context, c *child, job task.Job) task.Result {
	defer c.close()
	c.job = job
	start, err := l.cfg.Prepare(ctx, job)
	if err != nil {
		c.proc.Kill()
		c.proc.Wait()
		status := task.Misused
		if e, ok := errors.AsType[*llm.Error](err); ok {
			status = e.TaskStatus()
		}
		return job.Ended(status, err.Error())
	}
	start.Protocol, start.ExecutionID, start.Parent, start.BatchID = Version, job.ExecutionID, job.Parent, job.BatchID
	start.Depth = job.Depth
	if start.Permit = false; l.cfg.First != nil {
		start.Permit = c.permits.first(l.cfg.First(job, start))
	}
	// It may be larger than the pipe, and the child slow to start.
	started := make(chan struct{})
	c.sending.Go(func() {
		defer close(started)
		c.send(Frame{Type: TypeStart, Start: &start}, time.Minute)
	})
	c.attend(ctx, started)
	return c.result()
}

// child is one running child, seen from its parent.
type child struct {
	cfg      *Config
	job      task.Job
	proc     *proc.Process
	down, up *os.File
	outPath  string
	out, err *os.File

	permits permits
	asking  atomic.Int64   // questions that are not answered yet
	writing sync.Mutex     // of frames into down
	sending sync.WaitGroup // who says start or cancel, or answers an Ask

	// Written by listen, read after it has returned.
	hello    *Hello
	last     *Result
	changed  map[string]struct{} // files
	unlisted int                 // files that were too many to list
	late     bool                // it had to be ended by signals
	effects  bool                // it began what reading does not undo
	wrong    error               // what was wrong with its frames
}

// spawn starts the process with its files. It waits for its start frame.
func (l *Launcher) spawn(job task.Job) (_ *child, err error) {
	dir, err := l.cfg.Scratch()
	if err != nil {
		return nil, err
	}
	c := &child{cfg: &l.cfg, job: job, permits: permits{held: map[int64]*held{}}, changed: map[string]struct{}{},
		outPath: filepath.Join(dir, job.ExecutionID+".out")}
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
	if c.out, err = create(c.outPath); err != nil {
		return nil, fmt.Errorf("create the output file of a child: %w", err)
	}
	if c.err, err = createUnnamed(dir); err != nil {
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
		Path: l.cfg.Path, Args: l.cfg.Args(job.Agent), Dir: job.WorkingDir,
		Env:   append(l.cfg.Env[:len(l.cfg.Env):len(l.cfg.Env)], ControlVar+"=1", DepthVar+"="+strconv.Itoa(job.Depth)),
		Stdin: in, Stdout: c.out, Stderr: c.err, Extra: []*os.File{downR, upW},
		Grace: l.cfg.Grace, Namespace: true, Marker: markerVar(job.Depth) + "=" + job.ExecutionID,
	})
	if err != nil {
		return nil, fmt.Errorf("start child: %w", err)
	}
	return c, nil
}

// markerVar is where a child carries its execution id. There is one for each
// depth: what a qq that was started by hand inside a child starts carries both.
func markerVar(depth int) string { return "QQ_EXECUTION_ID_" + strconv.Itoa(depth) }

// attend listens to the child until it is gone, and ends it when ctx is done.
func (c *child) attend(ctx context.Context, started <-chan struct{}) {
	asking, stopAsking := context.WithCancelCause(ctx)
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		c.listen(asking)
	}()
	c.sending.Go(func() {
		<-started // a child drops what comes before
		c.relay(asking)
	})
	select {
	case <-c.proc.Done():
	case <-ctx.Done():
		c.stop(ctx)
	}
	// Nobody is left who could write into the pipe, so this ends; the deadline
	// is for the one that got away.
	_ = c.up.SetReadDeadline(time.Now().Add(c.cfg.Grace))
	<-heard
	c.permits.end()
	stopAsking(task.ErrAbandoned)
	c.sending.Wait()
}

// stop is the ladder: a cancel frame, then signals. It does not wait for the
// frame to be taken: there may be an answer in the way that the child does not
// read.
func (c *child) stop(ctx context.Context) {
	cause, patience := context.Cause(ctx), c.cfg.Grace
	order := Cancel{Reason: cause.Error()}
	if _, clock := errors.AsType[*task.ClockError](cause); clock && c.cfg.HandBack > 0 {
		patience, order.GraceMS = c.cfg.HandBack, c.cfg.HandBack.Milliseconds()
	} else {
		c.permits.shut()
	}
	c.sending.Go(func() { c.send(Frame{Type: TypeCancel, Cancel: &order}, c.cfg.Grace) })
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
	for {
		f, err := r.next()
		if err == nil {
			err = c.handle(ctx, f)
		}
		if err == nil {
			continue
		}
		if errors.Is(err, ErrFrameBroken) || errors.Is(err, ErrFrameTooLong) {
			c.wrong = err
			c.proc.Stop()
		}
		return
	}
}

// handle acts on one frame. An error says that the child broke the contract.
func (c *child) handle(ctx context.Context, f Frame) error {
	if c.hello == nil && f.Type != TypeHello {
		return fmt.Errorf("%w: %q before hello", ErrFrameBroken, f.Type)
	}
	if c.job.Active != nil {
		c.job.Active()
	}
	switch f.Type {
	case TypeHello:
		if f.Hello.Protocol != Version {
			return fmt.Errorf("%w: it speaks version %d of the protocol (qq %s), this is %d (qq %s)",
				ErrFrameBroken, f.Hello.Protocol, f.Hello.Version, Version, c.cfg.Version)
		}
		c.hello = f.Hello
	case TypeEvent:
		c.event(*f.Event)
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

// event passes an event on, with the ids that we know, whatever it says.
func (c *child) event(e event.Event) {
	// The start and the end of a child are facts of ours.
	its := []event.Type{event.ToolStart, event.ToolEnd, event.Token, event.SubAgentProgress}
	if c.cfg.Event == nil || !slices.Contains(its, e.Type) {
		return
	}
	e.ExecutionID, e.ParentExecutionID, e.BatchID = c.job.ExecutionID, c.job.Parent, c.job.BatchID
	e.Agent, e.Depth, e.Result = c.job.Agent, c.job.Depth, nil
	c.cfg.Event(e)
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
