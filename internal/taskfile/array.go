package taskfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"unicode/utf8"

	"qq/pkg/task"
)

// array reads a JSON array, one element at a time, and emits a task, or a row for the template, for each.
func (s Source) array(r io.Reader, emit emit) error {
	lines := &lineCounter{r: r}
	m := &meter{r: lines, left: maxItem}
	dec := json.NewDecoder(m)
	// bad emits the error for an element that cannot be read.
	bad := func(err error) error {
		rest, _ := io.ReadAll(dec.Buffered())
		skipped := len(rest) - len(bytes.TrimLeft(rest, " \t\r\n,"))
		where := s.line(lines.at(dec.InputOffset() + int64(skipped)))
		if m.err != nil {
			return s.stopped(m.err, where, emit)
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("the array is not closed")
		}
		err = task.Hinted("for lines of text that begin with [ use a .txt file", "not valid JSON: %w", err)
		return emit(item{err: err, where: where})
	}
	open, err := dec.Token()
	switch {
	case errors.Is(err, io.EOF):
		return nil // an empty input
	case err != nil:
		return bad(err)
	case open != json.Delim('['):
		return bad(errors.New("it does not begin with ["))
	}
	for dec.More() {
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return bad(err)
		}
		m.left = maxItem
		it := item{where: s.line(lines.at(dec.InputOffset() - int64(len(raw))))}
		switch {
		case len(raw) > maxItem:
			it.err = errLong
		case !utf8.Valid(raw):
			it.err = errNotUTF8
		case s.Template != "":
			it.row, it.err = object(raw)
		default:
			it.task, it.err = task.Decode(raw)
		}
		if err := emit(it); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return bad(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return bad(errors.New("something follows the end of the array"))
	}
	return nil
}

// meter limits how many bytes a decoder reads for one element, because the decoder keeps all of them in memory
// until the element is complete.
type meter struct {
	r    io.Reader
	left int   // bytes that may still be read for this element
	err  error // the error that ended reading; not io.EOF
}

// Read implements [io.Reader].
func (m *meter) Read(p []byte) (int, error) {
	if m.left <= 0 {
		m.err = errLong
		return 0, errLong
	}
	n, err := m.r.Read(p[:min(len(p), m.left)])
	m.left -= n
	if err != nil && !errors.Is(err, io.EOF) {
		m.err = err
	}
	return n, err
}

// lineCounter counts the newlines in what is read from r, to find the line of an offset. A caller
// of its method at must not pass a smaller offset than before.
type lineCounter struct {
	r        io.Reader
	read     int64
	passed   int     // newlines before the last offset
	newlines []int64 // offsets of the newlines after it
}

// Read implements [io.Reader].
func (c *lineCounter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	for i, b := range p[:n] {
		if b == '\n' {
			c.newlines = append(c.newlines, c.read+int64(i))
		}
	}
	c.read += int64(n)
	return n, err
}

// at returns the line of an offset.
func (c *lineCounter) at(offset int64) int {
	for len(c.newlines) > 0 && c.newlines[0] < offset {
		c.newlines = c.newlines[1:]
		c.passed++
	}
	return 1 + c.passed
}
