package batch

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"syscall"

	"qq/internal/app/command"
	"qq/internal/app/output"
	"qq/pkg/task"
)

// target is where the results and the events of a batch go. Nothing may be written before it is opened.
type target struct {
	*command.Output
	file *os.File // of -o; nil means stdout
	path string   // absolute path of file
	made bool     // file did not exist before this batch
}

// openOutput opens the output of the batch. It does not change an existing file yet.
func (b *batchRun) openOutput(ctx context.Context) error {
	b.to.Output = b.Out
	if b.o.output == "" {
		return nil
	}
	path := whole(b.o.output)
	out, err := os.Stat(b.o.output)
	made := errors.Is(err, fs.ErrNotExist)
	same := func(name string) bool {
		in, inErr := os.Stat(name)
		return err == nil && inErr == nil && os.SameFile(in, out)
	}
	if same(b.o.joblog) || realPath(path) == b.o.joblog {
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
	b.to = target{b.Screen.Output(f), f, path, made}
	return nil
}

// empty reports whether the file has no results that a new batch would remove.
func (t target) empty() bool {
	if t.file == nil {
		return true
	}
	info, err := t.file.Stat()
	return err == nil && info.Size() == 0
}

// clear removes the old content of the file.
func (t target) clear() error {
	if t.file == nil {
		return nil
	}
	if err := t.file.Truncate(0); err != nil && !errors.Is(err, syscall.EINVAL) { // a pipe has no length
		return command.Usagef("-o takes a file that you may write", "%v", err)
	}
	return nil
}

// check returns an error if the file does not have the results any more: somebody removed it, replaced it or cut it.
// hint says what to do then.
func (t target) check(hint string) error {
	if t.file == nil {
		return nil
	}
	open, err := t.file.Stat()
	if err != nil || !open.Mode().IsRegular() {
		return err
	}
	if there, err := os.Stat(t.path); err != nil || !os.SameFile(open, there) {
		return task.Hinted(hint, "-o %s was removed or replaced meanwhile: not all results are in it", t.file.Name())
	}
	if open.Size() < t.Sent() {
		return task.Hinted(hint, "-o %s was cut meanwhile: not all results are in it", t.file.Name())
	}
	return nil
}

// close closes the file. It also deletes it if remove is set.
func (t target) close(screen *command.Screen, remove bool) error {
	if t.file == nil {
		return nil
	}
	if remove {
		_ = os.Remove(t.path)
	}
	screen.Drain() // the file may be the terminal
	return output.WriteError(t.file.Close())
}
