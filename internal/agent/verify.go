package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"qq/internal/agent/contents"
	"qq/internal/agent/loop"
	"qq/internal/tools/shell"
	"qq/pkg/event"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// verifier verifies the work of a run. It implements [loop.Verifier].
type verifier struct {
	*run
	command tool.Tool       // runs the check; nil if the task has none
	call    tool.Call       // of command, with the check
	granted context.Context // in which the check runs
	idle    bool            // the work must change something, and did not yet
	// before is the working directory as it was at first, nil if nobody asks. checked is the same after the last check,
	// nil if none ran.
	before, checked map[string]contents.Stamp
	had             contents.Contents // of the files in before, as far as they were read
}

const (
	// shellTool is the tool that runs the check.
	shellTool = "run_pty_cmd"
	// checkTime is how long a check may run, in seconds. The limits of the task hold as well.
	checkTime = 600
	// maxReport is how many characters of the output of a check the agent reads, and maxTail how many of its end stand
	// in the error.
	maxReport, maxTail = 8000, 400
)

// verifier returns what verifies the work of the run, or nil. A check that no person gave is approved now: nothing
// is done before that.
func (r *run) verifier(ctx context.Context) (*verifier, error) {
	v := &verifier{run: r, granted: ctx, idle: r.job.RequireChange && !r.Setup.ReadOnly}
	if v.idle || r.job.Check != "" && r.bounded() {
		v.before, _ = r.stamps(ctx, math.MaxInt)
		v.had = contents.Of(r.root, v.before)
	}
	if r.job.Check == "" {
		if !v.idle {
			return nil, nil
		}
		return v, nil
	}
	return v, v.admit(ctx)
}

// admit finds the tool that runs the check, and has the check approved unless a person gave it.
func (v *verifier) admit(ctx context.Context) (err error) {
	misused := func(format string, args ...any) error {
		return &task.Error{Status: task.Misused, Problem: fmt.Sprintf(format, args...),
			Hint: "leave the check out, or name an agent that runs commands, such as coder"}
	}
	if v.Setup.ReadOnly {
		return misused("%s may only read here: its task has no check", v.Definition.Name)
	}
	args, err := json.Marshal(map[string]any{"command": v.job.Check, "timeout": checkTime})
	if err != nil {
		return err
	}
	v.call = tool.Call{ID: "check", Name: shellTool, Arguments: args}
	v.command, _ = v.commands.Lookup(shellTool)
	if !v.job.CheckAsked {
		return nil
	}
	v.command, v.granted, err = v.gate().Admit(tool.WithCall(ctx, v.call), v.call)
	refused, ok := errors.AsType[*tool.RefusedError](err)
	switch {
	case ok:
		hint := refused.Hint
		if v.job.Parent == "" && hint != "" {
			hint += "; "
		}
		if v.job.Parent == "" {
			hint += "qq trust FILE allows the checks in a file of tasks (a plan: qq plan -o FILE)"
		}
		return &task.Error{Status: task.Refused, Problem: "the check of the task: " + refused.Error(), Hint: hint}
	case err != nil:
		return misused("the check of the task: %v", err)
	}
	return nil
}

// Verify implements loop.Verifier.
func (v *verifier) Verify(ctx context.Context) *loop.Fault {
	if v.idle {
		if !v.hasChanged(ctx) {
			return &loop.Fault{
				Problem: "the agent said that it was done, and nothing was changed",
				Message: "You said that you are done, but nothing was changed. Do what the task asks for. " +
					"If nothing has to be changed, say why.",
			}
		}
		v.idle = false
	}
	if v.command == nil {
		return nil
	}
	if v.bounded() {
		if fault := v.strayed(ctx); fault != nil {
			return fault
		}
	}
	if err := v.Effects(); err != nil {
		return &loop.Fault{Problem: "the check was not run: " + err.Error()}
	}
	res := v.perform()
	if v.bounded() {
		v.checked, _ = v.stamps(ctx, math.MaxInt)
	}
	line := task.Shorten(v.job.Check, 100)
	switch {
	case res.Ran == nil:
		return &loop.Fault{Problem: fmt.Sprintf("the check `%s` could not be run: %s", line, task.Line(res.Content))}
	case res.Ran.ExitCode == 0:
		return nil
	}
	printed := " and printed nothing"
	if tail := tailOf(res.Content); tail != "" {
		printed = "; it printed: " + tail
	}
	return &loop.Fault{
		Problem: fmt.Sprintf("the check `%s` failed with exit code %d%s", line, res.Ran.ExitCode, printed),
		Message: fmt.Sprintf("Your work was checked with this command, and the check failed:\n%s\n\nIts output:\n%s"+
			"\n\nRepair the work. When that is done, give your whole answer again.", v.job.Check, excerpt(res.Content)),
	}
}

// perform runs the check, and tells those who watch the agent.
func (v *verifier) perform() tool.Result {
	began := time.Now()
	const name = "check"
	v.Emit(event.Event{Type: event.ToolStart, CallID: v.call.ID, Tool: name, Text: task.Shorten(v.job.Check, 200)})
	res := loop.Perform(v.granted, v.command, v.call)
	end := event.Event{Type: event.ToolEnd, CallID: v.call.ID, Tool: name, Failed: true}
	end.DurationMS = time.Since(began).Milliseconds()
	switch {
	case res.Ran == nil:
		end.Error = task.Shorten(res.Content, 200)
	case res.Ran.ExitCode != 0:
		end.Error = fmt.Sprintf("exit code %d", res.Ran.ExitCode)
	default:
		end.Failed = false
	}
	v.Emit(end)
	if res.Ran != nil {
		done := task.Command{Line: res.Ran.Line, ExitCode: res.Ran.ExitCode, Check: true}
		if done.ExitCode != 0 {
			done.Output = printed(res.Content)
		}
		v.deeds.did.Run(done)
	}
	return res
}

// excerpt returns what the agent reads of the output of a check.
func excerpt(text string) string {
	e := tool.Excerpt{Max: maxReport}
	_, _ = e.Write([]byte(text))
	head, tail, left := e.Cut()
	if left == 0 || tail == "" {
		return head
	}
	return fmt.Sprintf("%s\n[%d characters are left out here]\n%s", head, left, tail)
}

// printed returns the output of a check, without the line that says how the check ended.
func printed(text string) string {
	text = strings.TrimRight(text, "\n")
	if at := strings.LastIndexByte(text, '\n'); at >= 0 {
		text = text[:at]
	}
	if text = strings.TrimRight(text, " \n"); text == shell.NoOutput {
		return ""
	}
	return text
}

// tailOf returns the end of the output of a check on one line.
func tailOf(text string) string {
	var lines []string
	for line := range strings.Lines(printed(text)) {
		if line = strings.Join(strings.Fields(line), " "); line != "" {
			lines = append(lines, line)
		}
	}
	text = strings.Join(lines, " | ")
	if r := []rune(text); len(r) > maxTail {
		text = "..." + string(r[len(r)-maxTail:])
	}
	return text
}

// stamps returns the stamps of the files in the working directory, without those of qq itself.
func (r *run) stamps(ctx context.Context, most int) (map[string]contents.Stamp, error) {
	return contents.Stamps(ctx, r.root, r.Process.Dir, r.Setup.Private, most)
}

// hasChanged reports whether the run has changed a file. What tools report is known; what commands and other agents did
// is seen in the working directory.
func (v *verifier) hasChanged(ctx context.Context) bool {
	if changed := v.deeds.changed.Load(); changed || !v.deeds.unseen.Load() {
		return changed
	}
	now, _ := v.stamps(ctx, math.MaxInt)
	return slices.ContainsFunc(v.since(now), func(f string) bool {
		return v.Setup.Bounds.Bar(f) == nil // what the targets bar is not joined
	})
}

// since returns the files that differ now from those at first. One that was only touched does not.
func (v *verifier) since(now map[string]contents.Stamp) []string {
	return slices.DeleteFunc(contents.Differing(v.before, now), func(f string) bool {
		was, before := v.before[f]
		is, after := now[f]
		return before && after && v.had.Same(v.root, f, was, is)
	})
}

// deeds collects what a run did.
type deeds struct {
	reads
	did     task.Did
	changed atomic.Bool // a tool has reported that it changed a file
	unseen  atomic.Bool // a command or another agent may have changed something
}

// Ran implements loop.Observer.
func (d *deeds) Ran(s tool.Spec, c tool.Call, res tool.Result) {
	d.reads.Ran(s, c, res)
	d.did.Call(s.Name)
	if res.Ran != nil {
		d.did.Run(task.Command{Line: res.Ran.Line, ExitCode: res.Ran.ExitCode})
	}
	if len(res.Changed) > 0 {
		d.changed.Store(true)
	}
	if s.Effect == tool.Executes || s.Effect == tool.Delegates || s.Effect == tool.Attends {
		d.unseen.Store(true)
	}
}
