package batch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"slices"
	"sync"
	"time"

	"qq/internal/app/batch/naming"
	"qq/internal/app/command"
	"qq/internal/app/output"
	"qq/internal/taskfile"
	"qq/pkg/supervisor"
	"qq/pkg/supervisor/halt"
	"qq/pkg/task"
)

// batchRun is the state of one batch.
type batchRun struct {
	*command.Invocation
	process  Process
	runner   Runner
	o        batchOptions
	start    time.Time
	to       *command.Output                 // the output: gets results and events
	file     *os.File                        // of -o; nil means stdout
	path     string                          // absolute path of file
	made     bool                            // the file of -o did not exist before this batch
	folder   *output.Folder                  // that of --results; nil if there is none
	names    *naming.Names                   // of the results in folder
	next     func() (task.Task, error, bool) // returns the task of the next result
	out      *output.Results                 // writes to to
	progress *output.Progress
	tally    output.Tally
	halt     *halt.Halt  // nil before the tasks start
	staffing []task.Task // one task for each pair of agent and model
	// folders are the real paths of the working directories of tasks when these were read, by their names in the input.
	folders map[string]string
	hint    string   // the last hint that was printed
	copied  bool     // [output.Copied] was printed
	inputs  []string // files that the tasks come from
	id      string   // of the batch
	reason  string   // error of the previous task if it was not started; otherwise empty
}

// dryRun prints the tasks and how long texts would be cut, and runs nothing.
func (b *batchRun) dryRun(ctx context.Context, spool *taskfile.Spool) error {
	n := 0
	p := planner{Runner: b.runner, unknown: map[staff]string{}}
	for t, err := range b.tasks(spool) {
		if err != nil {
			return err
		}
		n++
		plan, err := p.plan(ctx, t)
		if err != nil {
			return err
		}
		if b.o.format == output.Text {
			text := fmt.Sprintf("%d\t%s\t%s\n", n, t.Agent, task.Shorten(t.Text, 200))
			for _, line := range plan {
				text += "\t" + line + "\n"
			}
			_, err = b.Out.WriteString(command.Printable(text))
			err = output.WriteError(err)
		} else {
			err = output.WriteJSON(b.Out, struct {
				task.Task
				Plan []string `json:"plan,omitempty"`
			}{t, plan})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// minDocument is the smallest text, in bytes, that a dry run measures. A shorter one fits
// every model, so the model server need not be asked.
const minDocument = 4 << 10

// planner plans the tasks of a dry run. It asks a model server that is away once only.
type planner struct {
	Runner
	unknown map[staff]string // why there is no plan
}

// staff is an agent and its model.
type staff struct{ agent, model string }

// plan lists how the text of t would be cut, or says that this is not known. The list is empty if the text fits the
// model.
func (p planner) plan(ctx context.Context, t task.Task) ([]string, error) {
	if t.Broken != "" {
		return []string{"it will fail: " + task.Line(t.Broken)}, nil
	}
	if len(t.Text)+len(t.Context) < minDocument {
		return nil, nil
	}
	who := staff{t.Agent, t.Model}
	if p.unknown[who] == "" {
		plan, err := p.Plan(ctx, t)
		if task.StatusOf(err) != task.Unavailable {
			return plan, err
		}
		problem, _ := task.Explain(err)
		p.unknown[who] = "how it would be cut is not known: " + problem
	}
	return []string{p.unknown[who]}, nil
}

// do runs the tasks and prints their results in input order. It records the status of the
// batch at the end, even after an error.
func (b *batchRun) do(ctx context.Context, spool *taskfile.Spool) error {
	outcome := task.Failed
	defer func() {
		if err := b.runner.History().Settle(outcome, b.runner.Used()); err != nil {
			command.Report(b.Err, err) // errors of single results were reported before
		}
	}()
	if err := cmp.Or(b.emptyOutput(), b.clearFolder(spool)); err != nil {
		return err
	}
	b.out = output.NewResults(b.o.format, b.to)
	b.out.Tag, b.out.Terminal, b.out.Heads = b.o.tag, b.to.Terminal(), b.to.Terminal() && !b.Quiet
	var stop func()
	b.next, stop = iter.Pull2(spool.Tasks())
	defer stop()
	var hint sync.WaitGroup
	ended := make(chan struct{})
	if b.o.bar {
		b.progress = output.StartProgress(b.Err, b.o.redraw || b.Coloured(b.Err), spool.Len(), standing{b.runner},
			b.process.Stop())
		hint.Go(func() { b.hintUnfinished(ctx, spool, ended) })
	}
	b.halt = halt.New(b.o.halt, spool.Len())
	b.JSON = b.JSON && b.o.output != "" // from now on stdout gets results only, no JSON error
	runErr := b.runner.Batch(ctx, supervisor.Batch{
		ID: b.id, Tasks: b.tasks(spool), Count: spool.Len(), Results: b,
		Halt: b.halt, Pace: b.o.start.pace(b), Stop: b.process.Stop(),
	})
	close(ended)
	hint.Wait()
	b.progress.Stop()
	if endErr := cmp.Or(b.out.End(), b.checkOutput()); runErr == nil {
		runErr = endErr
	}
	outcome = b.outcome(runErr)
	if runErr != nil {
		// Who has left need not hear how it continues.
		if !errors.Is(runErr, output.ErrClosed) || b.process.Signalled() != 0 {
			b.hintResume()
		}
		return runErr
	}
	b.summarize()
	return b.verdict(outcome)
}

// standing implements output.Batch.
type standing struct{ Runner }

// Known implements output.Batch.
func (s standing) Known() int { return s.History().Resumed() }

// openOutput opens the output of the batch. It does not change an existing file yet.
func (b *batchRun) openOutput(ctx context.Context, spool *taskfile.Spool) error {
	if err := b.openFolder(spool); err != nil {
		return err
	}
	b.to = b.Out
	if b.o.output == "" {
		return nil
	}
	b.path = whole(b.o.output)
	out, err := os.Stat(b.o.output)
	b.made = errors.Is(err, fs.ErrNotExist)
	same := func(name string) bool {
		in, inErr := os.Stat(name)
		return err == nil && inErr == nil && os.SameFile(in, out)
	}
	if same(b.o.joblog) || realPath(b.path) == b.o.joblog {
		return command.Usagef("give another file with -o", "-o and --joblog are the same file, %s", b.o.joblog)
	}
	if i := slices.IndexFunc(b.inputs, same); i >= 0 {
		return command.Usagef("give another file with -o",
			"-o would overwrite %s, which is an input of the batch", b.inputs[i])
	}
	f, err := output.OpenFile(ctx, b.o.output)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, output.ErrInUse) {
		return command.Usagef("wait for it, or give another file with -o", "%v", err)
	}
	if err != nil {
		return command.Usagef("-o takes a file that you may write", "%v", err)
	}
	b.file, b.to = f, b.Screen.Output(f)
	return nil
}

// checkOutput returns an error if the file of -o does not have the results any more: somebody removed it,
// replaced it or cut it.
func (b *batchRun) checkOutput() error {
	if b.file == nil {
		return nil
	}
	open, err := b.file.Stat()
	if err != nil || !open.Mode().IsRegular() {
		return err
	}
	what := ""
	if there, err := os.Stat(b.path); err != nil || !os.SameFile(open, there) {
		what = "was removed or replaced"
	} else if open.Size() < b.to.Sent() {
		what = "was cut"
	}
	if what == "" {
		return nil
	}
	hint := "repeat the command with --resume: it writes the results again"
	if b.o.noLedger {
		hint = "repeat the command"
	}
	return task.Hinted(hint, "-o %s %s meanwhile: not all results are in it", b.o.output, what)
}

// closeOutput closes the file of -o, if there is one. It also deletes the file if remove is
// set.
func (b *batchRun) closeOutput(remove bool) error {
	if b.file == nil {
		return nil
	}
	if remove {
		_ = os.Remove(b.o.output)
	}
	b.Screen.Drain() // the file may be the terminal
	return output.WriteError(b.file.Close())
}

// Done implements supervisor.Results.
func (b *batchRun) Done(res task.Result) { b.progress.Count(res) }

// Deliver implements supervisor.Results: it prints one result.
func (b *batchRun) Deliver(res task.Result) error {
	b.tally.Add(res)
	if sig := b.process.Signalled(); sig != 0 && res.Attempts == 0 && res.Status == task.Cancelled {
		res.ExitCode = task.Signalled(sig).ExitCode() // as of the tasks that were at work
	}
	hint := res.CutHint()
	t, err, _ := b.next()
	if err != nil {
		return err
	}
	if b.folder != nil {
		if err := b.folder.Save(b.names.Of(res.Index+1, item(t)), t.Input, res); err != nil {
			return err
		}
	}
	if res.Unrecorded { // its result is printed all the same
		b.Say("task %d could not be recorded: it runs again when the batch is resumed", res.Index+1)
	}
	if err := b.runner.History().Err(); err != nil {
		return err
	}
	b.sayCopied(res)
	err = b.out.Write(title(t), t.Input, res)
	if !res.Success && b.o.format == output.Text {
		b.complain(res, hint)
	}
	if err != nil {
		return err
	}
	b.runner.History().Delivered(res)
	return nil
}

// sayCopied tells a person before the first answer of the built-in model that nobody wrote it.
func (b *batchRun) sayCopied(res task.Result) {
	forPeople := b.o.format == output.Text || b.o.format == output.Markdown
	if b.copied || !forPeople || res.Model != extract || res.Output == "" || !b.to.Terminal() {
		return
	}
	b.copied = true
	fmt.Fprintln(b.to, output.Copied)
}

// complain prints on stderr why a task failed. It leaves out a hint that it has just
// printed, and a task that was not started for the same reason as the task before.
func (b *batchRun) complain(res task.Result, hint string) {
	if res.Attempts == 0 && (res.Status == task.Cancelled || res.Err() == b.reason) {
		return
	}
	if b.reason = ""; res.Attempts == 0 {
		b.reason = res.Err()
	}
	if !b.to.Terminal() || !b.Err.Terminal() { // else its result says so on the same screen
		b.Say("task %d (%s): %s", res.Index+1, res.Status, res.Err())
	}
	if hint != "" && hint != b.hint {
		fmt.Fprintln(b.Err, "  "+hint)
	}
	b.hint = hint
}

// summarize prints the totals of the batch on stderr.
func (b *batchRun) summarize() {
	limit := b.runner.LimitReached()
	b.sayHalted()
	if limit != "" && b.tally.Complete() {
		b.Say("%s", limit) // no task has failed because of it
	}
	if !b.o.bar && b.tally.Complete() && limit == "" {
		return
	}
	b.tally.Known, b.tally.Usage = b.runner.History().Resumed(), b.runner.Used()
	b.Note("%s", b.tally.Summary(time.Since(b.start)))
	if again := b.tally.Repeats(); again != "" && b.o.bar {
		b.Note("%s", again)
	}
	if b.tally.Failed+b.tally.NotStarted > 0 && !b.halt.Reached() {
		b.hintResume()
	}
}

// hintResume tells the user how to resume this batch. Its callers ask for that when the batch
// has not finished or has failed tasks.
func (b *batchRun) hintResume() {
	if !b.o.bar || b.o.noLedger {
		return
	}
	how := "--resume"
	if b.tally.Ended() {
		how = "--resume-failed"
	}
	b.Note("to continue, repeat the command with %s=%s", how, task.ShortID(b.id))
}

// outcome returns the status of the whole batch. err is the error of running it, or nil.
func (b *batchRun) outcome(err error) task.Status {
	switch {
	case b.process.Signalled() != 0 && (!b.tally.Complete() || err != nil):
		return task.Signalled(b.process.Signalled())
	case errors.Is(err, output.ErrClosed):
		return task.Cancelled
	case err != nil:
		return task.Failed
	case b.runner.Spent() && b.tally.Limited(), b.runner.LimitReached() != "": // of the tree
		return task.Limit
	case b.tally.Complete(), b.halt.Reached():
		return task.Completed
	}
	return task.Failed
}

// verdict returns the exit code for the status of the batch as an error; nil means 0.
func (b *batchRun) verdict(outcome task.Status) error {
	switch outcome {
	case task.Completed:
		return nil
	case task.Interrupted, task.Terminated:
		return command.Said(b.process.Signalled())
	case task.Limit:
		return command.Said(outcome.ExitCode())
	}
	return command.Said(4)
}
