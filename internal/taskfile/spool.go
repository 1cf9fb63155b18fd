package taskfile

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"

	"qq/pkg/task"
)

// Spool holds the checked tasks of a batch, in a temporary file.
type Spool struct {
	file *os.File
	size int64
	n    int
}

// spooled is a task with what its usual JSON leaves out.
type spooled struct {
	task.Task
	Input string `json:"input,omitempty"`
	Where string `json:"where"` // it stands in the input
}

// Check reads all tasks of in, in order, and writes them to a temporary file in dir, which it creates if necessary.
// valid checks each task, with its index, for what only the caller can know; nil means that there is nothing more
// to check. Check stops at the first problem, and when ctx ends, whose cause it returns. It keeps nothing then.
//
// An error that wraps [ErrKeep] is no mistake in the input: dir cannot hold the tasks.
//
// When Check returns, the file has no name, so the system deletes it however the process ends.
func Check(ctx context.Context, in Source, dir string, valid func(int, task.Task) error) (*Spool, error) {
	s, err := newSpool(dir)
	if err != nil {
		return nil, unkept(err)
	}
	if err := s.fill(ctx, in, dir, valid); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func newSpool(dir string) (*Spool, error) {
	if dir != "" {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	f, err := os.CreateTemp(dir, "batch-*.jsonl") // mode 0600
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &Spool{file: f}, nil
}

func (s *Spool) fill(ctx context.Context, in Source, dir string, valid func(int, task.Task) error) error {
	w := bufio.NewWriterSize(s.file, 64<<10)
	enc := json.NewEncoder(w)
	filler := filler{text: cmp.Or(in.Template, "{}")}
	add := func(it item) error {
		err := it.err
		if err == nil && it.row != nil {
			it.task, err = filler.task(*it.row, s.n+1)
		}
		if err == nil && valid != nil {
			err = valid(s.n, it.task)
		}
		if err != nil {
			return fmt.Errorf("task %d (%s): %w", cmp.Or(it.number, s.n+1), it.where, err)
		}
		if err := enc.Encode(spooled{it.task, it.task.Input, it.where}); err != nil {
			return unkept(err)
		}
		s.n++
		return nil
	}
	var err error
	if in.Shuffle {
		err = shuffled(ctx, dir, in, add)
	} else {
		err = in.each(ctx, add)
	}
	if err != nil {
		return err
	}
	if s.n == 0 {
		return fmt.Errorf("%w: %s holds none", ErrNoTasks, in.label())
	}
	if err := w.Flush(); err != nil {
		return unkept(err)
	}
	if s.size, err = s.file.Seek(0, io.SeekCurrent); err != nil {
		return unkept(err)
	}
	return nil
}

// unkept wraps an error of the temporary file in [ErrKeep].
func unkept(err error) error { return fmt.Errorf("%w: %w", ErrKeep, err) }

// Len is the number of tasks.
func (s *Spool) Len() int { return s.n }

// Tasks returns the tasks in order. It may be called several times, and by several
// goroutines at once. An error ends the sequence.
func (s *Spool) Tasks() iter.Seq2[task.Task, error] {
	return func(yield func(task.Task, error) bool) {
		for t, err := range s.all() {
			t.Task.Input = t.Input
			if !yield(t.Task, err) {
				return
			}
		}
	}
}

// Where returns the place of the task at an index in the input. It reads all before that.
func (s *Spool) Where(index int) string {
	for t, err := range s.all() {
		if index--; index < 0 && err == nil {
			return t.Where
		}
	}
	return ""
}

// all returns what the file holds.
func (s *Spool) all() iter.Seq2[spooled, error] {
	return func(yield func(spooled, error) bool) {
		dec := json.NewDecoder(io.NewSectionReader(s.file, 0, s.size))
		for i := range s.n {
			var t spooled
			if err := dec.Decode(&t); err != nil {
				yield(spooled{}, fmt.Errorf("read task %d again: %w", i+1, err))
				return
			}
			if !yield(t, nil) {
				return
			}
		}
	}
}

// Close deletes the tasks.
func (s *Spool) Close() error { return s.file.Close() }
