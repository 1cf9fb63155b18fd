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

// resultFolder is the folder of --results.
type resultFolder struct {
	*output.Folder // nil if there is none
	names          *naming.Names
	tasks          *taskfile.Spool
}

// openResults opens the folder at path for the results of tasks, and finds a name for each of them. Without a path
// there is no folder.
func openResults(path string, tasks *taskfile.Spool) (f resultFolder, err error) {
	if path == "" {
		return f, nil
	}
	f.tasks = tasks
	if f.Folder, err = output.OpenFolder(path); errors.Is(err, output.ErrInUse) {
		return f, command.Usagef("wait for it, or give another folder with --results", "%v", err)
	}
	if err != nil {
		return f, command.Usagef("--results takes a folder that you may write to", "%v", err)
	}
	f.names, err = naming.New(func(yield func(naming.Item, error) bool) {
		for t, err := range tasks.Tasks() {
			if !yield(item(t), err) {
				return
			}
		}
	})
	if err == nil {
		err = f.Check(f.all())
	}
	if errors.Is(err, output.ErrForeign) {
		return f, command.Usagef("give another folder with --results", "%v", err)
	}
	return f, err
}

// all returns the names of all results, in order.
func (f resultFolder) all() iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		number := 0
		for t, err := range f.tasks.Tasks() {
			number++
			if !yield(f.names.Of(number, item(t)), err) {
				return
			}
		}
	}
}

// save writes the result of t to the folder, if there is one. A task that was not started has no result: many are left
// out at once, and two files for each would take minutes.
func (f resultFolder) save(t task.Task, res task.Result) error {
	if f.Folder == nil || res.NotStarted() {
		return nil
	}
	return f.Save(f.names.Of(res.Index+1, item(t)), t.Input, res)
}

// clearFolder removes what an earlier batch has left in the folder of --results under the names of this one. If this
// one continues it, it only removes the results of tasks that have another name now.
func (b *batchRun) clearFolder() error {
	switch {
	case b.results.Folder == nil:
		return nil
	case b.runner.History().Resumes():
		return b.results.clearRenamed(b.id)
	}
	others, err := b.results.Clear(b.results.all())
	if others {
		b.Say("%s also has results of another batch, which stay there", b.o.results)
	}
	return err
}

// clearRenamed removes the results of tasks of the batch with that id that have other names than now: more tasks, or
// fewer, may give a task another name.
func (f resultFolder) clearRenamed(batch string) error {
	old, err := f.Others(f.all())
	if err != nil || len(old) == 0 {
		return err
	}
	for t, err := range f.tasks.Tasks() {
		if err != nil {
			return err
		}
		made := output.Made{BatchID: batch, Task: t.Brief(), Input: t.Input}
		if err := f.Remove(old[made]); err != nil {
			return err
		}
		delete(old, made)
	}
	return nil
}
