package childproc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"qq/pkg/childproc/plausible"
	"qq/pkg/childproc/room"
	"qq/pkg/childproc/stdio"
	"qq/pkg/event"
	"qq/pkg/llm"
	"qq/pkg/proc"
	"qq/pkg/supervisor"
	"qq/pkg/task"
)

// Config configures a Launcher. Program and MaxOutput have no default.
type Config struct {
	// Host starts the children. Closing the Launcher closes the Host too. A process should have
	// only one Host, so the caller passes the one that it uses for other programs; nil makes a new
	// one.
	Host *proc.Host
	// Path is the executable of a child; empty means that of this process.
	Path string
	// Dir is the working directory of the tree, absolute. The working directory of a job starts there.
	// Empty means that of this process at the time of a start.
	Dir string
	// Env is the whole environment of a child, apart from the variables that this package adds.
	Env     []string
	Version string // of this program, for messages
	Program Program
	// Keep is the folder in which the full text of a truncated output is stored.
	Keep string
	// MaxOutput is how many characters of the output of a child are put into its result. The rest
	// is left out.
	MaxOutput int
	// Grace is how long a child may take to end after a cancel frame, and again after SIGTERM; 0
	// means a second.
	Grace time.Duration
	// HandBack replaces the first Grace when a clock of the job has run out ([task.ClockError]):
	// the child gets this time for one more turn, in which it hands back what it has. 0 means no
	// such turn.
	HandBack time.Duration
}

// Program is what a Launcher needs from the application: how its children are started and set up.
type Program interface {
	// Args returns the command line of a child that runs the agent of that name. It never contains
	// the task.
	Args(agent string) []string
	// Scratch returns a private folder for the output files of running children.
	Scratch() (string, error)
	// Prepare returns the start frame for job, with all that the child must know about its agent.
	// The Launcher adds what job itself says: its ids, its depth and the restrictions of its task.
	Prepare(ctx context.Context, job task.Job) (Start, error)
	// Tidy removes whatever Prepare made for job. It is called when job has ended, even if Prepare
	// failed.
	Tidy(job task.Job)
}

// Commander is a [Program] that starts the commands of its children in the root. Commands returns the child's end of
// a connection for that, or nil. The child inherits it as descriptor [CommandsFD], and the Launcher closes it.
type Commander interface {
	Commands(job task.Job) (*os.File, error)
}

// Placer is a [Program] that says where its children work. Place changes the command that starts the
// child of job. After an error the child is not started.
type Placer interface {
	Place(job task.Job, c *proc.Command) error
}

// Launcher runs each task in a child process of its own.
type Launcher struct {
	cfg Config

	starting sync.Mutex   // held while the files of one child are opened
	children atomic.Int64 // that have files open
	waiting  map[*staged]struct{}
}

// NewLauncher returns a Launcher. A process should have only one.
func NewLauncher(cfg Config) *Launcher {
	if cfg.Host == nil {
		cfg.Host = proc.NewHost()
	}
	if cfg.Path == "" {
		cfg.Path, _ = os.Executable() // without a path, no child can be started
	}
	cfg.Grace = cmp.Or(cfg.Grace, time.Second)
	return &Launcher{cfg: cfg, waiting: map[*staged]struct{}{}}
}

// Close kills every child at once. No further child can be started.
func (l *Launcher) Close() { l.cfg.Host.Close() }

// Launch implements supervisor.Launcher: it runs job in a child process. It returns when the child
// and every process that the child started have ended.
func (l *Launcher) Launch(ctx context.Context, job task.Job, p supervisor.Parent) task.Result {
	c, err := l.spawn(job)
	if err != nil {
		l.relieve()
		return hinderedBy(job, err)
	}
	return c.lead(ctx, job, p)
}

// hinderedBy returns the result of a job of which nothing was done because of err.
func hinderedBy(job task.Job, err error) task.Result {
	r := job.Fail(err)
	r.Hindered = task.MachineFault(err)
	return r
}

// lead runs job in a process that has been started: it sends the start frame, serves the child
// until it ends, and returns the result.
func (c *child) lead(ctx context.Context, job task.Job, p supervisor.Parent) task.Result {
	defer c.close()
	defer c.launcher.cfg.Program.Tidy(job)
	c.job, c.parent = job, p
	start, err := c.launcher.cfg.Program.Prepare(ctx, job)
	if err != nil {
		c.proc.Kill()
		c.proc.Wait()
		return hinderedBy(job, err)
	}
	c.models = start.Models
	start.add(job)
	if f, ok := p.(firstPermit); ok {
		if first := f.First(); first != nil {
			start.Permit, c.permits.held[0] = true, &held{permit: first, cancel: func() {}}
		}
	}
	c.attend(ctx, &start)
	return c.result()
}

// firstPermit is a parent that can grant a permit for the first request of its child before the
// child asks. First returns nil if no permit is free.
type firstPermit interface{ First() llm.Permit }

// child is one running child, seen from its parent.
type child struct {
	launcher *Launcher
	job      task.Job
	parent   supervisor.Parent
	models   []string
	proc     *proc.Process
	files
	heard

	permits permits
	asking  atomic.Int64   // requests of the child that are not answered yet
	writing sync.Mutex     // held while a frame is written to down
	sending sync.WaitGroup // goroutines that send start or cancel, or answer an Ask
}

// files are the files of the root that are connected to one child.
type files struct {
	down, up *os.File // the root's ends of the control pipes
	outPath  string   // path of out
	out, err *os.File
}

// heard is what a child has reported. The goroutine of listen writes it; others read it after
// listen has returned.
type heard struct {
	hello    *Hello
	last     *Result
	changed  map[string]struct{} // files that the child has changed
	unlisted int                 // number of changed files that are not listed
	late     bool                // the child had to be ended by a signal
	effects  bool                // the child had side effects
	wrong    error               // how the child broke the protocol, or nil
}

// spawn starts the process of a child with its files. The process then waits for the start frame.
func (l *Launcher) spawn(job task.Job) (_ *child, err error) {
	dir, err := l.cfg.Program.Scratch()
	if err != nil {
		return nil, err
	}
	l.starting.Lock()
	defer l.starting.Unlock()
	if err := room.ForChild(l.cfg.Dir, l.children.Load()); err != nil {
		return nil, err
	}
	l.children.Add(1)
	c := &child{launcher: l, job: job, permits: permits{held: map[int64]*held{}}}
	c.changed, c.outPath = map[string]struct{}{}, filepath.Join(dir, job.ExecutionID+".out")
	var passed []*os.File // files for the child; this process closes its copies
	defer func() {
		for _, f := range passed {
			f.Close()
		}
		if err != nil {
			l.cfg.Program.Tidy(job)
			c.close()
		}
	}()
	in, err := stdio.Holding(dir, llm.WithContext(job.Text, job.Context))
	if err != nil {
		return nil, task.Machine("", "hand the task over: %w", err)
	}
	passed = append(passed, in)
	const flags = os.O_RDWR | os.O_CREATE | os.O_EXCL | os.O_APPEND
	c.out, err = os.OpenFile(c.outPath, flags, 0o600)
	if errors.Is(err, os.ErrExist) { // of an attempt that ended while the folder was away
		_ = os.Remove(c.outPath)
		c.out, err = os.OpenFile(c.outPath, flags, 0o600)
	}
	if err != nil {
		return nil, task.Machine("", "create the output file of a child: %w", err)
	}
	if c.err, err = stdio.Unnamed(dir); err != nil {
		return nil, task.Machine("", "create the diagnostics file of a child: %w", err)
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
	extra := []*os.File{downR, upW}
	if p, ok := l.cfg.Program.(Commander); ok {
		f, err := p.Commands(job)
		if err != nil {
			return nil, err
		}
		passed, extra = append(passed, f), append(extra, f)
	}
	cmd := proc.Command{
		Path: l.cfg.Path, Args: l.cfg.Program.Args(job.Agent), Dir: l.dir(job),
		Env:   append(l.cfg.Env[:len(l.cfg.Env):len(l.cfg.Env)], ControlVar+"=1", DepthVar+"="+strconv.Itoa(job.Depth)),
		Stdin: in, Stdout: c.out, Stderr: c.err, Extra: extra,
		Grace: l.cfg.Grace, Namespace: true, Expendable: expendable,
		Marker: markerVar(job.Depth) + "=" + job.ExecutionID,
	}
	if p, ok := l.cfg.Program.(Placer); ok {
		if err := p.Place(job, &cmd); err != nil {
			return nil, err
		}
	}
	if c.proc, err = l.cfg.Host.Start(cmd); err != nil {
		return nil, room.Refused(l.cfg.Path, cmd.Dir == l.cfg.Dir, err)
	}
	return c, nil
}

// expendable is by how many thousandths of the memory a child counts as larger than its root when memory is short:
// the kernel then kills a child and not the root, which has the answers of all.
const expendable = 300

// markerVar returns the name of the environment variable that holds the execution id of a child at
// that depth. Each depth has its own variable, so a process that a person starts by hand inside a
// child carries the ids of all children above it.
func markerVar(depth int) string { return "QQ_EXECUTION_ID_" + strconv.Itoa(depth) }

// attend sends the start frame and serves the child until its process has ended. If ctx is done, it
// ends the child.
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

// stop ends the child and returns when its process is gone. It sends a cancel frame, waits, and
// then has the process ended by SIGTERM and at last by SIGKILL. It does not wait until the
// cancel frame is written, because the child may not be reading.
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

// listen handles the frames of the child until its pipe ends. If the child breaks the protocol,
// listen stops it.
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

// handle acts on one frame of the child. An error says that the child broke the protocol.
func (c *child) handle(ctx context.Context, f Frame) error {
	if c.hello == nil && f.Type != TypeHello {
		return fmt.Errorf("%w: %q before hello", ErrFrameBroken, f.Type)
	}
	if f.Type != TypeEvent || f.Event.Phase == "" { // a child may tell a phase again when nothing happens
		c.parent.Active()
	}
	switch f.Type {
	case TypeHello:
		if f.Hello.Protocol != Version {
			return fmt.Errorf("%w: it speaks version %d of the protocol (qq %s), this is %d (qq %s)",
				ErrFrameBroken, f.Hello.Protocol, f.Hello.Version, Version, c.launcher.cfg.Version)
		}
		c.hello = f.Hello
	case TypeEvent: // the start and the end of a child are announced here
		if e, ok := event.Reported(*f.Event); ok {
			c.parent.Emit(e)
		}
	case TypeAsk:
		return c.take(ctx, *f.Ask)
	case TypeChanged:
		c.note(f.Changed.Paths)
	case TypeActive:
		c.permits.active(f.Active)
	case TypeLeave:
		c.permits.leave(f.Leave.ID, plausible.Report(f.Leave.Report))
	case TypeResult:
		c.last = f.Result
	}
	return nil
}

// send writes one frame to the child. It gives up after the time within and reports no error: a
// child that does not read has broken the protocol or is gone, which its end will show.
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

// close closes the files of the child and removes its output file, unless that file was kept.
func (c *child) close() {
	c.launcher.children.Add(-1)
	for _, f := range []*os.File{c.down, c.up, c.out, c.err} {
		f.Close() // nil is no harm
	}
	if c.out != nil {
		_ = os.Remove(c.outPath) // gone already when it was kept
	}
}

// dir returns the working directory of job.
func (l *Launcher) dir(job task.Job) string {
	if filepath.IsAbs(job.WorkingDir) {
		return job.WorkingDir
	}
	return filepath.Join(l.cfg.Dir, job.WorkingDir)
}
