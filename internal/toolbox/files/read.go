package files

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"qq/internal/toolbox/call"
	"qq/pkg/tool"
)

const (
	maxLines = 2000
	maxChars = 50_000 // of one answer
	// noteChars of maxChars are kept for the notes below the text.
	noteChars = 300
	// binaryHead is how much of a file is searched for a NUL.
	binaryHead = 8 << 10
)

func readSpec() tool.Spec {
	return call.Define("read_file", tool.Reads,
		"Read a text file. Long files come in parts: the last line then says where to read on.", `
		"path":{"type":"string","description":"path relative to the working directory"},
		"start_line":{"type":"integer","description":"first line, default 1"},
		"end_line":{"type":"integer","description":"last line, default 2000 lines on"}`, "path")
}

func (w *workspace) readFile(ctx context.Context, args json.RawMessage) (string, error) {
	var path string
	var start, end int
	if err := call.Decode(args, call.Fields{"path": &path, "start_line": &start, "end_line": &end}); err != nil {
		return "", err
	}
	if path == "" {
		return "", call.Missing("path")
	}
	start = max(start, 1)
	if end <= 0 {
		end = start + maxLines - 1
	}
	if end < start {
		return "", fmt.Errorf("end_line %d is before start_line %d", end, start)
	}
	f, rel, err := w.open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, 64<<10)
	if head, _ := in.Peek(binaryHead); bytes.IndexByte(head, 0) >= 0 {
		return "", binaryError(f, rel)
	}
	x := excerpt{start: start, end: end}
	if err := x.read(ctx, in); err != nil {
		return "", fmt.Errorf("%s: %w", path, reason(err))
	}
	if x.line < start && x.line > 0 {
		return "", fmt.Errorf("%s has %d lines: start_line %d is after its end", path, x.line, start)
	}
	return x.String(), nil
}

func binaryError(f *os.File, rel string) error {
	size := int64(0)
	if info, err := f.Stat(); err == nil {
		size = info.Size()
	}
	return fmt.Errorf("%s is a binary file of %d bytes", slash(rel), size)
}

// excerpt collects the lines start to end of a file, as many as fit, and counts
// the others. It holds at most one line more than it shows, and of a line only
// what could be shown.
type excerpt struct {
	start, end int

	text    strings.Builder
	chars   int
	line    int // lines begun
	shown   int // last line in text
	full    bool
	invalid int    // bytes that are not UTF-8
	cut     string // remark on a line that does not fit
}

func (x *excerpt) read(ctx context.Context, in *bufio.Reader) error {
	var line []byte // the line so far, when it is wanted
	var size int64  // of the line so far
	for inLine := false; ; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		piece, err := in.ReadSlice('\n')
		if err != nil && err != io.EOF && !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
		if len(piece) > 0 && !inLine {
			x.line++
			inLine, line, size = true, line[:0], 0
		}
		if x.wanted() {
			size += int64(len(piece))
			line = append(line, piece[:min(len(piece), utf8.UTFMax*maxChars-len(line))]...)
		}
		if err == nil || err == io.EOF && inLine {
			if x.wanted() {
				x.add(line, size)
			}
			inLine = false
		}
		if err == io.EOF {
			return nil
		}
	}
}

func (x *excerpt) wanted() bool { return !x.full && x.line >= x.start && x.line <= x.end }

// add takes a line of size bytes, of which line may be the beginning only.
func (x *excerpt) add(line []byte, size int64) {
	const room = maxChars - noteChars
	chars := utf8.RuneCount(line)
	if x.chars+chars > room {
		x.full = true
		if x.chars > 0 {
			return // the next reading begins with it
		}
		x.cut = fmt.Sprintf("[line %d is cut after %d characters: it has %d bytes]", x.line, room, size)
		line, chars = firstChars(line, room), room
	}
	text, invalid := repair(line)
	x.text.WriteString(text)
	x.invalid += invalid
	x.chars += chars
	x.shown = x.line
}

// repair makes text of line: each byte that is not UTF-8 becomes one U+FFFD.
// It returns how many these are.
func repair(line []byte) (text string, invalid int) {
	if utf8.Valid(line) {
		return string(line), 0
	}
	text = string([]rune(string(line)))
	// A byte of one has become a character of three.
	return text, (len(text) - len(line)) / (utf8.RuneLen(utf8.RuneError) - 1)
}

func firstChars(line []byte, n int) []byte {
	end := 0
	for ; n > 0 && end < len(line); n-- {
		_, size := utf8.DecodeRune(line[end:])
		end += size
	}
	return line[:end]
}

// String is the text with its notes. A whole file is given as it is.
func (x *excerpt) String() string {
	var notes []string
	if x.line == 0 {
		notes = append(notes, "[the file is empty]")
	}
	if x.cut != "" {
		notes = append(notes, x.cut)
	}
	if x.invalid > 0 {
		notes = append(notes, fmt.Sprintf("[not UTF-8: %d bytes are shown as U+FFFD]", x.invalid))
	}
	if x.shown < x.line {
		notes = append(notes, fmt.Sprintf("[lines %d-%d of %d: read on with start_line=%d]", x.start, x.shown, x.line, x.shown+1))
	}
	text := x.text.String()
	if len(notes) > 0 && text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text + strings.Join(notes, "\n")
}
