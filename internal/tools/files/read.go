package files

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"qq/internal/tools/tree"
	"qq/pkg/picture"
	"qq/pkg/regular"
	"qq/pkg/tool"
)

const (
	maxLines = 2000
	maxChars = 50_000 // of one answer
	// noteChars is the part of maxChars that is reserved for the notes below the text.
	noteChars = 300
	// binaryHead is how many bytes at the beginning of a file are searched for a NUL.
	binaryHead = 8 << 10
)

func readSpec() tool.Spec {
	return tool.Spec{Name: "read_file", Effect: tool.Reads,
		Description: `Read a text file. Paths are relative. Example: {"path":"a.md"}`,
		Parameters: json.RawMessage(`{"type":"object","required":["path"],"properties":{` +
			`"path":{"type":"string"},"start_line":{"type":"integer"},"end_line":{"type":"integer"}}}`)}
}

// reading holds the decoded arguments of read_file.
type reading struct {
	path       string
	start, end int
}

func parseReading(args json.RawMessage) (r reading, err error) {
	if err := tool.Decode(args, tool.Fields{"path": &r.path, "start_line": &r.start, "end_line": &r.end}); err != nil {
		return r, err
	}
	if r.path == "" {
		return r, tool.Missing("path")
	}
	r.start = max(r.start, 1)
	if r.end <= 0 {
		r.end = r.start + maxLines - 1
	}
	if r.end < r.start {
		return r, fmt.Errorf("end_line %d is before start_line %d", r.end, r.start)
	}
	return r, nil
}

// planRead returns the intent of read_file. Reading a file that looks like secrets is special.
func (w *Workspace) planRead(_ context.Context, args json.RawMessage) (tool.Intent, error) {
	r, err := parseReading(args)
	if err != nil {
		return tool.Intent{}, err
	}
	rel, _, err := w.find(r.path)
	if err != nil {
		return tool.Intent{}, err
	}
	in := tool.Intent{Paths: []string{slash(rel)}, Summary: "read " + tree.Printable(slash(rel))}
	if why := w.unread(rel, r.path); why != "" {
		in.Risk, in.Special = tool.High, true
		in.Summary += ", which " + why
	}
	return in, nil
}

func (w *Workspace) readFile(ctx context.Context, args json.RawMessage) (tool.Result, error) {
	r, err := parseReading(args)
	if err != nil {
		return tool.Result{}, err
	}
	f, err := w.openReading(ctx, r.path)
	if err != nil {
		return tool.Result{}, err
	}
	defer f.Close()
	hash := sha256.New()
	text := f.text()
	in := bufio.NewReaderSize(io.TeeReader(text, hash), 64<<10)
	head, _ := in.Peek(binaryHead)
	if kind := picture.Type(head); kind != "" {
		if !w.sees {
			return tool.Result{}, fmt.Errorf("%s is an image (%s), and your model is not known to see images", r.path,
				kind)
		}
		return w.image(f, r.path, in)
	}
	if isBinary(head) {
		return tool.Result{}, f.binary()
	}
	x := excerpt{start: r.start, end: r.end}
	if err := x.read(ctx, in); err != nil {
		return tool.Result{}, fmt.Errorf("%s: %w", r.path, tree.Reason(err))
	}
	if x.line < r.start && x.line > 0 {
		return tool.Result{}, fmt.Errorf("%s has %d lines: start_line %d is after its end", r.path, x.line, r.start)
	}
	w.know(f.rel, hex.EncodeToString(hash.Sum(nil)))
	x.endless = f.info.Size() == 0 && text.N == 0
	return tool.Text(x.String()), nil
}

// openReading opens the file at path for read_file.
func (w *Workspace) openReading(ctx context.Context, path string) (opened, error) {
	rel, info, err := w.find(path)
	if err != nil {
		return opened{}, err
	}
	if why := w.unread(rel, path); why != "" && !granted(ctx, rel) {
		return opened{}, fmt.Errorf("%s %s and is not read without an approval", path, why)
	}
	return w.openFound(path, rel, info)
}

// Image returns what read_file returns for the image at path if the model sees images.
func (w *Workspace) Image(ctx context.Context, path string) (tool.Result, error) {
	f, err := w.openReading(ctx, path)
	if err != nil {
		return tool.Result{}, err
	}
	defer f.Close()
	return w.image(f, path, f.text())
}

// image reads the image f, which was named path, from its content.
func (w *Workspace) image(f opened, path string, content io.Reader) (tool.Result, error) {
	read, err := picture.Read(content, path)
	if err != nil {
		return tool.Result{}, err
	}
	w.know(f.rel, read.Sum)
	read.Name = w.full(f.rel)
	text := fmt.Sprintf("%s: %s, %d bytes", path, read.Type, read.Bytes)
	return tool.Result{Content: text, Images: []picture.Image{read}}, nil
}

// isBinary reports whether the beginning of a content is binary rather than text.
func isBinary(content []byte) bool {
	return bytes.IndexByte(content[:min(len(content), binaryHead)], 0) >= 0
}

func (o opened) binary() error {
	return fmt.Errorf("%s is a binary file of %d bytes", slash(o.rel), o.info.Size())
}

// excerpt collects the lines start to end of a file, as many as fit into an answer, and counts
// the others. It holds at most one line more than it shows.
type excerpt struct {
	start, end int

	text    strings.Builder
	chars   int
	line    int // number of the current line
	shown   int // number of the last line in text
	full    bool
	invalid int    // bytes that are not UTF-8
	cut     string // remark on a line that does not fit
	endless bool   // the file was not read to its end
}

func (x *excerpt) read(ctx context.Context, in *bufio.Reader) error {
	var line []byte // the current line so far, if it is wanted
	var size int64  // bytes of the current line so far
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

// add adds a line of size bytes to the excerpt; line may be only its beginning.
func (x *excerpt) add(line []byte, size int64) {
	const room = maxChars - noteChars
	chars := utf8.RuneCount(line)
	if x.chars+chars > room {
		x.full = true
		if x.chars > 0 {
			return // the next call can begin with this line
		}
		x.cut = fmt.Sprintf("[line %d is cut after %d characters: it has %d bytes]", x.line, room, size)
		line, chars = line[:tool.FirstRunes(line, room)], room
	}
	text, invalid := repair(line)
	x.text.WriteString(text)
	x.invalid += invalid
	x.chars += chars
	x.shown = x.line
}

// repair converts line to valid UTF-8: each invalid byte becomes one U+FFFD. invalid counts these
// bytes.
func repair(line []byte) (text string, invalid int) {
	if utf8.Valid(line) {
		return string(line), 0
	}
	text = string([]rune(string(line)))
	// Each invalid byte, of length 1, has become a character of length 3.
	return text, (len(text) - len(line)) / (utf8.RuneLen(utf8.RuneError) - 1)
}

// String returns the text with its notes below. A file that is not empty, fits as a whole and is valid UTF-8 has no
// notes.
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
	if x.endless {
		notes = append(notes, fmt.Sprintf("[only the first %d MiB are read]", regular.Unsized>>20))
	}
	if x.shown < x.line {
		notes = append(notes,
			fmt.Sprintf("[lines %d-%d of %d: read on with start_line=%d]", x.start, x.shown, x.line, x.shown+1))
	}
	text := x.text.String()
	if len(notes) > 0 && text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text + strings.Join(notes, "\n")
}
