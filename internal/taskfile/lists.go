package taskfile

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"qq/internal/taskfile/locate"
	"qq/pkg/task"
)

// List is a list of values, as GNU parallel takes it after ::: or, from a file, after ::::.
type List struct {
	Values []string
	File   string    // whose lines are the values; empty if Values are
	Input  io.Reader // of File, if that is stdin or a pipe; nil for a file
	Linked bool      // its values go with those of the list before, one with one
}

const (
	// maxLists is how many bytes the values of all lists but the first may have: these are kept in memory.
	maxLists = 64 << 20
	// maxCombinations is how many tasks several lists may make.
	maxCombinations = 10_000_000
)

// combinations emits a row for each combination of the values of the lists. The last list changes first.
func (s Source) combinations(ctx context.Context, emit emit) error {
	var groups [][]List // lists that are linked
	for _, l := range s.Lists {
		if l.Linked && len(groups) > 0 {
			last := len(groups) - 1
			groups[last] = append(groups[last], l)
		} else {
			groups = append(groups, []List{l})
		}
	}
	kept := make([][][]string, len(groups)) // that of the first group is not kept
	size := 0
	for i, g := range groups {
		if i == 0 {
			continue
		}
		for values, err := range s.linked(ctx, g) {
			if err != nil {
				return err
			}
			kept[i] = append(kept[i], values)
			for _, v := range values {
				size += len(v)
			}
			if size > maxLists {
				return task.Hinted("give the longest list first", "the lists after the first one have more than %d MiB",
					maxLists>>20)
			}
		}
	}
	each := 1.0 // how many tasks a value of the first group makes
	for _, values := range kept[1:] {
		each *= float64(len(values))
	}
	if err := s.checkCount(ctx, groups, each); err != nil {
		return err
	}
	finder, err := locate.In(s.Dir)
	if err != nil {
		return err
	}
	made := 0.0
	for values, err := range s.linked(ctx, groups[0]) {
		if err != nil {
			return err
		}
		if made += each; made > maxCombinations && len(groups) > 1 {
			return tooMany(fmt.Sprintf("more than %d tasks", maxCombinations))
		}
		if err := s.combine(values, kept[1:], finder, emit); err != nil {
			return err
		}
	}
	return nil
}

// checkCount returns an error if the lists make too many tasks. It cannot know that if the first one is a pipe.
func (s Source) checkCount(ctx context.Context, groups [][]List, each float64) error {
	if len(groups) == 1 || slices.ContainsFunc(groups[0], func(l List) bool { return l.Input != nil }) {
		return nil
	}
	count := 0.0
	for _, err := range s.linked(ctx, groups[0]) {
		if err != nil {
			return err
		}
		count += each
	}
	if count > maxCombinations {
		return tooMany(fmt.Sprintf("%.0f tasks, and a batch has at most %d", count, maxCombinations))
	}
	return nil
}

func tooMany(count string) error {
	return task.Hinted("all lists are combined; :::+ links a list to the one before, the first with the first",
		"the lists make %s", count)
}

// combine emits a row for each way to continue the values with one of each of the rest.
func (s Source) combine(values []string, rest [][][]string, finder *locate.Finder, emit emit) error {
	if len(rest) > 0 {
		for _, more := range rest[0] {
			if err := s.combine(append(values[:len(values):len(values)], more...), rest[1:], finder, emit); err != nil {
				return err
			}
		}
		return nil
	}
	r := &row{Inputs: s.inputs()}
	for _, v := range values {
		in := s.columns(text(v))
		r.Cells = append(r.Cells, in.Cells...)
		r.Files = append(r.Files, named(finder, in)...)
		if r.Broken == "" {
			r.Broken = in.Broken
		}
	}
	r.Text = strings.Join(r.Cells, " ")
	return emit(item{row: r, where: task.Shorten(r.Text, 60)})
}

// linked returns the values of linked lists, one of each, up to the end of the shortest.
func (s Source) linked(ctx context.Context, lists []List) iter.Seq2[[]string, error] {
	return func(yield func([]string, error) bool) {
		next := make([]func() (string, error, bool), len(lists))
		for i, l := range lists {
			var stop func()
			next[i], stop = iter.Pull2(s.values(ctx, l))
			defer stop()
		}
		for {
			values := make([]string, len(lists))
			for i := range lists {
				v, err, ok := next[i]()
				if err != nil {
					yield(nil, err)
					return
				}
				if !ok {
					return
				}
				values[i] = v
			}
			if !yield(values, nil) {
				return
			}
		}
	}
}

// values returns the values of a list.
func (s Source) values(ctx context.Context, l List) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for _, v := range l.Values {
			if !yield(v, nil) {
				return
			}
		}
		if l.File == "" {
			return
		}
		err := s.fileValues(ctx, l, func(v string) bool { return yield(v, nil) })
		if err != nil && !errors.Is(err, errEnough) {
			yield("", err)
		}
	}
}

// errEnough ends reading when no more values are needed.
var errEnough = errors.New("enough")

// fileValues passes on the lines of the file of a list.
func (s Source) fileValues(ctx context.Context, l List, more func(string) bool) error {
	from := Source{Name: l.File, Input: l.Input, Null: s.Null}
	in, err := from.open(ctx)
	if err != nil {
		return err
	}
	defer in.Close()
	r := bufio.NewReaderSize(in, headSize)
	if err := from.mark(r); err != nil {
		return err
	}
	return from.eachLine(r, func(line []byte) item { return item{task: task.Task{Text: string(line)}} },
		func(it item) error {
			if it.err != nil {
				return fmt.Errorf("read tasks: %s: %w", it.where, it.err)
			}
			if !more(it.task.Text) {
				return errEnough
			}
			return nil
		})
}

// grouped emits one row for each s.Group rows that read emits; the last one may have fewer.
func (s Source) grouped(read func(emit) error, emit emit) error {
	if s.Group == 0 {
		return read(emit)
	}
	var group *item
	flush := func() error {
		if group == nil {
			return nil
		}
		it := *group
		group = nil
		it.row.Text = strings.Join(it.row.Cells, " ")
		return emit(it)
	}
	err := read(func(it item) error {
		if it.err != nil {
			return emit(it)
		}
		if group == nil {
			group = &item{row: &row{Inputs: s.Group}, where: it.where}
		}
		r := group.row
		r.Cells = append(r.Cells, it.row.Text)
		r.Files = append(r.Files, it.row.Files...)
		r.Images = append(r.Images, it.row.Images...)
		if r.Broken == "" {
			r.Broken = it.row.Broken
		}
		if len(r.Cells) < s.Group {
			return nil
		}
		return flush()
	})
	if err != nil {
		return err
	}
	return flush()
}
