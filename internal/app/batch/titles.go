package batch

import (
	"cmp"
	"errors"
	"iter"

	"qq/internal/app/batch/naming"
	"qq/internal/app/command"
	"qq/internal/app/output"
	"qq/internal/taskfile"
	"qq/pkg/task"
)

// title returns what a task is called: what its template was filled with, its id, or its text.
func title(t task.Task) string { return cmp.Or(t.Input, t.ID, t.Text) }

// item returns what the name of the result of t is made of.
func item(t task.Task) naming.Item { return naming.Item{Text: title(t), File: t.File != ""} }

// openFolder opens the folder of --results, and finds a name for each result.
func (b *batchRun) openFolder(spool *taskfile.Spool) error {
	if b.o.results == "" {
		return nil
	}
	var err error
	if b.folder, err = output.OpenFolder(b.o.results); errors.Is(err, output.ErrInUse) {
		return command.Usagef("wait for it, or give another folder with --results", "%v", err)
	}
	if err != nil {
		return command.Usagef("--results takes a folder that you may write to", "%v", err)
	}
	b.names, err = naming.New(func(yield func(naming.Item, error) bool) {
		for t, err := range spool.Tasks() {
			if !yield(item(t), err) {
				return
			}
		}
	})
	if err == nil {
		err = b.folder.Check(b.resultNames(spool))
	}
	if errors.Is(err, output.ErrForeign) {
		return command.Usagef("give another folder with --results", "%v", err)
	}
	return err
}

// resultNames returns the names of all results, in order.
func (b *batchRun) resultNames(spool *taskfile.Spool) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		number := 0
		for t, err := range spool.Tasks() {
			number++
			if !yield(b.names.Of(number, item(t)), err) {
				return
			}
		}
	}
}

// clearFolder removes what an earlier batch has left in the folder of --results under the names of this one. If this
// one continues it, it only removes the results of tasks that have another name now.
func (b *batchRun) clearFolder(spool *taskfile.Spool) error {
	if b.folder == nil {
		return nil
	}
	if b.runner.History().Resumes() {
		return b.clearRenamed(spool)
	}
	others, err := b.folder.Clear(b.resultNames(spool))
	if others {
		b.Say("%s also has results of another batch, which stay there", b.o.results)
	}
	return err
}

// clearRenamed removes the results of tasks of this batch that have other names than now: more tasks, or fewer, may
// give a task another name.
func (b *batchRun) clearRenamed(spool *taskfile.Spool) error {
	old, err := b.folder.Others(b.resultNames(spool))
	if err != nil || len(old) == 0 {
		return err
	}
	for t, err := range spool.Tasks() {
		if err != nil {
			return err
		}
		made := output.Made{Task: task.Shorten(t.Text, 100), Input: t.Input}
		if err := b.folder.Remove(old[made]); err != nil {
			return err
		}
		delete(old, made)
	}
	return nil
}
