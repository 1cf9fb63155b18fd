// Package taskfile reads the tasks of a batch from every kind of input: a JSON array,
// JSON Lines, CSV, one task a line, or a template that is filled with files, lines, rows,
// objects or the values of ::: lists.
//
// [Check] reads a [Source] to its end, checks every task and writes it to a private
// temporary file, the spool. So one bad task refuses the whole batch before anything
// starts. The [Spool] reads the tasks again. Memory does not grow with the number of
// tasks, with two exceptions: --shuf keeps the place of each task in the spool, and of
// several lists all but the first are kept in memory, up to a limit.
//
// A task whose input is not UTF-8 is no bad task: it says so when it is run (task.Task.Broken),
// and the others are run.
//
// Errors name the number of the task, which counts from 1 like {#} and lines, and its
// line in the input. Only the first problem is reported.
//
// Placeholders of a template: {} is the line, the file name or the whole row, {#} the
// number of the task, {%} a number that no other running task has, {name} a column of a CSV
// or a key of an object, {1} the first of several inputs or columns; where a task has one
// input, it is that. {/} {//} {.} {/.} are parts of a path, also as {name/}. They are all
// filled in at once, so a value can contain no placeholder. A template with none that stands
// for the input gets the input appended after a space. A {word} that is nothing of these is
// an error. So is a number that a task has no input for; where it has one input or a row, only
// {1} to {9}. There a number directly after a letter, a digit or one of ]).$ is text, as in
// \d{4}. Other braces stay as they are (JSON in prompts), and so does what follows {{.
package taskfile

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"qq/internal/taskfile/locate"
	"qq/internal/taskfile/until"
	"qq/pkg/task"
)

// ErrNoTasks is wrapped by the error for an input without a task.
var ErrNoTasks = errors.New("no tasks")

// ErrKeep is wrapped by errors of the temporary file: the tasks could not be kept, and the input is not to blame.
var ErrKeep = errors.New("keep tasks")

// maxItem is the longest line, row or array element, in bytes.
const maxItem = 16 << 20

// Form is the format of an input.
type Form string

// The forms. [Auto] decides by the extension of the file, then by the beginning of the content: see [Source.form].
const (
	Auto  Form = ""
	Array Form = "json"
	JSONL Form = "jsonl"
	CSV   Form = "csv"
	TSV   Form = "tsv"
	Lines Form = "lines"
)

// Forms are the names of all forms but [Auto].
func Forms() []string {
	return []string{string(Array), string(JSONL), string(CSV), string(TSV), string(Lines)}
}

// Source says where the tasks of a batch come from: from Files, with one task for each, from Lists, or from an input.
type Source struct {
	Name     string    // of the file to read; with Input, only for messages
	Input    io.Reader // instead of a file, such as stdin
	Form     Form      // of the input
	Template string    // the text of every task, with placeholders; may be empty
	Files    []string  // for the template; they must exist, and are read only to see whether they are images
	Dir      string    // base of relative Files, and where they must be; empty means the working directory
	Lists    []List    // one task for each combination of their values
	Null     bool      // a NUL ends each line of the input and of a List, and not a newline
	// Columns separates the columns of a line: {1}, {2}. nil means that lines have no columns.
	Columns *regexp.Regexp
	Group   int  // how many files, lines or values make one task; 0 means one, which is not called {1}
	Shuffle bool // the order of the tasks is a random one, but the same for the same tasks
}

// item is one input of a task, or the task itself, or the reason why there is none.
type item struct {
	row   *row // for the template; nil if there is none
	task  task.Task
	err   error
	where string // in the input
	// number of the task in the input; 0 means that it is the next one
	number int
}

// emit is called with each item. After it has returned an error, reading stops.
type emit func(item) error

// until returns an emit that also stops reading when ctx has ended.
func (e emit) until(ctx context.Context) emit {
	return func(it item) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return e(it)
	}
}

// each emits the items of the source, in order. It returns the error of emit, the error that ended reading, or the
// cause with which ctx ended.
func (s Source) each(ctx context.Context, to emit) error {
	to = to.until(ctx)
	if s.Template == "" && len(s.Lists) > 0 {
		s.Template = "{}" // the values are the tasks
	}
	if err := s.checkTemplate(); err != nil {
		return err
	}
	switch {
	case len(s.Lists) > 0:
		return s.grouped(func(to emit) error { return s.combinations(ctx, to) }, to)
	case len(s.Files) > 0:
		return s.grouped(s.files, to)
	}
	in, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer in.Close()
	r := bufio.NewReaderSize(in, headSize)
	if err := s.mark(r); err != nil {
		return err
	}
	form, err := s.form(r)
	if err != nil {
		return err
	}
	if s.Group > 0 && form != Lines {
		return task.Hinted("leave out -n", "-n does not go with rows: %s is %s", s.label(), form)
	}
	switch form {
	case Array:
		return s.array(r, to)
	case JSONL:
		return s.jsonLines(r, to)
	case CSV:
		return s.csv(r, ',', to)
	case TSV:
		return s.csv(r, '\t', to)
	}
	if err := s.checkWords(r); err != nil {
		return err
	}
	finder, err := locate.In(s.Dir)
	if err != nil {
		return err
	}
	return s.grouped(func(to emit) error {
		return s.lines(r, func(it item) error {
			if it.row != nil {
				it.row.Files = named(finder, it.row)
			}
			return to(it)
		})
	}, to)
}

// checkTemplate returns an error if the source needs a template and has none, or if the template names what no input of
// the source can have.
func (s Source) checkTemplate() error {
	needs := ""
	switch {
	case s.Template != "":
	case len(s.Files) > 0:
		return task.Hinted("say what to do with them: -m 'Summarize {}' FILES", "files without a prompt")
	case s.Columns != nil:
		needs = "--colsep"
	case s.Group > 0:
		needs = "-n"
	}
	if needs != "" {
		return task.Hinted("say what to do with the inputs: -m 'Compare {1} with {2}'", "%s without a template", needs)
	}
	if len(s.Files)+len(s.Lists) == 0 || s.Template == "" {
		return nil // what the names are is seen later
	}
	_, err := parseTemplate(s.Template, names{inputs: s.inputs()})
	return err
}

// inputs returns how many inputs a task has: see names.inputs.
func (s Source) inputs() int {
	switch {
	case s.Columns != nil:
		return anyNumber
	case s.Group > 0:
		return s.Group
	}
	return len(s.Lists)
}

// label names the input in messages.
func (s Source) label() string {
	if len(s.Lists) > 0 {
		return ":::"
	}
	if s.Input != nil && (s.Name == "" || s.Name == "-") {
		return "stdin"
	}
	return s.Name
}

func (s Source) line(n int) string {
	if s.Null {
		return fmt.Sprintf("%s item %d", s.label(), n)
	}
	return fmt.Sprintf("%s line %d", s.label(), n)
}

// open opens the input. A read from it fails as soon as ctx has ended, because an input may have no end and no item.
func (s Source) open(ctx context.Context) (io.ReadCloser, error) {
	if s.Input != nil {
		return io.NopCloser(until.Reader(ctx, s.Input)), nil
	}
	if s.Name == "" {
		return nil, task.Hinted("name a file of tasks, or pipe them in", "%w: no input", ErrNoTasks)
	}
	f, err := os.Open(s.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, task.Hinted("give a file of tasks, or a prompt for each file with -m 'Summarize {}' FILES",
			"read tasks: no such file: %s", s.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("read tasks: %w", err)
	}
	if info, err := f.Stat(); err == nil && info.IsDir() {
		_ = f.Close()
		each := "for a task for each file in it write -m 'Summarize {}' " + filepath.Join(s.Name, "*")
		return nil, task.Hinted(each, "read tasks: %s is a folder", s.Name)
	}
	return struct {
		io.Reader
		io.Closer
	}{until.Reader(ctx, f), f}, nil
}

// mark skips a byte order mark. It returns an error for one of UTF-16.
func (s Source) mark(r *bufio.Reader) error {
	head, err := r.Peek(3)
	if bytes.Equal(head, []byte("\xef\xbb\xbf")) {
		_, err = r.Discard(3)
	}
	if len(head) >= 2 && (head[0] == 0xff && head[1] == 0xfe || head[0] == 0xfe && head[1] == 0xff) {
		return task.Hinted("save it as UTF-8", "read tasks: %s is UTF-16", s.label())
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read tasks: %w", err)
	}
	return nil
}

// files emits a row for each of s.Files.
func (s Source) files(emit emit) error {
	finder, err := locate.In(s.Dir)
	if err != nil {
		return err
	}
	for _, name := range s.Files {
		it := item{where: escaped(name)}
		path := finder.Path(name)
		switch _, err := os.Stat(path); {
		case errors.Is(err, fs.ErrNotExist):
			it.err = errors.New("no such file")
			if !strings.ContainsAny(name, "*?[/.") { // it does not look like one either
				it.err = task.Hinted("values that are no files go after :::, as in -m 'Say hi to {}' ::: alice bob",
					"no such file")
			}
		case err != nil:
			it.err = errors.Unwrap(err) // without the path, which where has
		case !finder.Inside(path):
			it.err = task.Hinted("-C FOLDER names another working directory, and FILES are then relative to it; "+
				"for a task for each line of FILE, or of <(…), write :::: FILE",
				"the file is outside of the working directory %s, where no agent can read it", finder.Base)
		default:
			it.row = text(name)
			it.row.Files, it.row.Images = []string{path}, locate.Images(path)
		}
		if err := emit(it); err != nil {
			return err
		}
	}
	return nil
}

// named returns the paths of the files that the cells of a row name.
func named(files *locate.Finder, r *row) (paths []string) {
	for _, name := range r.Cells {
		if path := files.Find(name); path != "" && r.Broken == "" {
			paths = append(paths, path)
		}
	}
	return paths
}
