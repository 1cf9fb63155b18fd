package taskfile

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"

	"qq/internal/taskfile/until"
	"qq/pkg/task"
)

// kept is an item in a temporary file.
type kept struct {
	Row   *row       `json:",omitempty"`
	Task  *task.Task `json:",omitempty"`
	Where string
}

// shuffled emits the items of in, in a random order that depends on nothing else, so that a batch that is resumed has
// the same one. It keeps the items in a temporary file in dir.
func shuffled(ctx context.Context, dir string, in Source, emit emit) (err error) {
	tmp, err := newSpool(dir)
	if err != nil {
		return unkept(err)
	}
	defer func() { err = errors.Join(err, tmp.Close()) }()
	w := bufio.NewWriterSize(tmp.file, 64<<10)
	sum := sha256.New()
	var ends []int64 // of each item in the file
	size := int64(0)
	err = in.each(ctx, func(it item) error {
		if it.err != nil {
			it.number = len(ends) + 1
			return emit(it)
		}
		k := kept{Row: it.row, Where: it.where}
		if it.row == nil {
			k.Task = &it.task
		}
		line, err := json.Marshal(k)
		if err != nil {
			return err
		}
		sum.Write(line)
		if _, err := w.Write(line); err != nil {
			return unkept(err)
		}
		size += int64(len(line))
		ends = append(ends, size)
		return nil
	})
	if err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return unkept(err)
	}
	emit = emit.until(ctx)
	order, err := until.Perm(ctx, len(ends), rand.New(rand.NewChaCha8([32]byte(sum.Sum(nil)))))
	if err != nil {
		return err
	}
	for _, i := range order {
		start := int64(0)
		if i > 0 {
			start = ends[i-1]
		}
		var k kept
		if err := json.NewDecoder(io.NewSectionReader(tmp.file, start, ends[i]-start)).Decode(&k); err != nil {
			return unkept(err)
		}
		it := item{row: k.Row, where: k.Where}
		if k.Task != nil {
			it.task = *k.Task
		}
		if err := emit(it); err != nil {
			return err
		}
	}
	return nil
}
