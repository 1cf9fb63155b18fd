package foreign

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"qq/internal/box"
	"qq/internal/foreign/wire"
	"qq/pkg/proc"
)

const (
	// lingers is how long a program may take to end after the end mark of its turn.
	lingers = 5 * time.Second
	// grace is the time between SIGTERM and SIGKILL.
	grace = 2 * time.Second
	// drains is how long what a program wrote is read after its end, if somebody else keeps its stdout open.
	drains = time.Second
	// maxStderr is how much of the end of stderr is kept, in bytes.
	maxStderr = 4 << 10
)

// ending is how a turn of a program ended.
type ending struct {
	said     wire.Outcome
	read     error // why its stream could not be read to the end
	exit     box.Outcome
	stopped  bool // it was ended before the end mark: its context has ended
	lingered bool // it was ended after the end mark, because it did not end
	half     bool // the stream ended in a line
	skipped  int  // lines that were too long
	stderr   string
}

// errGone ends a question to a person when the program that asks has ended.
var errGone = errors.New("the program has ended")

// pipes are the ends of the pipes of a program that stay here.
type pipes struct {
	in, out, err *os.File
}

// start starts the program. What it gets of the pipes is closed here.
func (b *backend) start(c wire.Command) (r box.Running, p pipes, err error) {
	if b.agent.Process.Commands == nil {
		return nil, p, errNoCommands
	}
	var theirs [3]*os.File
	var ours [3]*os.File
	defer func() {
		for i := range theirs {
			closeFile(theirs[i])
			if err != nil {
				closeFile(ours[i])
			}
		}
	}()
	for i := range theirs {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, p, fmt.Errorf("make a pipe: %w", err)
		}
		if theirs[i], ours[i] = w, r; i == 0 {
			theirs[i], ours[i] = r, w
		}
	}
	a := b.agent
	r, err = a.Process.Commands.Start(proc.Command{
		Path: b.at.Path, Args: c.Args, Env: append(b.at.Env[:len(b.at.Env):len(b.at.Env)], "PWD="+a.Process.Dir),
		Dir: a.Process.Dir, Stdin: theirs[0], Stdout: theirs[1], Stderr: theirs[2], Grace: grace,
		Marker: box.MarkPrefix + strconv.Itoa(b.job.Depth) + "=" + rand.Text(),
	}, nil)
	if err != nil {
		return nil, p, fmt.Errorf("start %s: %w", b.Server, err)
	}
	return r, pipes{ours[0], ours[1], ours[2]}, nil
}

func closeFile(f *os.File) {
	if f != nil {
		f.Close()
	}
}

// perform starts the program and has it do one turn. When it returns, the program and all that it started have ended.
func (b *backend) perform(ctx context.Context, job wire.Job, t *teller) (end ending, err error) {
	c, err := b.dialect.Command(job)
	if err != nil {
		return end, err
	}
	running, p, err := b.start(c)
	if err != nil {
		return end, err
	}
	defer p.out.Close()
	in := &stdin{file: p.in}
	defer in.Close()
	var tail tail
	var reading sync.WaitGroup
	reading.Go(func() {
		_, _ = io.Copy(&tail, p.err)
		p.err.Close()
	})
	lines := wire.NewLines(alive{p.out, b.parent})
	talk, hangUp := context.WithCancelCause(ctx)
	defer hangUp(nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		end.said, end.read = b.dialect.Converse(talk, job, wire.Stream{In: in, Out: lines}, t)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		running.Stop()
		<-running.Done()
	case <-running.Done():
	}
	if !isClosed(done) { // the program has ended, and so does its stream
		_ = p.out.SetReadDeadline(time.Now().Add(drains))
		in.Close()
		hung := time.AfterFunc(drains, func() { hangUp(errGone) })
		<-done
		hung.Stop()
	}
	in.Close()
	end.half, end.skipped = lines.Half, lines.Skipped
	end.stopped = ctx.Err() != nil && !end.said.Ended
	reading.Go(func() { _, _ = io.Copy(io.Discard, p.out) }) // so that it can write until it ends
	end.lingered = !ends(ctx, running)
	end.exit = running.Wait()
	// All writers are gone. The deadlines are for a process that escaped.
	_ = p.out.SetReadDeadline(time.Now().Add(drains))
	_ = p.err.SetReadDeadline(time.Now().Add(drains))
	reading.Wait()
	end.stderr = tail.String()
	return end, nil
}

// ends waits until r has ended, and ends it if that takes too long. Then it returns false.
func ends(ctx context.Context, r box.Running) bool {
	timer := time.NewTimer(lingers)
	defer timer.Stop()
	select {
	case <-r.Done():
		return true
	case <-ctx.Done():
	case <-timer.C:
	}
	r.Stop()
	return ctx.Err() != nil
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// stdin is the stdin of a program. Writing to one that has ended is no error of qq's: its stream tells.
type stdin struct {
	mu   sync.Mutex
	file *os.File
	done bool
}

// Write implements io.Writer.
func (s *stdin) Write(p []byte) (int, error) {
	n, err := s.file.Write(p)
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, os.ErrClosed) {
		return n, io.ErrClosedPipe
	}
	return n, err
}

// Close implements io.Closer.
func (s *stdin) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done {
		return nil
	}
	s.done = true
	return s.file.Close()
}

// alive tells the parent of each piece that arrives, so that the program is not taken for one that hangs.
type alive struct {
	io.Reader
	to interface{ Active() }
}

// Read implements io.Reader. The end of the time to read is the end of the stream.
func (a alive) Read(p []byte) (int, error) {
	n, err := a.Reader.Read(p)
	if n > 0 {
		a.to.Active()
	}
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, os.ErrClosed) {
		err = io.EOF
	}
	return n, err
}

// tail keeps the end of what is written to it.
type tail struct{ text []byte }

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p[max(0, len(p)-maxStderr):]...)
	if n := len(t.text) - maxStderr; n > maxStderr {
		t.text = append(t.text[:0], t.text[n:]...)
	}
	return len(p), nil
}

func (t *tail) String() string { return string(t.text[max(0, len(t.text)-maxStderr):]) }
