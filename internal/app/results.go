package app

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"

	"qq/pkg/task"
)

// Output formats that only a batch has.
const (
	formatJSONL    = "jsonl"
	formatMarkdown = "markdown"
)

// resultWriter prints the results of a batch, one after the other.
type resultWriter interface {
	result(task.Result) error
	end() error
}

// newWriter returns the writer for a format, nil for one that there is not.
func newWriter(format string, w io.Writer) resultWriter {
	switch format {
	case formatText:
		return textWriter{w}
	case formatJSON:
		return &arrayWriter{w: w}
	case formatJSONL:
		return linesWriter{w: w}
	case formatStream:
		return linesWriter{w: w, kind: "result"}
	case formatMarkdown:
		return markdownWriter{w}
	}
	return nil
}

// textWriter prints the outputs and nothing else.
type textWriter struct{ w io.Writer }

func (t textWriter) result(r task.Result) error {
	if r.Output == "" {
		return nil
	}
	text := r.Output
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	_, err := io.WriteString(t.w, text)
	return err
}

func (t textWriter) end() error { return nil }

// arrayWriter prints one JSON array, valid whenever it has ended.
type arrayWriter struct {
	w io.Writer
	n int
}

func (a *arrayWriter) result(r task.Result) error {
	before := ",\n"
	if a.n == 0 {
		before = "[\n"
	}
	a.n++
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = a.w.Write(append([]byte(before), b...))
	return err
}

func (a *arrayWriter) end() error {
	text := "\n]\n"
	if a.n == 0 {
		text = "[]\n"
	}
	_, err := io.WriteString(a.w, text)
	return err
}

// linesWriter prints one JSON object a line, with a type where events share
// the stream.
type linesWriter struct {
	w    io.Writer
	kind string
}

func (l linesWriter) result(r task.Result) error {
	if l.kind != "" {
		return printJSON(l.w, resultLine{Type: l.kind, Result: r})
	}
	return printJSON(l.w, r)
}

func (l linesWriter) end() error { return nil }

// markdownWriter prints a section for each result.
type markdownWriter struct{ w io.Writer }

func (m markdownWriter) result(r task.Result) error {
	body := strings.TrimSpace(r.Output)
	if !r.Success {
		body = strings.TrimSpace(fmt.Sprintf("**%s**: %s\n\n%s", r.Status, r.Err(), body))
	}
	_, err := fmt.Fprintf(m.w, "## %d. %s\n\n%s\n\n", r.Index+1, r.Task, body)
	return err
}

func (m markdownWriter) end() error { return nil }

// saveResult writes the output of a result, and the whole of it as JSON, into
// files that are there completely or not at all.
func saveResult(dir string, r task.Result) error {
	whole, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	name := filepath.Join(dir, fmt.Sprintf("%05d", r.Index+1))
	if err = renameio.WriteFile(name+".txt", []byte(r.Output), 0o666); err == nil {
		err = renameio.WriteFile(name+".json", append(whole, '\n'), 0o666)
	}
	if err != nil {
		return fmt.Errorf("save the result of task %d: %w", r.Index+1, err)
	}
	return nil
}

// shelf keeps results that wait for slower ones in a file.
type shelf struct {
	folder func() (string, error)
	file   *os.File
	end    int64
}

// Put implements supervisor.Shelf.
func (s *shelf) Put(r task.Result) (int64, error) {
	if s.file == nil {
		dir, err := s.folder()
		if err != nil {
			return 0, err
		}
		if s.file, err = os.CreateTemp(dir, "shelf-*"); err != nil {
			return 0, err
		}
	}
	b, err := json.Marshal(r)
	if err != nil {
		return 0, err
	}
	at := s.end
	n, err := s.file.WriteAt(append(b, '\n'), at)
	if err != nil {
		return 0, err
	}
	s.end += int64(n)
	return at, nil
}

// Take implements supervisor.Shelf.
func (s *shelf) Take(at int64) (r task.Result, err error) {
	line, err := bufio.NewReader(io.NewSectionReader(s.file, at, s.end-at)).ReadBytes('\n')
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(line, &r)
}

func (s *shelf) close() {
	if s.file != nil {
		s.file.Close()
	}
}
