package shell

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"qq/internal/approval/rules"
	"qq/internal/box"
	"qq/pkg/proc"
	"qq/pkg/tool"
)

// run executes one call of the tool. It returns an error only if the command could not start: a failing command is
// a result.
func (s *shell) run(ctx context.Context, args json.RawMessage) (tool.Result, error) {
	r, err := s.request(args)
	if err != nil {
		return tool.Result{}, err
	}
	if in, ok := tool.Granted(ctx); ok && in.Preview != r.preview() {
		return tool.Result{}, fmt.Errorf("the working directory of the command is %s by now, which is not what was "+
			"approved: call again", r.dir)
	}
	if ctx.Err() != nil {
		return tool.Result{}, fmt.Errorf("the command was not started: %w", context.Cause(ctx))
	}
	call := rules.Call{Path: "/bin/sh", Args: []string{"sh", "-c", r.command}, Env: s.Env}
	if in, ok := tool.Granted(ctx); ok && in.Rule != "" {
		if call, err = s.prepare(ctx, r); err != nil {
			return tool.Result{}, fmt.Errorf("the rule %s does not allow this any more: %w", in.Rule, err)
		}
	}
	screen, p, err := s.start(ctx, r, call)
	if err != nil {
		return tool.Result{}, err
	}
	defer screen.Close()
	out := output{excerpt: tool.Excerpt{Max: maxChars}, entry: s.journal.enter(r.command), activity: s.Activity}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		out.copy(screen)
	}()
	outcome, why := s.attend(ctx, p, r.timeout)
	// All writers are gone, so the read ends by itself. The deadline is for a process
	// that escaped the sweep.
	_ = screen.SetReadDeadline(time.Now().Add(s.grace))
	<-drained
	text := out.result(verdict(outcome, why))
	switch lines := refusals(text, outcome.Viewed || s.Bound == nil); {
	case len(lines) == 0:
	case s.Bound != nil: // also if the command went on and ended well
		text += "\n[" + s.Bound.Refused(lines) + "]"
	case outcome.Code != 0:
		text += obeyedHint
	}
	if outcome.Code != 0 && strings.Contains(text, socket) {
		text += socketHint
	}
	if outcome.Code != 0 && len(outcome.Excess) == 0 && slices.ContainsFunc(noFork, func(s string) bool {
		return strings.Contains(text, s)
	}) {
		text += forkHint
	}
	ran := &tool.Command{Line: r.command, ExitCode: exitCode(outcome, why)}
	return tool.Result{Content: text, Changed: outcome.Changed, Warnings: outcome.Notes, Ran: ran}, nil
}

// refusals returns the lines of the output in which a command says that it could not write, because its mounts are
// read-only. Without these, the system calls it otherwise.
func refusals(text string, mounts bool) (lines []string) {
	for line := range strings.Lines(text) {
		if strings.Contains(line, unwritable) || strings.Contains(line, unmovable) || !mounts &&
			strings.Contains(line, unpermitted) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// exitCode returns the exit code of a command; why says why it was stopped, see attend.
func exitCode(o box.Outcome, why string) int {
	switch {
	case why != "":
		return tool.ExitStopped
	case o.Signal != 0:
		return 128 + int(o.Signal)
	}
	return o.Code
}

// unwritable and unmovable are what programs say about a file that is not for commands to write, and unpermitted is
// what they say where commands have no mounts of their own. obeyedHint is what a model should know then.
const (
	unwritable  = "Read-only file system"
	unmovable   = "Device or resource busy"
	unpermitted = "Permission denied"
	obeyedHint  = "\n[commands do not write .git, .env, .vscode and other files that programs obey, nor outside of " +
		"the writable folders. A person can allow more: QQ_WRITABLE=.git lets them commit]"
)

// socket is in what programs say about a server that they do not reach by a UNIX socket, and socketHint is what a model
// should know then.
const (
	socket     = ".sock"
	socketHint = "\n[commands do not reach servers by UNIX sockets. A person can allow one: " +
		"QQ_WRITABLE=/run/docker.sock]"
)

// noFork is what programs say when they cannot start another one, and forkHint is what a model should know then: the
// kernel does not tell whose limit it was.
var noFork = []string{"Cannot fork", "Resource temporarily unavailable"}

const forkHint = "\n[commands may have only so many processes and threads. " +
	"A person can allow more: QQ_COMMAND_PROCESSES]"

// start starts the call, which is the command of r, and returns the end of its terminal from which output is read.
func (s *shell) start(ctx context.Context, r request, call rules.Call) (screen *os.File, p box.Running, err error) {
	screen, tty, err := openTerminal()
	if err != nil {
		return nil, nil, fmt.Errorf("open a terminal for the command: %w", err)
	}
	p, err = s.launch(ctx, proc.Command{
		Path: call.Path, Args: call.Args, Dir: r.dir,
		Env:    append(Environment(call.Env, s.TempDir), "PWD="+r.dir),
		Stdout: tty, Stderr: tty, Terminal: true,
		Grace: s.grace, Marker: box.MarkPrefix + strconv.Itoa(s.Depth) + "=" + rand.Text(),
	}, s.shown())
	if err != nil {
		screen.Close()
		return nil, nil, err
	}
	return screen, p, nil
}

// launch starts c and closes its output. When ctx ends it returns soon, even if the Starter hangs: a command that
// starts later is stopped.
func (s *shell) launch(ctx context.Context, c proc.Command, show []string) (box.Running, error) {
	type started struct {
		box.Running
		err error
	}
	done := make(chan started, 1)
	go func() {
		p, err := s.Host.Start(c, show)
		c.Stdout.Close()
		done <- started{p, err}
	}()
	select {
	case p := <-done:
		return p.Running, p.err
	case <-ctx.Done():
	}
	select {
	case p := <-done: // it started at that moment
		return p.Running, p.err
	case <-time.After(startGrace):
	}
	go func() {
		if p := <-done; p.err == nil {
			p.Stop()
		}
	}()
	return nil, fmt.Errorf("the command was not started: %w", context.Cause(ctx))
}

// startGrace is how long the start of a command may take after the end of its context. It is shorter than the time that
// a cancelled child has.
const startGrace = 500 * time.Millisecond

// shown are the files of qq that commands may read: their log, and what the agent was told to read.
func (s *shell) shown() (files []string) {
	switch {
	case s.Log != nil:
		files = append(files, s.Log.Name())
	case s.LogPath != "":
		files = append(files, s.LogPath)
	}
	if s.Show != nil {
		files = append(files, s.Show()...)
	}
	return files
}

// attend waits until p has ended. It stops p at the timeout or when ctx ends; then why says which. Otherwise why is
// "".
func (s *shell) attend(ctx context.Context, p box.Running, timeout time.Duration) (o box.Outcome, why string) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-p.Done():
		return p.Wait(), ""
	case <-timer.C:
		why = fmt.Sprintf("timed out after %ds: the command was stopped, this is its output until then",
			int(timeout.Seconds()))
	case <-ctx.Done():
		why = fmt.Sprintf("cancelled: %v: the command was stopped, this is its output until then", context.Cause(ctx))
	}
	p.Stop()
	return p.Wait(), why
}

// verdict says how the command ended.
func verdict(o box.Outcome, why string) string {
	var lines []string
	switch {
	case why != "":
	case o.Left == 1:
		lines = append(lines, "a process that the command left running was killed")
	case o.Left > 1:
		lines = append(lines, fmt.Sprintf("%d processes that the command left running were killed", o.Left))
	}
	lines = append(append(lines, o.Excess...), o.Notes...)
	switch {
	case why != "":
		lines = append(lines, why)
	case o.Signal != 0:
		lines = append(lines, "killed by signal "+unix.SignalName(o.Signal))
	default:
		lines = append(lines, fmt.Sprintf("exit code %d", o.Code))
	}
	return "[" + strings.Join(lines, "]\n[") + "]"
}

// output passes what a command prints to the printer, the excerpt and the journal.
type output struct {
	excerpt  tool.Excerpt
	entry    *entry
	activity Activity
}

// copy reads the terminal to its end. Linux returns EIO when the other end is closed; any other
// error ends the output too.
func (o *output) copy(screen io.Reader) {
	p := printer{emit: o.add}
	buf := make([]byte, 32<<10)
	for {
		n, err := screen.Read(buf)
		p.write(buf[:n])
		if err != nil {
			break
		}
		if o.activity != nil {
			o.activity.Active()
		}
	}
	p.close()
}

func (o *output) add(text []byte) {
	o.excerpt.Write(text)
	o.entry.write(text)
}

// NoOutput is what the model reads of a command that has printed nothing, before the line that says how it ended.
const NoOutput = "[no output]"

// result returns the answer that the model reads.
func (o *output) result(verdict string) string {
	where := o.entry.close(verdict)
	text, tail, left := o.excerpt.Cut()
	if left > 0 {
		text = onNewLine(text) + fmt.Sprintf("[%d characters are left out here; %s]\n", left, where) + tail
	}
	if strings.TrimSpace(text) == "" {
		text = NoOutput
	}
	return onNewLine(text) + verdict
}

// onNewLine returns text with a newline at its end.
func onNewLine(text string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}
