// Package taskfile reads the tasks of a batch from every kind of input: a JSON array,
// JSON Lines, CSV, one task a line, or a template that is filled with files, lines or
// rows.
//
// [Check] reads a [Source] to its end, checks every task and writes it to a private
// temporary file, the spool. So one bad task refuses the whole batch before anything
// starts. The [Spool] reads the tasks again. Memory does not grow with the number of
// tasks.
//
// Errors name the number of the task, which counts from 1 like {#} and lines, and its
// line in the input. Only the first problem is reported.
//
// Placeholders of a template: {} is the line, the file name or the whole row, {#} the
// number of the task, {name} a column of a CSV. They are all filled in at once, so a
// value can contain no placeholder. A template with neither {} nor a column gets the
// item appended after a space. Other braces stay as they are (JSON in prompts), but
// with CSV a {word} that is no column is an error.
package taskfile

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"qq/pkg/task"
)

// ErrNoTasks is wrapped by the error for an input without a task.
var ErrNoTasks = errors.New("no tasks")

// ErrKeep is wrapped by errors of the temporary file: the tasks could not be kept, and the input is not to blame.
var ErrKeep = errors.New("keep tasks")

// maxItem is the longest line, row or array element, in bytes.
const maxItem = 1 << 20

// Form is the format of an input.
type Form string

// The forms. [Auto] decides by the extension of the file, then by the first character: [ begins an array, { begins
// JSON Lines, anything else a line of text. With a template Auto recognizes only CSV and TSV; everything else is
// lines.
const (
	Auto  Form = ""
	Array Form = "json"
	JSONL Form = "jsonl"
	CSV   Form = "csv"
	TSV   Form = "tsv"
	Lines Form = "lines"
)

// Source says where the tasks of a batch come from: from Files, with one task for each, or from an input.
type Source struct {
	Name     string    // of the file to read; with Input, only for messages
	Input    io.Reader // instead of a file, such as stdin
	Form     Form      // of the input
	Template string    // the text of every task, with placeholders; may be empty
	Files    []string  // for the template; they must exist, but are not read
	Dir      string    // base of relative Files; empty means the working directory
}

// item is one task of the input, or the reason why there is none.
type item struct {
	task  task.Task
	err   error
	where string // in the input
}

// emit is called with each item. After it has returned an error, reading stops.
type emit func(item) error

// each emits the tasks of the source, in order. It returns the error of emit, or the error that ended reading.
func (s Source) each(emit emit) error {
	if len(s.Files) > 0 {
		return s.files(emit)
	}
	in, err := s.open()
	if err != nil {
		return err
	}
	defer in.Close()
	r := bufio.NewReaderSize(in, 64<<10)
	if err := s.mark(r); err != nil {
		return err
	}
	form, err := s.form(r)
	if err != nil {
		return err
	}
	switch form {
	case Array:
		return s.array(r, emit)
	case JSONL:
		return s.jsonLines(r, emit)
	case CSV:
		return s.csv(r, ',', emit)
	case TSV:
		return s.csv(r, '\t', emit)
	}
	return s.lines(r, emit)
}

// label names the input in messages.
func (s Source) label() string {
	if s.Input != nil && (s.Name == "" || s.Name == "-") {
		return "stdin"
	}
	return s.Name
}

func (s Source) line(n int) string { return fmt.Sprintf("%s line %d", s.label(), n) }

func (s Source) open() (io.ReadCloser, error) {
	if s.Input != nil {
		return io.NopCloser(s.Input), nil
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
	return f, nil
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

// form returns the form of the input, never Auto. It returns an error if the form is unknown or does not go with a
// template.
func (s Source) form(r *bufio.Reader) (Form, error) {
	form := s.Form
	if form == Auto {
		switch ext := strings.ToLower(filepath.Ext(s.Name)); ext {
		case ".csv", ".tsv", ".jsonl":
			form = Form(ext[1:])
		case ".ndjson":
			form = JSONL
		case ".json":
			form = cmp.Or(first(r), JSONL)
		case ".txt", ".md":
			form = Lines
		default:
			if form = Lines; s.Template == "" {
				form = cmp.Or(first(r), Lines)
			}
		}
	}
	switch form {
	case Lines, CSV, TSV:
		return form, nil
	case Array, JSONL:
		if s.Template != "" {
			return "", task.Hinted("leave out -m, or give lines, CSV or FILES",
				"a template does not go with %s: its tasks have their texts", s.label())
		}
		return form, nil
	}
	return "", task.Hinted("use json, jsonl, csv, tsv or lines", "%q is no form of a batch", string(form))
}

// first recognizes the forms of JSON by the first character that is no space. For anything else it returns Auto.
func first(r *bufio.Reader) Form {
	head, _ := r.Peek(4096)
	head = bytes.TrimLeftFunc(head, unicode.IsSpace)
	switch {
	case bytes.HasPrefix(head, []byte("[")):
		return Array
	case bytes.HasPrefix(head, []byte("{")):
		return JSONL
	}
	return Auto
}

// files emits a task for each of s.Files.
func (s Source) files(emit emit) error {
	if s.Template == "" {
		return task.Hinted("say what to do with them: -m 'Summarize {}' FILES", "files without a prompt")
	}
	t, err := parseTemplate(s.Template, nil)
	if err != nil {
		return err
	}
	for i, name := range s.Files {
		it := item{where: name}
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(s.Dir, path)
		}
		switch _, err := os.Stat(path); {
		case errors.Is(err, fs.ErrNotExist):
			it.err = errors.New("no such file")
		case err != nil:
			it.err = errors.Unwrap(err) // without the path, which where has
		default:
			it.task, it.err = t.task(values{item: name, number: i + 1})
			it.task.File = path
		}
		if err := emit(it); err != nil {
			return err
		}
	}
	return nil
}
