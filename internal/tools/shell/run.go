package shell

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"qq/internal/approval/rules"
	"qq/pkg/proc"
	"qq/pkg/tool"
)

// run executes one call of the tool. It returns an error only if the command could not start: a failing command is
// a result.
func (s *shell) run(ctx context.Context, args json.RawMessage) (string, error) {
	r, err := s.request(args)
	if err != nil {
		return "", err
	}
	if in, ok := tool.Granted(ctx); ok && in.Preview != r.preview() {
		return "", fmt.Errorf("the working directory of the command is %s by now, which is not what was approved: "+
			"call again", r.dir)
	}
	if ctx.Err() != nil {
		return "", fmt.Errorf("the command was not started: %w", context.Cause(ctx))
	}
	call := rules.Call{Path: "/bin/sh", Args: []string{"sh", "-c", r.command}, Env: s.Env}
	if in, ok := tool.Granted(ctx); ok && in.Rule != "" {
		if call, err = s.prepare(r); err != nil {
			return "", fmt.Errorf("the rule %s does not allow this any more: %w", in.Rule, err)
		}
	}
	screen, p, err := s.start(r, call)
	if err != nil {
		return "", err
	}
	defer screen.Close()
	out := output{excerpt: tool.Excerpt{Max: maxChars}, entry: s.journal.enter(r.command)}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		out.copy(screen)
	}()
	exit, why := s.attend(ctx, p, r.timeout)
	// All writers are gone, so the read ends by itself. The deadline is for a process
	// that escaped the sweep.
	_ = screen.SetReadDeadline(time.Now().Add(s.grace))
	<-drained
	return out.result(verdict(exit, why)), nil
}

// start starts the call, which is the command of r, and returns the end of its terminal from which output is read.
func (s *shell) start(r request, call rules.Call) (screen *os.File, p *proc.Process, err error) {
	screen, tty, err := openTerminal()
	if err != nil {
		return nil, nil, fmt.Errorf("open a terminal for the command: %w", err)
	}
	defer tty.Close()
	p, err = s.Host.Start(proc.Command{
		Path: call.Path, Args: call.Args, Dir: r.dir,
		Env:    append(environment(call.Env, s.TempDir), "PWD="+r.dir),
		Stdout: tty, Stderr: tty, Terminal: true,
		Grace: s.grace, Marker: markPrefix + strconv.Itoa(s.Depth) + "=" + rand.Text(),
	})
	if err != nil {
		screen.Close()
		return nil, nil, err
	}
	return screen, p, nil
}

// attend waits until p has ended. It stops p at the timeout or when ctx ends; then why says which. Otherwise why is
// "".
func (s *shell) attend(ctx context.Context, p *proc.Process, timeout time.Duration) (exit proc.Exit, why string) {
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
func verdict(exit proc.Exit, why string) string {
	switch {
	case why != "":
		return "[" + why + "]"
	case exit.Signal != 0:
		why = "[killed by signal " + unix.SignalName(exit.Signal) + "]"
	default:
		why = fmt.Sprintf("[exit code %d]", exit.Code)
	}
	switch exit.Left {
	case 0:
		return why
	case 1:
		return "[a process that the command left running was killed]\n" + why
	}
	return fmt.Sprintf("[%d processes that the command left running were killed]\n%s", exit.Left, why)
}

// output passes what a command prints to the printer, the excerpt and the journal.
type output struct {
	excerpt tool.Excerpt
	entry   *entry
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
	}
	p.close()
}

func (o *output) add(text []byte) {
	o.excerpt.Write(text)
	o.entry.write(text)
}

// result returns the answer that the model reads.
func (o *output) result(verdict string) string {
	where := o.entry.close(verdict)
	text, tail, left := o.excerpt.Cut()
	if left > 0 {
		text = onNewLine(text) + fmt.Sprintf("[%d characters are left out here; %s]\n", left, where) + tail
	}
	if strings.TrimSpace(text) == "" {
		text = "[no output]"
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
