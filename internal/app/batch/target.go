package batch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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
	if why := b.taken(path, same); why != "" {
		return command.Usagef("give another file with -o", "%s", why)
	}
	if stdin, inErr := b.In.Stat(); err == nil && inErr == nil && out.Mode().IsRegular() && os.SameFile(stdin, out) {
		return command.Usagef("give another file with -o", "-o would overwrite %s, which is stdin", b.o.output)
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

// taken returns what else the file at path is for; "" if it may be that of -o. same reports whether it is the file of
// another name.
func (b *batchRun) taken(path string, same func(name string) bool) string {
	real := realPath(path)
	if same(b.o.joblog) || real == b.o.joblog {
		return "-o and --joblog are the same file, " + b.o.joblog
	}
	if i := slices.IndexFunc(b.inputs, same); i >= 0 {
		return fmt.Sprintf("-o would overwrite %s, which is an input of the batch", b.inputs[i])
	}
	if same(b.o.schemaFile) {
		return fmt.Sprintf("-o would overwrite %s, which is the schema of --schema", b.o.schemaFile)
	}
	rel, err := filepath.Rel(realPath(b.Checkout.Settings.Home), real)
	if err == nil && filepath.IsLocal(rel) {
		return "-o would write to QQ_HOME, where qq keeps its own files: " + path
	}
	return ""
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
