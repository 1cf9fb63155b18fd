package taskfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"qq/pkg/task"
)

// array reads a JSON array, one element at a time.
type array struct {
	source Source
	meter  *meter
	dec    *json.Decoder
	emit   emit
}

func (s Source) array(r io.Reader, emit emit) error {
	m := &meter{r: r, left: maxItem}
	a := array{s, m, json.NewDecoder(m), emit}
	open, err := a.dec.Token()
	switch {
	case errors.Is(err, io.EOF):
		return nil // an empty input
	case err != nil:
		return a.bad(err)
	case open != json.Delim('['):
		return a.bad(errors.New("it does not begin with ["))
	}
	for a.dec.More() {
		if err := a.element(); err != nil {
			return err
		}
	}
	if _, err := a.dec.Token(); err != nil {
		return a.bad(err)
	}
	if _, err := a.dec.Token(); !errors.Is(err, io.EOF) {
		return a.bad(errors.New("something follows the end of the array"))
	}
	return nil
}

func (a array) element() error {
	var raw json.RawMessage
	if err := a.dec.Decode(&raw); err != nil {
		return a.bad(err)
	}
	a.meter.left = maxItem
	it := item{where: func() string { return a.line(raw) }}
	switch {
	case len(raw) > maxItem:
		it.err = errLong
	case !utf8.Valid(raw):
		it.err = errNotUTF8
	default:
		it.task, it.err = task.Decode(raw)
	}
	return a.emit(it)
}

// bad reports why the next element cannot be read.
func (a array) bad(err error) error {
	where := func() string { return a.line(nil) }
	if a.meter.err != nil {
		return a.source.stopped(a.meter.err, where, a.emit)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("the array is not closed")
	}
	return a.emit(item{
		err:   fmt.Errorf("not valid JSON: %w\nhint: for lines of text that begin with [ use a .txt file", err),
		where: where,
	})
}

// line is where the element raw begins that was read last, or what comes after
// the last one: all lines that came in, less those that the decoder still holds.
func (a array) line(raw []byte) string {
	rest, _ := io.ReadAll(a.dec.Buffered())
	if raw == nil {
		rest = bytes.TrimLeft(rest, " \t\r\n,")
	}
	return a.source.line(1 + a.meter.lines - bytes.Count(rest, []byte("\n")) - bytes.Count(raw, []byte("\n")))
}

// meter bounds what a decoder reads for one element, because it keeps all of it
// until the element is whole.
type meter struct {
	r     io.Reader
	left  int   // bytes until the element is too long
	lines int   // that came in
	err   error // other than the end
}

func (m *meter) Read(p []byte) (int, error) {
	if m.left <= 0 {
		m.err = errLong
		return 0, errLong
	}
	n, err := m.r.Read(p[:min(len(p), m.left)])
	m.left -= n
	m.lines += bytes.Count(p[:n], []byte("\n"))
	if err != nil && !errors.Is(err, io.EOF) {
		m.err = err
	}
	return n, err
}
