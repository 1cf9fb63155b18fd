package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// size is an amount of memory.
type size int64

const mebibyte = 1 << 20

func (n size) String() string { return fmt.Sprintf("%.1f MiB", float64(n)/mebibyte) }

// milliseconds formats a time.
func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
}

func mib(n size) string { return n.String() }

// used is what one process cost, with all its descendants that were waited for.
type used struct {
	cpu  time.Duration // user and system
	wall time.Duration
	// maxRSS is what the kernel says about the largest process. It is never
	// less than the bench itself has used, whose memory a new process shares
	// until it executes its program.
	maxRSS size
	// rootPeak is the largest resident memory of the process itself; it is sampled only if the
	// command asks for it.
	rootPeak size
	faults   int64 // pages that the process touched for the first time and that were not read from the disk
}

// command is a process to measure.
type command struct {
	program string
	args    []string
	dir     string
	env     []string
	sample  bool // the resident memory, while it runs
	// terminal replaces stderr if a person is to be asked.
	terminal *os.File
	stdout   io.Writer // gets what is printed while it runs, instead of the file
}

// process is a running command.
type process struct {
	cmd    *exec.Cmd
	start  time.Time
	stdout string // file
	stderr string // file
	peak   chan size
}

// start starts c in a process group of its own, with its output in files.
func (c command) start(ctx context.Context) (*process, error) {
	p := &process{
		cmd:    exec.CommandContext(ctx, c.program, c.args...),
		stdout: c.dir + "/stdout", stderr: c.dir + "/stderr",
	}
	out, err := os.Create(p.stdout)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	errs, err := os.Create(p.stderr)
	if err != nil {
		return nil, err
	}
	defer errs.Close()
	p.cmd.Dir, p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = c.dir, c.env, out, errs
	if c.stdout != nil {
		p.cmd.Stdout = c.stdout
	}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if c.terminal != nil {
		p.cmd.Stderr = c.terminal
		p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 2} // leads a group as well
	}
	p.cmd.Cancel = func() error { return syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }
	p.start = time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	if c.sample {
		p.peak = make(chan size, 1)
		go func() { p.peak <- samplePeak(p.cmd.Process.Pid) }()
	}
	return p, nil
}

func (p *process) wait() (used, error) {
	err := p.cmd.Wait()
	u := used{wall: time.Since(p.start)}
	if p.peak != nil {
		u.rootPeak = <-p.peak
	}
	if err != nil {
		said, _ := os.ReadFile(p.stderr)
		return u, fmt.Errorf("%s %s: %w\n%.2000s", filepath.Base(p.cmd.Path), strings.Join(p.cmd.Args[1:], " "), err,
			said)
	}
	s := p.cmd.ProcessState
	u.cpu = s.UserTime() + s.SystemTime()
	if r, ok := s.SysUsage().(*syscall.Rusage); ok {
		u.maxRSS, u.faults = size(r.Maxrss)<<10, r.Minflt
	}
	return u, nil
}

// run runs c to its end.
func (c command) run(ctx context.Context) (used, error) {
	p, err := c.start(ctx)
	if err != nil {
		return used{}, err
	}
	return p.wait()
}

// output runs c to its end and returns what it printed.
func (c command) output(ctx context.Context) (used, []byte, error) {
	u, err := c.run(ctx)
	if err != nil {
		return u, nil, err
	}
	out, err := os.ReadFile(filepath.Join(c.dir, "stdout"))
	return u, out, err
}

// samplePeak polls the largest resident memory of a process until the process has ended.
func samplePeak(pid int) size {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	var peak size
	for {
		now, err := procField(pid, "status", "VmHWM")
		if err != nil {
			return peak // ended: a zombie has no memory
		}
		peak = now
		<-tick.C
	}
}

// procField reads a field in kB from a file in /proc/PID.
func procField(pid int, file, name string) (size, error) {
	return kilobytes(fmt.Sprintf("/proc/%d/%s", pid, file), name)
}

func kilobytes(path, name string) (size, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for text := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(text, name+":"); ok {
			kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return size(kb) << 10, err
		}
	}
	return 0, fmt.Errorf("%s: no %s", path, name)
}

// available returns how much memory is free on this machine.
func available() (size, error) { return kilobytes("/proc/meminfo", "MemAvailable") }

// until polls until done returns true.
func until(ctx context.Context, every, limit time.Duration, what string, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%s: not within %v", what, limit)
		}
	}
}

// median returns the median of xs, which must not be empty.
func median[T ~int64](xs []T) T {
	s := slices.Sorted(slices.Values(xs))
	n := len(s)
	if n%2 == 1 {
		return s[n/2]
	}
	return (s[n/2-1] + s[n/2]) / 2
}

// column returns one figure of each element of us.
func column[T any](us []used, figure func(used) T) []T {
	xs := make([]T, len(us))
	for i, u := range us {
		xs[i] = figure(u)
	}
	return xs
}

// interleave runs each of the commands rounds times, in turn, so that a change in the load of the
// machine affects all of them. It copies the programs again several times, so that the luck of
// one copy does not decide.
func (b *bench) interleave(rounds int, commands ...func() (used, error)) ([][]used, error) {
	const copies = 10
	all := make([][]used, len(commands))
	for round := range rounds {
		if round%max(rounds/copies, 1) == 0 {
			if err := b.copyPrograms(); err != nil {
				return nil, err
			}
		}
		for i, run := range commands {
			u, err := run()
			if err != nil {
				return nil, err
			}
			all[i] = append(all[i], u)
		}
	}
	return all, nil
}

// killAll kills leftover processes by their ids.
func killAll(pids []int) error {
	var errs []error
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
