package wire

import (
	"bufio"
	"bytes"
	"cmp"
	"io"
)

// MaxLine bounds one line of a stream, and the data of one event, in bytes.
const MaxLine = 16 << 20

// Stream is what a server streams, piece by piece.
type Stream interface {
	// Next returns the next line or event, or [io.EOF] at the end. If there are data and an error, the data may be
	// incomplete.
	Next() (Event, error)
}

// Event is one server-sent event, or a line of another stream.
type Event struct {
	Name string // empty if the event has none
	Data []byte // its data lines, joined by line feeds; valid until the next event
}

// Lines reads a stream of lines (NDJSON). It leaves out blank ones.
type Lines struct{ lines *bufio.Scanner }

var _ Stream = Lines{}

// NewLines returns a reader of the lines in r.
func NewLines(r io.Reader) Lines { return Lines{scanner(r)} }

func scanner(r io.Reader) *bufio.Scanner {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, MaxLine)
	return lines
}

// Next implements [Stream].
func (l Lines) Next() (Event, error) {
	for l.lines.Scan() {
		if line := l.lines.Bytes(); len(line) > 0 {
			return Event{Data: line}, l.lines.Err()
		}
	}
	return Event{}, cmp.Or(l.lines.Err(), io.EOF)
}

// Events reads a stream of server-sent events. Lines end with LF or CRLF; ids and reconnection times are
// ignored. A line that begins as a JSON object is data too: so servers report an
// error for which they did not begin a stream.
type Events struct {
	lines *bufio.Scanner
	first bool // the first line has been read
	data  []byte
}

var _ Stream = (*Events)(nil)

// NewEvents returns a reader of the events in r.
func NewEvents(r io.Reader) *Events { return &Events{lines: scanner(r)} }

// errEventTooLong says the same of an event as of a line.
var errEventTooLong = bufio.ErrTooLong

// Next implements [Stream]. It drops an event that the end of the stream cuts off.
func (e *Events) Next() (Event, error) {
	event, found := Event{}, false
	e.data = e.data[:0]
	for e.lines.Scan() {
		line := e.lines.Bytes()
		if !e.first {
			e.first = true
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		if len(line) == 0 {
			if found {
				event.Data = e.data
				return event, nil
			}
			event.Name = ""
			continue
		}
		if !found && line[0] == '{' {
			return Event{Data: line}, e.lines.Err()
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			event.Name = string(value)
		case "data":
			if found {
				e.data = append(e.data, '\n')
			}
			if len(e.data)+len(value) > MaxLine {
				return Event{}, errEventTooLong
			}
			e.data, found = append(e.data, value...), true
		}
	}
	return Event{}, cmp.Or(e.lines.Err(), io.EOF)
}
