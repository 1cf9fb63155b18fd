package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a running qq.
type process struct {
	s              *stage
	cmd            *exec.Cmd
	cancel         context.CancelFunc
	began          time.Time
	stdout, stderr bytes.Buffer
	peak           chan int64
}

// ended describes how a qq ended.
type ended struct {
	code           int // -1 when a signal ended it
	stdout, stderr string
	took           time.Duration
	peak           int64 // resident memory of the process itself at its most, in KiB
}

// start starts qq in a process group of its own, without anything on stdin.
func (s *stage) start(env []string, args ...string) (*process, error) {
	ctx, cancel := context.WithCancel(s.ctx)
	line := append(append(slices.Clone(s.under), s.program), args...)
	p := &process{s: s, cancel: cancel, cmd: exec.CommandContext(ctx, line[0], line[1:]...), peak: make(chan int64, 1)}
	p.cmd.Dir = s.work
	p.cmd.Env = append(append(slices.Clone(s.env), s.setting(s.server.Host())), env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Cancel = func() error { return syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }
	p.cmd.WaitDelay = time.Second // for a process that was left behind with the pipes
	p.began = time.Now()
	if err := p.cmd.Start(); err != nil {
		cancel()
		return nil, err
	}
	s.started = append(s.started, p)
	go func() { p.peak <- samplePeak(p.cmd.Process.Pid) }()
	return p, nil
}

// setting returns the setting that says where the model server is.
func (s *stage) setting(host string) string {
	switch s.dialect {
	case "":
		return "OLLAMA_HOST=" + host
	case gemini:
		return "QQ_SERVER_lab=gemini http://" + host + "/v1beta"
	}
	return "QQ_SERVER_lab=" + s.dialect + " http://" + host + "/v1"
}

// model returns the name of a model with that of its server.
func (s *stage) model(name string) string {
	if s.dialect == "" {
		return "ollama:" + name
	}
	return "lab:" + name
}

// samplePeak polls the largest resident memory of a process until the process has ended.
func samplePeak(pid int) (peak int64) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		now, err := kilobytes(fmt.Sprintf("/proc/%d/status", pid), "VmHWM")
		if err != nil {
			return peak // ended: a zombie has no memory
		}
		peak = now
		<-tick.C
	}
}

// wait waits for qq to end. When it ended by itself nothing that it started may
// be left, not even for a moment.
func (p *process) wait() (ended, error) {
	defer p.cancel()
	err := p.cmd.Wait()
	e := ended{code: p.cmd.ProcessState.ExitCode(), stdout: p.stdout.String(), stderr: p.stderr.String(),
		took: time.Since(p.began)}
	if e.code >= 0 {
		p.s.row.left += len(p.s.processes())
	}
	e.peak = <-p.peak
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return e, err
	}
	return e, context.Cause(p.s.ctx)
}

// over reports whether qq has ended.
func (p *process) over() bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return true
	}
	_, state, _ := bytes.Cut(b, []byte(") "))
	return bytes.HasPrefix(state, []byte("Z"))
}

// until waits until done returns true, while qq is running.
func (p *process) until(what string, done func() bool) error {
	over := false
	err := p.s.until(waitLimit, what, func() bool {
		if done() {
			return true
		}
		over = p.over()
		return over
	})
	if over && !done() {
		e, waited := p.wait()
		return errors.Join(fmt.Errorf("waiting for this: %s; qq ended: exit code %d: %.500q %.500q", what, e.code,
			e.stderr, e.stdout), waited)
	}
	return err
}

// asked waits until the server has received n requests.
func (p *process) asked(n int) error {
	return p.until(fmt.Sprintf("%d requests", n), func() bool { return p.s.server.Asked() >= n })
}

// hanging waits until a request hangs at the server, and returns the child that sent it: other
// children may wait for a task.
func (p *process) hanging() (child int, err error) {
	if err := p.until("a request hangs", func() bool { return p.s.server.Waiting() == 1 }); err != nil {
		return 0, err
	}
	from := ""
	for _, c := range p.s.server.Chats() {
		if c.Ended.IsZero() {
			from = c.From
		}
	}
	socket, err := socketOf(from, p.s.server.Host())
	if err != nil {
		return 0, err
	}
	for _, pid := range p.s.processes() {
		open, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid)) // the pattern is right
		for _, fd := range open {
			if to, err := os.Readlink(fd); err == nil && to == socket && pid != p.cmd.Process.Pid {
				return pid, nil
			}
		}
	}
	return 0, fmt.Errorf("no child of qq has the connection from %s", from)
}

// socketOf returns the link text of the descriptor that holds the connection between two
// addresses. It compares both ends and the state, because several servers, and connections closed
// within the last minute, can use the same local port.
func socketOf(from, to string) (string, error) {
	local, err := portOf(from)
	if err != nil {
		return "", err
	}
	remote, err := portOf(to)
	if err != nil {
		return "", err
	}
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return "", err
	}
	const established = "01"
	for text := range strings.Lines(string(table)) {
		f := strings.Fields(text)
		if len(f) > 9 && strings.HasSuffix(f[1], local) && strings.HasSuffix(f[2], remote) && f[3] == established {
			return "socket:[" + f[9] + "]", nil
		}
	}
	return "", fmt.Errorf("no connection from %s to %s", from, to)
}

// portOf returns the port of an address as /proc/net/tcp writes it.
func portOf(address string) (string, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return fmt.Sprintf(":%04X", n), err
}

// result is a task's result in the JSON output of qq.
type result struct {
	Task         string
	Success      *bool
	Output       *string
	Error        *string
	Index        int
	Status       string
	ExitCode     *int     `json:"exit_code"`
	Attempts     int      `json:"attempts"`
	DurationMS   int64    `json:"duration_ms"`
	QueuedMS     int64    `json:"queued_ms"`
	Truncated    bool     `json:"truncated"`
	OutputFile   string   `json:"output_file"`
	ChangedFiles []string `json:"changed_files"`
}

func (r result) err() string {
	if r.Error == nil {
		return ""
	}
	return *r.Error
}

func (r result) output() string {
	if r.Output == nil {
		return ""
	}
	return *r.Output
}

// check checks what is true of every result: the fields that scripts rely on exist and agree with
// each other.
func (s *stage) check(r result) bool {
	if r.Success == nil || r.Output == nil || r.ExitCode == nil {
		s.expect(false, "a result lacks success, output or exit_code: %+v", r)
		return false
	}
	completed := r.Status == "completed"
	agree := *r.Success == completed && completed == (r.Error == nil) && completed == (*r.ExitCode == 0)
	s.expect(agree, "status %q, success %v, exit_code %d and error %q disagree", r.Status, *r.Success, *r.ExitCode,
		r.err())
	s.expect(r.DurationMS >= 0 && r.QueuedMS >= 0, "a time is negative: %d ms, %d ms in the queue", r.DurationMS,
		r.QueuedMS)
	return agree
}

// outcome is what a case expects as the result of one question.
type outcome struct {
	exit     int
	status   string
	requests int
	output   string        // of a success
	least    time.Duration // that it takes
	most     time.Duration // 0 is no limit
}

// ask asks the model one question, with the answer in JSON, and checks it against want.
func (s *stage) ask(model string, want outcome, flags ...string) (result, error) {
	p, err := s.start(nil, append([]string{"--model", s.model(model), "--json", "Say something."}, flags...)...)
	if err != nil {
		return result{}, err
	}
	e, err := p.wait()
	if err != nil {
		return result{}, err
	}
	s.row.played, s.row.exit, s.row.took, s.row.requests = true, e.code, e.took, s.server.Asked()
	var r result
	if err := json.Unmarshal([]byte(e.stdout), &r); err != nil {
		s.expect(false, "stdout is no JSON: %.200q; stderr %.500q", e.stdout, e.stderr)
		return r, nil
	}
	s.row.status = r.Status
	if s.check(r) {
		s.expect(e.code == *r.ExitCode, "exit code %d, in JSON %d", e.code, *r.ExitCode)
	}
	first, _, _ := strings.Cut(r.err(), "\n")
	s.expect(strings.Contains(e.stderr, first), "stderr does not say %q: %.500q", first, e.stderr)
	s.expect(r.Error != nil || !strings.Contains(e.stderr, "hint:"), "a success with advice on stderr: %.500q",
		e.stderr)
	s.expect(e.code == want.exit, "exit code %d, expected %d", e.code, want.exit)
	s.expect(r.Status == want.status, "status %q, expected %q: %s", r.Status, want.status, r.err())
	s.expect(s.row.requests == want.requests, "%d requests, expected %d", s.row.requests, want.requests)
	s.expect(want.output == "" || r.output() == want.output, "output %q, expected %q", r.output(), want.output)
	s.inTime(e.took, want.least, want.most)
	return r, nil
}

func (s *stage) inTime(took, least, most time.Duration) {
	s.expect(took >= least, "it took %v, expected at least %v", took, least)
	s.expect(most == 0 || took <= most, "it took %v, expected at most %v", took, most)
}

// batch describes a run of qq batch that prints its results as JSON lines.
type batch struct {
	tasks string // file
	model string
	jobs  int
	env   []string
	flags []string
}

func (s *stage) startBatch(b batch) (*process, error) {
	args := []string{"batch", "--model", s.model(b.model), "-j", fmt.Sprint(b.jobs), "--no-bar", "--output-format",
		"jsonl"}
	return s.start(b.env, append(append(args, b.flags...), b.tasks)...)
}

// batch runs b to its end.
func (s *stage) batch(b batch) (ended, []result, error) {
	p, err := s.startBatch(b)
	if err != nil {
		return ended{}, nil, err
	}
	return p.results()
}

// results waits for a batch to end and reads its results. It checks that they agree with its exit
// code and its stderr.
func (p *process) results() (ended, []result, error) {
	e, err := p.wait()
	if err != nil {
		return e, nil, err
	}
	s := p.s
	var list []result
	for dec := json.NewDecoder(strings.NewReader(e.stdout)); ; {
		var r result
		if err := dec.Decode(&r); err == io.EOF {
			break
		} else if err != nil {
			s.expect(false, "stdout is no JSON lines: %v: %.200q", err, e.stdout)
			break
		}
		s.check(r)
		s.expect(r.Index == len(list) || r.Task == "", "result %d stands where %d belongs", r.Index, len(list))
		list = append(list, r)
	}
	counts := map[string]int{}
	for _, r := range list {
		counts[r.Status]++
	}
	s.row.played, s.row.exit, s.row.took, s.row.requests = true, e.code, e.took, s.server.Asked()
	s.row.status = tally(counts)
	s.expect((e.code == 0) == (counts["completed"] == len(list) && len(list) > 0),
		"exit code %d with %s; stderr %.500q", e.code, s.row.status, e.stderr)
	for status, n := range counts {
		told := strings.Contains(e.stderr, fmt.Sprintf("%d %s", n, status))
		s.expect(e.code != 4 || told, "stderr does not tell of %d %s: %.500q", n, status, e.stderr)
	}
	return e, list, nil
}

// tally lists how many tasks ended with each status.
func tally(counts map[string]int) string {
	var parts []string
	for _, status := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[status], status))
	}
	return strings.Join(parts, ", ")
}

// survived expects that each of n tasks is done, and counts those that were lost and those that
// were done twice.
func (s *stage) survived(e ended, list []result, n int) {
	s.expect(e.code == 0, "exit code %d, expected 0; stderr %.500q", e.code, e.stderr)
	s.row.lost += n
	for _, r := range list {
		if r.Status == "completed" {
			s.row.lost--
		}
	}
	whole := map[string]int{}
	for _, c := range s.server.Chats() {
		if c.Whole {
			whole[c.Task]++
		}
	}
	for _, times := range whole {
		if times > 1 {
			s.row.doubled++
		}
	}
}

// tasks writes a file of n different tasks, each at least length characters long.
func (s *stage) tasks(name string, n, length int) (string, error) {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "%s\n", taskText(name, i, length))
	}
	return s.file(name, text.String())
}

func taskText(name string, i, length int) string {
	text := fmt.Sprintf("Task %d of %s: say something", i, name)
	return text + strings.Repeat(".", max(length-len(text), 0))
}
