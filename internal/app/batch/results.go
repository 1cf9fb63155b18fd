package batch

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"qq/internal/app/command"
	"qq/internal/app/output"
	"qq/internal/models/gate"
	"qq/pkg/supervisor/changes"
	"qq/pkg/supervisor/halt"
	"qq/pkg/task"
)

// printer prints the results of a batch in input order, and tells a person what came of it.
type printer struct {
	*batchRun
	out      *output.Results
	next     func() (task.Task, error, bool) // returns the task of the next result
	progress *output.Progress                // nil if none is shown
	halt     *halt.Halt
	tally    output.Tally
	hint     string // the last hint that was printed
	reason   string // error of the previous task if it was not started; otherwise empty
	warned   int    // warnings that were said, or would have been
	strays   bool   // it was said how changes outside of the targets are refused
}

// newPrinter returns the printer of the results of b. next returns the task of the next result. The progress is shown
// until end is called.
func (b *batchRun) newPrinter(next func() (task.Task, error, bool)) *printer {
	p := &printer{
		batchRun: b, out: output.NewResults(b.o.format, b.to), next: next, halt: halt.New(b.o.halt, b.spool.Len()),
	}
	p.out.Tag, p.out.Terminal, p.out.Heads = b.o.tag, b.to.Terminal(), b.to.Terminal() && !b.Quiet
	p.out.Width = b.to.Width()
	if b.o.bar {
		live := b.o.redraw || b.Coloured(b.Err)
		p.progress = output.StartProgress(b.Err, live, output.Tasks{
			Total: b.spool.Len(), Jobs: b.planned.Jobs, Delay: b.o.start.delay, Plan: b.planned.Plan,
		}, b.runner, b.process.Stop())
		if live && b.Err.Terminal() {
			b.process.Show(p.progress)
		}
	}
	return p
}

// Done implements supervisor.Results.
func (p *printer) Done(res task.Result) { p.progress.Count(res) }

// Deliver implements supervisor.Results: it prints one result.
func (p *printer) Deliver(res task.Result) error {
	p.tally.Add(res)
	if sig := p.process.Signalled(); sig != 0 && res.NotStarted() {
		res.ExitCode = task.Signalled(sig).ExitCode() // as of the tasks that were at work
	}
	hint := res.CutHint()
	t, err, _ := p.next()
	if err != nil {
		return err
	}
	if err := p.results.save(t, res); err != nil {
		return err
	}
	p.report.Add(t, res)
	if res.Unrecorded { // its result is printed all the same
		p.Say("task %d could not be recorded: it runs again when the batch is resumed", res.Index+1)
	}
	if err := p.runner.History().Err(); err != nil {
		return err
	}
	err = p.out.Write(title(t), t.Input, res)
	if !res.Success && p.o.format == output.Text {
		p.complain(res, hint)
	}
	if p.o.format == output.Text || p.o.format == output.Markdown { // the others have them in the result
		p.warn(res)
	}
	if err != nil {
		return err
	}
	p.runner.History().Delivered(res)
	return nil
}

// complain prints on stderr why a task failed. It leaves out a hint that it has just
// printed, and a task that was not started for the same reason as the task before.
func (p *printer) complain(res task.Result, hint string) {
	if res.NotStarted() || res.Attempts == 0 && res.Err() == p.reason {
		return
	}
	if p.reason = ""; res.Attempts == 0 {
		p.reason = res.Err()
	}
	if !p.to.Terminal() || !p.Err.Terminal() { // else its result says so on the same screen
		p.Say("%s", complaint(res))
	}
	// That of a quota stands at the end, for all tasks that need it.
	if hint != "" && hint != p.hint && (p.runner.UsedUp() == "" || !strings.HasSuffix(hint, gate.QuotaHint)) {
		fmt.Fprintln(p.Err, "  "+hint)
	}
	p.hint = hint
}

// complaint says which task failed, and why.
func complaint(res task.Result) string {
	if res.Err() == string(res.Status) {
		return fmt.Sprintf("%s: %s", output.Named(res), res.Status)
	}
	return fmt.Sprintf("%s (%s): %s", output.Named(res), res.Status, res.Err())
}

// maxWarned is how many warnings of a batch are said, and maxWarning how many characters of each.
const maxWarned, maxWarning = 20, 600

// warn says what is wrong with a result besides its status.
func (p *printer) warn(res task.Result) {
	for _, w := range res.Warnings {
		if p.warned++; p.warned > maxWarned {
			continue
		}
		p.Say("%s (warning): %s", output.Named(res), task.Shorten(w, maxWarning))
		if strings.Contains(w, changes.OutsideOfTargets) && !p.o.strict && !p.strays {
			p.strays = true
			fmt.Fprintln(p.Err, "  hint: --strict-targets refuses that; or add the files to the targets of the task")
		}
	}
}

// sayMoreWarnings says how many warnings were not said.
func (p *printer) sayMoreWarnings() {
	if n := p.warned - maxWarned; n > 0 {
		p.Say("%d more warnings; --json and --report have all", n)
	}
}

// end ends the output of a batch that has run with that error, and tells what came of it. It returns the status of the
// whole batch, and an error unless its exit code is 0.
func (p *printer) end(err error) (task.Status, error) {
	p.progress.Stop()
	hint := "repeat the command with --resume: it writes the results again"
	if p.o.noLedger {
		hint = "repeat the command"
	}
	if endErr := cmp.Or(p.out.End(), p.to.check(hint)); err == nil {
		err = endErr
	}
	if reportErr := p.report.End(time.Since(p.start)); err == nil {
		err = reportErr
	}
	outcome := p.outcome(err)
	if err == nil {
		p.summarize()
		return outcome, p.verdict(outcome)
	}
	// Who has left need not hear how it continues.
	if !errors.Is(err, output.ErrClosed) || p.process.Signalled() != 0 {
		p.hintResume()
	}
	return outcome, err
}

// summarize prints the totals of the batch on stderr.
func (p *printer) summarize() {
	p.sayMoreWarnings()
	limit := p.runner.LimitReached()
	p.sayHalted()
	if used := p.runner.UsedUp(); used != "" && !p.tally.Complete() {
		p.Say("%s: tasks that need it were not started, or ended\n  hint: %s", used, gate.QuotaHint)
	}
	if limit != "" && p.tally.Complete() {
		p.Say("%s", limit) // no task has failed because of it
	}
	if !p.o.bar && p.tally.Complete() && limit == "" {
		p.account()
		return
	}
	p.tally.Known, p.tally.Usage = p.runner.Known(), p.runner.Used()
	p.Note("%s", p.tally.Summary(time.Since(p.start)))
	if again := p.tally.Repeats(); again != "" && p.o.bar {
		p.Note("%s", again)
	}
	p.account()
	if p.tally.Failed+p.tally.NotStarted > 0 && !p.halt.Reached() {
		p.hintResume()
	}
}

// account says with --verbose what was used.
func (p *printer) account() {
	if used := p.runner.Used(); p.o.verbose && used != (task.Usage{}) {
		p.Note("%s", output.Account(used))
	}
}

// hintResume tells the user how to resume this batch. Its callers ask for that when the batch
// has not finished or has failed tasks.
func (p *printer) hintResume() {
	if !p.o.bar || p.o.noLedger {
		return
	}
	how := "--resume"
	if p.tally.Ended() {
		how = "--resume-failed"
	}
	p.Note("to continue, repeat the command with %s=%s", how, task.ShortID(p.id))
}

// outcome returns the status of the whole batch. err is the error of running it, or nil.
func (p *printer) outcome(err error) task.Status {
	switch {
	case p.process.Signalled() != 0 && (!p.tally.Complete() || err != nil):
		return task.Signalled(p.process.Signalled())
	case errors.Is(err, output.ErrClosed):
		return task.Cancelled
	case err != nil:
		return task.Failed
	case p.runner.Spent() && p.tally.Limited(), p.runner.LimitReached() != "": // of the tree
		return task.Limit
	case p.tally.Complete(), p.halt.Reached():
		return task.Completed
	case p.runner.UsedUp() != "":
		return task.Unavailable
	}
	return task.Failed
}

// verdict returns the exit code for the status of the batch as an error; nil means 0.
func (p *printer) verdict(outcome task.Status) error {
	switch outcome {
	case task.Completed:
		return nil
	case task.Interrupted, task.Terminated:
		return command.Said(p.process.Signalled())
	case task.Limit, task.Unavailable:
		return command.Said(outcome.ExitCode())
	}
	return command.Said(4)
}

// sayHalted tells the user that the batch was halted, if tasks were left out because of it.
func (p *printer) sayHalted() {
	reason := p.halt.Reason()
	if p.tally.NotStarted == 0 || p.process.Signalled() != 0 || reason == nil {
		return
	}
	problem, _ := task.Explain(reason)
	if p.halt.Reached() {
		p.Note("halted: %s, no more were started", problem)
		return
	}
	p.Say("halted: %s, no more were started", problem)
}
