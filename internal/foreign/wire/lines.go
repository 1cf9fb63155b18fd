package wire

import (
	"bufio"
	"errors"
	"io"
)

// MaxLine is the longest line that is read, in bytes. Images of 5 MB in Base64 fit.
const MaxLine = 8 << 20

// Errors of [Lines.Next].
var (
	// ErrTooLong stands for a line that was skipped, because it is longer than [MaxLine]. The next line can be read.
	ErrTooLong = errors.New("a line is too long")
	// ErrHalf is about the last line, if no newline ends it: the program ended while it wrote.
	ErrHalf = errors.New("the last line has no end")
)

// Lines reads the lines of a program. It holds one line at a time. One goroutine may use it.
type Lines struct {
	from *bufio.Reader
	line []byte
	rest []byte // of the line that Read hands out
	last error  // what Next returns from now on
	// Skipped is how many lines were too long, and Half says that the stream ended in a line.
	Skipped int
	Half    bool
}

// NewLines returns the lines of r.
func NewLines(r io.Reader) *Lines { return &Lines{from: bufio.NewReaderSize(r, 64<<10)} }

// Next returns the next line without its end. It is valid until the next call. The error is [ErrTooLong] for a line
// that was skipped, [ErrHalf] with a line that was cut off, [io.EOF] at the end, or that of the reader.
func (l *Lines) Next() ([]byte, error) {
	if l.last != nil {
		return nil, l.last
	}
	l.line = l.line[:0]
	long := false
	for {
		piece, err := l.from.ReadSlice('\n')
		if long = long || len(l.line)+len(piece) > MaxLine+1; long {
			l.line = nil // the memory goes back
		} else {
			l.line = append(l.line, piece...)
		}
		switch {
		case err == nil && long:
			l.Skipped++
			return nil, ErrTooLong
		case err == nil:
			return trimmed(l.line), nil
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		}
		l.last = err
		switch {
		case long:
			l.Skipped++
			return nil, ErrTooLong
		case len(l.line) > 0 && errors.Is(err, io.EOF):
			l.Half = true
			return trimmed(l.line), ErrHalf
		}
		return nil, err
	}
}

// Read implements [io.Reader] for programs that read lines themselves: it hands out whole lines, leaves out those that
// are too long, and half a line at the end. It must not be mixed with Next.
func (l *Lines) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		switch line, err := l.Next(); {
		case err == nil:
			l.rest = append(line, '\n')
		case !errors.Is(err, ErrTooLong) && !errors.Is(err, ErrHalf):
			return 0, err
		}
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// trimmed returns line without its end.
func trimmed(line []byte) []byte {
	if n := len(line); n > 0 && line[n-1] == '\n' {
		line = line[:n-1]
	}
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line
}
