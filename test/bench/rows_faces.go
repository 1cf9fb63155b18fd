package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"qq/internal/control"
	"qq/pkg/task"
	"qq/test/terminal"
)

// measureFaces measures a batch that faces look at, against the same batch without: a qq top on a terminal, a qq serve with
// an open page, and a qq runs watch, each a process of its own. They read, or they are stopped. The batch is paused until
// they have come, and its time begins when it goes on. Subscribers to the text of models make each child send it: what that
// costs has no limit. But one of them that never reads, whose buffer fills, costs no more than one that reads.
func measureFaces(ctx context.Context, b *bench) ([]line, error) {
	const jobs, model = 8, "echo20"
	n := b.pick(600, 100)
	run := batch{tasks: n, jobs: jobs, model: model}
	with := func(come func(*faces, control.Standing) error) func() (used, error) {
		return func() (used, error) { return b.lookedAt(ctx, run, come) }
	}
	us, err := b.interleave(b.pick(20, 1), with((*faces).none), with((*faces).come), with((*faces).stop),
		with((*faces).hear), with((*faces).overhear))
	if err != nil {
		return nil, err
	}
	walls := func(i int) []time.Duration { return column(us[i], wall) }
	what := fmt.Sprintf("%d tasks, -j %d, qq top, qq serve and qq runs watch", n, jobs)
	const hears = "the same, a client subscribes to the text of all models"
	return []line{
		pairs(what+" look on: wall time, against none", walls(1), walls(0), 1.03),
		pairs(what+", stopped: wall time, against none", walls(2), walls(0), 1.03),
		unjudged(hears, walls(3), walls(0)),
		pairs(hears+" and never reads, against one that reads", walls(4), walls(3), 1.03),
	}, nil
}

// pairs compares measurements that were made in turn: the median of their ratios counts.
func pairs(what string, qq, yard []time.Duration, limit float64) line {
	const parts = 1_000_000
	var ratios []int64
	for i := range qq {
		ratios = append(ratios, int64(float64(qq[i])/float64(yard[i])*parts))
	}
	return line{what: what, qq: milliseconds(median(qq)), yard: milliseconds(median(yard)),
		value: float64(median(ratios)) / parts, limit: limit, unit: "x"}
}

// lookedAt runs a batch with the faces that come. The time is that of all tasks, as if the batch had done the first ones,
// which ran before the faces came, at the same rate.
func (b *bench) lookedAt(ctx context.Context, run batch, come func(*faces, control.Standing) error) (u used, err error) {
	dir, env, done, err := b.home()
	if err != nil {
		return used{}, err
	}
	defer done()
	tasks, err := b.tasks(run.tasks)
	if err != nil {
		return used{}, err
	}
	f := &faces{ctx: ctx, bin: b.bin["qq"], dir: dir, env: env}
	defer func() { err = errors.Join(err, f.close()) }()
	p, err := b.batchCommand(run, dir, env, tasks).start(ctx)
	if err != nil {
		return used{}, err
	}
	goOn, before, err := f.paused(come)
	if err != nil {
		_ = p.cmd.Cancel() // it may have ended
		_, _ = p.wait()
		return used{}, err
	}
	begun := time.Now()
	err = goOn()
	u, waited := p.wait()
	u.wall = time.Since(begun) * time.Duration(run.tasks) / time.Duration(run.tasks-before)
	if err := errors.Join(err, waited); err != nil {
		return u, err
	}
	return u, successes(filepath.Join(dir, "stdout"), run.tasks)
}

// paused pauses the only run of the home until the faces have come. goOn lets it go on; before is how many of its tasks had
// ended then.
func (f *faces) paused(come func(*faces, control.Standing) error) (goOn func() error, before int, err error) {
	var socket control.Standing
	var c *control.Client
	err = until(f.ctx, time.Millisecond, startLimit, "the socket of the batch", func() (bool, error) {
		all := control.Sockets(filepath.Join(f.dir, "qq"))
		if len(all) > 0 {
			socket = all[0]
			c, err = control.Dial(socket.Path)
		}
		return len(all) > 0 && err == nil, nil
	})
	if err != nil {
		return nil, 0, err
	}
	f.clients = append(f.clients, c)
	if err := c.Pause(true); err != nil {
		return nil, 0, err
	}
	if err := come(f, socket); err != nil {
		return nil, 0, err
	}
	err = until(f.ctx, 5*time.Millisecond, startLimit, "the end of what runs", func() (bool, error) {
		snap, err := c.Snapshot()
		if err == nil && snap.Batch != nil {
			before = snap.Batch.Done
		}
		return snap.AtWork == 0, err
	})
	return func() error { return c.Pause(false) }, before, err
}

// faces are processes that look at the runs of a home.
type faces struct {
	ctx      context.Context
	bin, dir string
	env      []string
	all      []*exec.Cmd
	open     []io.Closer
	clients  []*control.Client
	reading  sync.WaitGroup
}

func (f *faces) start(stdout *os.File, args ...string) error {
	cmd := exec.Command(f.bin, args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = f.dir, f.env, stdout, stdout
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if args[0] == "top" {
		cmd.Stdin, cmd.Env = stdout, append(slices.Clone(f.env), "TERM=xterm-256color")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 1}
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	f.all = append(f.all, cmd)
	return nil
}

// top starts qq top on a terminal that is read.
func (f *faces) top() error {
	person, program, err := terminal.Open()
	if err != nil {
		return err
	}
	defer program.Close()
	f.open = append(f.open, person)
	f.reading.Go(func() { _, _ = io.Copy(io.Discard, person) }) // until it is closed
	return f.start(program, "top")
}

// serve starts qq serve and opens its first page, which stays open.
func (f *faces) serve() error {
	out, err := os.Create(filepath.Join(f.dir, "serve"))
	if err != nil {
		return err
	}
	defer out.Close()
	if err := f.start(out, "serve", "-q"); err != nil {
		return err
	}
	var address string
	err = until(f.ctx, 5*time.Millisecond, startLimit, "the address of qq serve", func() (bool, error) {
		text, err := os.ReadFile(out.Name())
		var whole bool
		address, _, whole = strings.Cut(string(text), "\n")
		return whole, err
	})
	if err != nil {
		return err
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		return err
	}
	client := http.Client{Jar: jar}
	page, err := client.Get(address)
	if err != nil {
		return err
	}
	page.Body.Close()
	root, _, _ := strings.Cut(address, "open?")
	stream, err := client.Get(root + "events")
	if err != nil {
		return err
	}
	f.open = append(f.open, stream.Body)
	if page.StatusCode != http.StatusOK || stream.StatusCode != http.StatusOK {
		return fmt.Errorf("qq serve: %s, %s", page.Status, stream.Status)
	}
	f.reading.Go(func() { _, _ = io.Copy(io.Discard, stream.Body) }) // until it is closed
	return nil
}

// none is nobody.
func (f *faces) none(control.Standing) error { return nil }

// come starts a qq top, a qq serve and a qq runs watch, and waits until they have subscribed.
func (f *faces) come(socket control.Standing) error {
	if err := errors.Join(f.top(), f.serve()); err != nil {
		return err
	}
	out, err := os.Create(filepath.Join(f.dir, "watch"))
	if err != nil {
		return err
	}
	defer out.Close()
	if err := f.start(out, "runs", "watch", task.ShortID(socket.ID)); err != nil {
		return err
	}
	return until(f.ctx, 5*time.Millisecond, startLimit, "all faces", func() (bool, error) {
		return clients(socket.Path) >= 4, nil // with the one that pauses
	})
}

// stop is come, and stops them.
func (f *faces) stop(socket control.Standing) error {
	err := f.come(socket)
	for _, cmd := range f.all {
		err = errors.Join(err, cmd.Process.Signal(syscall.SIGSTOP))
	}
	return err
}

// hear subscribes to all events and reads them.
func (f *faces) hear(socket control.Standing) error {
	if err := f.overhear(socket); err != nil {
		return err
	}
	c := f.clients[len(f.clients)-1]
	f.reading.Go(func() {
		for {
			if _, err := c.Next(); err != nil {
				return // the run has ended
			}
		}
	})
	return nil
}

// overhear subscribes to all events and reads none.
func (f *faces) overhear(socket control.Standing) error {
	c, err := control.Dial(socket.Path)
	if err != nil {
		return err
	}
	f.clients = append(f.clients, c)
	_, err = c.Subscribe(control.Subscribe{})
	return err
}

// clients returns how many clients a socket has.
func clients(path string) (n int) {
	text, _ := os.ReadFile("/proc/net/unix") // there is one
	for line := range strings.Lines(string(text)) {
		if strings.HasSuffix(strings.TrimSpace(line), filepath.Base(path)) {
			n++
		}
	}
	return n - 1 // but for the one that listens
}

// close kills all faces.
func (f *faces) close() (err error) {
	for _, cmd := range f.all {
		err = errors.Join(err, cmd.Process.Kill())
		_ = cmd.Wait() // killed
	}
	for _, c := range f.clients {
		c.Close()
	}
	for _, c := range f.open {
		c.Close()
	}
	f.reading.Wait()
	return err
}
