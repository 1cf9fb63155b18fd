package wire

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// MaxLine bounds one line of a stream, and the data of one event, in bytes.
const MaxLine = 16 << 20

// Lines returns a scanner for a stream of lines (NDJSON). If its Err is not nil, the last line
// may be incomplete.
func Lines(r io.Reader) *bufio.Scanner {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, MaxLine)
	return lines
}

// Event is one server-sent event.
type Event struct {
	Name string // empty if the event has none
	Data []byte // its data lines, joined by line feeds; valid until the next event
}

// Events reads a stream of server-sent events. Lines end with LF or CRLF; ids and reconnection
// times are ignored.
type Events struct {
	lines *bufio.Scanner
	first bool // the first line has been read
	data  []byte
}

// NewEvents returns a reader of the events in r.
func NewEvents(r io.Reader) *Events { return &Events{lines: Lines(r)} }

var errEventTooLong = errors.New("event is too long")

// Next returns the next event that has data, or [io.EOF] at the end of the stream. It drops an event that the end
// of the stream cuts off.
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
	if err := e.lines.Err(); err != nil {
		return Event{}, err
	}
	return Event{}, io.EOF
}
